#!/usr/bin/env python3
"""Says which kernels' machine code differs between two builds.

    scripts/compare_machine_code.py OLD NEW

OLD and NEW are each a library, an object file, or a folder whose object files (*.o) are read.
Kernels are compared by architecture and demangled name: instructions, scheduling, registers, stack
and shared memory. Two of one name in several files are one if they are the same.

- A kernel whose function or file moved to another namespace is the same kernel: one of OLD that has
  no namesake in NEW is matched with one of NEW by identical code, and the pair is printed.
- One that also changed is matched by its name without namespaces, and reported as changed.
- Offsets into the constant banks that all kernels of a file share (bank 3: __constant__ variables,
  bank 4: addresses) move with the file's other contents. They are numbered as they appear.
- PTX, which a driver compiles on chips that have no machine code here, and the values of constants
  are not compared.
- nvcc is not deterministic for every file: of the depthwise rows in 16-bit types, some kernels come
  out in several forms (CUDA 13.0; up to five in eight compilations of one source). Compile a file
  once more if its kernels changed for no reason.

The exit status is 0 if every kernel of NEW stands in OLD as it is, 1 if some kernel changed or is
new, 2 for a wrong command line or a file that cannot be read. Kernels that only OLD has are listed
and change nothing: NEW may be a few objects of OLD's.
"""

import argparse
import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

FUNCTION = re.compile(r"\s*Function : (\S+)")
RESOURCES = re.compile(r"\s*Function (\S+):$")
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;\s+/\* 0x([0-9a-f]{16}) \*/")
SECOND_WORD = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/")
SHARED_BANK = re.compile(r"c\[0x[34]\]\[0x[0-9a-f]+\]")
SCHEDULING = 41  # the bits of the second word from here on: stalls, barriers, reuse


class Failure(Exception):
    """A message for the user."""


@dataclass(frozen=True)
class Code:
    """One kernel's machine code, as far as it is compared."""

    instructions: int
    digest: str
    resources: str

    def __str__(self):
        return f"{self.instructions} instructions, {self.resources}"


def find_disassembler() -> str:
    if on_path := shutil.which("cuobjdump"):
        return on_path
    triton = importlib.util.find_spec("triton")
    beside_triton = triton and Path(triton.origin).parent / "backends/nvidia/bin/cuobjdump"
    if beside_triton and beside_triton.exists():
        return str(beside_triton)
    raise Failure("needs cuobjdump, on the PATH or with Triton in this Python")


def read_instructions(lines) -> dict[tuple[str, str], tuple[int, str]]:
    """Number and digest of the instructions of each kernel, by architecture and mangled name."""
    found, arch, key, offsets = {}, None, None, {}
    text, first_word = None, None
    count, digest = 0, hashlib.sha256()

    def number(offset: re.Match) -> str:
        return f"shared bank, {offsets.setdefault(offset.group(), len(offsets))}"

    def finish():
        if key is not None:
            found[key] = (count, digest.hexdigest())

    for line in lines:
        if text is not None and (second := SECOND_WORD.match(line)):
            words, numbered = first_word + second.group(1), SHARED_BANK.sub(number, text)
            if numbered != text:  # the words hold the offset; of them only the scheduling counts
                words = f"{numbered} {int(second.group(1), 16) >> SCHEDULING:x}"
            digest.update(f"{words}\n".encode())
            count, text = count + 1, None
        elif instruction := INSTRUCTION.match(line):
            text, first_word = instruction.groups()
        elif line.startswith("arch = "):
            arch = line.removeprefix("arch = ").strip()
        elif function := FUNCTION.match(line):
            finish()
            key, offsets = (arch, function.group(1)), {}
            count, digest = 0, hashlib.sha256()
    finish()
    return found


def read_resources(lines) -> dict[tuple[str, str], str]:
    """Registers and memory of each kernel, in words."""
    found, arch, name = {}, None, None
    for line in lines:
        if line.startswith("arch = "):
            arch = line.removeprefix("arch = ").strip()
        elif function := RESOURCES.match(line):
            name = function.group(1)
        elif name is not None:
            used = dict(re.findall(r"(REG|STACK|SHARED):(\d+)", line))
            found[arch, name] = (
                f"{used['REG']} registers, {used['STACK']} B stack, {used['SHARED']} B shared"
            )
            name = None
    return found


