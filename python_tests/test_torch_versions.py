"""Which torch an installation takes, and what it says to another."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import haloconv
from haloconv import _library
from support import DLOPEN_PROGRAM, needs_dlopen_program, needs_library_of_build
from test_library import PACKAGE_ROOT, ROOT, output, python

MINOR = ".".join(torch.__version__.split(".")[:2])


def test_another_minor_is_refused_before_the_library_is_loaded():
    program = "import torch; torch.__version__ = '2.9.1+cpu'; import haloconv"
    library = {"HALOCONV_LIBRARY": str(_library.find())}
    result = python(program, PYTHONPATH=str(PACKAGE_ROOT), **library)
    assert "ImportError" in result.stderr
    assert f"it is for torch {MINOR}, but torch here is 2.9.1+cpu" in result.stderr


@pytest.mark.parametrize(
    "minor, cuda, cuda_of_torch, words",
    [
        (MINOR, "13", "13.2", ""),
        (MINOR, "none", "13.2", ""),  # the CPU half, asked for
        (MINOR, "none", None, ""),
        (MINOR, "13", "12.8", r"it is for a torch of CUDA 13, but torch here \(.*\) is for 12\.8"),
        (MINOR, "13", None, r"torch here \(.*\) has no CUDA. Install a torch with CUDA 13"),
        ("2.9", "13", "13.2", "it is for torch 2.9, but torch here is"),
    ],
)
def test_a_library_for_another_torch(tmp_path, monkeypatch, minor, cuda, cuda_of_torch, words):
    library = tmp_path / "libhaloconv.so.0"
    library.write_bytes(b"..." + f"haloconv is built for torch {minor}, CUDA {cuda};".encode())
    monkeypatch.setenv("HALOCONV_LIBRARY", str(library))
    monkeypatch.setattr(torch.version, "cuda", cuda_of_torch)
    with pytest.raises(ImportError, match=words or "does not load"):  # the file is no library
        _library.load()


LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"


@pytest.fixture
def without_cuda(tmp_path):
    """The environment in which torch's libraries are those of this version without CUDA: those
    above libtorch_cpu.so, which has no CUDA itself, are missing.
    """
    lib = Path(torch.__file__).parent / "lib"
    soname = "-Wl,-soname,libtorch.so,--no-as-needed"
    output(
        *("gcc", "-shared", "-o", tmp_path / "libtorch.so", soname, "-x", "c", "/dev/null"),
        *("-x", "none", lib / "libtorch_cpu.so"),
    )
    return {**os.environ, "LD_LIBRARY_PATH": f"{tmp_path}:{lib}"}


@pytest.mark.skipif(not haloconv.has_cuda, reason="the CPU half goes with any torch")
@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, "-c", LOAD, "LIBRARY"),
        pytest.param(
            (DLOPEN_PROGRAM, "LIBRARY", "no model", "no input", "no output"),
            marks=needs_dlopen_program,
        ),
        (_library.find().with_name("haloconv-rewrite"), "--help"),
    ],
    ids=["Python", "dlopen", "linked"],
)
def test_beside_a_torch_without_cuda_the_library_says_what_to_do(command, without_cuda):
    if not Path(command[0]).is_file():
        pytest.skip(f"{command[0]} is not built")
    library = str(_library.find())
    command = [library if part == "LIBRARY" else part for part in command]
    done = subprocess.run(command, env=without_cuda, capture_output=True, text=True)
    words = (
        r"^Warning: haloconv: \S*libhaloconv\.so\.0, version .*, registers no operators: it was "
        r"built for a torch of CUDA (\d+), but the torch that is loaded has no CUDA\. Install a "
        r"torch of CUDA \1, or build haloconv with the torch that you use\.\n"
    )
    assert len(re.findall(words, done.stderr)) == 1, done
    assert "cannot open shared object file" not in done.stderr
    if command[0] != DLOPEN_PROGRAM:  # which has no model to run
        assert done.returncode == 0, done


@pytest.mark.skipif(not haloconv.has_cuda, reason="without CUDA it needs none of these")
def test_the_library_has_torch_s_cuda_by_libtorch_alone():
    """And so from any torch that has it, wherever the library is loaded."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", _library.find()))
    assert {"libtorch.so", "libtorch_cpu.so", "libc10.so"} < set(needed)
    assert not [name for name in needed if "cuda" in name]
    loaded = output("ldd", "-r", _library.find())
    assert "libtorch_cuda.so => /" in loaded and "libc10_cuda.so => /" in loaded
    assert not re.search(r"undefined symbol: .*libhaloconv", loaded)


