"""Backward passes that compiled autograd captures, with each node's gradients as a function."""

import pytest
import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters

import haloconv
from samples import SAMPLES
from support import LAYOUTS, assert_equal, integers, normals

FUSED = {
    "none": ("none", ()),
    "from the result": ("clamp", (-float("inf"), 1.5)),
    "from the convolution": ("silu", ()),
    "convolved again": ("leaky_relu", (-0.5,)),
}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    counters.clear()


def captured(backend: str = "eager"):
    return compiled_autograd._enable(
        lambda graph: torch.compile(graph, backend=backend, fullgraph=True)
    )


def gradients(function, tensors, wanted):
    """Of the sum of all results' squares; None for the tensors that are not wanted."""
    leaves = [t.detach().requires_grad_(i in wanted) for i, t in enumerate(tensors)]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    sum((result * result.conj()).real.sum() for result in results).backward()
    return [leaf.grad for leaf in leaves]


def check(function, tensors, backend: str = "eager", alone: bool = True):
    """Captured, all gradients are what they are otherwise, and so is each ``alone``."""
    everything = range(len(tensors))
    for wanted in (everything, *([i] for i in everything if alone)):
        expected = gradients(function, tensors, wanted)
        captures = counters["compiled_autograd"]["captures"]
        with captured(backend):
            actual = gradients(function, tensors, wanted)
        assert counters["compiled_autograd"]["captures"] == captures + 1
        for i in wanted:
            assert_equal(actual[i], expected[i])
            assert actual[i].stride() == expected[i].stride()


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_every_sample(sample):
    check(sample.call, sample.tensors(), alone=False)  # a capture takes half a second


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("activation", FUSED.values(), ids=FUSED)
def test_fused(activation, residual):
    name, arguments = activation

    def function(x, w, b, scale, shift, *residual):
        return haloconv.conv2d_fused(
            x,
            w,
            b,
            stride=2,
            scale=scale,
            shift=shift,
            residual=residual[0] if residual else None,
            activation=name,
            activation_arguments=arguments,
        )

    shapes = [(2, 2, 5, 4), (3, 2, 3, 2), (3,), (3,), (3,)] + [(2, 3, 2, 2)] * residual
    tensors = [normals(shape, seed) for seed, shape in enumerate(shapes)]
    check(function, tensors, alone=residual)  # a capture takes seconds


@pytest.mark.parametrize("weight_layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("input_layout", ["contiguous", "channels_last", "sliced"])
def test_layouts(input_layout, weight_layout, device):
    x = LAYOUTS[input_layout](integers((2, 3, 6, 5)).to(device))
    w = LAYOUTS[weight_layout](integers((4, 3, 3, 3), 1).to(device))
    check(lambda x, w: haloconv.conv2d(x, w, padding=(0, 1, 2, 1)), (x, w))


def test_complex():
    x, w = (torch.complex(normals(s, 1), normals(s, 2)) for s in ((2, 3, 6, 5), (4, 3, 3, 3)))
    check(haloconv.conv2d, (x, w))


def test_autocast(device):
    x, w = integers((2, 3, 6, 5)).float().to(device), integers((4, 3, 3, 3), 1).float().to(device)
    with torch.autocast(device, torch.bfloat16):
        check(lambda x, w: haloconv.conv2d(x, w).float(), (x, w))


def test_inductor_captures_once_for_all_sizes():
    def function(x, w, b):
        return haloconv.conv2d(x, w, b, stride=(2, 1), padding=(1, 0, 1, 2))

    w, b = integers((4, 3, 3, 2), 1), integers((4,), 2)
    for n, h, width in [(5, 9, 8), (3, 12, 7), (2, 20, 31), (4, 6, 16)]:
        tensors = integers((n, 3, h, width)), w, b
        expected = gradients(function, tensors, range(3))
        with captured("inductor"):
            for mine, theirs in zip(gradients(function, tensors, range(3)), expected, strict=True):
                assert_equal(mine, theirs)
    assert counters["compiled_autograd"]["captures"] == 1


def test_calls_that_differ_are_captured_apart():
    def fused(name, *arguments):
        return lambda x, w: haloconv.conv2d_fused(
            x, w, activation=name, activation_arguments=arguments
        )

    functions = [haloconv.conv2d, fused("relu"), fused("relu6"), fused("elu", 1), fused("elu", 2)]
    x, w = integers((2, 3, 6, 5)), integers((4, 3, 3, 3), 1)
    for layout in ("contiguous", "channels_last"):
        for function in functions:
            tensors = x, LAYOUTS[layout](w)
            expected = gradients(function, tensors, range(2))
            with captured():
                actual = gradients(function, tensors, range(2))
            for mine, theirs in zip(actual, expected, strict=True):
                assert_equal(mine, theirs)
                assert mine.stride() == theirs.stride()


def test_a_second_backward_is_an_error():
    x = integers((1, 2, 4, 4)).requires_grad_()
    y = haloconv.conv2d(x, integers((2, 2, 2, 2)).requires_grad_()).sum()
    with captured():
        y.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.backward()


def test_saved_tensor_hooks():
    def function(x, w):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            return haloconv.conv2d(x, w)

    check(function, (integers((2, 3, 6, 5)), integers((4, 3, 3, 3), 1)))
