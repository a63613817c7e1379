"""The transposed and one-dimensional operators, measured as conv2d is, beside PyTorch's."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

import haloconv
from cases import PYTORCH, Settings, measure_case
from fakes import CPU, H200, FakeTimer
from operators import DIRECTIONS, make_operands, run_ours, run_pytorch
from problems import SHAPES, load, parse

SMALL = {
    "conv_transpose2d": "up n2c4h7w9 k6r3s4 stride=2,3 pad=0,1,2,0 groups=2 # everything uneven",
    "conv1d": "row n2c4h1w9 k6r1s3 stride=1,2 pad=0,0,3,0 dil=1,2 groups=2 # causal",
    "conv_transpose1d": "up_row n2c4h1w11 k6r1s4 stride=1,3 pad=0,0,1,0 # output padding",
}
PROBLEMS = [replace(parse(line), operator=operator) for operator, line in SMALL.items()]
FILES = [p for name in ("transposed", "one_dimensional") for p in load(SHAPES / f"{name}.txt")]


def test_each_shape_has_its_operator():
    counts = Counter(problem.operator for problem in FILES)
    assert counts.keys() == SMALL.keys() and counts["conv_transpose1d"] == 3
    assert {problem.operator for problem in load(SHAPES / "networks.txt")} == {"conv2d"}


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("problem", FILES, ids=lambda problem: problem.name)
def test_real_sizes_have_one_shape(problem, direction, channels_last):
    meta = torch.device("meta")
    (operands,) = make_operands(
        problem, direction, 1, dtype=torch.float32, device=meta, channels_last=channels_last
    )
    ours = run_ours(torch.ops.haloconv, problem, direction, operands)
    theirs = run_pytorch(problem, direction, operands)
    assert [t.numel() for t in ours] == [t.numel() for t in theirs]
    if direction == "fprop":
        assert ours[0].shape == theirs[0].shape and ours[0].dim() == 2 + problem.pixel_dims


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.operator)
def test_a_case_from_end_to_end(problem, direction):
    timer = FakeTimer({None: 1e-3}, [None])
    settings = Settings(seconds_per_case=0.0)
    (record,) = measure_case(
        problem, direction, settings, H200, timer, CPU, torch.ops.haloconv, haloconv.implementation
    )
    assert record.ours.status == record.pytorch.status == "ok", record
    # float32 sums of at most 60 products.
    assert 0 < record.ours.error < 1e-6 and 0 < record.pytorch.error < 1e-6
    assert record.direction == direction and record.ratio() == 1.0
    assert "aten" in record.plan


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.operator)
def test_gradients_are_autograd_s(problem):
    """What is timed as a backward pass is what autograd computes of PyTorch's function."""
    (operands,) = make_operands(problem, "wgrad", 1, dtype=torch.float64, device=CPU)
    given = operands.rows if problem.pixel_dims == 1 else operands
    tensors = (given.input, given.grad_output)
    x, g = reversed(tensors) if problem.transposed else tensors
    leaves = (x.requires_grad_(), given.weight.requires_grad_())
    y = getattr(torch.ops.haloconv, problem.operator)(
        x, given.weight, None, **problem.operator_arguments
    )
    expected = torch.autograd.grad(y, leaves, g)
    for direction, gradient in zip(("dgrad", "wgrad"), expected, strict=True):
        for name, results in (
            ("ours", run_ours(torch.ops.haloconv, problem, direction, operands)),
            (PYTORCH, run_pytorch(problem, direction, operands)),
        ):
            torch.testing.assert_close(results[0].view_as(gradient), gradient, msg=name)
