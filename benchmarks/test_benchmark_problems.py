"""Problems, their files and their limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from fakes import CPU, H200, SMALL, FakeTimer
from limits import Ceilings, allow_tf32, arithmetic_of, measure_ceilings
from problems import SHAPES, Problem, load, parse

REFERENCE = {problem.name: problem for problem in load(SHAPES / "reference.txt")}
EDGES = load(SHAPES / "edges.txt")


def test_parse_reads_every_field():
    line = "name n1c2h3w4 k5r6s7 stride=1,2 pad=3,4,5,6 dil=7,8 groups=2   # the reason"
    expected = Problem("name", 1, 2, 3, 4, 5, 6, 7, (3, 4, 5, 6), (1, 2), (7, 8), 2, "the reason")
    assert parse(line) == expected


@pytest.mark.parametrize(
    "line, message",
    [
        ("name n1c1h1w1 k1r1s1", "expected 'name"),  # no reason
        ("name n1c1h1 k1r1s1 # reason", "expected 'name"),
        ("name n1c1h1w1 k1r1s1 padding=1,1,1,1 # reason", "unknown option 'padding'"),
        ("name n1c1h1w1 k1r1s1 pad=1,1 # reason", "'pad' takes 4 values"),
        ("name n1c1h1w1 k1r1s1 groups=1,1 # reason", "'groups' takes 1 values"),
    ],
)
def test_parse_says_what_is_wrong(line, message):
    with pytest.raises(ValueError, match=message):
        parse(line)


def test_load_names_file_and_line(tmp_path):
    (tmp_path / "shapes.txt").write_text("# comment\n\na n1c1h1w1 k1r1s1 # fine\nb # not\n")
    with pytest.raises(ValueError, match=r"shapes\.txt:4: "):
        load(tmp_path / "shapes.txt")


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.txt")), ids=lambda path: path.stem)
def test_shape_files_are_well_formed(path):
    problems = load(path)
    assert problems
    assert len({problem.name for problem in problems}) == len(problems)
    for problem in problems:
        assert problem.c % problem.groups == 0 and problem.k % problem.groups == 0
        assert problem.p > 0 and problem.q > 0
        again = parse(f"{problem.name} {problem} # {problem.reason}")
        assert replace(again, operator=problem.operator) == problem


@pytest.mark.parametrize("problem", [*EDGES, SMALL], ids=lambda problem: problem.name)
def test_output_shape_is_torchs(problem):
    top, bottom, left, right = problem.padding
    padded = torch.empty(
        problem.n, problem.c, problem.h + top + bottom, problem.w + left + right, device="meta"
    )
    weight = torch.empty(problem.weight_shape, device="meta")
    output = F.conv2d(padded, weight, None, problem.stride, 0, problem.dilation, problem.groups)
    assert tuple(output.shape) == problem.output_shape


@pytest.mark.parametrize(
    "name, gigaflop, limit_ms, bound",
    [
        ("square_3x3", 616, 2.24, "bytes"),
        ("asym_5x7", 583, 1.41, "FLOP"),
        ("dilated_5x9", 372, 0.90, "FLOP"),
        ("asym_5x9", 378, 0.91, "FLOP"),
    ],
)
def test_limits_of_the_reference_problems(name, gigaflop, limit_ms, bound):
    problem = REFERENCE[name]
    seconds, binding = H200.limit(problem, "tf32", 4)
    assert round(problem.flop / 1e9) == gigaflop
    assert (round(1e3 * seconds, 2), binding) == (limit_ms, bound)


def test_bytes_count_each_tensor_once():
    input, weight, output = 2 * 4 * 6 * 7, 6 * 2 * 3 * 2, 2 * 6 * 3 * 8
    assert SMALL.output_shape == (2, 6, 3, 8)
    assert SMALL.bytes(4) == 4 * (input + weight + output)
    assert SMALL.flop == 2 * output * 2 * 3 * 2


def test_arguments_keep_two_values_where_padding_is_even():
    assert REFERENCE["dilated_5x9"].arguments["padding"] == [2, 4]
    assert SMALL.arguments["padding"] == [0, 1, 2, 0]


def test_fp32_ceiling_is_the_larger_of_its_own_and_a_third_of_tf32():
    assert Ceilings(1, {"fp32": 51.0, "tf32": 414.0}).arithmetic_rate("fp32") == 138.0
    assert Ceilings(1, {"fp32": 51.0, "tf32": 60.0}).arithmetic_rate("fp32") == 51.0
    assert Ceilings(1, {"tf32": 413.0}).arithmetic_rate("tf32") == 413.0


def test_arithmetic():
    assert arithmetic_of("float32", True) == "tf32"
    assert arithmetic_of("float32", False) == "fp32"
    assert [arithmetic_of(d, True) for d in ("float64", "float16", "bfloat16")] == [
        "fp64",
        "fp16",
        "bf16",
    ]


@pytest.fixture
def keep_precision():
    settings = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)
    before = [setting.fp32_precision for setting in settings]
    yield settings
    for setting, precision in zip(settings, before, strict=True):
        setting.fp32_precision = precision


def test_tf32_is_set_for_convolutions_and_products(keep_precision):
    for allowed, precision in ((True, "tf32"), (False, "ieee")):
        allow_tf32(allowed)
        assert [setting.fp32_precision for setting in keep_precision] == [precision, precision]


def test_ceilings_follow_from_times(keep_precision):
    timer = FakeTimer({None: 1e-3}, [None])
    ceilings = measure_ceilings("fp32", timer, CPU, copy_bytes=4096, product_size=16)
    assert ceilings.copy == pytest.approx(2 * 4096 / 1e-3)
    assert ceilings.products == pytest.approx(dict.fromkeys(("tf32", "fp32"), 2 * 16**3 / 1e-3))
    # The cases that follow compute in fp32.
    assert [setting.fp32_precision for setting in keep_precision] == ["ieee", "ieee"]
