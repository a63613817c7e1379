"""The shared library itself: what it needs, what it exports, and how it is found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import haloconv
from haloconv import _library

PACKAGE_ROOT = Path(haloconv.__file__).resolve().parents[1]


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


def test_one_cuda_runtime_at_most():
    """A static CUDA runtime beside torch's shared one would be a second runtime."""
    symbols = output("nm", "-a", "-C", _library.find())
    assert not re.search(r" [tT] cudaLaunchKernel", symbols)


def test_exports_only_the_public_interface():
    lines = output("nm", "-D", "-C", "--defined-only", _library.find()).splitlines()
    names = [line.split(maxsplit=2)[2] for line in lines]
    assert any(name.startswith("haloconv::conv2d(") for name in names)
    assert [name for name in names if not name.startswith("haloconv::")] == []


def test_loads_by_itself_in_a_fresh_process():
    program = (
        "import sys, torch; torch.ops.load_library(sys.argv[1]);"
        "print(torch.ops.haloconv.conv2d(torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 3)).item())"
    )
    assert output(sys.executable, "-c", program, _library.find()).strip() == "18.0"


def test_package_without_library_says_where_it_looked(tmp_path):
    missing = str(tmp_path / "none.so")
    result = python("import haloconv", HALOCONV_LIBRARY=missing, PYTHONPATH=str(PACKAGE_ROOT))
    assert "ImportError" in result.stderr and missing in result.stderr


def test_package_with_a_file_that_is_no_library(tmp_path):
    broken = tmp_path / "libhaloconv.so"
    broken.write_text("not a library")
    result = python("import haloconv", HALOCONV_LIBRARY=str(broken), PYTHONPATH=str(PACKAGE_ROOT))
    assert "ImportError" in result.stderr and str(broken) in result.stderr


def test_package_with_another_torch():
    program = "import torch; torch.__version__ = '2.10.0+cpu'; import haloconv"
    result = python(program, PYTHONPATH=str(PACKAGE_ROOT))
    assert "ImportError" in result.stderr
    assert "2.11.0" in result.stderr and "2.10.0" in result.stderr


@pytest.mark.parametrize("direction", ["fprop", "dgrad", "wgrad"])
def test_explain_says_what_runs_on_the_cpu(direction):
    import torch

    text = haloconv.explain(torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3), direction=direction)
    assert "aten" in text and "CPU" in text.upper()