VERSION_2_9_1 = "long aoti_torch_abi_version() { return 2L << 56 | 9L << 48 | 1L << 40; }"


@pytest.mark.parametrize(
    "source, found", [(VERSION_2_9_1, "2.9.1"), ("", "an older release")], ids=["2.9.1", "older"]
)
def test_beside_a_torch_without_its_functions_the_library_says_what_to_do(tmp_path, source, found):
    """Of another torch some are missing, here all: the system would say "undefined symbol"."""
    (tmp_path / "torch.c").write_text(source)
    library = _library.find()
    needed = re.findall(r"\[(lib(?:torch|c10)\w*\.so)\]", output("readelf", "-d", library))
    assert len(needed) >= 3
    for name in needed:
        files = ["-o", tmp_path / name, tmp_path / "torch.c"]
        output("gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", *files)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-c", LOAD, library]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done
    words = (
        rf"Warning: haloconv: {library}, version .*, registers no operators: it was built for "
        rf"torch {MINOR}, but the torch that is loaded is {found}\. Install torch {MINOR}, "
        r"or build haloconv with the torch that you use\.\n"
    )
    assert re.fullmatch(words, done.stderr), done


def test_only_what_torch_has_may_be_missing():
    """Required is what the kernels have, and what has a version: the system's, and CUDA's."""
    lines = output("nm", "-D", "--undefined-only", _library.find()).splitlines()
    symbols = [line.split() for line in lines]
    required = {name for kind, name in symbols if kind == "U"}
    optional = {name for _, name in symbols} - required
    assert len(optional) > 100 and not [name for name in optional if "8haloconv" in name]
    assert len(required) > 50
    assert not [name for name in required if "@" not in name and "8haloconv" not in name]


WEAKEN = ROOT / "build" / "registration" / "haloconv_weaken"


@needs_library_of_build
@pytest.mark.skipif(not WEAKEN.is_file(), reason=f"{WEAKEN} is not built")
def test_to_weaken_the_library_again_changes_nothing(tmp_path):
    """A build that was interrupted may do so."""
    copy = tmp_path / "libhaloconv.so"
    shutil.copy(_library.find(), copy)
    output(WEAKEN, copy, "libtorch_cuda.so", "libc10_cuda.so")
    assert copy.read_bytes() == _library.find().read_bytes()


OTHER_CUDA_PROGRAM = ROOT / "build" / "cpp_tests" / "other_cuda_program"


