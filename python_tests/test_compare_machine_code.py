"""scripts/compare_machine_code.py, on canned disassembly and on kernels compiled here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "compare_machine_code.py"

# Prints FILE's text as the disassembler would: the part for the option that it is given.
FAKE_DISASSEMBLER = """#!/bin/sh
test -e "$2$1" || { echo "$2 does not contain device code" >&2; exit 255; }
cat "$2$1"
"""


def compare(old, new, folder=None) -> tuple[int, list[str]]:
    """Exit status and lines; with the fake disassembler in `folder`, if one is given."""
    path = f"{folder}{os.pathsep}{os.environ['PATH']}" if folder else os.environ["PATH"]
    done = subprocess.run(
        [sys.executable, SCRIPT, old, new], capture_output=True, text=True, env={"PATH": path}
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


class Canned:
    """Object files for the fake disassembler."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "cuobjdump").write_text(FAKE_DISASSEMBLER)
        (folder / "cuobjdump").chmod(0o755)

    def file(self, name: str, kernels: dict, arch="sm_90a", registers=32) -> Path:
        """`kernels` is (text, first word, second word) of each instruction, by mangled name."""
        sass = res = f"\nFatbin elf code:\n================\narch = {arch}\n"
        for kernel, instructions in kernels.items():
            sass += f"\t\tFunction : {kernel}\n"
            for i, (text, first, second) in enumerate(instructions):
                sass += f"        /*{i * 16:04x}*/       {text} ;     /* 0x{first:016x} */\n"
                sass += f"                               /* 0x{second:016x} */\n"
            res += f" Function {kernel}:\n  REG:{registers} STACK:0 SHARED:16 LOCAL:0\n"
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        Path(f"{path}-sass").write_text(sass)
        Path(f"{path}-res-usage").write_text(res)
        return path

    def compare(self, old, new):
        return compare(old, new, self.folder)


@pytest.fixture
def canned(tmp_path):
    return Canned(tmp_path)


MOVE = ("MOV R1, R2", 0x1, 0x0000120000000000)
ADD = ("IADD3 R1, R2, R3, RZ", 0x2, 0x0000120000000000)
OLD_F, NEW_F = "_ZN3old1fEi", "_ZN3now1fEi"  # old::f(int), now::f(int)
STALLED = (MOVE[0], MOVE[1], MOVE[2] + (1 << 41))


def load(offset: int, bank: int = 4) -> tuple:
    return (f"LDC R1, c[0x{bank:x}][0x{offset:x}]", offset << 32, 0x0000120000000000)


def test_what_is_the_same(canned):
    a = canned.file("a.o", {OLD_F: [MOVE, ADD]})
    assert canned.compare(a, a) == (
        0,
        ["1 the same, 0 renamed, 0 changed, 0 only in NEW, 0 only in OLD"],
    )


@pytest.mark.parametrize(
    "now", [[ADD, MOVE], [MOVE], [STALLED, ADD], [MOVE, ("IADD3 R1, R2, R3, RZ", 0x3, ADD[2])]]
)
def test_what_changed(canned, now):
    """Order, number, scheduling, and bits that the text does not show."""
    a, b = canned.file("a.o", {OLD_F: [MOVE, ADD]}), canned.file("b.o", {OLD_F: now})
    status, lines = canned.compare(a, b)
    assert status == 1 and lines[0] == "changed sm_90a old::f(int)"
    assert lines[1] == "  OLD 2 instructions, 32 registers, 0 B stack, 16 B shared"
    assert lines[-1] == "0 the same, 0 renamed, 1 changed, 0 only in NEW, 0 only in OLD"


def test_registers_count(canned):
    a = canned.file("a.o", {OLD_F: [MOVE]})
    status, lines = canned.compare(a, canned.file("b.o", {OLD_F: [MOVE]}, registers=40))
    assert status == 1 and "40 registers" in lines[2]


def test_architectures_are_apart(canned):
    a = canned.file("a.o", {OLD_F: [MOVE]})
    status, lines = canned.compare(a, canned.file("b.o", {OLD_F: [MOVE]}, arch="sm_80"))
    assert status == 1 and "only in NEW sm_80 old::f(int)" in lines[1]


