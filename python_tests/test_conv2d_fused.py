"""conv2d_fused against what it stands for: values and errors."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import haloconv
from fused_calls import ACTIVATIONS, Activation, composed
from shapes import EDGES, name_of
from support import (
    FLOATS,
    LAYOUTS,
    Target,
    assert_equal,
    integers,
    needs_gpu,
    operands,
    pytorch_conv2d,
)

ops = torch.ops.haloconv

EXACT = [a for a in ACTIVATIONS if a.exact]


def halves(shape, seed: int) -> Tensor:
    """Multiples of a half: products with integers, and their sums, are exact."""
    return integers(shape, seed) / 2


@pytest.mark.parametrize("activation", EXACT, ids=str)
@pytest.mark.parametrize("problem", EDGES, ids=name_of)
def test_exact_on_every_edge(problem, activation, target):
    x, w, b, residual = (t.to(target.device) for t in operands(problem))
    extras = {
        "scale": halves((problem.k,), 4).to(target.device),
        "shift": halves((problem.k,), 5).to(target.device),
        "residual": residual,
    }
    y = ops.conv2d_fused(x, w, b, **problem.arguments, **extras, **activation.named)
    extras["residual"] = residual.cpu()
    extras = {name: value.cpu() for name, value in extras.items()}
    plain = pytorch_conv2d(x.cpu(), w.cpu(), b.cpu(), problem)
    # cuDNN may transform the operands, which rounds; a wrong term is wrong by a quarter.
    rounds = 1e-9 if target.implementation == "aten" else 0
    torch.testing.assert_close(y.cpu(), composed(activation, plain, **extras), rtol=0, atol=rounds)


@pytest.mark.parametrize("unbatched", [False, True])
@pytest.mark.parametrize("given", range(16))
def test_every_choice_of_operands(given, unbatched, target):
    x, w = integers((2, 4, 6, 5)), integers((6, 2, 3, 2), 1)
    b, scale, shift = integers((6,), 2), halves((6,), 3), halves((6,), 4)
    residual = integers((2, 6, 4, 4), 5)
    if unbatched:
        x, residual = x[0], residual[0]
    b, scale, shift, residual = (
        t.to(target.device) if given >> i & 1 else None
        for i, t in enumerate((b, scale, shift, residual))
    )
    x, w = x.to(target.device), w.to(target.device)
    extras = {"scale": scale, "shift": shift, "residual": residual}
    y = haloconv.conv2d_fused(x, w, b, groups=2, **extras, activation="relu")
    plain = haloconv.conv2d(x, w, b, groups=2)
    relu = Activation("relu", (), F.relu, True)
    # cuDNN may transform the operands, which rounds; a wrong term is wrong by 1.
    torch.testing.assert_close(y, composed(relu, plain, **extras), rtol=0, atol=1e-9)
    assert y.stride() == plain.stride()


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_values_of_every_activation(activation, dtype, target):
    """From -30 to 30 through a filter of one pixel, and infinities."""
    x = torch.cat([torch.linspace(-30, 30, 2001), torch.tensor([float("-inf"), float("inf")])])
    x = x.to(target.device, dtype).view(1, 1, 1, -1)
    w = torch.ones(1, 1, 1, 1, dtype=dtype, device=target.device)
    y = haloconv.conv2d_fused(x, w, **activation.named)
    exact = activation.function(x.double().cpu())
    error = (y.double().cpu() - exact)[exact.isfinite()].abs()
    tolerance = 8 * torch.finfo(dtype).eps
    limits_tolerance = 0.0
    if activation.name in ("hardsigmoid", "hardswish") and target == Target("cuda", "aten"):
        # Its kernels have 1/6 in float32, in float64 too.
        limits_tolerance = tolerance = max(tolerance, 8 * torch.finfo(torch.float32).eps)
    assert (error <= tolerance * exact[exact.isfinite()].abs().clamp_min(1)).all(), error.max()
    # On a CPU, aten's float32 gelu of infinity is NaN.
    limits = activation.function(x if target.device == "cpu" else x.double().cpu())[..., -2:]
    torch.testing.assert_close(
        y[..., -2:].cpu(), limits.to(dtype), rtol=limits_tolerance, atol=0, equal_nan=True
    )


# Channels in, filters, groups: for the kernels of few and of many channels.
GROUPINGS = {"dense": (4, 40, 1), "grouped": (8, 12, 2), "depthwise": (6, 6, 6), "x3": (3, 9, 3)}


def exact_operands(grouping: str, dtype: torch.dtype, device: str, channels_last: bool = False):
    """A call's tensors, and conv2d's exact result.

    The sums and all that is made of them before the activation are multiples of a half below 128:
    exact in every dtype, rounded or not in between.
    """
    c, k, groups = GROUPINGS[grouping]
    x, w = integers((2, c, 9, 7), bound=1), integers((k, c // groups, 3, 3), 1, bound=1)
    tensors = {
        "input": x.contiguous(memory_format=torch.channels_last) if channels_last else x,
        "weight": w,
        "bias": integers((k,), 2),
        "scale": halves((k,), 3),
        "shift": halves((k,), 4),
        "residual": integers((2, k, 9, 7), 5),
    }
    exact = F.conv2d(x, w, tensors["bias"], padding=1, groups=groups)
    arguments = {"padding": 1, "groups": groups}
    return {n: t.to(device, dtype) for n, t in tensors.items()}, arguments, exact


@pytest.fixture(
    params=[Target("cpu", "auto"), pytest.param(Target("cuda", "generic"), marks=needs_gpu)],
    ids=str,
)
def own_target(request):
    """Where no sum is rounded but by its dtype; cuDNN may transform the operands."""
    with haloconv.implementation(request.param.implementation):
        yield request.param


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_every_activation_of_every_dtype_and_grouping(activation, dtype, grouping, own_target):
    """With and without a scale, a shift and a residual, in both layouts."""
    for channels_last in (False, True):
        tensors, arguments, exact = exact_operands(
            grouping, dtype, own_target.device, channels_last
        )
        convolution = {n: tensors[n] for n in ("input", "weight", "bias")}
        plain = haloconv.conv2d(**convolution, **arguments)
        for given in ((), ("scale", "shift"), ("residual",), ("scale", "shift", "residual")):
            extras = {n: tensors[n] for n in given}
            y = haloconv.conv2d_fused(**convolution, **arguments, **extras, **activation.named)
            before = composed(
                Activation("none", (), lambda x: x, True),
                exact,
                **{n: t.double().cpu() for n, t in extras.items()},
            )
            assert before.abs().max() < 128
            expected = activation.function(before)
            error = (y.double().cpu() - expected).abs()
            # 1 + tanh and 1 + erf lose what is small beside 1.
            allowed = 0 if activation.exact else 8 * torch.finfo(dtype).eps
            assert (error <= allowed * before.abs().clamp_min(1)).all(), (given, error.max())
            assert y.stride() == plain.stride() and y.dtype == dtype


@pytest.mark.parametrize("residual_layout", LAYOUTS)
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_residuals_of_every_dtype_and_grouping(dtype, grouping, residual_layout, own_target):
    for channels_last in (False, True):
        tensors, arguments, exact = exact_operands(
            grouping, dtype, own_target.device, channels_last
        )
        residual = LAYOUTS[residual_layout](tensors["residual"])
        y = haloconv.conv2d_fused(
            tensors["input"],
            tensors["weight"],
            tensors["bias"],
            **arguments,
            residual=residual,
            activation="relu",
        )
        assert_equal(y.double().cpu(), F.relu(exact + residual.double().cpu()))


@needs_gpu
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_generic_rounds_once(dtype, grouping):
    """2 / eps + 1 is no number of the dtype: only where it is not rounded is the next sum exact."""
    c, k, groups = GROUPINGS[grouping]
    large = 2 / torch.finfo(dtype).eps
    x = torch.ones(2, c, 5, 6, dtype=dtype, device="cuda")
    w = torch.zeros(k, c // groups, 1, 1, dtype=dtype, device="cuda")
    w[:, 0] = large
    one = torch.ones(k, dtype=dtype, device="cuda")
    with haloconv.implementation("generic"):
        y = haloconv.conv2d_fused(x, w, one, groups=groups, shift=one, activation="relu")
        residual = -torch.ones_like(y)
        z = haloconv.conv2d_fused(x, w, one, groups=groups, residual=residual)
    assert (y == large + 2).all() and (z == large).all()


@pytest.mark.parametrize("residual_layout", LAYOUTS)
@pytest.mark.parametrize("channels_last", [False, True])
def test_layouts_of_the_residual(residual_layout, channels_last, target):
    format = torch.channels_last if channels_last else torch.contiguous_format
    x = integers((2, 4, 7, 9)).to(target.device).contiguous(memory_format=format)
    w = integers((6, 4, 3, 3), 1).to(target.device)
    residual = LAYOUTS[residual_layout](integers((2, 6, 5, 7), 2).to(target.device))
    y = haloconv.conv2d_fused(x, w, residual=residual, activation="relu")
    plain = haloconv.conv2d(x, w)
    # cuDNN may transform the operands, which rounds; a wrong term is wrong by 1.
    torch.testing.assert_close(y, F.relu(plain + residual), rtol=0, atol=1e-9)
    assert y.stride() == plain.stride()


@pytest.mark.parametrize(
    "bounds", [(0, 5), (-math.inf, 3), (2, math.inf), (-math.inf, math.inf), (0, 1e30), (0, 2.5)]
)
def test_clamped_integers(bounds):
    x, w = integers((1, 2, 5, 5), dtype=torch.int64), integers((3, 2, 3, 3), 1, dtype=torch.int64)
    y = haloconv.conv2d_fused(x, w, activation="clamp", activation_arguments=bounds)
    assert torch.equal(y.double(), haloconv.conv2d(x, w).double().clamp(*bounds))
    whole = all(math.isinf(bound) or (bound == int(bound) and bound < 2**63) for bound in bounds)
    assert y.dtype == (torch.int64 if whole else torch.float32)


def test_nothing_given_is_written(target):
    shapes = ((2, 4, 6, 5), (6, 4, 3, 3), (6,), (6,), (6,), (2, 6, 4, 3))
    tensors = [integers(s, i).to(target.device) for i, s in enumerate(shapes)]
    before = [t.clone() for t in tensors]
    x, w, b, scale, shift, residual = tensors
    haloconv.conv2d_fused(x, w, b, scale=scale, shift=shift, residual=residual, activation="silu")
    for now, then in zip(tensors, before, strict=True):
        assert_equal(now, then)


def test_string_padding(target):
    x, w = integers((2, 4, 7, 8)).to(target.device), integers((6, 4, 2, 3), 1).to(target.device)
    y = haloconv.conv2d_fused(x, w, padding="same", dilation=2, activation="relu")
    plain = haloconv.conv2d(x, w, padding="same", dilation=2)
    assert_equal(y, plain.relu())


def test_empty_results(target):
    for n, c in ((0, 2), (2, 0)):
        x = torch.ones(n, c, 5, 5, device=target.device)
        w, k = torch.ones(3, c, 3, 3, device=target.device), torch.ones(3, device=target.device)
        plain = haloconv.conv2d(x, w, k)
        y = haloconv.conv2d_fused(x, w, k, scale=k, shift=k, residual=plain, activation="gelu")
        assert y.shape == plain.shape and y.numel() == 0


# The change to a good call, and what the message must hold.
BAD = {
    "activation": ({"activation": "swish"}, ["activation", "swish", "relu", "silu", "elu"]),
    "too many arguments": (
        {"activation": "relu", "activation_arguments": [1.0]},
        ["activation_arguments", "nothing", "relu", "[1]"],
    ),
    "too few arguments": (
        {"activation": "hardtanh", "activation_arguments": [1.0]},
        ["activation_arguments", "min_val, max_val", "hardtanh", "[1]"],
    ),
    "clamp without bounds": (
        {"activation": "clamp"},
        ["activation_arguments", "min, max", "clamp", "[]"],
    ),
    "bounds the wrong way": (
        {"activation": "clamp", "activation_arguments": [2.0, 1.0]},
        ["activation_arguments", "min <= max", "[2, 1]"],
    ),
    "scale too long": ({"scale": torch.ones(5)}, ["scale", "4", "[5]"]),
    "scale of 2 dimensions": ({"scale": torch.ones(4, 1)}, ["scale", "1-D", "[4, 1]"]),
    "shift too short": ({"shift": torch.ones(1)}, ["shift", "4", "[1]"]),
    "shift dtype": ({"shift": torch.ones(4).double()}, ["shift", "ouble", "loat"]),
    "residual that would broadcast": (
        {"residual": torch.ones(1, 4, 6, 5)},
        ["residual", "[2, 4, 6, 5]", "[1, 4, 6, 5]"],
    ),
    "residual of 3 dimensions": (
        {"residual": torch.ones(4, 6, 5)},
        ["residual", "[2, 4, 6, 5]", "[4, 6, 5]"],
    ),
    "residual dtype": (
        {"residual": torch.ones(2, 4, 6, 5, dtype=torch.half)},
        ["residual", "Half", "loat"],
    ),
    "scale is a number": ({"scale": 2.0}, ["scale", "2.0", "Tensor"]),
    "residual is a list": ({"residual": [1.0]}, ["residual", "[1.0]", "Tensor"]),
    "weight": ({"weight": torch.ones(4, 5, 3, 3)}, ["conv2d_fused", "input", "[2, 6, 8, 7]"]),
    "padding": ({"padding": "full"}, ["conv2d_fused", "padding", "full", "same"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls(name, device):
    changes, words = BAD[name]
    good = {"input": torch.ones(2, 6, 8, 7), "weight": torch.ones(4, 6, 3, 3)}
    arguments = {
        n: v.to(device) if isinstance(v, Tensor) else v for n, v in {**good, **changes}.items()
    }
    with pytest.raises((RuntimeError, TypeError)) as error:
        haloconv.conv2d_fused(**arguments)
    for word in words:
        assert word in str(error.value), str(error.value)
    with pytest.raises((RuntimeError, TypeError)):  # with gradients, and in forward mode, too
        arguments["input"].requires_grad_()
        haloconv.conv2d_fused(**arguments)


def test_a_forced_kernel_declines_the_cpu():
    with (
        haloconv.implementation("generic"),
        pytest.raises(RuntimeError, match="conv2d_fused: the forced implementation, generic"),
    ):
        haloconv.conv2d_fused(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 1, 1))
