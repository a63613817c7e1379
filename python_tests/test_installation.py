"""What an installation says of itself, and what it refuses to build or to load."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import haloconv
from haloconv import _library
from support import needs_dlopen_program, run_in_cpp

PACKAGE = Path(haloconv.__file__).resolve().parent
ROOT = PACKAGE.parents[2]


def run(*command, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment},
        capture_output=True,
        text=True,
    )


def test_has_cuda_is_whether_there_are_cuda_kernels():
    kernels = torch._C._dispatch_has_kernel_for_dispatch_key("haloconv::conv2d", "CUDA")
    assert haloconv.has_cuda is kernels
    assert torch.ops.haloconv.has_cuda() is kernels


def test_the_module_prints_what_a_bug_report_needs():
    done = run(sys.executable, "-m", "haloconv")
    assert done.returncode == 0, done.stderr
    for words in (
        f"haloconv: {haloconv.__version__}",
        f"torch: {torch.__version__}",
        f"{haloconv.library_path} ({_library.found_in()})",
        "implementation: aten",
        ": declined, its kernels are CUDA kernels",
    ):
        assert words in done.stdout


def test_it_says_which_place_the_library_is_in(monkeypatch):
    monkeypatch.setenv("HALOCONV_LIBRARY", haloconv.library_path)
    assert _library.found_in() == "the environment's HALOCONV_LIBRARY"


@pytest.fixture
def older_torch(tmp_path):
    """A library that, loaded first, says that torch is another release."""
    source = tmp_path / "older.c"
    source.write_text(
        "unsigned long long aoti_torch_abi_version(void) { return 2ull << 56 | 9ull << 48; }"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "older.so", source], check=True)
    return {"LD_PRELOAD": str(tmp_path / "older.so")}


MINOR = ".".join(torch.__version__.split(".")[:2])
WORDS = (
    f"built for torch {MINOR}",
    "the torch that is loaded is 2.9.0",
    f"Install torch {MINOR}",
)


def test_another_torch_gets_no_operators(older_torch):
    program = (
        "import torch, sys; torch.ops.load_library(sys.argv[1]); print(dir(torch.ops.haloconv))"
    )
    done = run(sys.executable, "-c", program, haloconv.library_path, **older_torch)
    assert done.returncode == 0 and "conv2d" not in done.stdout
    assert all(word in done.stderr for word in WORDS), done.stderr
    done = run(sys.executable, "-c", "import haloconv", **older_torch)
    assert "ImportError" in done.stderr and all(word in done.stderr for word in WORDS), done.stderr


@needs_dlopen_program
def test_nor_in_a_program(older_torch, tmp_path, monkeypatch):
    layer = torch.jit.script(haloconv.nn.Conv2d(2, 3, 3))
    layer.save(tmp_path / "model.pt")
    monkeypatch.setenv("LD_PRELOAD", older_torch["LD_PRELOAD"])
    with pytest.raises(RuntimeError, match="the torch that is loaded is 2.9.0"):
        run_in_cpp(tmp_path / "model.pt", torch.ones(1, 2, 4, 4), tmp_path)


def configure(folder: Path, *options: str, **environment) -> subprocess.CompletedProcess:
    prefix = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    command = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DHALOCONV_TESTS=OFF", prefix]
    return run(*command, *options, **environment)


def test_a_wheel_without_a_cuda_compiler_is_asked_for(tmp_path):
    nothing = {"CUDACXX": "/nowhere/nvcc"}
    options = ["-DHALOCONV_WHEEL=ON", f"-DPython_EXECUTABLE={sys.executable}"]
    done = configure(tmp_path / "a", *options, **nothing)
    assert done.returncode != 0
    assert "no CUDA compiler found" in done.stderr and "HALOCONV_CUDA=OFF" in done.stderr
    done = configure(tmp_path / "b", *options, "-DHALOCONV_CUDA=OFF", **nothing)
    assert done.returncode == 0, done.stderr


def test_a_cuda_compiler_that_is_too_old_is_refused(tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.4, V12.4.131\n")
    nvcc.chmod(0o755)
    done = configure(tmp_path / "b", f"-DCMAKE_CUDA_COMPILER={nvcc}")
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"{nvcc} is of CUDA 12.4, but the kernels need CUDA 12.8 or newer. Set CUDACXX" in said
    assert said.count("CMake Error") == 1


HEADERS = ("cuda_runtime_api.h", "cublas_v2.h", "cusparse.h", "cusolverDn.h")


def packages_of(folder: Path, major: int) -> None:
    """What pip installs of CUDA with torch: of CUDA 12 a package for each library."""
    libraries = ("cuda_runtime", "cublas", "cusparse", "cusolver")
    for library, header in zip(libraries, HEADERS, strict=True):
        package = folder / "nvidia" / (library if major == 12 else f"cu{major}")
        (package / "include").mkdir(parents=True, exist_ok=True)
        (package / "include" / header).touch()


def toolkit_of(folder: Path, major: int) -> list[str]:
    """A toolkit, as CMake's variables say where it is."""
    (folder / "include" / "crt").mkdir(parents=True)
    for name in ("crt/host_defines.h", *HEADERS):
        (folder / "include" / name).touch()
    facts = {
        "VERSION_MAJOR": major,
        "VERSION": f"{major}.1",
        "INCLUDE_DIRS": folder / "include",
        "TARGET_DIR": folder,
    }
    return [f"-DCUDAToolkit_{name}={value}" for name, value in facts.items()]


