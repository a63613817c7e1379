"""Stands for a GPU and for haloconv, so that the benchmark runs on any CPU."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import run
from limits import Ceilings
from operators import Operands, run_aten
from problems import Problem, parse

CPU = torch.device("cpu")
SMALL = parse("small n2c4h6w7 k6r3s2 stride=2,1 pad=0,1,2,0 groups=2 # everything uneven")
H200 = Ceilings(copy=4.30e12, products={"tf32": 413e12})


class FakeTimer:
    """Seconds by the implementation that is forced; None is PyTorch. Notes its calls."""

    cache_bytes = 0

    def __init__(self, seconds: dict[str | None, float], forced: list[str | None]):
        self.durations, self.forced = seconds, forced
        self.calls: list[tuple[str | None, int, bool]] = []

    def seconds(self, call, launches: int, cold: bool) -> float:
        call(launches - 1)
        self.calls.append((self.forced[-1], launches, cold))
        return self.durations[self.forced[-1]] * (2 if cold else 1)


class FakeHaloconv:
    """Stands in for torch.ops.haloconv; computes by aten what `problem` says."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.forced: list[str | None] = [None]

    @contextmanager
    def force(self, name: str):
        self.forced.append(name)
        try:
            yield
        finally:
            self.forced.pop()

    def conv2d(self, input, weight, bias, **arguments):
        return self._run("fprop", Operands(input, weight), arguments)[0]

    def conv2d_dgrad(self, grad_output, weight, input_size, **arguments):
        shape = (grad_output.shape[0], self.problem.c, *input_size)
        operands = Operands(grad_output.new_empty(shape), weight, grad_output)
        return self._run("dgrad", operands, arguments)[0]

    def conv2d_wgrad_bias(self, grad_output, input, kernel_size, **arguments):
        shape = (*self.problem.weight_shape[:2], *kernel_size)
        return self._run("wgrad", Operands(input, input.new_empty(shape), grad_output), arguments)

    def explain(self, input, weight, bias, stride, padding, dilation, groups, direction):
        """In the words of haloconv's on a GPU; "auto" chooses generic."""
        problem = f"{direction} {self.problem} float32"
        if self.forced[-1] == "declining":
            return f"{problem}\nimplementation: none\n  declining: declined, a reason\n"
        chosen = "generic" if self.forced[-1] == "auto" else self.forced[-1]
        plan = f"{direction} kernel=128x128{'' if bias is None else ' with_bias'} workspace=73728"
        text = f"{problem}\nimplementation: {chosen}\n"
        text += f"  {chosen}: expected 1.2 ms, {plan}\n  aten: expected 3 ms\n"
        if input.dtype == torch.float32 and torch.backends.cudnn.allow_tf32:
            text += "float32: in full, though TF32 is allowed\n"
        return text

    def _run(self, direction, operands, arguments):
        assert arguments == self.problem.arguments
        if self.forced[-1] == "declining":
            raise RuntimeError("haloconv: declining declines this problem: a reason\nmore")
        if self.forced[-1] == "broken":
            raise RuntimeError("launch failed")
        results = run_aten(self.problem, direction, operands)
        return tuple(2 * r for r in results) if self.forced[-1] == "wrong" else results


def made_up_device(
    monkeypatch: pytest.MonkeyPatch, folder: Path, durations: dict[str | None, float]
) -> list[str]:
    """run.main()'s arguments for SMALL on a device that takes so long."""
    haloconv = FakeHaloconv(SMALL)
    timer = FakeTimer(durations, haloconv.forced)
    shapes = folder / "shapes.txt"
    shapes.write_text(f"small {SMALL} # any\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(run, "cuda_device", lambda: CPU)
    monkeypatch.setattr(run, "CudaTimer", lambda device: timer)
    monkeypatch.setattr(run, "describe", lambda device, commit: {"device": "A Device"})
    monkeypatch.setattr(run, "measure_ceilings", lambda *arguments: H200)
    monkeypatch.setattr(run, "load_haloconv", lambda: (haloconv, haloconv.force))
    monkeypatch.setattr(run, "is_usable", lambda device: True)
    monkeypatch.setattr(run, "_PAUSE_SECONDS", 0)
    return ["--shapes", str(shapes), "--output", str(folder), "--seconds-per-case", "0"]
