"""The source distribution is complete. scripts/torch_versions.sh builds and uses wheels."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch

import haloconv

ROOT = Path(__file__).resolve().parents[1]

pytest.importorskip("scikit_build_core", reason="needs scikit-build-core")


def run(*command, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """As pip has it made: the backend that pyproject.toml names, in the project's folder."""
    folder = tmp_path_factory.mktemp("sdist")
    program = (
        "import sys; from scikit_build_core import build; print(build.build_sdist(sys.argv[1]))"
    )
    run(sys.executable, "-c", program, folder, cwd=ROOT)
    (archive,) = folder.iterdir()
    assert archive.name == f"haloconv-{haloconv.__version__}.tar.gz"
    return archive


@pytest.fixture(scope="module")
def unpacked(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(source) as archive:
        # A Python before 3.11.4 has no filter, and takes no argument of that name.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder / source.name.removesuffix(".tar.gz")


def test_it_holds_what_git_holds(unpacked):
    """And nothing that was built: a file that is missing would be noticed by strangers alone."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    patterns = "--exclude-per-directory=.gitignore"  # no one's own beside them
    listed = run("git", "ls-files", "--cached", "--others", patterns, cwd=ROOT)
    tracked = {name for name in listed.splitlines() if (ROOT / name).exists()}
    held = {str(p.relative_to(unpacked)) for p in unpacked.rglob("*") if p.is_file()}
    assert held - {"PKG-INFO"} == tracked


def test_it_can_be_configured(unpacked, tmp_path):
    prefix = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    options = ["-DHALOCONV_CUDA=OFF", "-DHALOCONV_TESTS=OFF", "-DHALOCONV_WHEEL=ON", prefix]
    run("cmake", "-S", unpacked, "-B", tmp_path, "-G", "Ninja", *options)


def test_pip_prepares_it_in_isolation(source, tmp_path):
    """Where what is installed is not seen, but for what pyproject.toml asks for."""
    wheels, report = tmp_path / "wheels", tmp_path / "report.json"
    run(sys.executable, ROOT / "scripts" / "wheelhouse.py", wheels)
    offline = ["--no-deps", "--no-index", "--find-links", wheels]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    run(*pip, "--dry-run", "--report", report, *offline, source)
    (installed,) = json.loads(report.read_text())["install"]
    assert installed["metadata"]["version"] == haloconv.__version__
    minor = int(torch.__version__.split(".")[1])
    (torch_needed,) = installed["metadata"]["requires_dist"]
    assert set(torch_needed.removeprefix("torch").split(",")) == {f">=2.{minor}", f"<2.{minor + 1}"}