def dump(disassembler: str, file: Path, option: str, read):
    """What `read` makes of the disassembler's output, which can be hundreds of MB."""
    command = [disassembler, option, str(file)]
    with tempfile.TemporaryFile("w+") as stderr:  # warns once a kernel, more than a pipe holds
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as run:
            found = read(run.stdout)
        stderr.seek(0)
        errors = stderr.read()
    if "does not contain device code" in errors:
        return {}
    if run.returncode != 0:
        raise Failure(f"cuobjdump {option} {file}: {errors.strip()}")
    return found


def demangle(names: list[str]) -> list[str]:
    run = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def files_of(path: Path) -> list[Path]:
    if not path.exists():
        raise Failure(f"{path}: no such file or folder")
    return sorted(path.rglob("*.o")) if path.is_dir() else [path]


Kernels = dict[tuple[str, str], frozenset[Code]]


def kernels_of(path: Path, disassembler: str) -> Kernels:
    """By architecture and demangled name. Of one name there may be several, in several files."""
    found = defaultdict(set)
    for file in files_of(path):
        instructions = dump(disassembler, file, "-sass", read_instructions)
        resources = dump(disassembler, file, "-res-usage", read_resources)
        names = demangle([name for _, name in instructions])
        for (key, (count, digest)), name in zip(instructions.items(), names, strict=True):
            found[key[0], name].add(Code(count, digest, resources.get(key, "")))
    if not found:
        raise Failure(f"{path}: no machine code found")
    return {key: frozenset(codes) for key, codes in found.items()}


def without_namespaces(name: str) -> str:
    return re.sub(r"(\(anonymous namespace\)|\b\w+)::", "", name)


@dataclass
class Comparison:
    """Keys are (architecture, name); pairs are of OLD and NEW."""

    same: list = field(default_factory=list)
    changed: list = field(default_factory=list)  # pairs
    renamed: list = field(default_factory=list)  # pairs
    only_old: list = field(default_factory=list)
    only_new: list = field(default_factory=list)

    def __str__(self):
        return (
            f"{len(self.same)} the same, {len(self.renamed)} renamed, {len(self.changed)} changed, "
            f"{len(self.only_new)} only in NEW, {len(self.only_old)} only in OLD"
        )


def pair_up(old: list, new: list, old_group, new_group) -> list[tuple]:
    """Pairs of a group, in order; takes what it pairs out of both lists."""
    waiting, pairs = defaultdict(list), []
    for key in old:
        waiting[old_group(key)].append(key)
    for key in list(new):
        if candidates := waiting[new_group(key)]:
            pairs.append((candidates.pop(0), key))
            old.remove(pairs[-1][0])
            new.remove(key)
    return pairs


def compare(old: Kernels, new: Kernels) -> Comparison:
    result = Comparison()
    for key in sorted(old.keys() & new.keys()):
        if old[key] == new[key]:
            result.same.append(key)
        else:
            result.changed.append((key, key))
    only_old, only_new = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    result.renamed = pair_up(
        only_old, only_new, lambda key: (key[0], old[key]), lambda key: (key[0], new[key])
    )

    def group(key):
        return key[0], without_namespaces(key[1])

    result.changed += pair_up(only_old, only_new, group, group)
    result.only_old, result.only_new = only_old, only_new
    return result


def describe(codes: frozenset[Code]) -> str:
    return " and ".join(sorted(map(str, codes)))


def report(result: Comparison, old: Kernels, new: Kernels):
    for before, after in result.renamed:
        print(f"renamed {before[0]} {before[1]}\n     to {after[0]} {after[1]}")
    for key in result.only_old:
        print(f"only in OLD {key[0]} {key[1]}")
    for key in result.only_new:
        print(f"only in NEW {key[0]} {key[1]}: {describe(new[key])}")
    for before, after in result.changed:
        name = before[1] if before == after else f"{before[1]}, now {after[1]}"
        print(f"changed {before[0]} {name}\n  OLD {describe(old[before])}")
        print(f"  NEW {describe(new[after])}")
    print(result)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", metavar="OLD", type=Path)
    parser.add_argument("new", metavar="NEW", type=Path)
    arguments = parser.parse_args()
    try:
        disassembler = find_disassembler()
        old = kernels_of(arguments.old, disassembler)
        new = kernels_of(arguments.new, disassembler)
    except Failure as failure:
        print(f"compare_machine_code.py: {failure}", file=sys.stderr)
        return 2
    result = compare(old, new)
    report(result, old, new)
    return 1 if result.changed or result.only_new else 0


if __name__ == "__main__":
    sys.exit(main())