@pytest.mark.parametrize(
    "torch_major, packages, toolkit, places",
    [
        (12, 12, 13, {"packages", "headers_of_compiler"}),
        (12, 12, 12, {"packages", "headers_of_compiler"}),
        (12, 13, 12, {"toolkit", "headers_of_compiler"}),
        (13, 13, 12, {"packages", "headers_of_compiler"}),
        (13, 12, 13, {"toolkit", "headers_of_compiler"}),
        (12, 13, 13, None),
        (13, 12, 12, None),
        (11, 12, 13, "a torch of CUDA 12 or 13"),
    ],
)
def test_what_knows_torch_is_compiled_with_torch_s_cuda(
    tmp_path, torch_major, packages, toolkit, places
):
    """Whose major version may be another than the kernels'."""
    (tmp_path / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.28)
        project(user LANGUAGES NONE)
        include("{ROOT}/cmake/CudaOfTorch.cmake")
        get_target_property(folders haloconv_cuda_of_torch INTERFACE_INCLUDE_DIRECTORIES)
        message("folders ${{folders}}")
    """)
    library = tmp_path / "packages" / "torch" / "lib"
    library.mkdir(parents=True)
    packages_of(tmp_path / "packages", packages)
    options = [
        *toolkit_of(tmp_path / "toolkit", toolkit),
        f"-DHALOCONV_TORCH_LIB_DIR={library}",
        f"-DHALOCONV_TORCH_CUDA_MAJOR={torch_major}",
        "-DHALOCONV_TORCH_MINOR=2.11",
    ]
    done = run("cmake", "-S", tmp_path, "-B", tmp_path / "b", *options)
    said = " ".join(done.stderr.split())
    if isinstance(places, str):
        assert done.returncode != 0
        assert f"torch was built with CUDA {torch_major}, but the CUDA half needs {places}." in said
        return
    if places is None:
        assert done.returncode != 0
        names = ", ".join(HEADERS)
        assert f"torch was built with CUDA {torch_major}, of which {names} was not found" in said
        assert f"Set CUDACXX to an nvcc of CUDA {torch_major}" in said
        return
    assert done.returncode == 0, said
    (folders,) = re.findall(r"folders (\S+)", said)
    used = {Path(folder).relative_to(tmp_path).parts for folder in folders.split(";")}
    assert {parts[1 if parts[0] == "b" else 0] for parts in used} == places
    assert (tmp_path / "b" / "headers_of_compiler" / "crt" / "host_defines.h").is_file()
    combined = f"for torch 2.11 of CUDA {torch_major}; the kernels are compiled by CUDA {toolkit}.1"
    driver = f", and need a driver for CUDA {toolkit}" if toolkit > torch_major else ""
    assert f"-- haloconv: with its CUDA half, {combined}{driver}\n" in done.stdout


def test_the_installed_program_is_the_rewriter():
    done = run(
        sys.executable, "-c", "from haloconv._library import run_rewrite as r; r()", "--help"
    )
    assert done.returncode == 0 and "haloconv-rewrite" in done.stdout, done.stderr


def test_stubs_say_what_the_schemas_say():
    tree = ast.parse((PACKAGE / "ops.pyi").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert {f.name for f in functions} == {n for n in vars(haloconv.ops) if n[0] != "_"} - {"torch"}
    names = [name.split("::") for name in torch._C._dispatch_get_all_op_names()]
    ours = {name.split(".")[0] for space, name in names if space == "haloconv"}
    assert {f.name for f in functions} == {
        name for name in ours if "conv" in name and name[0] != "_"
    } | {"explain"}
    for f in functions:
        assert getattr(haloconv.ops, f.name) is getattr(torch.ops.haloconv, f.name)
    stubs = [
        (
            f.name,
            [a.arg for a in f.args.args + f.args.kwonlyargs],
            [a.arg for a in f.args.kwonlyargs],
            len(f.args.defaults) + sum(d is not None for d in f.args.kw_defaults),
            ast.unparse(next(a.annotation for a in f.args.args if a.arg == "padding")).startswith(
                "str"
            ),
        )
        for f in functions
    ]
    schemas = []
    for name in dict.fromkeys(f.name for f in functions):
        packet = getattr(torch.ops.haloconv, name)
        for overload in packet.overloads():
            arguments = getattr(packet, overload)._schema.arguments
            schemas.append(
                (
                    name,
                    [a.name for a in arguments],
                    [a.name for a in arguments if a.kwarg_only],
                    sum(a.has_default_value() for a in arguments),
                    overload == "padding",
                )
            )
    assert stubs == schemas
