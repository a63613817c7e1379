"""Fused convolutions by the Hopper implementation."""

import pytest
import torch
import torch.nn.functional as F

import haloconv
from hopper import cuda_operands, declined, explain, needs_hopper
from problems import SHAPES, load
from shapes import EDGES, name_of
from support import LAYOUTS, assert_equal, dtype_name, exact_result, integers, normals

pytestmark = needs_hopper

ops = torch.ops.haloconv

EXACT_ACTIVATIONS = {
    "none": ((), lambda y: y),
    "relu": ((), F.relu),
    "leaky_relu": ((0.25,), lambda y: F.leaky_relu(y, 0.25)),
    "clamp": ((-5, 6), lambda y: y.clamp(-5, 6)),
    "relu6": ((), F.relu6),
}


@pytest.mark.parametrize("name", EXACT_ACTIVATIONS)
@pytest.mark.parametrize("problem", EDGES, ids=name_of)
def test_fused_small_integers_are_exact(problem, name):
    if declined(problem):
        return
    arguments, function = EXACT_ACTIVATIONS[name]
    x, w, b, residual = cuda_operands(problem)
    scale, shift = (integers((problem.k,), seed).float().cuda() / 2 for seed in (8, 9))
    with haloconv.implementation("sm90"):
        y = ops.conv2d_fused(
            x, w, b, **problem.arguments, scale=scale, shift=shift, residual=residual,
            activation=name, activation_arguments=arguments,
        )  # fmt: skip
        plain = ops.conv2d(x, w, b, **problem.arguments)
    exact = exact_result(problem)
    k = (slice(None), None, None)
    exact = exact * scale.double().cpu()[k] + shift.double().cpu()[k] + residual.double().cpu()
    assert_equal(y.cpu().double(), function(exact))
    assert y.stride() == plain.stride()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_a_fused_residual(layout, sm90):
    x, w = integers((2, 16, 12, 20)).float().cuda(), integers((32, 16, 3, 3), 1).float().cuda()
    residual = LAYOUTS[layout](integers((2, 32, 12, 20), 2).float().cuda())
    y = haloconv.conv2d_fused(x, w, padding=1, residual=residual, activation="relu")
    assert_equal(y, F.relu(haloconv.conv2d(x, w, padding=1) + residual))
    y = haloconv.conv2d_fused(x[0], w, padding=1, residual=residual[0], activation="relu")
    assert_equal(y, F.relu(haloconv.conv2d(x[0], w, padding=1) + residual[0]))


@pytest.mark.parametrize(
    ("name", "arguments", "function"),
    [
        ("leaky_relu", (), F.leaky_relu),
        ("hardtanh", (), F.hardtanh),
        ("sigmoid", (), torch.sigmoid),
        ("tanh", (), torch.tanh),
        ("silu", (), F.silu),
        ("gelu", (), F.gelu),
        ("gelu_tanh", (), lambda y: F.gelu(y, approximate="tanh")),
        ("hardswish", (), F.hardswish),
        ("hardsigmoid", (), F.hardsigmoid),
        ("mish", (), F.mish),
        ("elu", (0.5,), lambda y: F.elu(y, 0.5)),
    ],
)
def test_fused_activations(name, arguments, function, sm90):
    """From -32 to 32 in steps that TF32 holds, infinities and NaN, by a filter of one pixel."""
    ramp = torch.arange(-256, 257) / 8
    special = torch.tensor([float("-inf"), float("inf"), float("nan")])
    x = torch.cat([ramp, special]).cuda().view(1, 1, 1, -1)
    w = torch.ones(1, 1, 1, 1, device="cuda")
    y = haloconv.conv2d_fused(x, w, activation=name, activation_arguments=arguments)
    plain = haloconv.conv2d(x, w)
    exact = function(plain.double())
    error = (y - exact).abs()[exact.isfinite()]
    eps = torch.finfo(torch.float32).eps
    assert (error <= 8 * eps * plain.abs()[exact.isfinite()].clamp_min(1)).all()
    limits = slice(-3, -1)
    torch.testing.assert_close(y[..., limits], function(plain)[..., limits], equal_nan=True)
    assert y[..., -1].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=dtype_name)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("sigmoid", torch.sigmoid),
        ("silu", F.silu),
        ("gelu", F.gelu),
        ("gelu_tanh", lambda y: F.gelu(y, approximate="tanh")),
    ],
)
def test_fused_activations_of_16_bits(name, function, dtype, sm90):
    """As exact as rounding allows: what kernels with channels innermost compute is approximate."""
    numbers = torch.cat([torch.arange(-256, 257) / 16, torch.tensor([1e4, -1e4])])
    special = torch.tensor([float("-inf"), float("inf"), float("nan")])
    ramp = torch.cat([numbers, special]).to("cuda", dtype)
    x = torch.zeros(1, 8, 1, len(ramp), dtype=dtype, device="cuda")
    x = x.contiguous(memory_format=torch.channels_last)
    x[0, 0, 0] = ramp
    w = torch.eye(8, dtype=dtype, device="cuda").view(8, 8, 1, 1)
    w = w.contiguous(memory_format=torch.channels_last)
    y = haloconv.conv2d_fused(x, w, activation=name)[0, 0, 0]
    exact = function(ramp.double())
    finite = slice(0, len(numbers))
    # Half a unit in the last place, and 0.02 more.
    allowed = exact.abs() * (0.52 * torch.finfo(dtype).eps) + 1e-7
    assert ((y.double() - exact).abs() <= allowed)[finite].all()
    torch.testing.assert_close(y[-3:].double(), exact[-3:], equal_nan=True)


def test_fused_tiles_follow_each_other(sm90):
    """Blocks compute several tiles of several windows: the lead of a math group is kept."""
    x, w = integers((8, 64, 96, 128)).float().cuda(), integers((64, 64, 3, 3), 1).float().cuda()
    residual = integers((8, 64, 96, 128), 2).float().cuda()
    y = haloconv.conv2d_fused(x, w, padding=1, residual=residual, activation="relu")
    assert_equal(y, F.relu(haloconv.conv2d(x, w, padding=1) + residual))


def test_fused_problems_with_splits(sm90):
    """A plan that splits its channels has the epilogue after the kernel: the result is the same."""
    problem = next(p for p in load(SHAPES / "networks.txt") if "splits=" in explain(p))
    x, w, b, residual = cuda_operands(problem)
    y = ops.conv2d_fused(x, w, b, **problem.arguments, residual=residual, activation="relu")
    assert_equal(y, F.relu(ops.conv2d(x, w, b, **problem.arguments) + residual))


def test_fused_results_repeat(sm90):
    x, w = normals((2, 32, 40, 40)).float().cuda(), normals((64, 32, 3, 3), 1).float().cuda()
    residual = normals((2, 64, 38, 38), 2).float().cuda()
    first = haloconv.conv2d_fused(x, w, residual=residual, activation="mish")
    for _ in range(5):
        assert_equal(haloconv.conv2d_fused(x, w, residual=residual, activation="mish"), first)
