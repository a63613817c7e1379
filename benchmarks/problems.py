"""Convolution problems, read from the text files in cpp_tests/shapes (format: reference.txt)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

SHAPES = Path(__file__).resolve().parent.parent / "cpp_tests" / "shapes"

_LINE = re.compile(
    r"(?P<name>\w+)\s+n(?P<n>\d+)c(?P<c>\d+)h(?P<h>\d+)w(?P<w>\d+)"
    r"\s+k(?P<k>\d+)r(?P<r>\d+)s(?P<s>\d+)(?P<options>(?:\s+\w+=[\d,]+)*)\s*#\s*(?P<reason>\S.*)"
)
# An option's name in the files, its name here, and its number of values.
_OPTIONS = {
    "stride": ("stride", 2),
    "pad": ("padding", 4),
    "dil": ("dilation", 2),
    "groups": ("groups", 1),
}


@dataclass(frozen=True)
class Problem:
    """input (n, c, h, w) * weight (k, c / groups, r, s) -> output (n, k, p, q).

    Of a transposed operator, this is the convolution whose input's gradient it is: its input is
    (n, k, p, q), its result (n, c, h, w). A one-dimensional operator's tensors have no row.
    """

    name: str
    n: int
    c: int
    h: int
    w: int
    k: int
    r: int
    s: int
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, bottom, left, right
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    reason: str = ""
    operator: str = "conv2d"

    @property
    def transposed(self) -> bool:
        return "transpose" in self.operator

    @property
    def pixel_dims(self) -> int:
        return 1 if self.operator.endswith("1d") else 2

    @property
    def p(self) -> int:
        top, bottom, _, _ = self.padding
        reach = self.dilation[0] * (self.r - 1) + 1
        return (self.h + top + bottom - reach) // self.stride[0] + 1

    @property
    def q(self) -> int:
        _, _, left, right = self.padding
        reach = self.dilation[1] * (self.s - 1) + 1
        return (self.w + left + right - reach) // self.stride[1] + 1

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        return (self.n, self.c, self.h, self.w)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return (self.k, self.c // self.groups, self.r, self.s)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        return (self.n, self.k, self.p, self.q)

    @property
    def flop(self) -> int:
        """Two per multiply-add, those on padding included; the same in each direction."""
        return 2 * self.n * self.k * self.p * self.q * (self.c // self.groups) * self.r * self.s

    def bytes(self, element_size: int) -> int:
        """Input, weight and output, each once; the same in each direction."""
        return element_size * (self.activations + _product(self.weight_shape))

    @property
    def activations(self) -> int:
        """Elements of input and output."""
        return _product(self.input_shape) + _product(self.output_shape)

    @property
    def is_empty(self) -> bool:
        return self.flop == 0

    @property
    def has_even_padding(self) -> bool:
        top, bottom, left, right = self.padding
        return top == bottom and left == right

    @property
    def arguments(self) -> dict[str, list[int] | int]:
        """The keyword arguments of haloconv's operators; aten's too where the padding is even."""
        top, _, left, _ = self.padding
        return {
            "stride": list(self.stride),
            "padding": [top, left] if self.has_even_padding else list(self.padding),
            "dilation": list(self.dilation),
            "groups": self.groups,
        }

    @property
    def output_padding(self) -> list[int]:
        """Of the transposed operator: what makes its result h rows and w columns."""
        sizes = zip((self.h, self.w), (self.p, self.q), (self.r, self.s), range(2), strict=True)
        return [
            size + sum(self.padding[2 * i : 2 * i + 2]) - 1
            - (pixels - 1) * self.stride[i] - (taps - 1) * self.dilation[i]
            for size, pixels, taps, i in sizes
        ]  # fmt: skip

    @property
    def operator_arguments(self) -> dict[str, list[int] | int]:
        """The keyword arguments of the operator itself."""
        arguments = self.arguments
        if self.transposed:
            arguments["output_padding"] = self.output_padding
        if self.pixel_dims == 1:  # the columns' halves
            for name, value in arguments.items():
                arguments[name] = value if name == "groups" else value[len(value) // 2 :]
        return arguments

    def __str__(self) -> str:
        """The line of a shape file, without name and reason."""
        line = f"n{self.n}c{self.c}h{self.h}w{self.w} k{self.k}r{self.r}s{self.s}"
        for option, (member, _) in _OPTIONS.items():
            value = getattr(self, member)
            if value != getattr(Problem, member):
                text = str(value) if option == "groups" else ",".join(map(str, value))
                line += f" {option}={text}"
        return line


def parse(line: str) -> Problem:
    """One line of a shape file; ValueError says what is wrong with it."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise ValueError(f"expected 'name n_c_h_w_ k_r_s_ [option=...] # reason', got '{line}'")
    fields = match.groupdict()
    problem = {"name": fields["name"], "reason": fields["reason"]}
    problem |= {dimension: int(fields[dimension]) for dimension in "nchwkrs"}
    for option in fields["options"].split():
        name, _, text = option.partition("=")
        if name not in _OPTIONS:
            raise ValueError(f"unknown option '{name}', expected one of {', '.join(_OPTIONS)}")
        member, count = _OPTIONS[name]
        values = tuple(int(value) for value in text.split(","))
        if len(values) != count:
            raise ValueError(f"'{name}' takes {count} values, got '{text}'")
        problem[member] = values if count > 1 else values[0]
    return Problem(**problem)


def load(path: str | Path) -> list[Problem]:
    """The problems of a shape file, in its order.

    They are conv2d's, but those of transposed.txt and one_dimensional.txt.
    """
    stem = Path(path).stem
    problems = []
    for number, line in enumerate(Path(path).read_text().splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                problem = parse(line)
            except ValueError as error:
                raise ValueError(f"{Path(path).name}:{number}: {error}") from None
            problems.append(replace(problem, operator=_operator(stem, problem)))
    return problems


def _operator(stem: str, problem: Problem) -> str:
    """By the file that the problem is in; a transposed one of a single row is one-dimensional."""
    if stem == "one_dimensional":
        return "conv1d"
    if stem == "transposed":
        has_one_row = problem.h == problem.r == 1
        return "conv_transpose1d" if has_one_row else "conv_transpose2d"
    return "conv2d"


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
