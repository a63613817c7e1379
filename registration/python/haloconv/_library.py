"""Finds libhaloconv.so and loads it into torch."""

import os
import re
import sys
from pathlib import Path

import torch

_FILE = "libhaloconv.so.0"  # a wheel has it under no other name
_VARIABLE = "HALOCONV_LIBRARY"
_PROGRAM = "haloconv-rewrite"
_PACKAGE = Path(__file__).resolve().parent
_BUILT_FOR = re.compile(rb"haloconv is built for torch (\d+\.\d+), CUDA (\d+|none);")


def _torch_minor() -> str:
    """The part of torch's version with which its C++ interface changes, such as 2.11."""
    return ".".join(torch.__version__.split(".")[:2])


def _places() -> dict[str, Path]:
    """The paths where the library may be, by their descriptions; the first that exists is taken."""
    chosen = os.environ.get(_VARIABLE)
    if chosen:
        return {f"the environment's {_VARIABLE}": Path(chosen)}
    return {
        "the installed package": _PACKAGE / "lib" / f"torch{_torch_minor()}" / _FILE,
        "the source tree's build": _PACKAGE.parents[2] / "build" / "registration" / _FILE,
    }


def found_in() -> str:
    """Which of the places the library is in, in words."""
    return next(name for name, place in _places().items() if place == find())


def _installed_minors() -> list[str]:
    """The torch versions that the installed package has a library for."""
    folders = (_PACKAGE / "lib").glob("torch*")
    minors = [folder.name.removeprefix("torch") for folder in folders]
    return sorted(minors, key=lambda minor: [int(number) for number in minor.split(".")])


def _mismatch(path: Path) -> str:
    """How the torch here differs from the one that a library is for; "" if it does not.

    This reads the file, because a library for another torch may not load, and then says less. For
    those who load it without this package, the library itself compares what is loaded.
    """
    match = _BUILT_FOR.search(path.read_bytes())
    if match is None:
        return ""
    minor, cuda = (text.decode() for text in match.groups())
    if minor != _torch_minor():
        return f"it is for torch {minor}, but torch here is {torch.__version__}"
    if cuda == "none":
        return ""
    if torch.version.cuda is None:
        return (
            f"it is for a torch of CUDA {cuda}, but torch here ({torch.__version__}) has no CUDA. "
            f"Install a torch with CUDA {cuda}, or a haloconv that is built with HALOCONV_CUDA=OFF"
        )
    if cuda != torch.version.cuda.split(".")[0]:
        return (
            f"it is for a torch of CUDA {cuda}, but torch here ({torch.__version__}) is for "
            f"{torch.version.cuda}"
        )
    return ""


def find() -> Path:
    """The library's path: the environment's, or the wheel's, or that of the source tree's build.

    Raises ImportError, naming each place looked at, if there is none.
    """
    chosen, places = os.environ.get(_VARIABLE), _places().values()
    for place in places:
        if place.is_file():
            return place
    others = _installed_minors()
    if others and not chosen:
        raise ImportError(
            f"haloconv: this installation is for torch {', '.join(others)}, but torch here is "
            f"{torch.__version__}. Install one of these, or build haloconv with your torch."
        )
    looked_at = "".join(f"\n  {place}" for place in places)
    raise ImportError(
        f"haloconv: {_FILE} was not found. Looked at:{looked_at}\n"
        f"Build it, or set {_VARIABLE} to its path (now {chosen!r})."
    )


def cmake_prefix_path() -> str | None:
    """The prefix of the installation in which the library is; None if it is in none."""
    folders = find().resolve().parents  # of lib/, or of lib/torch2.11/
    prefixes = [folder for folder in folders[1:3] if (folder / "include" / "haloconv").is_dir()]
    return str(prefixes[0]) if prefixes else None


def load() -> None:
    """Loads the library. Raises ImportError if it cannot, or if it is for another torch."""
    path = find()
    mismatch = _mismatch(path)
    if mismatch:
        raise ImportError(f"haloconv: {path} cannot be used: {mismatch}.")
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(f"haloconv: {path} does not load: {error}") from error
    if not hasattr(torch.ops.haloconv, "conv2d"):
        raise ImportError(
            f"haloconv: {path} registered no operators, for the reason that it warned of"
        )


def run_rewrite() -> None:
    """Becomes the program haloconv-rewrite, which is beside the library."""
    folder = find().resolve().parent
    for place in (folder.parent / "bin" / _PROGRAM, folder / _PROGRAM):
        if place.is_file():
            os.execv(place, [_PROGRAM, *sys.argv[1:]])
    raise SystemExit(f"{_PROGRAM}: no such program in {folder.parent / 'bin'} or {folder}")
