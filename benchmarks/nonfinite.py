"""What infinities and NaN cost: times of one direction with them over the time without.

- an infinity in the last corner of the tensor that the direction reads;
- a hundred of them, scattered;
- 0.05 % and 1 % of all values, infinities of both signs;
- the last column, all infinite, where zeros of a kernel's own are nearest;
- NaN alone, and infinities alone, which is what an overflowed step of mixed precision leaves;
- one infinite weight, where the direction reads the weight;
- a hundred infinities and 1 % in the output's gradient, where that is the second tensor.

A few such values should cost no more than 1.2 times the time without, any values no more than 3
times. The plan is the same for all: it is chosen before. Prints a table and, with --output, writes
it as NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product

import torch
from torch import Tensor

import tables
from environment import describe, find_device
from limits import DTYPES, allow_tf32, arithmetic_of
from operators import DIRECTIONS, Operands, make_operands, run_haloconv
from problems import Problem
from report import implementation_of
from run import choose_problems, load_haloconv
from timing import Candidate, Timer, time_in_turns, timer_for

FINITE = "finite"
CASES = (
    "corner",
    "hundred",
    "0.05 %",
    "1 %",
    "last column",
    "all NaN",
    "all infinite",
    "weight",
    "gradient, hundred",
    "gradient, 1 %",
)
# Beside the reference problems, layers whose rows end amid a kernel's tile or not, of few pixels
# and of many: infinities that are few among an image's are many among a layer's of 7x7.
LAYERS = (
    "resnet50_2_3x3",
    "resnet50_3_3x3_first",
    "resnet50_3_3x3",
    "resnet50_4_3x3",
    "resnet50_5_3x3",
    "vgg16_3",
    "unet_128_b",
)


@dataclass
class Case:
    """One direction of one problem."""

    problem: str
    direction: str
    arithmetic: str
    implementation: str
    seconds: dict[str, float] = field(default_factory=dict)  # of FINITE and CASES
    explanation: str = ""  # what ran, and why

    def ratio(self, name: str) -> float | None:
        return self.seconds[name] / self.seconds[FINITE] if name in self.seconds else None


def corner(tensor: Tensor) -> None:
    tensor[-1, -1, -1, -1] = math.inf


def scatter(tensor: Tensor, count: int, both_signs: bool) -> None:
    """As many infinities, or fewer where two fall on one place."""
    generator = torch.Generator().manual_seed(1)
    places = torch.randint(tensor.numel(), (count,), generator=generator).to(tensor.device)
    elements = tensor.as_strided((tensor.numel(),), (1,))  # of a dense tensor, in any order
    elements[places] = math.inf
    if both_signs:
        elements[places[::2]] = -math.inf


def hundred(tensor: Tensor) -> None:
    scatter(tensor, 100, both_signs=False)


def share(of: float) -> Callable[[Tensor], None]:
    return lambda tensor: scatter(tensor, math.ceil(of * tensor.numel()), both_signs=True)


def last_column(tensor: Tensor) -> None:
    tensor[..., -1] = math.inf


def weight(tensor: Tensor) -> None:
    tensor[0, 0, 0, 0] = math.inf


def changes(
    direction: str, operands: Operands
) -> Iterator[tuple[str, Tensor, Callable[[Tensor], object]]]:
    """The name of a case, the tensor that it changes, and how."""
    read = operands.grad_output if direction == "dgrad" else operands.input
    yield "corner", read, corner
    yield "hundred", read, hundred
    yield "0.05 %", read, share(0.0005)
    yield "1 %", read, share(0.01)
    yield "last column", read, last_column
    yield (
        "all NaN",
        read if operands.grad_output is None else operands.grad_output,
        lambda tensor: tensor.fill_(math.nan),
    )
    yield "all infinite", read, lambda tensor: tensor.fill_(math.inf)
    if direction != "wgrad":
        yield "weight", operands.weight, weight
    elif operands.grad_output is not None:
        yield "gradient, hundred", operands.grad_output, hundred
        yield "gradient, 1 %", operands.grad_output, share(0.01)


def problems_of(shapes: Sequence[str] | None, only: Sequence[str] | None) -> list[Problem]:
    if shapes is not None:
        return choose_problems(shapes, only)
    if only is not None:
        return choose_problems(["reference", "networks"], only)
    return choose_problems(["reference"]) + choose_problems(["networks"], LAYERS)


def measure(
    problem: Problem,
    direction: str,
    dtype: str,
    tf32: bool,
    forced: str,
    timer: Timer,
    seconds: float,
    device: torch.device,
    channels_last: bool = False,
) -> Case:
    import haloconv

    (operands,) = make_operands(
        problem, direction, 1, dtype=DTYPES[dtype], device=device, channels_last=channels_last
    )
    with haloconv.implementation(forced):
        explanation = torch.ops.haloconv.explain(
            operands.input, operands.weight, None, **problem.arguments, direction=direction
        )
        case = Case(
            problem.name,
            direction,
            arithmetic_of(dtype, tf32),
            implementation_of(explanation),
            explanation=explanation,
        )

        def time_as(name: str) -> None:
            def call(_: int) -> object:
                return run_haloconv(torch.ops.haloconv, problem, direction, operands)

            call(0)
            timing = time_in_turns([Candidate(name, call)], timer, seconds)[name]
            case.seconds[name] = timing.least

        time_as(FINITE)
        for name, tensor, change in changes(direction, operands):
            kept = tensor.clone()
            change(tensor)
            time_as(name)
            tensor.copy_(kept)
    return case


def report(cases: Sequence[Case]) -> str:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    header = ["problem", "direction", "arithmetic", "implementation", "finite, ms", *CASES]
    rows = [
        [
            case.problem,
            case.direction,
            case.arithmetic,
            case.implementation,
            f"{1e3 * case.seconds[FINITE]:.3f}",
            *(number(case.ratio(name)) for name in CASES),
        ]
        for case in cases
    ]
    return tables.table(header, rows, texts=4)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    tables.add_options(parser, "nonfinite")
    tables.add_device(parser)
    add = parser.add_argument
    add("--shapes", nargs="+", metavar="FILE", help="as run.py takes them; default: see --only")
    add(
        "--only",
        nargs="+",
        metavar="NAME",
        help="problems to take (default: all of --shapes; without it the reference problems and "
        + ", ".join(LAYERS)
        + ")",
    )
    add("--implementation", default="sm90", metavar="NAME", help="haloconv's to force")
    add("--directions", nargs="+", default=list(DIRECTIONS), choices=DIRECTIONS)
    add("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=list(DTYPES))
    add("--no-tf32", action="store_true", help="float32 is not rounded")
    add("--channels-last", action="store_true", help="instead of NCHW")
    add("--seconds-per-case", type=float, default=0.2, metavar="N")
    options = parser.parse_args(arguments)
    device = find_device(options.device)
    if device is None:
        return 0
    load_haloconv()
    allow_tf32(not options.no_tf32)
    timer = timer_for(device)
    cases = []
    for problem in problems_of(options.shapes, options.only):
        for dtype, direction in product(options.dtypes, options.directions):
            case = measure(
                problem,
                direction,
                dtype,
                not options.no_tf32,
                options.implementation,
                timer,
                options.seconds_per_case,
                device,
                options.channels_last,
            )
            cases.append(case)
    text = report(cases)
    environment = describe(device, options.commit)
    tables.save(options, environment, {"cases": [asdict(case) for case in cases]}, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