@needs_library_of_build
@pytest.mark.skipif(not haloconv.has_cuda, reason="the CPU half goes with any CUDA")
@pytest.mark.skipif(not OTHER_CUDA_PROGRAM.is_file(), reason=f"{OTHER_CUDA_PROGRAM} is not built")
def test_a_library_for_another_cuda_registers_nothing():
    command = [OTHER_CUDA_PROGRAM, _library.find()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "", done
    words = (
        r"registers no operators: it was built for a torch of CUDA \d+, but the torch that is "
        r"loaded is for CUDA 99\. Install a torch of CUDA \d+, or build haloconv with the"
    )
    assert re.search(words, done.stderr), done


OLD_DRIVER_PROGRAM = ROOT / "build" / "cpp_tests" / "old_driver_program"


@pytest.mark.skipif(not OLD_DRIVER_PROGRAM.is_file(), reason=f"{OLD_DRIVER_PROGRAM} is not built")
def test_with_too_old_a_driver_the_kernels_say_so():
    """Theirs is the CUDA runtime that asks: with torch's, CUDA may work."""
    done = subprocess.run([OLD_DRIVER_PROGRAM], capture_output=True, text=True)
    words = (
        r"unknown\nthe driver is for CUDA 12\.0, but the kernels need one for CUDA 1\d or newer\n"
    )
    assert re.fullmatch(words, done.stdout), done


def wheel_for(folder: Path, *minors: str) -> Path:
    """The folders of an installed wheel, with a library for each of these torch versions."""
    for minor in minors:
        (folder / "lib" / f"torch{minor}").mkdir(parents=True)
        (folder / "lib" / f"torch{minor}" / "libhaloconv.so.0").touch()
    return folder


def test_a_wheel_has_a_library_for_each_torch(tmp_path, monkeypatch):
    monkeypatch.delenv("HALOCONV_LIBRARY", raising=False)
    monkeypatch.setattr(_library, "_PACKAGE", wheel_for(tmp_path, "2.9", MINOR, "2.99"))
    assert _library.find() == tmp_path / "lib" / f"torch{MINOR}" / "libhaloconv.so.0"


def test_a_wheel_says_which_torch_it_is_for(tmp_path, monkeypatch):
    package = tmp_path / "a" / "b" / "haloconv"  # no build of a source tree lies beside it
    monkeypatch.delenv("HALOCONV_LIBRARY", raising=False)
    monkeypatch.setattr(_library, "_PACKAGE", wheel_for(package, "2.99", "2.9"))
    with pytest.raises(ImportError, match=r"is for torch 2\.9, 2\.99, but torch here is"):
        _library.find()


def test_a_project_with_another_torch_is_told_which_there_are(tmp_path):
    header = tmp_path / "torch" / "include" / "torch" / "headeronly" / "version.h"
    header.parent.mkdir(parents=True)
    numbers = {"MAJOR": 2, "MINOR": 9, "PATCH": 1}
    header.write_text("".join(f"#define TORCH_VERSION_{n} {v}\n" for n, v in numbers.items()))
    (tmp_path / "torch" / "lib").mkdir()
    for name in ("torch", "torch_cpu", "c10"):
        (tmp_path / "torch" / "lib" / f"lib{name}.so").touch()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.28)\nproject(user LANGUAGES CXX)\n"
        "find_package(haloconv REQUIRED)\n"
    )
    installed = _library.cmake_prefix_path() or ROOT / "build" / "install"
    prefix = f"-DCMAKE_PREFIX_PATH={installed};{tmp_path}/torch"
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", prefix]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    words = (
        rf"this installation is for torch [\d., ]*\b{MINOR}\b[\d., ]*, but torch here is 2\.9\.1"
    )
    assert re.search(words, " ".join(done.stderr.split()))


QUIET = """if True:
    import torch, warnings
    warnings.simplefilter("error")  # those of importing torch are torch's
    import haloconv
    x, w = torch.ones(1, 2, 3, 3), torch.ones(4, 2, 3, 3, requires_grad=True)
    haloconv.conv2d(x, w).sum().backward()
    print(haloconv.replace(torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3))).replaced)
"""
WITHOUT_TORCHSCRIPT = """if True:
    import sys, torch, types
    sys.modules["torch.jit._builtins"] = types.ModuleType("of a torch without it")
"""


@pytest.mark.parametrize("before", ["", WITHOUT_TORCHSCRIPT], ids=["as it is", "no TorchScript"])
def test_torchscript_s_deprecation_reaches_no_other_path(before):
    library = {"HALOCONV_LIBRARY": str(_library.find())}
    result = python(before + QUIET, PYTHONPATH=str(PACKAGE_ROOT), **library)
    assert result.returncode == 0 and result.stdout.strip() == "['0']", result.stderr


@pytest.mark.parametrize(
    "system, processor, stops, words",
    [
        ("Linux", "x86_64", False, ""),
        ("Linux", "aarch64", False, "aarch64 is not supported, x86_64 is"),
        ("Darwin", "arm64", True, "Darwin is not supported, Linux is."),
        ("Windows", "AMD64", True, "Windows is not supported, Linux is."),
    ],
)
def test_configuration_says_what_is_not_supported(system, processor, stops, words):
    names = [f"-DCMAKE_SYSTEM_NAME={system}", f"-DCMAKE_SYSTEM_PROCESSOR={processor}"]
    command = ["cmake", *names, "-P", ROOT / "cmake" / "Platform.cmake"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode != 0) is stops
    assert words in " ".join(done.stderr.split()) and bool(words) is bool(done.stderr)
