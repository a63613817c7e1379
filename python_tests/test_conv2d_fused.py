"""conv2d_fused against what it stands for: values, derivatives, transforms, errors."""

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import vmap
from torch.utils._python_dispatch import TorchDispatchMode

import haloconv
from shapes import EDGES, name_of
from support import (
    FLOATS,
    LAYOUTS,
    Target,
    assert_equal,
    gradients,
    integers,
    needs_gpu,
    normals,
    operands,
    pytorch_conv2d,
)

ops = torch.ops.haloconv


@dataclass(frozen=True)
class Activation:
    name: str
    arguments: tuple[float, ...]
    function: object
    exact: bool  # on integers

    def __str__(self) -> str:
        return "-".join([self.name, *map(str, self.arguments)])

    @property
    def named(self) -> dict:
        return {"activation": self.name, "activation_arguments": self.arguments}


ACTIVATIONS = [
    Activation("none", (), lambda x: x, True),
    Activation("relu", (), F.relu, True),
    Activation("leaky_relu", (), F.leaky_relu, False),
    Activation("leaky_relu", (0.25,), lambda x: F.leaky_relu(x, 0.25), True),
    Activation("leaky_relu", (-0.5,), lambda x: F.leaky_relu(x, -0.5), True),
    Activation("clamp", (-3, 5), lambda x: x.clamp(-3, 5), True),
    Activation("clamp", (-float("inf"), 1.5), lambda x: x.clamp(max=1.5), True),
    Activation("hardtanh", (), F.hardtanh, True),
    Activation("hardtanh", (-2, 7), lambda x: F.hardtanh(x, -2, 7), True),
    Activation("relu6", (), F.relu6, True),
    Activation("sigmoid", (), torch.sigmoid, False),
    Activation("tanh", (), torch.tanh, False),
    Activation("silu", (), F.silu, False),
    Activation("gelu", (), F.gelu, False),
    Activation("gelu_tanh", (), lambda x: F.gelu(x, approximate="tanh"), False),
    Activation("hardswish", (), F.hardswish, False),
    # F.hardsigmoid has no second derivative.
    Activation("hardsigmoid", (), lambda x: F.relu6(x + 3) / 6, False),
    Activation("mish", (), F.mish, False),
    Activation("elu", (), F.elu, False),
    Activation("elu", (0.5,), lambda x: F.elu(x, 0.5), False),
    Activation("elu", (-0.5,), lambda x: F.elu(x, -0.5), False),
]
EXACT = [a for a in ACTIVATIONS if a.exact]


def composed(activation, y, scale=None, shift=None, residual=None) -> Tensor:
    """What fusion means, of conv2d's result."""
    if scale is not None:
        y = y * scale[:, None, None]
    if shift is not None:
        y = y + shift[:, None, None]
    if residual is not None:
        y = y + residual
    return activation.function(y)


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


# Which derivatives the call asks for, by name: each way of keeping what they need.
WANTED = {
    "all": "x w b scale shift residual",
    "no residual": "x w b scale shift",
    "input": "x",
    "input and residual": "x residual",
    "weight": "w",
    "scale": "scale",
    "residual": "residual",
}


def small(wanted: str, given: str | None = None) -> dict[str, Tensor | None]:
    shapes = {
        "x": (2, 2, 4, 3),
        "w": (2, 1, 2, 2),
        "b": (2,),
        "scale": (2,),
        "shift": (2,),
        "residual": (2, 2, 3, 2),
    }
    tensors = {}
    for seed, (name, shape) in enumerate(shapes.items()):
        tensors[name] = normals(shape, seed).requires_grad_(name in wanted.split())
    if "residual" not in wanted:
        tensors["residual"] = None
    return tensors


def fused(x, w, b=None, scale=None, shift=None, residual=None, **activation) -> Tensor:
    return haloconv.conv2d_fused(
        x, w, b, 1, 0, 1, 2, scale=scale, shift=shift, residual=residual, **activation
    )


