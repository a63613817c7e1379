"""The shared library itself: what it needs, what it exports, and how it is found."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import haloconv
from haloconv import _library
from support import (
    assert_equal,
    integers,
    kernels_library,
    needs_dlopen_program,
    needs_gpu,
    needs_library_of_build,
    run_in_cpp,
)

PACKAGE_ROOT = Path(haloconv.__file__).resolve().parents[1]
ROOT = PACKAGE_ROOT.parents[1]


def output(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def python(program: str, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_needs_no_python():
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", _library.find()))
    assert any(name.startswith("libtorch") for name in needed)
    assert not [name for name in needed if "python" in name]


def defined(library: Path) -> set[str]:
    lines = output("nm", "-D", "-C", "--defined-only", library).splitlines()
    return {line.split(maxsplit=2)[2] for line in lines}


def test_the_kernels_know_no_torch():
    """One file of them serves all torch versions."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", kernels_library()))
    assert [name for name in needed if re.match("lib(torch|c10|python|haloconv)", name)] == []


GLIBC = tuple(int(number) for number in platform.libc_ver()[1].split("."))


@pytest.mark.skipif(GLIBC >= (2, 38), reason="compiled here, all needs a newer glibc")
@pytest.mark.parametrize("library", [_library.find, kernels_library])
def test_it_runs_with_glibc_2_34(library):
    """So that a wheel is for those distributions too: std::hypot would need 2.35."""
    versions = re.findall(r"@GLIBC_2\.(\d+)", output("nm", "-D", library()))
    assert max(int(version) for version in versions) <= 34


@pytest.mark.skipif(not haloconv.has_cuda, reason="without CUDA the library calls fewer")
def test_the_kernels_export_only_what_the_library_calls():
    lines = output("nm", "-D", "-C", "--undefined-only", _library.find()).splitlines()
    called = {line.split(maxsplit=1)[1] for line in lines}
    assert defined(kernels_library()) - called == set()


def test_is_named_by_its_version():
    """What a program is linked with: the same name in the build, an installation and the wheel."""
    name = "libhaloconv.so." + haloconv.__version__.split(".")[0]
    library = Path(haloconv.library_path)
    assert re.findall(r"\(SONAME\).*\[(.*)\]", output("readelf", "-d", library)) == [name]
    assert library.name == name


def test_an_installation_has_the_links_that_linkers_and_programs_look_for():
    lib = ROOT / "build" / "install" / "lib"
    files = {path.name: path for path in lib.glob("libhaloconv*") if not path.is_symlink()}
    library = files.pop(f"libhaloconv.so.{haloconv.__version__.split('.')[0]}")
    assert [name.partition(".")[0] for name in files] == ["libhaloconv_kernels"]
    assert os.readlink(lib / "libhaloconv.so") == library.name
    needed = output("readelf", "-d", lib.parent / "bin" / "haloconv-rewrite")
    assert f"[{library.name}]" in needed


def test_installs_for_a_folder_that_is_not_there_yet(tmp_path):
    """As packagers do: below DESTDIR. Nothing warns, and the program finds the library."""
    command = ["cmake", "--install", ROOT / "build", "--prefix", "/nowhere/haloconv"]
    environment = {**os.environ, "DESTDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "warning" not in done.stderr.lower(), done.stderr
    entries = output("readelf", "-d", tmp_path / "nowhere/haloconv/bin/haloconv-rewrite")
    assert "[$ORIGIN/../lib:" in entries


def test_only_the_kernels_have_a_cuda_runtime():
    """Theirs must be seen by nobody else, who would call it instead of torch's. The library calls
    none, so that it loads beside a torch of any CUDA, and can say which one it needs.
    """
    for file in (_library.find(), kernels_library()):
        assert "libcudart" not in output("readelf", "-d", file)
    assert not re.search(r"\bcuda[A-Z]\w*@", output("nm", "-D", _library.find()))
    assert [name for name in defined(kernels_library()) if not name.startswith("haloconv::")] == []
    symbols = output("nm", "-a", "-C", _library.find())
    assert not re.search(r" [tT] cudaLaunchKernel", symbols)


def test_exports_only_the_public_interface():
    names = defined(_library.find())
    assert any(name.startswith("haloconv::conv2d(") for name in names)
    assert [name for name in names if not name.startswith("haloconv::")] == []


def test_loads_by_itself_in_a_fresh_process():
    program = (
        "import sys, torch; torch.ops.load_library(sys.argv[1]);"
        "print(torch.ops.haloconv.conv2d(torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 3)).item())"
    )
    assert output(sys.executable, "-c", program, _library.find()).strip() == "18.0"


def test_stays_when_it_is_closed():
    """Other threads may be in it, and graphs hold what is in it."""
    program = (
        "import _ctypes, ctypes, sys, torch; library = ctypes.CDLL(sys.argv[1]);"
        "_ctypes.dlclose(library._handle);"
        "print(torch.ops.haloconv.conv2d(torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 3)).item())"
    )
    assert output(sys.executable, "-c", program, _library.find()).strip() == "18.0"


def cmake_project(folder: Path, *lines: str) -> Path:
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.28)\nproject(user LANGUAGES CXX)\n" + "\n".join(lines)
    )
    return folder