def test_a_moved_kernel_is_paired(canned):
    a = canned.file("a.o", {OLD_F: [MOVE], "_ZN3old1gEi": [ADD]})
    b = canned.file("b.o", {"_ZN3now1hEi": [ADD], NEW_F: [MOVE]})
    status, lines = canned.compare(a, b)
    assert status == 0 and lines == [
        "renamed sm_90a old::f(int)",
        "     to sm_90a now::f(int)",
        "renamed sm_90a old::g(int)",
        "     to sm_90a now::h(int)",
        "0 the same, 2 renamed, 0 changed, 0 only in NEW, 0 only in OLD",
    ]


def test_a_moved_kernel_that_changed(canned):
    a, b = canned.file("a.o", {OLD_F: [MOVE]}), canned.file("b.o", {NEW_F: [ADD]})
    status, lines = canned.compare(a, b)
    assert status == 1 and lines[0] == "changed sm_90a old::f(int), now now::f(int)"


def test_kernels_of_one_side(canned):
    a = canned.file("a.o", {OLD_F: [MOVE]})
    b = canned.file("b.o", {OLD_F: [MOVE], "_Z1gi": [ADD]})
    assert canned.compare(a, b)[0] == 1  # new code
    status, lines = canned.compare(b, a)
    assert status == 0 and lines[0] == "only in OLD sm_90a g(int)"


def test_offsets_that_only_move(canned):
    """Numbered as they appear: another order of the same offsets is another kernel."""
    a = canned.file("a.o", {OLD_F: [load(8), load(16), load(8)]})
    moved = canned.file("moved.o", {OLD_F: [load(32), load(24), load(32)]})
    swapped = canned.file("swapped.o", {OLD_F: [load(8), load(16), load(16)]})
    own = [canned.file(f"own{i}.o", {OLD_F: [load(i, bank=2)]}) for i in (8, 16)]
    assert canned.compare(a, moved)[0] == 0
    assert canned.compare(a, swapped)[0] == 1
    assert canned.compare(*own)[0] == 1  # bank 2 is the kernel's alone: its offsets do not move


def test_folders(canned):
    canned.file("old/a.o", {OLD_F: [MOVE]})
    canned.file("old/b.o", {OLD_F: [MOVE], "_Z1gi": [ADD]})
    (canned.folder / "old" / "host.o").touch()
    new = canned.file("new/c.o", {OLD_F: [MOVE], "_Z1gi": [ADD]}).parent
    status, lines = canned.compare(canned.folder / "old", new)
    assert status == 0 and lines[-1].startswith("2 the same, 0 renamed, 0 changed")


@pytest.mark.parametrize("what", ["absent", "without code"])
def test_what_cannot_be_read(canned, what):
    a = canned.file("a.o", {OLD_F: [MOVE]})
    b = canned.folder / "b.o"
    if what == "without code":
        b.touch()
    status, lines = canned.compare(a, b)
    assert status == 2 and str(b) in lines[0]


def has_disassembler() -> bool:
    code = f"import runpy; runpy.run_path({str(SCRIPT)!r})['find_disassembler']()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.skipif(not has_disassembler(), reason="needs cuobjdump")
def test_kernels_compiled_here(tmp_path):
    def compiled(name, source):
        (tmp_path / f"{name}.cu").write_text(source)
        command = ["nvcc", "-arch=sm_90a", "-c", f"{name}.cu", "-o", f"{name}.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
        return tmp_path / f"{name}.o"

    kernel = "__global__ void %s(float* x) { x[threadIdx.x] += table[%d]; }\n"
    old = compiled("old", "__constant__ float table[8];\nnamespace a {" + kernel % ("f", 1) + "}")
    # Another file, another namespace, and a constant before the one that the kernel reads.
    new = "__constant__ float more[8];\n__constant__ float table[8];\nnamespace b {%s%s}"
    more = "__global__ void g(float* x) { x[0] = more[1]; }\n"
    moved = compiled("moved", new % (more, kernel % ("f", 1)))
    status, lines = compare(old, moved)
    assert status == 1 and lines[:2] == [
        "renamed sm_90a a::f(float*)",
        "     to sm_90a b::f(float*)",
    ]
    assert lines[-1] == "0 the same, 1 renamed, 0 changed, 1 only in NEW, 0 only in OLD"
    squared = "namespace a { __global__ void f(float* x) { x[threadIdx.x] *= x[threadIdx.x]; } }"
    assert compare(old, compiled("changed", squared))[0] == 1
    assert compare(old, old)[0] == 0
