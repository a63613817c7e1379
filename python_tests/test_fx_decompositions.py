"""Exported programs whose convolutions go back to torch's operators."""

import pytest
import torch
from torch.export import Dim

import haloconv
from haloconv._activations import ACTIVATIONS
from support import assert_equal, assert_equal_sums, integers, normals


class Module(torch.nn.Module):
    def __init__(self, function, x):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(integers((4, x.shape[-3], 3, 2), 1))
        self.vector = torch.nn.Parameter(integers((4,), 2))

    def forward(self, x):
        return self.function(x, self.weight, self.vector)


def decomposed(function, x, dynamic=None):
    exported = torch.export.export(Module(function, x).eval(), (x,), dynamic_shapes=dynamic)
    assert any("haloconv" in str(node.target) for node in exported.graph.nodes)
    exported = exported.run_decompositions(haloconv.fx.decompositions())
    assert not any("haloconv" in str(node.target) for node in exported.graph.nodes)
    return exported.module()


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("padding", [1, (0, 2), (1, 1, 2, 2), (0, 1, 2, 1), "same", "valid"])
@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (3, 8, 9)])
def test_every_padding(shape, padding, fused):
    def function(x, w, v):
        if fused:
            return haloconv.conv2d_fused(x, w, v, padding=padding, dilation=2, scale=v, shift=v)
        return haloconv.conv2d(x, w, v, padding=padding, dilation=2)

    x = integers(shape)
    assert_equal(decomposed(function, x)(x), Module(function, x)(x))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation(activation):
    arguments = {"leaky_relu": (0.25,), "clamp": (-3, 5), "hardtanh": (-2, 7), "elu": (0.5,)}

    def function(x, w, v):
        y = haloconv.conv2d(x, w)
        return haloconv.conv2d_fused(
            x,
            w,
            v,
            scale=v / 3,
            shift=v,
            residual=y,
            activation=activation,
            activation_arguments=arguments.get(activation, ()),
        )

    x = normals((2, 3, 8, 9))
    assert_equal_sums(decomposed(function, x)(x), Module(function, x)(x))


def test_sizes_stay_open():
    def function(x, w, v):
        return haloconv.conv2d(x, w, v, stride=(2, 1), padding=(0, 1, 2, 1))

    x = integers((2, 3, 8, 9))
    module = decomposed(function, x, {"x": {0: Dim("n"), 2: Dim("h", min=4)}})
    for shape in [(2, 3, 8, 9), (5, 3, 13, 9)]:
        x = integers(shape)
        assert_equal(module(x), Module(function, x)(x))


def test_padding_that_depends_on_the_size():
    """Equal sides at one size are not equal at all."""

    def function(x, w, v):
        return haloconv.conv2d(x, w, v, padding=(0, -x.shape[2] % 4, 1, 1))

    x = integers((2, 3, 8, 9))
    module = decomposed(function, x, {"x": {2: Dim("h", min=4)}})
    for height in (8, 9, 10):
        x = integers((2, 3, height, 9))
        assert_equal(module(x), Module(function, x)(x))
