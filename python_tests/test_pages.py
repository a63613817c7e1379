"""README.md and docs/: snippets run, links lead somewhere, figures are as recorded."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.utils.cpp_extension import include_paths

import figures
import haloconv
from test_rewrite import needs_program, run

ROOT = Path(__file__).resolve().parents[1]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks/results/README.md"]
PAGES = [*figures.pages(), *OTHERS]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def snippets(language: str = "python") -> list[tuple[str, int, str]]:
    """Page, line and text of each."""
    found = []
    for page in figures.pages():
        text = page.read_text()
        for match in re.finditer(rf"^```{language}\n(.*?)^```", text, re.M | re.S):
            found.append((named(page), text[: match.start()].count("\n") + 2, match.group(1)))
    return found


def test_the_readme_is_short_and_shows_five_uses():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 250
    uses = text.split("## Five uses")[1].split("\n## ")[0]
    assert len(re.findall(r"^```\w*\n", uses, re.M)) == 10


def test_there_are_snippets():
    assert {page for page, _, _ in snippets()} >= {"README.md", "docs/python.md", "docs/choice.md"}


@pytest.fixture(scope="module")
def page_names():
    """What the snippets of one page have made: a page is read from top to bottom."""
    yield {}
    if torch.distributed.is_initialized():  # by a snippet; other files make groups of their own
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "snippet", snippets(), ids=lambda snippet: f"{snippet[0]}:{snippet[1]}"
)  # fmt: skip
def test_snippet(snippet, page_names):
    page, line, text = snippet
    if "implementation(" in text and not torch.cuda.is_available():
        if re.search(r'implementation\("(?!aten)', text):
            pytest.skip("needs a GPU")
    given = page_names.setdefault(
        page,
        {
            "torch": torch,
            "haloconv": haloconv,
            "x": torch.randn(2, 3, 16, 16),
            "w": torch.randn(4, 3, 3, 3),
            "model": torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()),
        },
    )
    exec(compile("\n" * (line - 1) + text, str(ROOT / page), "exec"), given)


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_cpp_snippets_compile(tmp_path):
    headers = Path(haloconv.library_path).resolve().parents[1] / "headers"
    if not headers.exists():
        pytest.skip("the library is not in a build folder")
    texts = [text for _, _, text in snippets("cpp") if text.startswith("#include <haloconv/")]
    assert len(texts) >= 2
    program = "#include <tuple>\n"
    for i, text in enumerate(texts):
        includes = re.findall(r"^#include .*\n", text, re.M)
        body = re.sub(r"^#include .*\n", "", text, flags=re.M)
        program += "".join(includes)
        tensors = "at::Tensor x, at::Tensor w, at::Tensor dy, at::Tensor sound, at::Tensor taps"
        program += f"void use_{i}({tensors}) {{\n{body}}}\n"
    (tmp_path / "pages.cpp").write_text(program)
    folders = [f"-I{folder}" for folder in [headers, *include_paths()]]
    command = ["g++", "-std=c++20", "-fsyntax-only", *folders, tmp_path / "pages.cpp"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_the_family_that_is_shown_compiles(tmp_path):
    (text,) = (text for page, _, text in snippets("cpp") if page == "docs/adding_a_family.md")
    asks = "namespace haloconv::example { Answer ask(const Request& request); }\n"
    family = text.replace("NAME", "example")
    (tmp_path / "family.cpp").write_text('#include "conv2d/family.h"\n' + asks + family)
    command = ["g++", "-std=c++20", "-fsyntax-only", "-DHALOCONV_WITH_CUDA", f"-I{ROOT / 'op'}"]
    done = subprocess.run([*command, tmp_path / "family.cpp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs CMake")
def test_the_cmake_snippet_links_a_program(tmp_path):
    ((_, _, text),) = snippets("cmake")
    (tmp_path / "program.cpp").write_text("int main() {}\n")  # torch's headers take long
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.28)\nproject(user LANGUAGES CXX)\n"
        f"add_executable(program program.cpp)\n{text}"
    )
    installed = haloconv.cmake_prefix_path or ROOT / "build" / "install"
    prefix = f"-DCMAKE_PREFIX_PATH={installed};{torch.utils.cmake_prefix_path}"
    build = tmp_path / "build"
    configure = ["cmake", "-S", tmp_path, "-B", build, "-G", "Ninja", prefix]
    for command in (configure, ["cmake", "--build", build]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    needed = subprocess.run(["readelf", "-d", build / "program"], capture_output=True, text=True)
    assert f"[{Path(haloconv.library_path).name}]" in needed.stdout


@needs_program
def test_commands_that_rewrite(tmp_path):
    found = set()
    for page in figures.pages():
        found |= set(re.findall(r"^haloconv-rewrite .*$", page.read_text(), re.M))
    assert found
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    torch.jit.script(model.eval()).save(tmp_path / "model.pt")
    for command in found:
        done = run(*command.split()[1:], cwd=tmp_path)
        assert done.returncode == 0 and "replaced 1" in done.stdout, (command, done)


def anchors(page: Path) -> set[str]:
    """The headings' names, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    wrong = []
    for link in links(page):
        if "://" in link:  # others' pages are not asked for, but look like an address
            if not re.fullmatch(r"https://\w[\w-]*(\.\w[\w-]*)+(/[\w~%.+=&?#/-]*)?", link):
                wrong.append(link)
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert not wrong


def test_operators_lists_all_that_are_registered():
    text = (ROOT / "docs" / "operators.md").read_text()
    listed = set(re.findall(r"^haloconv::(\w+)", text, re.M))
    by_suffix = {
        f"{name}_{rest}" for name in listed for rest in ("fused", "takes_residual", "explain")
    }
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("haloconv::")]
    registered = {schema.name.removeprefix("haloconv::") for schema in schemas}
    assert listed <= registered
    assert registered <= listed | by_suffix
    for schema in schemas:  # those without tensors are listed word for word
        if "Tensor" not in str(schema):
            assert f"\n{schema}\n" in text


def test_every_page_can_be_found():
    found = {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}
    assert set((ROOT / "docs").glob("*.md")) <= found


def test_what_architecture_names_exists():
    text = (ROOT / "docs" / "architecture.md").read_text()
    places = re.findall(r"`((?:op|registration|scripts|cpp_tests|python_tests)/[\w/.*]+)`", text)
    assert len(places) > 10
    places = [place for place in places if "NAME" not in place]
    assert not [place for place in places if not any(ROOT.glob(place.rstrip("/")))]


def test_each_family_has_a_row_and_a_section():
    listed = re.findall(r"&(\w+)::kFamily", (ROOT / "op/conv2d/families.cpp").read_text())
    text = (ROOT / "docs" / "families.md").read_text()
    assert len(listed) >= 6
    rows = re.findall(r"^\| `(\w+)` \| `\w+` \|", text, re.M)
    sections = re.findall(r"^### `(\w+)`$", text, re.M)
    assert sorted(rows) == sorted(sections) == sorted(listed)


@pytest.mark.parametrize("page", figures.pages(), ids=named)
def test_figures_are_those_of_the_recorded_runs(page):
    text = page.read_text()
    assert figures.filled(page, text) == text, "run benchmarks/figures.py"
    assert text.count("<!-- figures: ") == len(figures.BLOCK.findall(text))
    for path, chart in figures.charts(text).items():
        assert chart.is_in(path), "run benchmarks/figures.py"