def test_a_project_may_add_this_one_s_folder(tmp_path):
    """It finds the headers as installed ones, torch by the environment, and stays its own."""
    (tmp_path / "user.cpp").write_text("#include <haloconv/conv2d.h>\n")
    cmake_project(
        tmp_path,
        f"add_subdirectory({ROOT} haloconv EXCLUDE_FROM_ALL)",
        "add_library(user OBJECT user.cpp)",
        "target_link_libraries(user PRIVATE haloconv::haloconv)",
        'if(CMAKE_BUILD_TYPE)\n  message(FATAL_ERROR "a build type is set")\nendif()',
    )
    environment = {**os.environ, "CMAKE_PREFIX_PATH": f"/a:{torch.utils.cmake_prefix_path}"}
    configure = ["cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja"]
    for command in ([*configure, "-DHALOCONV_CUDA=OFF"], ["ninja", "-C", tmp_path / "b", "user"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


class Model(torch.nn.Module):
    """Integer weights: the result is exact, in whatever order it is added up."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(integers((4, 3, 3, 3), dtype=torch.float32))
        self.bias = torch.nn.Parameter(integers((4,), 1, torch.float32))

    def forward(self, x):
        return haloconv.conv2d(x, self.weight, self.bias, padding=(0, 1, 2, 1))


@needs_dlopen_program
def test_program_that_loads_the_library_while_it_runs(tmp_path):
    model, x = Model(), integers((2, 3, 8, 8), 2, torch.float32)
    torch.jit.script(model).save(tmp_path / "model.pt")
    assert_equal(run_in_cpp(tmp_path / "model.pt", x, tmp_path), model(x).detach())


@needs_dlopen_program
def test_program_that_finds_no_library(tmp_path):
    torch.jit.script(Model()).save(tmp_path / "model.pt")
    with pytest.raises(RuntimeError, match="none.so"):
        run_in_cpp(tmp_path / "model.pt", torch.ones(1, 3, 8, 8), tmp_path, tmp_path / "none.so")


def test_versions_agree():
    """CMake's, which packages and the installed files carry, and Python's."""
    (version,) = re.findall(
        r"project\(haloconv VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()
    )
    assert haloconv.__version__ == version


def test_package_without_library_says_where_it_looked(tmp_path):
    missing = str(tmp_path / "none.so")
    result = python("import haloconv", HALOCONV_LIBRARY=missing, PYTHONPATH=str(PACKAGE_ROOT))
    assert "ImportError" in result.stderr and missing in result.stderr


def test_second_copy_stays_idle_and_says_so(tmp_path):
    library = _library.find()
    copy, link = tmp_path / library.name, tmp_path / "libhaloconv.so"
    shutil.copy(library, copy)
    link.symlink_to(library)  # another name of the first copy
    program = """if True:
        import sys, torch
        for path in sys.argv[1:]:
            torch.ops.load_library(path)
        x, w = torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 3, requires_grad=True)
        y = torch.ops.haloconv.conv2d(x, w)
        y.sum().backward()
        print(y.item(), w.grad.sum().item())
    """
    command = [sys.executable, "-c", program, library, link, copy]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["18.0", "18.0"], done.stderr
    assert str(copy) in done.stderr and "another copy" in done.stderr
    assert done.stderr.count("another copy") == 1
    assert "verriding" not in done.stderr  # torch's word on a second kernel for an operator


@needs_library_of_build
@pytest.mark.parametrize(
    "library, prefix",
    [("registration/libhaloconv.so", None), ("install/lib/libhaloconv.so", "install")],
)
def test_cmake_prefix_path_is_an_installation_s(library, prefix):
    program = "import haloconv; print(haloconv.cmake_prefix_path)"
    build = ROOT / "build"
    result = python(program, HALOCONV_LIBRARY=str(build / library), PYTHONPATH=str(PACKAGE_ROOT))
    assert result.stdout.strip() == str(prefix and build / prefix), result.stderr


def test_package_with_a_file_that_is_no_library(tmp_path):
    broken = tmp_path / "libhaloconv.so"
    broken.write_text("not a library")
    result = python("import haloconv", HALOCONV_LIBRARY=str(broken), PYTHONPATH=str(PACKAGE_ROOT))
    assert "ImportError" in result.stderr and str(broken) in result.stderr


@pytest.mark.parametrize("direction", ["fprop", "dgrad", "wgrad"])
def test_explain_says_what_runs_on_the_cpu(direction):
    text = haloconv.explain(torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3), direction=direction)
    assert "aten" in text and "CPU" in text.upper()


@pytest.mark.parametrize("direction", ["fprop", "dgrad", "wgrad"])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_explain_takes_string_padding(padding, direction):
    x, w = torch.ones(1, 2, 5, 5), torch.ones(3, 2, 3, 4)
    assert "aten" in haloconv.explain(x, w, padding=padding, dilation=(2, 1), direction=direction)


@needs_gpu
def test_explain_knows_the_sides_of_a_string_padding():
    """On a GPU the text has the problem, padding and all."""
    x, w = torch.ones(1, 2, 9, 9, device="cuda"), torch.ones(3, 2, 3, 4, device="cuda")
    texts = [haloconv.explain(x, w, padding=p) for p in ("same", (1, 1, 1, 2), 1)]
    assert texts[0] == texts[1] != texts[2]


def test_explain_refuses_the_paddings_that_conv2d_refuses():
    x, w = torch.ones(1, 2, 5, 5), torch.ones(3, 2, 3, 3)
    with pytest.raises(RuntimeError, match='padding to be "same", "valid" or numbers.*"full"'):
        haloconv.explain(x, w, padding="full")
    with pytest.raises(RuntimeError, match="stride to be 1 with padding=.same.*2"):
        haloconv.explain(x, w, padding="same", stride=2)
    with pytest.raises(RuntimeError, match="weight"):
        haloconv.explain(x, w[0], padding="same")
