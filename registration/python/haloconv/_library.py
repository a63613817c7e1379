"""Finds libhaloconv.so and loads it into torch."""

import os
import sys
from pathlib import Path

import torch

# The library calls torch's C++ interface, which changes with each release.
_TORCH_VERSION = "2.11.0"
_FILE = "libhaloconv.so.0"  # a wheel has it under no other name
_VARIABLE = "HALOCONV_LIBRARY"
_PROGRAM = "haloconv-rewrite"


def _places() -> dict[str, Path]:
    """Where the library may be, the first that is there being taken, and what makes it a place."""
    chosen = os.environ.get(_VARIABLE)
    if chosen:
        return {f"the environment's {_VARIABLE}": Path(chosen)}
    package = Path(__file__).resolve().parent
    return {
        "the installed package": package / "lib" / _FILE,
        "the source tree's build": package.parents[2] / "build" / "registration" / _FILE,
    }


def found_in() -> str:
    """Which of the places the library is in, in words."""
    return next(name for name, place in _places().items() if place == find())


def find() -> Path:
    """The library's path: the environment's, else the wheel's, else the source tree's build.

    Raises ImportError, naming each place looked at, if there is none.
    """
    chosen, places = os.environ.get(_VARIABLE), _places().values()
    for place in places:
        if place.is_file():
            return place
    looked_at = "".join(f"\n  {place}" for place in places)
    raise ImportError(
        f"haloconv: {_FILE} was not found. Looked at:{looked_at}\n"
        f"Build it, or set {_VARIABLE} to its path (now {chosen!r})."
    )


def cmake_prefix_path() -> str | None:
    """The prefix of the installation that the library lies in; None if it lies in none."""
    prefix = find().resolve().parents[1]
    return str(prefix) if (prefix / "include" / "haloconv").is_dir() else None


def load() -> None:
    """Loads the library. Raises ImportError if it cannot, or if torch is another release."""
    found = torch.__version__.split("+")[0]
    if found != _TORCH_VERSION:
        raise ImportError(
            f"haloconv needs torch {_TORCH_VERSION}, but torch here is {torch.__version__}"
        )
    path = find()
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(f"haloconv: {path} does not load: {error}") from error
    if not hasattr(torch.ops.haloconv, "conv2d"):
        raise ImportError(
            f"haloconv: {path} registered no operators, for the reason that it warned of"
        )


def run_rewrite() -> None:
    """Becomes the program haloconv-rewrite, which lies beside the library."""
    folder = find().resolve().parent
    for place in (folder.parent / "bin" / _PROGRAM, folder / _PROGRAM):
        if place.is_file():
            os.execv(place, [_PROGRAM, *sys.argv[1:]])
    raise SystemExit(f"{_PROGRAM}: no such program in {folder.parent / 'bin'} or {folder}")
