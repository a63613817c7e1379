"""Measures one case: a problem in one direction, haloconv's implementations beside PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from accuracy import relative_errors
from limits import DTYPES, Ceilings, arithmetic_of
from operators import Operands, conv2d_direction, make_operands, run_ours, run_pytorch
from problems import Problem
from timing import Candidate, Timer, Timing, count_sets, time_in_turns

PYTORCH = "PyTorch"
# No arithmetic rounds as badly as this: a larger error is a wrong result.
_WRONG = 0.1


@dataclass(frozen=True)
class Settings:
    dtype: str = "float32"
    tf32: bool = True
    channels_last: bool = False
    implementations: tuple[str, ...] = ("auto",)
    seconds_per_case: float = 1.0
    quick: bool = False

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.dtype, self.tf32)


@dataclass(frozen=True)
class Measurement:
    status: str = "ok"  # "ok", "declined", "out of memory", "skipped" or "error"
    reason: str = ""  # of any other status than ok
    warm: Timing | None = None
    cold: Timing | None = None
    extra_bytes: int | None = None  # peak of device memory above operands and result
    error: float | None = None  # |result - float64| / |float64|


@dataclass(frozen=True)
class Record:
    problem: str
    shape: str
    direction: str
    implementation: str
    plan: str  # what explain says
    limit: float  # seconds; 0 where nothing was measured
    bound: str  # what sets the limit: "bytes" or "FLOP"
    ours: Measurement
    pytorch: Measurement
    mma_sync: float = 0.0  # seconds that mma.sync takes for the FLOP; 0: not measured

    def ratio(self, cache: str = "warm") -> float | None:
        """PyTorch's time over ours; `cache` is "warm" or "cold"."""
        ours, theirs = getattr(self.ours, cache), getattr(self.pytorch, cache)
        return theirs.median / ours.median if ours and theirs else None

    def fraction(self, side: str = "ours", cache: str = "warm") -> float | None:
        """The limit over the time; `side` is "ours" or "pytorch"."""
        timing = getattr(getattr(self, side), cache)
        return self.limit / timing.median if timing else None

    def mma_sync_fraction(self, cache: str = "warm") -> float | None:
        """The time that mma.sync takes for the FLOP over ours."""
        timing = getattr(self.ours, cache)
        return self.mma_sync / timing.median if timing and self.mma_sync else None


def measure_case(
    problem: Problem,
    direction: str,
    settings: Settings,
    ceilings: Ceilings,
    timer: Timer,
    device: torch.device,
    ops: Any,
    force: Callable[[str], AbstractContextManager],
) -> list[Record]:
    """One record for each implementation. `ops` is torch.ops.haloconv, `force` a context.

    What fails is recorded with its reason, whatever it is.
    """
    if problem.is_empty:
        return _all_failed(problem, direction, settings, Measurement("skipped", "no element"))
    try:
        return _measure(problem, direction, settings, ceilings, timer, device, ops, force)
    except RuntimeError as error:
        return _all_failed(problem, direction, settings, failure(error))


def _measure(
    problem: Problem,
    direction: str,
    settings: Settings,
    ceilings: Ceilings,
    timer: Timer,
    device: torch.device,
    ops: Any,
    force: Callable[[str], AbstractContextManager],
) -> list[Record]:
    dtype = DTYPES[settings.dtype]
    sides = {name: Measurement() for name in (*settings.implementations, PYTORCH)}
    plans = dict.fromkeys(settings.implementations, "")
    limit, bound = ceilings.limit(problem, settings.arithmetic, dtype.itemsize)
    mma_sync = problem.flop / ceilings.mma_sync if ceilings.mma_sync else 0.0
    sets = count_sets(problem.activations * dtype.itemsize, timer.cache_bytes)
    operands = make_operands(
        problem,
        direction,
        sets,
        dtype=dtype,
        device=device,
        channels_last=settings.channels_last,
    )

    candidates, results = [], {}
    for candidate in _candidates(problem, direction, settings, operands, ops, force):
        name = candidate.name
        try:
            with candidate.context():
                result, extra_bytes = first_calls(candidate.call, device)
                if name != PYTORCH:  # what those calls found by timing
                    plans[name] = explain(ops, problem, direction, operands[0])
        except torch.AcceleratorError:
            raise  # The device is unusable from here on.
        except RuntimeError as error:
            sides[name] = failure(error)
            continue
        candidates.append(candidate)
        sides[name] = replace(sides[name], extra_bytes=extra_bytes)
        if not settings.quick:
            results[name] = result
        del result

    errors = _errors(problem, direction, operands[0], results)
    del results
    for name, error in errors.items():
        sides[name] = _with_error(sides[name], error)
    candidates = [candidate for candidate in candidates if sides[candidate.name].status == "ok"]
    if candidates:
        share = settings.seconds_per_case * (1.0 if settings.quick else 0.5)
        warm = time_in_turns(candidates, timer, share)
        cold = {} if settings.quick else time_in_turns(candidates, timer, share, cold=True)
        for name in warm:
            sides[name] = replace(sides[name], warm=warm[name], cold=cold.get(name))
    return _records(problem, direction, sides, plans, limit, bound, mma_sync)


