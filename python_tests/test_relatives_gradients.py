"""Gradients of conv_transpose2d, conv1d and conv_transpose1d, and their fused forms."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from relatives import CONV_TRANSPOSE2D, EDGES, RELATIVES, random_calls
from support import assert_equal, assert_equal_sums, gradients, integers, normals

ops = torch.ops.haloconv


@pytest.mark.parametrize("call", EDGES, ids=str)
def test_gradients(call, target):
    tensors = call.tensors()
    g = integers(call.pytorch(*tensors).shape, 5)
    expected = gradients(call.pytorch, tensors, g)
    actual = gradients(call.run, [t.to(target.device) for t in tensors], g.to(target.device))
    for mine, theirs, tensor in zip(actual, expected, tensors, strict=True):
        assert_equal(mine.cpu(), theirs)
        assert mine.shape == tensor.shape


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_gradients_of_random_problems(relative):
    for call in random_calls(relative, 50):
        tensors = call.tensors()
        g = integers(call.pytorch(*tensors).shape, 5)
        expected = gradients(call.pytorch, tensors, g)
        for mine, theirs in zip(gradients(call.run, tensors, g), expected, strict=True):
            assert_equal(mine, theirs)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_some_gradients(relative, wanted):
    """Those that are not asked for are not computed, and the others are right."""
    (call,) = random_calls(relative, 1)
    tensors = [t.requires_grad_(i in wanted) for i, t in enumerate(call.tensors())]
    y = call.run(*tensors)
    g = integers(y.shape, 5)
    leaves = [tensors[i] for i in wanted]
    expected = torch.autograd.grad(call.pytorch(*tensors), leaves, g)
    for mine, theirs in zip(torch.autograd.grad(y, leaves, g), expected, strict=True):
        assert_equal(mine, theirs)


def test_the_gradients_layouts_are_the_leaves_own():
    x = integers((2, 3, 8)).transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    w = integers((4, 3, 3), 1).requires_grad_()
    ops.conv1d(x, w).square().sum().backward()
    assert x.grad.stride() == x.stride() and w.grad.stride() == w.stride()
    x = integers((2, 3, 4, 4)).contiguous(memory_format=torch.channels_last).requires_grad_()
    w = integers((3, 4, 3, 3), 1).requires_grad_()
    ops.conv_transpose2d(x, w).square().sum().backward()
    assert x.grad.stride() == x.stride() and w.grad.stride() == w.stride()


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_gradients_of_complex_numbers(relative):
    (call,) = random_calls(relative, 1)
    x, w, b = (normals(t.shape, i, torch.complex128) for i, t in enumerate(call.tensors()))
    g = normals(call.pytorch(x, w, b).shape, 5, torch.complex128)
    expected = gradients(call.pytorch, (x, w, b), g)
    for mine, theirs in zip(gradients(call.run, (x, w, b), g), expected, strict=True):
        assert_equal_sums(mine, theirs)


EPILOGUES = {
    "relu": dict(activation="relu"),
    "scale_shift": dict(scale=True, shift=True),
    "all_of_it": dict(scale=True, shift=True, residual=True, activation="silu"),
    "recomputed": dict(scale=True, shift=True, activation="gelu"),
    "clamp": dict(activation="clamp", activation_arguments=[-3.0, 5.0]),
}


def fused_call(call, epilogue):
    """The call and what follows as a function of all tensors, torch's composition of it, these."""
    channels, shape = call.out_channels, call.pytorch(*call.tensors()).shape
    extra = {
        name: normals(shape if name == "residual" else (channels,), 7 + i)
        for i, name in enumerate(("scale", "shift", "residual"))
        if epilogue.get(name)
    }
    options = {name: value for name, value in epilogue.items() if value is not True}
    activation = {
        "none": lambda y: y,
        "relu": torch.relu,
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "clamp": lambda y: y.clamp(*options["activation_arguments"]),
    }[options.get("activation", "none")]

    def fused(x, w, b, *rest):
        tensors = dict(zip(extra, rest, strict=True))
        return call.relative.fused(x, w, b, *call.parameters, **tensors, **options)

    def composed(x, w, b, *rest):
        tensors = dict(zip(extra, rest, strict=True))
        y = call.pytorch(x, w, b)
        per_channel = (-1, *[1] * call.relative.pixel_dims)
        if "scale" in tensors:
            y = y * tensors["scale"].view(per_channel)
        if "shift" in tensors:
            y = y + tensors["shift"].view(per_channel)
        return activation(y + tensors["residual"] if "residual" in tensors else y)

    return fused, composed, [*call.tensors(data=lambda s, i, _: normals(s, i)), *extra.values()]


@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("call", EDGES, ids=str)
def test_fused(call, epilogue, target):
    fused, composed, tensors = fused_call(call, EPILOGUES[epilogue])
    on_device = [t.to(target.device) for t in tensors]
    expected = composed(*tensors)
    assert_equal_sums(fused(*on_device).cpu(), expected)
    g = normals(expected.shape, 5)
    actual = gradients(fused, on_device, g.to(target.device))
    for mine, theirs in zip(actual, gradients(composed, tensors, g), strict=True):
        assert_equal_sums(mine.cpu(), theirs)


@pytest.mark.parametrize("epilogue", ["all_of_it", "recomputed"])
@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_fused_derivatives_of_any_order(relative, epilogue):
    (call,) = random_calls(relative, 1)
    fused, _, tensors = fused_call(call, EPILOGUES[epilogue])
    tensors = [t.requires_grad_() for t in tensors]
    assert gradcheck(fused, tensors, check_forward_ad=True)
    assert gradgradcheck(fused, tensors)


def test_fused_keeps_no_more_than_the_convolution():
    x, w = (t.requires_grad_() for t in (integers((1, 3, 4, 4)), integers((3, 2, 2, 2), 1)))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = CONV_TRANSPOSE2D.fused(x, w, activation="relu")
    assert {t.data_ptr() for t in kept} == {x.data_ptr(), w.data_ptr(), y.data_ptr()}
