"""For each family, direction, type and layout a problem that it computes, found by `explain`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from operators import DIRECTIONS
from problems import SHAPES, Problem, load

# Those of real sizes.
FILES = tuple(sorted({path.stem for path in SHAPES.glob("*.txt")} - {"edges", "eights", "empty"}))
# Types, and whether float32 may be rounded to TF32.
ARITHMETICS = (
    ("float32", True),
    ("float32", False),
    ("bfloat16", True),
    ("float16", True),
    ("float64", True),
)
# So long that launches hardly count, and so short that many problems can be measured.
_WANTED_SECONDS = 50e-6
_MOST_BYTES = 1 << 30  # of all tensors, in float32


@dataclass(frozen=True)
class Way:
    """One direction in one arithmetic and layout."""

    direction: str
    dtype: str
    tf32: bool
    channels_last: bool


# What `explain` says of a problem.
Explain = Callable[[Problem, Way], str]


@dataclass(frozen=True)
class FamilyCase:
    family: str
    way: Way
    problem: Problem
    is_chosen: bool  # or else it has to be forced
    expected: float  # seconds

    @property
    def preference(self) -> tuple[bool, float]:
        """Of two problems for the same family and way the one with the smaller is taken."""
        return not self.is_chosen, abs(math.log(self.expected / _WANTED_SECONDS))


def takers(explanation: str) -> dict[str, tuple[float, bool]]:
    """The families that run if they are forced: the seconds expected, and whether they are chosen.

    Of a family with its group's name another one of the group runs if that is faster.
    """
    labels = r"((?:\w+, )?\w+)"
    lines = re.findall(rf"^  {labels}: expected ([\d.e+-]+) ms", explanation, re.MULTILINE)
    chosen = re.search(rf"^implementation: {labels}$", explanation, re.MULTILINE)
    replies = [(label.split(", "), label, 1e-3 * float(time)) for label, time in lines]
    least = {names[0]: min(t for others, _, t in replies if others[0] == names[0])
             for names, _, _ in replies}  # fmt: skip
    return {
        names[-1]: (seconds, chosen is not None and label == chosen.group(1))
        for names, label, seconds in replies
        if label != "aten" and (len(names) > 1 or seconds <= least[label])
    }


def conv2d_problems(files: Sequence[str] = FILES) -> list[Problem]:
    """Transposed and one-dimensional ones as the conv2d that they are."""
    problems = [problem for file in files for problem in load(SHAPES / f"{file}.txt")]
    return [
        replace(problem, operator="conv2d")
        for problem in problems
        if not problem.is_empty and problem.bytes(4) <= _MOST_BYTES
    ]


def find(explain: Explain, problems: Sequence[Problem]) -> list[FamilyCase]:
    """In the order of families, then of ways."""
    best: dict[tuple[str, Way], FamilyCase] = {}
    ways = [
        Way(direction, dtype, tf32, channels_last)
        for (dtype, tf32), channels_last, direction in product(
            ARITHMETICS, (False, True), DIRECTIONS
        )
    ]
    for way, problem in product(ways, problems):
        for family, (seconds, is_chosen) in takers(explain(problem, way)).items():
            case = FamilyCase(family, way, problem, is_chosen, seconds)
            known = best.get((family, way))
            if known is None or case.preference < known.preference:
                best[family, way] = case
    return sorted(best.values(), key=lambda case: (case.family, ways.index(case.way)))
