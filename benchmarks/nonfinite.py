"""What infinities and NaN cost: times of one direction with them over the time without.

- an infinity in the last corner of the tensor that the direction reads;
- a hundred of them, scattered;
- 0.05 % and 1 % of all values, infinities of both signs;
- the last column, all infinite, where zeros of a kernel's own are nearest;
- NaN alone, and infinities alone, which is what an overflowed step of mixed precision leaves;
- one infinite weight, where the direction reads the weight;
- a hundred infinities and 1 % in the output's gradient, where that is the second tensor.

A few such values should cost no more than 1.2 times the time without, any values no more than 3
times. The plan is the same for all: it is chosen before. With --families there is a problem for
each family, direction, type and layout, if possible one that the family is chosen for. Prints a
table and what is worst of each family and, with --output, writes both as NAME.json and NAME.md.
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

import family_cases
import tables
from cases import explain
from environment import describe, find_device
from family_cases import Explain, Way
from limits import DTYPES, allow_tf32, arithmetic_of
from operators import DIRECTIONS, Operands, make_operands, run_haloconv
from problems import Problem
from report import label_of
from run import choose_problems, load_haloconv
from timing import Candidate, Timer, time_in_turns, timer_for

FINITE = "finite"
FEW, ANY = 1.2, 3.0  # times as long, at most
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
FEW_CASES = ("corner", "hundred", "weight", "gradient, hundred")
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
# Beside a problem for each family: images so small that of a few infinities most blocks meet some.
SMALL_IMAGES = ("convnext_384_depthwise", "convnext_768_depthwise")
SMALL_IMAGES_WAY = Way("fprop", "bfloat16", tf32=True, channels_last=True)


@dataclass
class Case:
    """One direction of one problem."""

    problem: str
    direction: str
    arithmetic: str
    implementation: str  # group and family
    innermost: str = "rows"  # or "channels"
    seconds: dict[str, float] = field(default_factory=dict)  # of FINITE and CASES
    explanation: str = ""  # what ran, and why; without those that another excludes by force

    def ratio(self, name: str) -> float | None:
        return self.seconds[name] / self.seconds[FINITE] if name in self.seconds else None

    def worst(self, few: bool) -> tuple[float, str]:
        """The largest ratio of the cases of a few values, or of all others, and its name."""
        names = [name for name in self.seconds if name in CASES and (name in FEW_CASES) == few]
        return max(((self.ratio(name) or 0.0, name) for name in names), default=(0.0, ""))


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


def without_excluded(explanation: str) -> str:
    lines = explanation.splitlines(keepends=True)
    return "".join(line for line in lines if "another implementation is forced" not in line)


def measure(
    problem: Problem,
    way: Way,
    forced: str,
    timer: Timer,
    seconds: float,
    device: torch.device,
) -> Case:
    import haloconv

    allow_tf32(way.tf32)
    (operands,) = make_operands(
        problem,
        way.direction,
        1,
        dtype=DTYPES[way.dtype],
        device=device,
        channels_last=way.channels_last,
    )
    with haloconv.implementation(forced):
        explanation = explain(torch.ops.haloconv, problem, way.direction, operands)
        case = Case(
            problem.name,
            way.direction,
            arithmetic_of(way.dtype, way.tf32),
            label_of(explanation),
            "channels" if way.channels_last else "rows",
            explanation=without_excluded(explanation),
        )

        def time_as(name: str) -> None:
            def call(_: int) -> object:
                return run_haloconv(torch.ops.haloconv, problem, way.direction, operands)

            call(0)
            timing = time_in_turns([Candidate(name, call)], timer, seconds)[name]
            case.seconds[name] = timing.least

        time_as(FINITE)
        for name, tensor, change in changes(way.direction, operands):
            kept = tensor.clone()
            change(tensor)
            time_as(name)
            tensor.copy_(kept)
    return case


def explain_on(device: torch.device) -> Explain:
    """Of tensors whose values nobody reads."""

    def explain_way(problem: Problem, way: Way) -> str:
        allow_tf32(way.tf32)
        layout = torch.channels_last if way.channels_last else torch.contiguous_format

        def empty(shape: tuple[int, ...]) -> Tensor:
            dtype = DTYPES[way.dtype]
            return torch.empty(shape, dtype=dtype, device=device, memory_format=layout)

        operands = Operands(empty(problem.input_shape), empty(problem.weight_shape))
        return explain(torch.ops.haloconv, problem, way.direction, operands)

    return explain_way


def report(cases: Sequence[Case]) -> str:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    header = ["problem", "direction", "arithmetic", "innermost", "implementation", "finite, ms"]
    rows = [
        [
            case.problem,
            case.direction,
            case.arithmetic,
            case.innermost,
            case.implementation,
            f"{1e3 * case.seconds[FINITE]:.3f}",
            *(number(case.ratio(name)) for name in CASES),
        ]
        for case in cases
    ]
    return tables.table([*header, *CASES], rows, texts=5)


def summary(cases: Sequence[Case]) -> str:
    """The worst of each implementation, and how many of its cases take too long."""
    header = ["implementation", "cases", "a few values, at most", f"over {FEW}"]
    header += ["any values, at most", f"over {ANY:.0f}", "the worst of any"]
    rows = []
    for implementation in dict.fromkeys(case.implementation for case in cases):
        own = [case for case in cases if case.implementation == implementation]
        few, any_values = ([case.worst(few)[0] for case in own] for few in (True, False))
        worst = max(own, key=lambda case: case.worst(few=False))
        rows.append(
            [
                implementation,
                str(len(own)),
                f"{max(few):.2f}",
                str(sum(ratio > FEW for ratio in few)),
                f"{max(any_values):.2f}",
                str(sum(ratio > ANY for ratio in any_values)),
                f"{worst.worst(few=False)[1]}: {worst.problem} {worst.direction} "
                f"{worst.arithmetic}, {worst.innermost}",
            ]
        )
    return tables.table(header, rows)


def to_measure(options: argparse.Namespace, device: torch.device) -> list[tuple[Problem, Way, str]]:
    """Problems, the ways to compute them, and what is forced."""
    if options.families is not None:
        explain_way = explain_on(device)
        found = family_cases.find(explain_way, family_cases.conv2d_problems())
        cases = [
            (case.problem, case.way, case.family)
            for case in found
            if not options.families or case.family in options.families
        ]
        if not options.families:
            for problem in choose_problems(["networks"], SMALL_IMAGES):
                replies = family_cases.takers(explain_way(problem, SMALL_IMAGES_WAY))
                chosen = [family for family, (_, is_chosen) in replies.items() if is_chosen]
                cases += [(problem, SMALL_IMAGES_WAY, family) for family in chosen]
        return cases
    return [
        (
            problem,
            Way(direction, dtype, not options.no_tf32, options.channels_last),
            options.implementation,
        )
        for problem in problems_of(options.shapes, options.only)
        for dtype, direction in product(options.dtypes, options.directions)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a case failed."""
    options = parse_arguments(arguments)
    device = find_device(options.device)
    if device is None:
        return 0
    load_haloconv()
    timer = timer_for(device)
    environment = describe(device, options.commit)
    cases: list[Case] = []
    failed = 0
    text = ""
    for problem, way, forced in to_measure(options, device):
        try:
            cases.append(measure(problem, way, forced, timer, options.seconds_per_case, device))
        except torch.AcceleratorError:
            raise  # The device is unusable from here on.
        except RuntimeError as error:
            print(f"{problem.name} {way} {forced}: {error}", file=sys.stderr)
            failed += 1
            continue
        # A run that is cut off leaves what it measured.
        text = f"{report(cases)}\n\n{summary(cases)}"
        tables.save(options, environment, {"cases": [asdict(case) for case in cases]}, text)
    print(text)
    return int(failed > 0)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
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
    add(
        "--families",
        nargs="*",
        metavar="NAME",
        help="instead of these a problem for each direction, type and layout of the families "
        "named, or of all",
    )
    add("--implementation", default="sm90", metavar="NAME", help="haloconv's to force")
    add("--directions", nargs="+", default=list(DIRECTIONS), choices=DIRECTIONS)
    add("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=list(DTYPES))
    add("--no-tf32", action="store_true", help="float32 is not rounded")
    add("--channels-last", action="store_true", help="instead of NCHW")
    add("--seconds-per-case", type=float, metavar="N", help="default: 0.2, of --families 0.02")
    options = parser.parse_args(arguments)
    if options.seconds_per_case is None:
        options.seconds_per_case = 0.2 if options.families is None else 0.02
    return options


if __name__ == "__main__":
    sys.exit(main())
