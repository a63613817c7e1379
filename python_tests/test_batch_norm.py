"""Batch norm in training with what follows it: torch.ops.haloconv.batch_norm_act."""

import pytest
import torch
import torch.nn.functional as F

import haloconv
from support import assert_equal, integers, needs_gpu, normals

ops = torch.ops.haloconv

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
}
SHAPE = (3, 8, 4, 5)


def tensors(shape, dtype=torch.float64, device="cpu", seed=0):
    """input, weight, bias, residual and a gradient; vectors of 16-bit types are float32."""
    vectors = torch.promote_types(dtype, torch.float32)
    made = [
        normals(shape, seed, dtype),
        normals(shape[1:2], seed + 1, vectors),
        normals(shape[1:2], seed + 2, vectors),
        normals(shape, seed + 3, dtype),
        normals(shape, seed + 4, dtype),
    ]
    return [
        t.to(device).contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t.to(device)
        for t in made
    ]


def by_torch(x, w, b, mean, var, r, momentum, eps, activation):
    y = F.batch_norm(x, mean, var, w, b, True, momentum, eps)
    return ACTIVATIONS[activation](y if r is None else y + r)


def by_haloconv(*arguments):
    return ops.batch_norm_act(*arguments)[0]


def gradients(function, leaves, more, gradient):
    leaves = [t if t is None else t.detach().requires_grad_() for t in leaves]
    x, w, b, r = leaves
    given = [t for t in leaves if t is not None]
    return torch.autograd.grad(function(x, w, b, None, None, r, *more), given, gradient)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [SHAPE, (6, 5), (2, 3, 7), (2, 3, 2, 2, 3)])
def test_is_torch_s_on_a_cpu(activation, residual, affine, shape):
    x, w, b, r, g = tensors(shape)
    w, b = (w, b) if affine else (None, None)
    r = r if residual else None
    means = [torch.zeros(shape[1], dtype=x.dtype) for _ in range(2)]
    vars = [torch.ones(shape[1], dtype=x.dtype) for _ in range(2)]
    actual = by_haloconv(x, w, b, means[0], vars[0], r, 0.3, 1e-4, activation)
    expected = by_torch(x, w, b, means[1], vars[1], r, 0.3, 1e-4, activation)
    for ours, its in ((actual, expected), means, vars):
        torch.testing.assert_close(ours, its)
        assert ours.stride() == its.stride()
    more = (0.3, 1e-4, activation)
    for ours, its in zip(
        gradients(by_haloconv, (x, w, b, r), more, g),
        gradients(by_torch, (x, w, b, r), more, g),
        strict=True,
    ):
        torch.testing.assert_close(ours, its)


@pytest.mark.parametrize("activation", ["none", "relu", "silu"])
def test_gradients_of_any_order(activation):
    x, w, b, r, _ = (t.requires_grad_() for t in tensors((2, 3, 3, 2)))

    def function(*leaves):
        x, w, b, r = leaves
        return by_haloconv(x, w, b, None, None, r, 0.1, 1e-5, activation)

    assert torch.autograd.gradcheck(function, (x, w, b, r))
    assert torch.autograd.gradgradcheck(function, (x, w, b, r))


def test_forward_mode_is_torch_s():
    x, w, b, r, tangent = tensors(SHAPE)
    more = (0.1, 1e-5, "silu")
    results = [
        torch.func.jvp(lambda x: f(x, w, b, None, None, r, *more), (x,), (tangent,))  # noqa: B023
        for f in (by_haloconv, by_torch)
    ]
    torch.testing.assert_close(*results)


def test_a_second_gradient_is_added():
    x, w, b, r, g = tensors(SHAPE)
    _, mean, invstd = ops.batch_norm_act(x, w, b, None, None, r, 0.1, 1e-5, "silu")
    known = (x, w, b, mean, invstd, r)
    sum = ops.batch_norm_act_backward(g + x, *known, None, 1e-5, "silu", True)
    both = ops.batch_norm_act_backward(g, *known, x, 1e-5, "silu", True)
    torch.testing.assert_close(both, sum)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_without_an_activation_the_residual_gets_the_gradient(device):
    x, w, b, r, g = tensors((4, 16, 9, 9), torch.bfloat16, device)
    _, mean, invstd = ops.batch_norm_act(x, w, b, None, None, r)
    known = (x, w, b, mean, invstd)
    assert_equal(ops.batch_norm_act_backward(g, *known, r, with_residual=True)[1], g)
    with pytest.raises(RuntimeError, match="expected residual for with_residual=True"):
        ops.batch_norm_act_backward(g, *known, None, with_residual=True)


def test_the_operator_is_what_torch_expects_of_one():
    x, w, b, r, _ = (t.requires_grad_() for t in tensors(SHAPE, torch.float32))
    mean, var = torch.zeros(8), torch.ones(8)
    torch.library.opcheck(ops.batch_norm_act.default, (x, w, b, mean, var, r, 0.1, 1e-5, "relu"))


def test_one_value_of_each_channel_is_torch_s_error():
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        ops.batch_norm_act(torch.ones(1, 3, 1, 1), None, None, None, None)


