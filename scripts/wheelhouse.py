"""Makes wheels of what the build needs out of what is installed: pip's isolation downloads none.

wheelhouse.py FOLDER

pip then finds what pyproject.toml names, and what that needs, in the folder. torch, which takes
gigabytes, is only stood for: by a file that leads to this Python's torch, whichever version it is.
"""

import re
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

_ROOT = Path(__file__).resolve().parents[1]
_OF_AN_INSTALLATION = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"}


def _build_requirements() -> list[Requirement]:
    text = (_ROOT / "pyproject.toml").read_text()
    names = re.search(r"^requires = \[(.*)\]", text, re.MULTILINE).group(1)
    return [Requirement(name) for name in re.findall(r'"(.*?)"', names)]


def _with_all_they_need(names: list[str]) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    while names:
        name = names.pop()
        if name not in found:
            found[name] = distribution(name)
            needed = [Requirement(text) for text in found[name].requires or []]
            names += [r.name for r in needed if not r.marker or r.marker.evaluate({"extra": ""})]
    return found


def _write_record(wheel: zipfile.ZipFile, info: str) -> None:
    names = [*wheel.namelist(), f"{info}/RECORD"]
    wheel.writestr(names[-1], "".join(f"{name},,\n" for name in names))


def _repack(folder: Path, installed: Distribution) -> None:
    files = installed.files or []
    (info,) = {path.parts[0] for path in files if path.parts[0].endswith(".dist-info")}
    stem = info.removesuffix(".dist-info")
    made_by_pip = {entry.name for entry in installed.entry_points}
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path in files:
            name = str(path)
            if ".." in path.parts and path.parent.name == "bin":
                name = f"{stem}.data/scripts/{path.name}"
                if path.name in made_by_pip:
                    continue
            if ".." in name or "__pycache__" in name or path.name in _OF_AN_INSTALLATION:
                continue
            wheel.write(path.locate(), name)
        _write_record(wheel, info)


def _stand_for_torch(folder: Path, version: str) -> None:
    alone = folder / "torch"  # no other package of this Python is reached by it
    alone.mkdir()
    (alone / "torch").symlink_to(Path(find_spec("torch").origin).parent)
    info = f"torch-{version}.dist-info"
    tags = "Wheel-Version: 1.0\nGenerator: wheelhouse\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("stand_in_for_torch.pth", f"{alone}\n")
        text = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
        wheel.writestr(f"{info}/METADATA", text)
        wheel.writestr(f"{info}/WHEEL", tags)
        _write_record(wheel, info)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True)
    requirements = {r.name: r for r in _build_requirements()}
    (version,) = (s.version for s in requirements.pop("torch").specifier)
    _stand_for_torch(folder, version)
    # Those of a virtual environment's PATH do not run in isolation: they import what is outside.
    programs = [name for name in ("cmake", "ninja") if find_spec(name)]
    for installed in _with_all_they_need([*requirements, *programs]).values():
        _repack(folder, installed)


if __name__ == "__main__":
    main()
