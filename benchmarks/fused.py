"""Times conv2d_fused (bias, a residual added, relu) beside what it stands for.

- conv2d with bias, of the same implementation, and the time that the residual's bytes take at the
  rate at which the device copies: with fusion this sum is all there should be to pay;
- torch.conv2d with cudnn.benchmark, then PyTorch's add_ and relu_, in place;
- PyTorch's own fused operator, cudnn_convolution_add_relu.

Prints a table and, with --output, writes it as NAME.json and NAME.md. On a CPU all compute alike.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

import tables
from cases import failure
from environment import describe, find_device
from problems import Problem
from report import implementation_of
from run import choose_problems, load_haloconv
from timing import Candidate, Timer, time_in_turns, timer_for

CONV, FUSED = "conv2d", "conv2d_fused"
PYTORCH, CUDNN = "PyTorch", "cudnn_convolution_add_relu"


@dataclass
class Case:
    """What was measured for one problem."""

    problem: str
    residual: float  # seconds that its bytes take
    implementation: str = ""
    # Between conv2d_fused and conv2d, add_, relu_: the largest difference, over the largest value.
    difference: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # of those without a time

    def share(self) -> float | None:
        """conv2d_fused's time as a part of conv2d's and the residual's."""
        if not {CONV, FUSED} <= self.seconds.keys():
            return None
        return self.seconds[FUSED] / (self.seconds[CONV] + self.residual)

    def ratio(self, name: str) -> float | None:
        """Its time over conv2d_fused's."""
        if not {name, FUSED} <= self.seconds.keys():
            return None
        return self.seconds[name] / self.seconds[FUSED]


class Operands:
    """Of one problem, and the calls on them."""

    def __init__(self, problem: Problem, device: torch.device) -> None:
        def random(shape: Sequence[int]) -> Tensor:
            return torch.randn(shape, device=device)

        self.settings = problem.arguments
        self.x, self.w = random(problem.input_shape), random(problem.weight_shape)
        self.b, self.residual = random((problem.k,)), random(problem.output_shape)

    def explain(self) -> str:
        return torch.ops.haloconv.explain(self.x, self.w, self.b, **self.settings)

    def conv2d(self, _: int = 0) -> Tensor:
        return torch.ops.haloconv.conv2d(self.x, self.w, self.b, **self.settings)

    def conv2d_fused(self, _: int = 0) -> Tensor:
        return torch.ops.haloconv.conv2d_fused(
            self.x, self.w, self.b, **self.settings, residual=self.residual, activation="relu"
        )

    def pytorch(self, _: int = 0) -> Tensor:
        if len(sides := self.settings["padding"]) == 4:  # which would be haloconv's operator
            raise RuntimeError(f"PyTorch pads opposite sides alike, which padding={sides} does not")
        return torch.conv2d(self.x, self.w, self.b, **self.settings).add_(self.residual).relu_()

    def cudnn(self, _: int = 0) -> Tensor:
        return torch.cudnn_convolution_add_relu(
            self.x, self.w, self.residual, 1.0, self.b, **self.settings
        )

    def difference(self) -> float:
        expected = self.conv2d().add_(self.residual).relu_()
        largest = expected.max()  # none is negative
        # In place: square_3x3's results take 8.6 GB each.
        return (expected.sub_(self.conv2d_fused()).abs_().max() / largest).item()


def measure(
    problem: Problem,
    device: torch.device,
    forced: str,
    timer: Timer,
    seconds: float,
    copy_rate: float,
) -> Case:
    import haloconv

    operands = Operands(problem, device)
    # Read once. A copy's rate counts bytes read and written.
    residual = operands.residual
    case = Case(problem.name, residual.numel() * residual.element_size() / copy_rate)
    candidates = [
        Candidate(CONV, operands.conv2d, lambda: haloconv.implementation(forced)),
        Candidate(FUSED, operands.conv2d_fused, lambda: haloconv.implementation(forced)),
        Candidate(PYTORCH, operands.pytorch),
        Candidate(CUDNN, operands.cudnn),
    ]
    able = []
    for candidate in candidates:
        try:
            with candidate.context():
                for _ in range(2):
                    candidate.call(0)
            able.append(candidate)
        except RuntimeError as error:
            case.reasons[candidate.name] = failure(error).reason
    with haloconv.implementation(forced):
        if not {CONV, FUSED} & case.reasons.keys():
            case.implementation = implementation_of(operands.explain())
            case.difference = operands.difference()
    timings = time_in_turns(able, timer, seconds)
    case.seconds = {name: timing.median for name, timing in timings.items()}
    return case


def report(cases: Sequence[Case]) -> str:
    def milliseconds(case: Case, name: str) -> str:
        return f"{1e3 * case.seconds[name]:.3f}" if name in case.seconds else "failed"

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    header = ["problem", "implementation", "conv2d_fused, ms", "conv2d", "residual", "share"]
    header += ["PyTorch", "ratio", "cuDNN's fused", "ratio", "difference"]
    rows = [
        [
            case.problem,
            case.implementation,
            milliseconds(case, FUSED),
            milliseconds(case, CONV),
            f"{1e3 * case.residual:.3f}",
            number(case.share()),
            milliseconds(case, PYTORCH),
            number(case.ratio(PYTORCH)),
            milliseconds(case, CUDNN),
            number(case.ratio(CUDNN)),
            "" if case.difference is None else f"{case.difference:.1e}",
        ]
        for case in cases
    ]
    reasons = [
        f"- {case.problem}, {name}: {why[:200]}"
        for case in cases
        for name, why in case.reasons.items()
    ]
    notes = (
        "share: conv2d_fused's time over that of conv2d and of the residual's bytes together. "
        "ratio: the time to the left over conv2d_fused's. difference: the largest between "
        "conv2d_fused's result and that of conv2d, add_ and relu_, over the largest value."
    )
    return "\n".join([tables.table(header, rows, texts=2), "", notes, *reasons])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    tables.add_options(parser, "fused")
    tables.add_device(parser)
    add = parser.add_argument
    add("--shapes", nargs="+", default=["reference"], metavar="FILE", help="as run.py takes them")
    add("--only", nargs="+", metavar="NAME", help="problems to take (default: all)")
    add("--implementation", default="auto", metavar="NAME", help="haloconv's to force")
    add("--seconds-per-case", type=float, default=1.0, metavar="N")
    add("--copy-rate", type=float, default=4.3, metavar="TB/S", help="(default: 4.3, an H200's)")
    options = parser.parse_args(arguments)
    device = find_device(options.device)
    if device is None:
        return 0
    load_haloconv()
    torch.backends.cudnn.benchmark = True
    timer = timer_for(device)
    environment = describe(device, options.commit)
    cases = []
    for problem in choose_problems(options.shapes, options.only):
        time.sleep(0.2)
        case = measure(
            problem,
            device,
            options.implementation,
            timer,
            options.seconds_per_case,
            1e12 * options.copy_rate,
        )
        cases.append(case)
        # After each case, so that a run that is cut off leaves what it measured.
        record = {"copy_rate": 1e12 * options.copy_rate, "cases": [asdict(c) for c in cases]}
        tables.save(options, environment, record, report(cases))
    print(report(cases))
    return int(any(FUSED in case.reasons for case in cases))


if __name__ == "__main__":
    sys.exit(main())