def _all_failed(
    problem: Problem, direction: str, settings: Settings, reason: Measurement
) -> list[Record]:
    sides = dict.fromkeys((*settings.implementations, PYTORCH), reason)
    plans = dict.fromkeys(settings.implementations, "")
    return _records(problem, direction, sides, plans, 0.0, "")


def failure(error: Exception) -> Measurement:
    """What to report of a side that raised `error`."""
    if isinstance(error, torch.OutOfMemoryError):
        return Measurement("out of memory", _first_line(str(error)))
    # Forcing an implementation that declines raises its reason.
    status = "declined" if "decline" in str(error) else "error"
    return Measurement(status, _first_line(str(error)))


def first_calls(
    call: Callable[[int], tuple[Tensor, ...]], device: torch.device
) -> tuple[tuple[Tensor, ...], int | None]:
    """A result, and the peak of memory above it; on a CPU, which keeps no count, None.

    Called more than once, so that the choice of plans and the handles that stay do not count.
    """
    call(0)
    if device.type != "cuda":
        return call(0), None
    call(0)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    # Bytes as requested: those allocated include what the allocator rounds up.
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    result = call(0)
    torch.cuda.synchronize()
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    return result, peak - before - sum(t.numel() * t.element_size() for t in result)


def _candidates(
    problem: Problem,
    direction: str,
    settings: Settings,
    operands: Sequence[Operands],
    ops: Any,
    force: Callable[[str], AbstractContextManager],
) -> list[Candidate]:
    def ours(i: int) -> tuple[Tensor, ...]:
        return run_ours(ops, problem, direction, operands[i % len(operands)])

    def theirs(i: int) -> tuple[Tensor, ...]:
        return run_pytorch(problem, direction, operands[i % len(operands)])

    names = settings.implementations
    return [Candidate(name, ours, lambda name=name: force(name)) for name in names] + [
        Candidate(PYTORCH, theirs)
    ]


def explain(ops: Any, problem: Problem, direction: str, operands: Operands) -> str:
    # wgrad computes the bias's gradient too, which its plan depends on.
    channels = problem.c if problem.transposed else problem.k
    bias = operands.weight.new_empty(channels) if direction == "wgrad" else None
    given = operands.rows if problem.pixel_dims == 1 else operands
    input = given.grad_output if problem.transposed else given.input
    name = "explain" if problem.operator == "conv2d" else f"{problem.operator}_explain"
    return getattr(ops, name)(
        input, given.weight, bias, **problem.operator_arguments, direction=direction
    )


def _errors(
    problem: Problem, direction: str, operands: Operands, results: dict[str, tuple[Tensor, ...]]
) -> dict[str, float | None]:
    if not results:
        return {}
    try:
        images = {name: tuple(map(_as_image, tensors)) for name, tensors in results.items()}
        return relative_errors(problem, conv2d_direction(problem, direction), operands, images)
    except torch.OutOfMemoryError:
        return dict.fromkeys(results)


def _as_image(tensor: Tensor) -> Tensor:
    """With the row that a one-dimensional operator's result has not."""
    return tensor.unsqueeze(-2) if tensor.dim() == 3 else tensor


def _with_error(measurement: Measurement, error: float | None) -> Measurement:
    if error is None or error <= _WRONG:
        return replace(measurement, error=error)
    finite = error if math.isfinite(error) else None
    return replace(measurement, status="error", reason=f"wrong result: {error}", error=finite)


def _records(
    problem: Problem,
    direction: str,
    sides: dict[str, Measurement],
    plans: dict[str, str],
    limit: float,
    bound: str,
    mma_sync: float = 0.0,
) -> list[Record]:
    return [
        Record(
            problem.name,
            str(problem),
            direction,
            name,
            plan,
            limit,
            bound,
            ours=sides[name],
            pytorch=sides[PYTORCH],
            mma_sync=mma_sync,
        )
        for name, plan in plans.items()
    ]


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]
