"""The reference problems, checked at sampled elements; exact, since all values are integers."""

import random

import pytest
import torch
import torch.nn.functional as F

import haloconv
from shapes import REFERENCE, name_of
from support import dtype_name, needs_gpu

pytestmark = needs_gpu

SAMPLES = 24
assert all(problem.groups == 1 for problem in REFERENCE)


@pytest.fixture(autouse=True)
def generic():
    with haloconv.implementation("generic"):
        yield
    torch.cuda.empty_cache()


def random_integers(shape, dtype, seed):
    """Of -1, 0 and 1: small enough for the long sums of a weight gradient to fit in float16."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=generator, device="cuda", dtype=torch.int8).to(
        dtype
    )


def padded(problem, x):
    top, bottom, left, right = problem.padding
    return F.pad(x, (left, right, top, bottom))


def rows_and_columns(problem, r, s):
    """The slices of the padded input that filter tap (r, s) meets, (p) by (q)."""
    (sh, sw), (dh, dw) = problem.stride, problem.dilation
    rows = slice(r * dh, r * dh + sh * (problem.p - 1) + 1, sh)
    columns = slice(s * dw, s * dw + sw * (problem.q - 1) + 1, sw)
    return rows, columns


def positions(shape):
    """The first and last element and some between."""
    chosen = random.Random(0)
    inner = [tuple(chosen.randrange(size) for size in shape) for _ in range(SAMPLES)]
    return [(0,) * len(shape), tuple(size - 1 for size in shape), *inner]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=dtype_name)
@pytest.mark.parametrize("problem", REFERENCE, ids=name_of)
def test_fprop(problem, dtype):
    x = random_integers(problem.input_shape, dtype, 0)
    w = random_integers(problem.weight_shape, dtype, 1)
    y = torch.ops.haloconv.conv2d(x, w, None, **problem.arguments)
    (sh, sw), (dh, dw) = problem.stride, problem.dilation
    x = padded(problem, x)
    for n, p, q in positions((problem.n, problem.p, problem.q)):
        rows = slice(p * sh, p * sh + dh * (problem.r - 1) + 1, dh)
        columns = slice(q * sw, q * sw + dw * (problem.s - 1) + 1, dw)
        expected = (x[n, :, rows, columns].double() * w.double()).sum((1, 2, 3))  # (k)
        assert torch.equal(y[n, :, p, q], expected.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=dtype_name)
@pytest.mark.parametrize("problem", REFERENCE, ids=name_of)
def test_dgrad(problem, dtype):
    g = random_integers(problem.output_shape, dtype, 0)
    w = random_integers(problem.weight_shape, dtype, 1)
    size = [problem.h, problem.w]
    dx = torch.ops.haloconv.conv2d_dgrad(g, w, size, **problem.arguments)
    (sh, sw), (dh, dw) = problem.stride, problem.dilation
    top, _, left, _ = problem.padding
    for n, h, column in positions((problem.n, problem.h, problem.w)):
        expected = torch.zeros(problem.c, dtype=torch.float64, device="cuda")
        for r in range(problem.r):
            for s in range(problem.s):
                p, p_rest = divmod(h + top - r * dh, sh)
                q, q_rest = divmod(column + left - s * dw, sw)
                if not p_rest and not q_rest and 0 <= p < problem.p and 0 <= q < problem.q:
                    expected += g[n, :, p, q].double() @ w[:, :, r, s].double()
        assert torch.equal(dx[n, :, h, column], expected.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=dtype_name)
@pytest.mark.parametrize("problem", REFERENCE, ids=name_of)
def test_wgrad_and_bias(problem, dtype):
    g = random_integers(problem.output_shape, dtype, 0)
    x = random_integers(problem.input_shape, dtype, 1)
    size = [problem.r, problem.s]
    dw, db = torch.ops.haloconv.conv2d_wgrad_bias(g, x, size, **problem.arguments)
    assert torch.equal(dw, torch.ops.haloconv.conv2d_wgrad(g, x, size, **problem.arguments))
    x = padded(problem, x)
    for k, c, r, s in positions(problem.weight_shape):
        rows, columns = rows_and_columns(problem, r, s)
        expected = (g[:, k].double() * x[:, c, rows, columns].double()).sum()
        assert torch.equal(dw[k, c, r, s], expected.to(dtype))
    for k in (0, problem.k // 2, problem.k - 1):
        assert torch.equal(db[k], g[:, k].double().sum().to(dtype))
