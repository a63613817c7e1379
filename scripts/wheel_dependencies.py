"""The torch that a wheel depends on: the minor versions that it has a library for.

scikit-build-core asks, by pyproject.toml. They are the torch of the Python that builds and those in
the environment's HALOCONV_TORCHES, folders of torch packages apart by ";", as CMake takes them.
"""

import os
import runpy
from importlib.util import find_spec
from pathlib import Path


def _minor(torch: Path) -> tuple[int, int]:
    version = runpy.run_path(str(torch / "version.py"))["__version__"]
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def requirement(minors: set[tuple[int, int]]) -> str:
    """torch>=2.11,<2.16,!=2.12.* for 2.11, 2.13, 2.14 and 2.15."""
    (major, first), (_, last) = min(minors), max(minors)
    missing = [m for m in range(first, last) if (major, m) not in minors]
    bounds = [f">={major}.{first}", f"<{major}.{last + 1}", *(f"!={major}.{m}.*" for m in missing)]
    return "torch" + ",".join(bounds)


def dynamic_metadata(_settings: dict, _project: dict) -> dict[str, list[str]]:
    folders = [
        Path(folder) for folder in os.environ.get("HALOCONV_TORCHES", "").split(";") if folder
    ]
    own = find_spec("torch")
    if own is not None and own.origin is not None:
        folders.append(Path(own.origin).parent)
    minors = {_minor(folder) for folder in folders}
    return {"dependencies": [requirement(minors) if minors else "torch"]}


def dynamic_wheel(_settings: dict) -> dict[str, bool]:
    """A source distribution does not know for which torch its wheels will be."""
    return {"dependencies": True}
