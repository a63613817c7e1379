"""The Hopper kernels' machine code, read with the disassembler that comes with torch's Triton."""

import importlib.util
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from haloconv import _library


@cache
def functions() -> dict[str, list[str]]:
    """The instructions of each Hopper kernel in the library, by name."""
    triton = importlib.util.find_spec("triton")
    disassembler = triton and Path(triton.origin).parent / "backends/nvidia/bin/cuobjdump"
    if not disassembler or not disassembler.exists():
        pytest.skip("needs cuobjdump, which comes with Triton")
    command = [disassembler, "-sass", "-arch", "sm_90a", os.fspath(_library.find())]
    run = subprocess.run(command, capture_output=True, text=True)
    if "does not contain device code" in run.stderr + run.stdout:
        pytest.skip("the library was built without CUDA")
    assert run.returncode == 0, run.stderr
    found, lines = {}, []
    for line in run.stdout.splitlines():
        if name := re.search(r"Function : (\S+)", line):
            lines = found.setdefault(name.group(1), [])
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            lines.append(instruction.group(1))
    assert found
    kernels = re.compile("gather_kernel|scatter_kernel|wgrad_kernel")
    return {name: lines for name, lines in found.items() if kernels.search(name)}


def test_there_are_the_instances():
    gather, scatter, wgrad = 13, 3, 5
    assert len(functions()) == 2 * (gather + scatter + wgrad)  # with folds, with padding, in boxes


def test_tensor_cores_compute_and_nothing_spills():
    for name, instructions in functions().items():
        assert any("HGMMA" in i for i in instructions), name
        spilled = [i for i in instructions if re.search(r"\b(STL|LDL)\b", i)]
        assert not spilled, f"{name}: {spilled[:4]}"


def test_matrix_instructions_are_not_serialised():
    """The compiler may wait for each by itself; the kernel does so once, after a tile's last."""
    for name, instructions in functions().items():
        drained = [i for i in instructions if re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x0", i)]
        assert len(drained) == 1, name
