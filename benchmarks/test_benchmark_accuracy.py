"""The float64 reference against its definition, and the errors that follow from it."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from accuracy import channel_blocks, reference_parts, relative_errors
from fakes import CPU, SMALL
from operators import DIRECTIONS, Operands, make_operands, run_aten
from problems import SHAPES, Problem, load

EDGES = {problem.name: problem for problem in load(SHAPES / "edges.txt")}
SLICED = ["four_sided", "groups_odd", "depthwise_x3", "stride_dil", "many_filters", "primes"]


def by_autograd(problem: Problem, direction: str, operands: Operands):
    """The operators' definition: pad everything, convolve, differentiate."""
    top, bottom, left, right = problem.padding
    input, weight = (
        t.detach().double().requires_grad_() for t in (operands.input, operands.weight)
    )
    bias = torch.zeros(problem.k, dtype=torch.float64, requires_grad=True)
    padded = F.pad(input, [left, right, top, bottom])
    output = F.conv2d(padded, weight, bias, problem.stride, 0, problem.dilation, problem.groups)
    if direction == "fprop":
        return (output.detach(),)
    wanted = [input] if direction == "dgrad" else [weight, bias]
    return torch.autograd.grad(output, wanted, operands.grad_output.double())


def operands_of(problem: Problem, direction: str, dtype=torch.float32) -> Operands:
    return make_operands(problem, direction, 1, dtype=dtype, device=CPU)[0]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "problem", [SMALL, *(EDGES[name] for name in SLICED)], ids=lambda p: p.name
)
def test_sliced_reference_is_the_definition(problem, direction):
    operands = operands_of(problem, direction)
    expected = by_autograd(problem, direction, operands)
    # None, one image at a time, and a fifth of an image.
    image_bytes = 8 * (problem.activations + problem.k * problem.p * problem.q) // problem.n
    for slice_bytes in (1 << 40, image_bytes, image_bytes // 5):
        parts = list(reference_parts(problem, direction, operands, slice_bytes))
        results = [torch.full_like(tensor, math.nan) for tensor in expected]
        for index, tensors in parts:
            for result, tensor in zip(results, tensors, strict=True):
                result[index] = tensor
        for result, tensor in zip(results, expected, strict=True):
            # Only the order of float64 sums differs.
            torch.testing.assert_close(result, tensor, rtol=1e-12, atol=1e-11)


def test_small_slices_split_images_and_channels():
    operands = operands_of(SMALL, "fprop")
    assert len(list(reference_parts(SMALL, "fprop", operands))) == 1
    assert len(list(reference_parts(SMALL, "fprop", operands, slice_bytes=1))) == 2 * 2
    ungrouped = EDGES["tails"]
    assert len(channel_blocks(ungrouped, 4)) == 4
    assert len(channel_blocks(ungrouped, 10**6)) == ungrouped.k


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_relative_errors(direction, dtype):
    operands = operands_of(SMALL, direction, dtype)
    exact = by_autograd(SMALL, direction, operands)
    broken = tuple(tensor.clone() for tensor in exact)
    broken[-1].view(-1)[0] = math.nan
    results = {
        "exact": exact,
        "scaled": tuple(1.25 * tensor for tensor in exact),
        "broken": broken,
        "zero": tuple(torch.zeros_like(tensor) for tensor in exact),
    }
    before = [tensor.clone() for tensor in exact]
    errors = relative_errors(SMALL, direction, operands, results, slice_bytes=1000)
    assert errors["exact"] < 1e-14
    assert errors["scaled"] == pytest.approx(0.25, rel=1e-12)
    assert math.isnan(errors["broken"])
    assert errors["zero"] == pytest.approx(1.0)
    assert all(map(torch.equal, exact, before))


def test_error_is_the_worst_tensors():
    operands = operands_of(SMALL, "wgrad")
    weight, bias = by_autograd(SMALL, "wgrad", operands)
    errors = relative_errors(SMALL, "wgrad", operands, {"bias": (weight, 1.5 * bias)})
    assert errors["bias"] == pytest.approx(0.5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("problem", [SMALL, EDGES["plain"], EDGES["four_sided"]], ids=str)
def test_aten_side_computes_the_definition(problem, direction):
    operands = operands_of(problem, direction, torch.float64)
    for result, expected in zip(
        run_aten(problem, direction, operands),
        by_autograd(problem, direction, operands),
        strict=True,
    ):
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-11)
