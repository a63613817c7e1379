"""haloconv.nn.Conv2d calls the operator by a shorter way than others: all that may stand in it."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

import haloconv
from support import assert_equal, integers

FUNCTION = torch.nn.functional.conv2d


def layer(kernel: int = 3, **arguments) -> haloconv.nn.Conv2d:
    """Of integers, so that a result that differs is another convolution's."""
    made = haloconv.nn.Conv2d(4, 6, kernel, dtype=torch.float64, **arguments)
    with torch.no_grad():
        made.weight.copy_(integers(made.weight.shape, seed=1))
        if made.bias is not None:
            made.bias.copy_(integers(made.bias.shape, seed=2))
    return made


X = integers((2, 4, 7, 6))


class Doubled(haloconv.nn.Conv2d):
    """Its own way to read a parameter."""

    def __getattr__(self, name):
        value = super().__getattr__(name)
        return value * 2 if name == "weight" else value


class Negated(haloconv.nn.Conv2d):
    def _conv_forward(self, input, weight, bias):
        return super()._conv_forward(input, -weight, bias)


@pytest.mark.parametrize("kind, factor", [(Doubled, 2), (Negated, -1)])
def test_a_subclass_has_the_last_word(kind, factor):
    made = layer()
    made.__class__ = kind
    assert_equal(made(X), FUNCTION(X, factor * made._parameters["weight"], made.bias))


class Halved(nn.Module):
    def forward(self, weight):
        return weight * 0.5


def test_a_weight_that_is_computed():
    made = layer()
    weight = made.weight.detach()
    parametrize.register_parametrization(made, "weight", Halved())
    assert_equal(made(X), FUNCTION(X, weight * 0.5, made.bias))


def test_a_weight_that_is_no_parameter_any_more():
    made = layer()
    mask = torch.ones_like(made.weight)
    mask[:, 1] = 0
    weight = made.weight.detach() * mask
    prune.custom_from_mask(made, "weight", mask)
    assert type(made) is haloconv.nn.Conv2d and "weight" not in made._parameters
    assert_equal(made(X), FUNCTION(X, weight, made.bias))


def test_parameters_of_a_call():
    made = layer()
    given = {
        "weight": integers(made.weight.shape, seed=3).double(),
        "bias": torch.zeros(6).double(),
    }
    result = torch.func.functional_call(made, given, (X,))
    assert_equal(result, FUNCTION(X, given["weight"]))


def test_a_method_of_one_layer_alone():
    made = layer()
    made._conv_forward = lambda input, weight, bias: input.sum() + weight.sum()
    assert_equal(made(X), X.sum() + made.weight.sum())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name, value", [("stride", (2, 1)), ("padding", (1, 0)), ("groups", 2)])
@pytest.mark.parametrize("kernel", [1, 3])
def test_attributes_that_are_set_later(kernel, name, value, bias):
    made = layer(kernel, groups=2 if name == "groups" else 1, bias=bias)
    setattr(made, name, value)
    expected = FUNCTION(X, made.weight, made.bias, **{name: value})
    assert_equal(made(X), expected)
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), torch.jit.script(made)):
        assert_equal(again(X), expected)


@pytest.mark.parametrize("value", [[2, 1], 2, torch.Size([2, 1])])
def test_attributes_of_other_types(value):
    made = layer()
    made.stride = value
    assert_equal(made(X), FUNCTION(X, made.weight, made.bias, stride=value))


@pytest.mark.parametrize("kernel", [1, 3])
def test_it_is_traced(kernel):
    made = layer(kernel)
    traced = torch.fx.symbolic_trace(made)
    names = {node.target for node in traced.graph.nodes if node.op == "get_attr"}
    assert names == {"weight", "bias"}
    assert_equal(traced(X), made(X))


def test_errors_say_what_is_wrong():
    with pytest.raises(TypeError, match="expected input to be a Tensor, but got 'x'"):
        layer()("x")
    made = layer()
    made.stride = (1.5, 1)
    with pytest.raises(TypeError, match="expected stride to be one or more ints"):
        made(X)
    with pytest.raises(RuntimeError, match="expected input.* to have 4 channels"):
        layer()(X[:, 1:])