def of_wanted(tensors, activation):
    """The call as a function of the tensors that need gradients, and those tensors."""
    wanted = [n for n, t in tensors.items() if t is not None and t.requires_grad]

    def call(*values):
        return fused(**{**tensors, **dict(zip(wanted, values, strict=True))}, **activation.named)

    return call, [tensors[n] for n in wanted]


@pytest.mark.parametrize("wanted", ["all", "no residual"])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_gradcheck(activation, wanted):
    call, tensors = of_wanted(small(WANTED[wanted]), activation)
    assert gradcheck(
        call,
        tensors,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert gradgradcheck(call, tensors, check_fwd_over_rev=True)


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("name", ["none", "relu", "gelu", "silu"])
def test_gradients_of_some(name, wanted):
    activation = next(a for a in ACTIVATIONS if a.name == name)
    call, tensors = of_wanted(small(WANTED[wanted]), activation)
    assert gradcheck(call, tensors)
    assert gradgradcheck(call, tensors)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_are_the_composition_s(activation, dtype, target):
    tensors = {n: t.detach().to(target.device, dtype) for n, t in small(WANTED["all"]).items()}

    def separate(x, w, b, scale, shift, residual):
        plain = haloconv.conv2d(x, w, b, 1, 0, 1, 2)
        return composed(activation, plain, scale, shift, residual)

    g = normals((2, 2, 3, 2), 9, dtype).to(target.device)
    actual = gradients(lambda *t: fused(*t, **activation.named), tensors.values(), g)
    expected = gradients(separate, tensors.values(), g)
    # Sums of up to 30 products, added in another order; TF32, where it is used, rounds by 2^-11.
    tolerance = {torch.float32: 5e-3 if target.device == "cuda" else 1e-5, torch.float64: 1e-12}
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance[dtype], atol=tolerance[dtype])


@pytest.mark.parametrize("with_weight", [False, True])
@pytest.mark.parametrize("name", ["clamp", "hardtanh", "relu6"])
def test_gradient_at_a_bound(name, with_weight):
    """Is that of torch's function, of which torch 2.14 changed clamp's from 1 to 0."""
    x = torch.tensor([-1.0, 0, 3, 6, 7]).view(1, 1, 1, 5).requires_grad_()
    w = torch.ones(1, 1, 1, 1, requires_grad=with_weight)  # then the input is convolved again
    arguments = () if name == "relu6" else (0, 6)
    y = haloconv.conv2d_fused(x, w, activation=name, activation_arguments=arguments)
    function = torch.clamp if name == "clamp" else getattr(F, name)
    mine, theirs = (torch.autograd.grad(z.sum(), x)[0] for z in (y, function(x, *arguments)))
    assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("gradient", [float("inf"), float("nan")])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_a_gradient_that_is_not_finite(activation, gradient, again):
    """What autocast's loss scaling meets: it reaches what ATen lets it reach."""
    x = torch.tensor([-9.0, -1, 0, 2, 9], dtype=torch.float64).view(1, 1, 1, 5).requires_grad_()
    w = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    mine = haloconv.conv2d_fused(x, w, **activation.named)
    theirs = activation.function(F.conv2d(x, w))
    g = torch.full_like(mine, gradient)
    actual, expected = (torch.autograd.grad(y, x, g, create_graph=again)[0] for y in (mine, theirs))
    torch.testing.assert_close(actual, expected, equal_nan=True)


def saved_bytes(call) -> int:
    """What a graph keeps, each piece of memory once."""
    sizes = {}

    def pack(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()
    sizes.pop(result.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "relu6", "sigmoid", "tanh", "elu", "gelu"])
def test_without_a_residual_nothing_more_than_conv2d_s_is_kept(name):
    x, w, b = normals((2, 3, 8, 8)), normals((4, 3, 3, 3), 1), normals((4,), 2)
    for t in (x, w, b):
        t.requires_grad_()
    plain = saved_bytes(lambda: haloconv.conv2d(x, w, b))
    mine = saved_bytes(lambda: haloconv.conv2d_fused(x, w, b, activation=name))
    assert mine - plain <= b.nbytes


