"""TorchScript: scripted, traced, frozen, saved, and loaded by a process without the package."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import haloconv
import haloconv._library
from support import assert_equal, gradients, integers

PADDINGS = [0, 2, (1, 2), (0, 1, 2, 1), "same", "valid"]
MODES = ["zeros", "reflect", "replicate", "circular"]


class Net(nn.Module):
    """Two layers, one with string padding, of integer weights."""

    def __init__(self):
        super().__init__()
        self.first = haloconv.nn.Conv2d(3, 4, 3, padding=(0, 1, 2, 1), dtype=torch.float64)
        self.second = haloconv.nn.Conv2d(4, 2, (2, 3), padding="same", groups=2).double()
        with torch.no_grad():
            for seed, parameter in enumerate(self.parameters()):
                parameter.copy_(integers(parameter.shape, seed))

    def forward(self, x):
        return self.second(self.first(x).relu())


def compiled(how: str, example):
    net = Net()
    return torch.jit.script(net) if how == "script" else torch.jit.trace(net, example)


@pytest.mark.parametrize("how", ["script", "trace"])
def test_graph_runs_forward_and_backward(how):
    x = integers((2, 3, 7, 6))
    module = compiled(how, integers((1, 3, 9, 9)))
    assert "haloconv::conv2d" in str(module.inlined_graph)
    expected = Net()(x)
    g = integers(expected.shape, 5)
    for _ in range(3):  # the profiling executor optimises from the second call on
        assert_equal(module(x), expected)
        ours = gradients(lambda x: module(x), (x,), g)
        assert_equal(ours[0], gradients(Net(), (x,), g)[0])


@pytest.mark.parametrize("how", ["script", "trace"])
def test_freeze(how):
    x = integers((2, 3, 7, 6))
    frozen = torch.jit.freeze(compiled(how, x).eval())
    assert "haloconv::conv2d" in str(frozen.graph)
    assert not list(frozen.parameters())
    assert_equal(frozen(x), Net()(x))


LOADER = """
import sys, torch
library, model, data = sys.argv[1:]
torch.ops.load_library(library)
tensors = torch.load(data)
module = torch.jit.load(model)
x = tensors["x"].requires_grad_()
y = module(x)
y.backward(tensors["g"])
assert "haloconv" not in sys.modules
result = {name: parameter.grad for name, parameter in module.named_parameters()}
torch.save({"y": y.detach(), "x": x.grad, **result}, data)
"""


@pytest.mark.parametrize("how", ["script", "trace"])
def test_saved_model_in_a_process_with_the_library_alone(how, tmp_path):
    net, x = Net(), integers((2, 3, 7, 6)).requires_grad_()
    y = net(x)
    g = integers(y.shape, 5)
    y.backward(g)
    compiled(how, x.detach()).save(tmp_path / "model.pt")
    torch.save({"x": x.detach(), "g": g}, tmp_path / "data.pt")
    files = [haloconv._library.find(), tmp_path / "model.pt", tmp_path / "data.pt"]
    subprocess.run([sys.executable, "-c", LOADER, *map(str, files)], check=True)
    result = torch.load(tmp_path / "data.pt")
    assert_equal(result.pop("y"), y.detach())
    assert_equal(result.pop("x"), x.grad)
    for name, parameter in net.named_parameters():
        assert_equal(result.pop(name), parameter.grad)
    assert not result


def test_functions_script_to_the_operator():
    @torch.jit.script
    def scripted(x, w):
        return haloconv.conv2d(x, w, padding=1, stride=2)

    assert "haloconv::conv2d" in str(scripted.graph)
    x, w = integers((1, 2, 5, 5)), integers((3, 2, 3, 3), 1)
    assert_equal(scripted(x, w), haloconv.conv2d(x, w, padding=1, stride=2))


def twins(padding, mode, **options):
    """haloconv's layer and torch's with the same integer weights, or haloconv's and None."""
    ours = haloconv.nn.Conv2d(
        4, 6, (2, 3), padding=padding, padding_mode=mode, dtype=torch.float64, **options
    )
    with torch.no_grad():
        for seed, parameter in enumerate(ours.parameters()):
            parameter.copy_(integers(parameter.shape, seed))
    if isinstance(padding, tuple) and len(padding) == 4:
        return ours, None
    theirs = nn.Conv2d(
        4, 6, (2, 3), padding=padding, padding_mode=mode, dtype=torch.float64, **options
    )
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def both_gradients(dy, x, w):
    dx = haloconv.conv2d_dgrad(dy, w, (7, 6), padding=1)
    dw, db = haloconv.conv2d_wgrad_bias(dy, x, 3, padding=1)
    return dx, dw, db, haloconv.conv2d_wgrad(dy, x, 3, padding=1)


def test_gradients_script_to_their_operators():
    x, w, dy = integers((2, 3, 7, 6)), integers((4, 3, 3, 3), 1), integers((2, 4, 7, 6), 2)
    scripted = torch.jit.script(both_gradients)
    assert "haloconv::conv2d_wgrad_bias" in str(scripted.graph)
    for actual, expected in zip(scripted(dy, x, w), both_gradients(dy, x, w), strict=True):
        assert_equal(actual, expected)

    @torch.jit.script
    def backward(dy, x, w):
        return haloconv.conv2d_backward(dy, x, w, padding=1, with_bias=True)

    assert_equal(backward(dy, x, w), scripted(dy, x, w)[:3])


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
def test_module_eager_and_scripted(padding, mode):
    ours, theirs = twins(padding, mode, groups=2, dilation=2)
    x = integers((2, 4, 8, 9), 5)
    if theirs is None:
        top, bottom, left, right = padding
        fill = "constant" if mode == "zeros" else mode
        padded = nn.functional.pad(x, (left, right, top, bottom), mode=fill)
        expected = nn.functional.conv2d(padded, ours.weight, ours.bias, dilation=2, groups=2)
    else:
        expected = theirs(x)
        assert repr(ours) == repr(theirs)
    assert_equal(ours(x), expected)
    assert_equal(torch.jit.script(ours)(x), expected)
    assert_equal(ours(x[0]), expected[0])


def test_module_state_dict_passes_both_ways():
    ours, theirs = twins(1, "zeros")
    fresh = haloconv.nn.Conv2d(4, 6, (2, 3), padding=1, dtype=torch.float64)
    fresh.load_state_dict(theirs.state_dict())
    x = integers((2, 4, 5, 6), 5)
    assert_equal(fresh(x), theirs(x))
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["weight", "bias"]


def test_module_arguments():
    layer = haloconv.nn.Conv2d(2, 4, 3, padding=(0, 1, 2, 3), bias=False, device="meta")
    assert layer.weight.is_meta and layer.bias is None
    assert repr(layer) == (
        "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(0, 1, 2, 3), bias=False)"
    )
    with pytest.raises(ValueError, match="divisible by groups"):
        haloconv.nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="padding_mode"):
        haloconv.nn.Conv2d(2, 4, 3, padding_mode="mirror")
