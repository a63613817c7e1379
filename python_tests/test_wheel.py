"""The wheel that is installed here, as strangers to the source tree use it.

scripts/torch_versions.sh installs one for several torch versions beside each of them.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

MINOR = ".".join(torch.__version__.split(".")[:2])

try:
    WHEEL = distribution("haloconv")
except PackageNotFoundError:
    pytest.skip("needs an installed wheel", allow_module_level=True)

PACKAGE = Path(WHEEL.locate_file("haloconv")).resolve()
IMPORT = """if True:
    import haloconv, torch
    x, w = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3, requires_grad=True)
    y = haloconv.conv2d(x, w)
    torch.testing.assert_close(y, torch.nn.functional.conv2d(x, w))
    y.sum().backward()
    print(haloconv.library_path)
"""


def python(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    others = ("HALOCONV_LIBRARY", "LD_LIBRARY_PATH", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in others}
    command = [sys.executable, "-c", program]
    options = {"cwd": folder, "env": {**kept, **environment}, "text": True}
    return subprocess.run(command, capture_output=True, **options)


def minors() -> list[str]:
    return [p.name.removeprefix("torch") for p in (PACKAGE / "lib").glob("torch*")]


def test_the_import_takes_the_library_for_this_torch(tmp_path):
    done = python(IMPORT, tmp_path)
    assert done.returncode == 0, done.stderr
    library = Path(done.stdout.strip())
    assert library == PACKAGE / "lib" / f"torch{MINOR}" / "libhaloconv.so.0"
    assert f"haloconv is built for torch {MINOR}, ".encode() in library.read_bytes()


def test_another_torch_is_told_which_there_are(tmp_path):
    """This one, had it no library in the wheel."""
    others = sorted(set(minors()) - {MINOR}, key=lambda minor: int(minor.split(".")[1]))
    if not others:
        pytest.skip("the wheel is for one torch alone")
    shutil.copytree(PACKAGE, tmp_path / "haloconv", ignore=lambda _, names: {f"torch{MINOR}"})
    done = python(IMPORT, tmp_path, PYTHONPATH=str(tmp_path))
    words = f"installation is for torch {', '.join(others)}, but torch here is {torch.__version__}"
    assert "ImportError" in done.stderr and words in done.stderr, done.stderr


def test_it_depends_on_the_torch_versions_that_it_is_for():
    (torch_needed,) = [Requirement(text) for text in WHEEL.requires if text.startswith("torch")]
    wanted = [f"2.{n}" for n in range(50) if torch_needed.specifier.contains(f"2.{n}.1")]
    assert sorted(wanted) == sorted(minors())


def test_it_holds_the_kernels_once():
    names = sorted(p.name for p in PACKAGE.rglob("libhaloconv*"))
    assert names == ["libhaloconv.so.0"] * len(minors()) + ["libhaloconv_kernels.so.0"]


def test_it_names_the_glibc_that_it_needs():
    (tag,) = re.findall(r"^Tag: (.*)$", WHEEL.read_text("WHEEL"), re.MULTILINE)
    assert re.fullmatch(r"py3-none-manylinux_2_\d+_x86_64", tag)


def test_its_program_is_on_the_path(tmp_path):
    program = Path(sys.executable).parent / "haloconv-rewrite"
    done = subprocess.run([program, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "haloconv-rewrite" in done.stdout, done.stderr
