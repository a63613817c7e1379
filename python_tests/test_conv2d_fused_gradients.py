"""conv2d_fused's gradients, and what they keep."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

import haloconv
from fused_calls import ACTIVATIONS, WANTED, composed, fused, of_wanted, small
from support import gradients, normals


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