@pytest.mark.parametrize("shape", [(0, 8, 4, 5), (2, 8, 0, 5), (0, 8)])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_an_input_without_elements_changes_no_statistics(shape, activation):
    x, w, b, r, g = tensors(shape, torch.float32)
    mean, var = torch.zeros(8), torch.ones(8)
    y = by_haloconv(x, w, b, mean, var, r, 0.1, 1e-5, activation)
    assert y.shape == x.shape and y.is_contiguous()
    assert_equal(mean, torch.zeros(8))
    assert_equal(var, torch.ones(8))
    of_all = gradients(by_haloconv, (x, w, b, r), (0.1, 1e-5, activation), g)
    for gradient, leaf in zip(of_all, (x, w, b, r), strict=True):
        assert_equal(gradient, torch.zeros_like(leaf))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_input_without_channels_is_an_error(device):
    x, none = torch.ones(2, 0, 3, 3, device=device), torch.ones(0, device=device)
    with pytest.raises(RuntimeError, match=r"expected input to have channels, .* \[2, 0, 3, 3\]"):
        ops.batch_norm_act(x, None, None, None, None)
    with pytest.raises(RuntimeError, match=r"expected input to have channels, .* \[2, 0, 3, 3\]"):
        ops.batch_norm_act_backward(x, x, None, None, none, none)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({0: torch.ones(3)}, "expected input"),
        ({1: torch.ones(7)}, "expected weight"),
        ({4: torch.ones(8, 1)}, "expected running_var"),
        ({5: torch.ones(3, 8, 4, 4)}, "expected residual"),
        ({8: "wobble"}, "expected activation"),
    ],
)
def test_a_bad_argument_is_named(changed, message):
    x, w, b, r, _ = tensors(SHAPE, torch.float32)
    arguments = [x, w, b, torch.zeros(8), torch.ones(8), r, 0.1, 1e-5, "relu"]
    for i, value in changed.items():
        arguments[i] = value
    with pytest.raises(RuntimeError, match="haloconv::batch_norm_act: " + message):
        ops.batch_norm_act(*arguments)


SHAPES = [(2, 8, 1, 1), (3, 64, 5, 7), (4, 72, 17, 3), (8, 256, 14, 14), (5, 672, 7, 7)]


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("activation", ["none", "relu", "silu"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernels_are_as_exact_as_float64(shape, residual, activation, dtype):
    x, w, b, r, g = tensors(shape, dtype, "cuda")
    r = r if residual else None
    mean, var = torch.zeros(shape[1], device="cuda"), torch.ones(shape[1], device="cuda")
    more = (0.3, 1e-4, activation)
    actual = by_haloconv(x, w, b, mean, var, r, *more)
    wide = [t if t is None else t.double() for t in (x, w, b, r)]
    exact_mean, exact_var = torch.zeros_like(wide[1]), torch.ones_like(wide[1])
    exact = by_torch(*wide[:3], exact_mean, exact_var, wide[3], *more)
    rounding = torch.finfo(dtype).eps

    def assert_near(ours, its, roundings):
        if its.norm() > 0:
            assert (ours.double() - its).norm() <= roundings * rounding * its.norm()

    assert_near(actual, exact, 1)
    torch.testing.assert_close(mean.double(), exact_mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(var.double(), exact_var, rtol=1e-4, atol=1e-5)
    if x.numel() // shape[1] < 8:  # where almost all of the gradient cancels
        return
    ours = gradients(by_haloconv, (x, w, b, r), more, g)
    its = gradients(by_torch, wide, more, g.double())
    for of_ours, of_its in zip(ours, its, strict=True):
        assert_near(of_ours, of_its, 4)


@needs_gpu
def test_nan_and_infinity_stay_in_their_channels():
    x, w, b, r, g = tensors((4, 16, 9, 9), torch.bfloat16, "cuda")
    x[1, 3, 2, 2], x[0, 5, 0, 0], g[2, 7, 1, 1] = float("nan"), float("inf"), float("nan")
    more = (0.1, 1e-5, "relu")
    with haloconv.implementation("aten"):
        expected = by_haloconv(x, w, b, None, None, r, *more)
        its = gradients(by_haloconv, (x, w, b, r), more, g)
    actual = by_haloconv(x, w, b, None, None, r, *more)
    assert_equal(actual.isnan(), expected.isnan())
    for ours, of_its in zip(gradients(by_haloconv, (x, w, b, r), more, g), its, strict=True):
        assert_equal(ours.isnan(), of_its.isnan())


@needs_gpu
def test_the_kernels_give_the_same_bits_again():
    x, w, b, r, g = tensors((8, 96, 31, 29), torch.bfloat16, "cuda")

    def results():
        y, mean, invstd = ops.batch_norm_act(x, w, b, None, None, r, 0.1, 1e-5, "silu")
        known = (x, w, b, mean, invstd, r)
        return y, mean, *ops.batch_norm_act_backward(g, *known, None, 1e-5, "silu", True)

    for first, second in zip(results(), results(), strict=True):
        assert_equal(first, second)


@needs_gpu
def test_other_tensors_are_atens():
    """Of other types, layouts and activations, and whose channels are no multiple of 8."""
    x, w, b, r, _ = tensors((4, 16, 9, 9), torch.bfloat16, "cuda")
    few = [t[:, :12] if t.dim() == 4 else t[:12] for t in (x, w, b, r)]
    rows = [x.contiguous(), w, b, r]
    wide = [t.float() for t in (x, w, b, r)]
    for (x, w, b, r), activation in ((few, "relu"), (rows, "relu"), (wide, "relu"), (rows, "gelu")):
        actual = by_haloconv(x, w, b, None, None, r, 0.1, 1e-5, activation)
        expected = by_torch(x, w, b, None, None, r, 0.1, 1e-5, activation)
        if x.dtype == torch.float32:  # torch's function calls cuDNN, which adds in another order
            torch.testing.assert_close(actual, expected)
        else:
            assert_equal(actual, expected)


def test_integers_whose_statistics_are_exact():
    x = integers((4, 8, 4, 4), dtype=torch.float64).sign() + 2
    y, mean, invstd = ops.batch_norm_act(x, None, None, None, None)
    exact = x.transpose(0, 1).flatten(1)
    torch.testing.assert_close(mean, exact.mean(1))
    torch.testing.assert_close(invstd, (exact.var(1, correction=0) + 1e-5).rsqrt())