def test_with_a_residual_the_activation_s_operand_is_kept():
    x, w, r = normals((2, 3, 8, 8)), normals((4, 3, 3, 3), 1), normals((2, 4, 6, 6), 2)
    for t in (x, w, r):
        t.requires_grad_()
    plain = saved_bytes(lambda: haloconv.conv2d(x, w))
    relu = saved_bytes(lambda: haloconv.conv2d_fused(x, w, residual=r, activation="relu"))
    gelu = saved_bytes(lambda: haloconv.conv2d_fused(x, w, residual=r, activation="gelu"))
    assert relu == plain and gelu == plain + r.nbytes


class Convolutions(TorchDispatchMode):
    """The names of haloconv's operators that are called within it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names += [func.name()] * (func.namespace == "haloconv")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_a_residual_s_gradients_need_no_convolution(activation):
    x, w, r = normals((2, 3, 8, 8)), normals((4, 3, 3, 3), 1), normals((2, 4, 6, 6), 2)
    for t in (x, w, r):
        t.requires_grad_()
    y = haloconv.conv2d_fused(x, w, residual=r, **activation.named)
    with Convolutions() as called:
        (grad,) = torch.autograd.grad(y.sum(), r, create_graph=True)
        if grad.requires_grad:
            torch.autograd.grad(grad.square().sum(), r, allow_unused=True)
    assert called.names == []


def test_a_second_backward_is_an_error_and_its_result_is_guarded():
    x, w = normals((1, 2, 4, 4)).requires_grad_(), normals((2, 2, 2, 2), 1).requires_grad_()
    y = haloconv.conv2d_fused(x, w, activation="sigmoid")
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    y = haloconv.conv2d_fused(x, w, activation="sigmoid")
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("wanted", ["all", "no residual"])
def test_opcheck(activation, wanted):
    x, w, b, scale, shift, residual = small(WANTED[wanted]).values()
    extras = {"scale": scale, "shift": shift, "residual": residual}
    named = {**activation.named, "activation_arguments": list(map(float, activation.arguments))}
    torch.library.opcheck(
        ops.conv2d_fused.default, (x, w, b, [1, 1], [0, 0], [1, 1], 2), {**extras, **named}
    )
    torch.library.opcheck(
        ops.conv2d_fused.padding, (x, w, b, [1, 1], "valid", [1, 1], 2), {**extras, **named}
    )


def test_compiles_once_for_all_sizes():
    def function(x, w, b, residual):
        return haloconv.conv2d_fused(x, w, b, padding=1, residual=residual, activation="gelu")

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    w, b = integers((4, 3, 3, 3), 1), integers((4,), 2)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n, h, width in ((5, 9, 8), (3, 12, 7), (2, 20, 31)):
            tensors = (integers((n, 3, h, width)), w, b, integers((n, 4, h, width), 3))
            g = normals((n, 4, h, width), 4)
            expected = gradients(function, tensors, g)
            for mine, theirs in zip(gradients(compiled, tensors, g), expected, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-11)


def test_fake_and_meta_strides():
    for format in (torch.contiguous_format, torch.channels_last):
        x = integers((2, 3, 6, 5)).contiguous(memory_format=format)
        w, residual = integers((4, 3, 3, 3)), integers((2, 4, 4, 3))
        y = haloconv.conv2d_fused(x, w, residual=residual)
        meta = haloconv.conv2d_fused(x.to("meta"), w.to("meta"), residual=residual.to("meta"))
        assert (meta.shape, meta.stride(), meta.dtype) == (y.shape, y.stride(), y.dtype)


@pytest.mark.parametrize("batched", range(1, 64))
def test_vmap(batched):
    """Every choice of batched operands."""
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    try:
        tensors = list(small(WANTED["all"]).values())
        in_dims = tuple(0 if batched >> i & 1 else None for i in range(6))
        tensors = [
            t if d is None else torch.stack((t, t + 1, 2 * t))
            for t, d in zip((t.detach() for t in tensors), in_dims, strict=True)
        ]

        def call(*t):
            return fused(*t, activation="silu")

        expected = [
            call(*(t if d is None else t[i] for t, d in zip(tensors, in_dims, strict=True)))
            for i in range(3)
        ]
        actual = vmap(call, in_dims)(*tensors)
        torch.testing.assert_close(actual, torch.stack(expected), rtol=1e-12, atol=1e-11)
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(before)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_per_sample_gradients_and_hessian(activation):
    tensors = [t.detach() for t in small(WANTED["all"]).values()]
    x, w, b, scale, shift, residual = tensors

    def loss(w, x, residual, call):
        return call(x, w, b, scale, shift, residual).square().sum()

    def ours(*t):
        return fused(*t, **activation.named)

    def separate(x, w, b, scale, shift, residual):
        plain = haloconv.conv2d(x, w, b, 1, 0, 1, 2)
        return composed(activation, plain, scale, shift, residual)

    per_sample = vmap(torch.func.grad(loss), in_dims=(None, 0, 0, None))
    torch.testing.assert_close(
        per_sample(w, x, residual, ours), per_sample(w, x, residual, separate)
    )
    hessian = torch.func.hessian(loss)
    # Second derivatives are sums of some thousand products of order 1 to 100, in another order.
    torch.testing.assert_close(
        hessian(w, x, residual, ours), hessian(w, x, residual, separate), rtol=1e-9, atol=1e-9
    )


def test_forward_mode_under_no_grad():
    tensors = {n: t.detach() for n, t in small(WANTED["all"]).items()}
    with forward_ad.dual_level(), torch.no_grad():
        duals = {n: forward_ad.make_dual(t, torch.ones_like(t)) for n, t in tensors.items()}
        y = fused(**duals, activation="tanh")
        plain = haloconv.conv2d(duals["x"], duals["w"], duals["b"], groups=2)
        tanh = Activation("tanh", (), torch.tanh, False)
        expected = composed(tanh, plain, duals["scale"], duals["shift"], duals["residual"])
        torch.testing.assert_close(
            forward_ad.unpack_dual(y).tangent, forward_ad.unpack_dual(expected).tangent
        )


def test_autocast_casts_every_operand(device):
    tensors = {
        n: t.detach().to(device).float().requires_grad_() for n, t in small(WANTED["all"]).items()
    }
    with torch.autocast(device, torch.bfloat16):
        y = fused(**tensors, activation="relu")
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert all(t.grad.dtype == torch.float32 for t in tensors.values())
    cast = {n: t.detach().bfloat16() for n, t in tensors.items()}
    assert_equal(y.detach(), fused(**cast, activation="relu"))


def test_scripted_functions_hold_the_operator(tmp_path):
    @torch.jit.script
    def scripted(x, w, b, residual):
        return haloconv.conv2d_fused(
            x,
            w,
            b,
            padding=1,
            residual=residual,
            activation="leaky_relu",
            activation_arguments=[0.25],
        )

    assert "haloconv::conv2d_fused" in str(scripted.graph)
    x, w, b = integers((1, 2, 5, 5)), integers((3, 2, 3, 3), 1), integers((3,), 2)
    residual = integers((1, 3, 5, 5), 3)
    scripted.save(str(tmp_path / "scripted.pt"))
    expected = F.leaky_relu(F.conv2d(x, w, b, padding=1) + residual, 0.25)
    assert_equal(torch.jit.load(tmp_path / "scripted.pt")(x, w, b, residual), expected)


def test_flops_are_the_convolution_s():
    from torch.utils.flop_counter import FlopCounterMode

    x, w = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3)
    with FlopCounterMode(display=False) as counter:
        haloconv.conv2d_fused(x, w, activation="relu")
    assert counter.get_total_flops() == 2 * 2 * 4 * 6 * 6 * 3 * 3 * 3


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
