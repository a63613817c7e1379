"""conv2d's relatives as functions and layers; models that are replaced and routed."""

import inspect
import io

import pytest
import torch
import torch.nn.functional as F

import haloconv
from relatives import CONV1D, CONV_TRANSPOSE1D, CONV_TRANSPOSE2D, EDGES, RELATIVES
from support import assert_equal, integers

LAYERS = {
    CONV1D: "Conv1d",
    CONV_TRANSPOSE1D: "ConvTranspose1d",
    CONV_TRANSPOSE2D: "ConvTranspose2d",
}
relatives = pytest.mark.parametrize("relative", RELATIVES, ids=str)


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """The names of haloconv's operators that are called within it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "haloconv":
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


def small(relative, seed=0):
    """input, weight and bias of three channels each."""
    dims = relative.pixel_dims
    shapes = ((2, 3, *(6, 7)[:dims]), (3, 3, *(3, 2)[:dims]), (3,))
    return [integers(shape, seed + i) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("call", EDGES, ids=str)
def test_functions_are_the_operators(call):
    tensors = call.tensors()
    function = getattr(haloconv, call.relative.name)
    assert_equal(function(*tensors, *call.parameters), call.pytorch(*tensors))
    fused = getattr(haloconv, f"{call.relative.name}_fused")
    actual = fused(*tensors, *call.parameters, activation="clamp", activation_arguments=(-3, 5))
    assert_equal(actual, call.pytorch(*tensors).clamp(-3, 5))


@relatives
def test_functions_take_numbers_where_torch_s_do(relative):
    x, w, b = small(relative)
    function = getattr(haloconv, relative.name)
    given = {"stride": 2, "padding": 1, "dilation": 2, "groups": 1}
    if relative.transposed:
        given["output_padding"] = 1
    assert_equal(function(x, w, b, **given), relative.pytorch(x, w, b, **given))
    assert_equal(function(x, w), relative.pytorch(x, w))
    if not relative.transposed:
        assert_equal(function(x, w, padding="same"), relative.pytorch(x, w, padding="same"))


@relatives
def test_functions_have_torch_s_arguments_in_torch_s_order(relative):
    names = list(inspect.signature(getattr(haloconv, relative.name)).parameters)
    schema = getattr(torch.ops.aten, relative.name)
    overload = schema.input if relative.transposed and relative.pixel_dims == 2 else schema.default
    assert names == [argument.name for argument in overload._schema.arguments]


@relatives
def test_errors_name_the_argument(relative):
    x, w, b = small(relative)
    function = getattr(haloconv, relative.name)
    with pytest.raises(TypeError, match="expected weight to be a Tensor, but got 3"):
        function(x, 3)
    with pytest.raises(TypeError, match="expected bias to be a Tensor"):
        function(x, w, "bias")
    with pytest.raises(TypeError, match="expected stride to be one or more ints, but got 1.5"):
        function(x, w, b, 1.5)
    with pytest.raises(RuntimeError):
        function(x, w, b, -1)
    if relative.transposed:
        with pytest.raises(TypeError, match="expected output_padding to be one or more ints"):
            function(x, w, b, output_padding=None)


@relatives
def test_scripted_functions_hold_the_operators(relative):
    function = getattr(haloconv, relative.name)
    scripted = torch.jit.script(_TO_SCRIPT[relative])
    assert f"haloconv::{relative.name}" in str(scripted.graph)
    x, w, _ = small(relative)
    assert_equal(scripted(x, w), function(x, w))


def _scripted_conv1d(x: torch.Tensor, w: torch.Tensor):
    return haloconv.conv1d(x, w)


def _scripted_up1d(x: torch.Tensor, w: torch.Tensor):
    return haloconv.conv_transpose1d(x, w)


def _scripted_up2d(x: torch.Tensor, w: torch.Tensor):
    return haloconv.conv_transpose2d(x, w)


_TO_SCRIPT = {
    CONV1D: _scripted_conv1d,
    CONV_TRANSPOSE1D: _scripted_up1d,
    CONV_TRANSPOSE2D: _scripted_up2d,
}


def layers(relative, **options):
    """torch's layer, and haloconv's with the same parameters."""
    name, kernel = LAYERS[relative], (3, 2)[: relative.pixel_dims]
    theirs = getattr(torch.nn, name)(4, 6, kernel, dtype=torch.float64, **options)
    ours = getattr(haloconv.nn, name)(4, 6, kernel, dtype=torch.float64, **options)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    return theirs, ours


@relatives
@pytest.mark.parametrize(
    "options",
    [{}, {"stride": 2, "padding": 1, "groups": 2}, {"bias": False, "dilation": 2}],
    ids=str,
)
def test_layers_are_torch_s(relative, options):
    theirs, ours = layers(relative, **options)
    x = torch.randn(2, 4, *(9, 8)[: relative.pixel_dims], dtype=torch.float64)
    assert_equal(ours(x), theirs(x))
    assert_equal(ours(x[0]), theirs(x[0]))
    assert repr(ours) == repr(theirs)
    with Seen() as seen:
        ours(x)
    assert seen.names == [relative.name]
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(ours), buffer)
    buffer.seek(0)
    assert_equal(torch.jit.load(buffer)(x), theirs(x))
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    assert_equal(compiled(x), theirs(x))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_modes(mode):
    theirs, ours = layers(CONV1D, padding=2, padding_mode=mode)
    x = torch.randn(2, 4, 9, dtype=torch.float64)
    assert_equal(ours(x), theirs(x))
    sided = haloconv.nn.Conv1d(4, 6, 3, padding=(2, 0), padding_mode=mode, dtype=torch.float64)
    padded = F.pad(x, (2, 0), mode="constant" if mode == "zeros" else mode)
    assert_equal(sided(x), F.conv1d(padded, sided.weight, sided.bias))


def test_a_causal_layer_needs_no_padded_copy():
    layer = haloconv.nn.Conv1d(4, 6, 3, padding=(4, 0), dilation=2, dtype=torch.float64)
    x = torch.randn(2, 4, 9, dtype=torch.float64)
    with Seen() as seen:
        result = layer(x)
    assert seen.names == ["conv1d"] and result.shape == (2, 6, 9)
    later = x.clone()
    later[..., 5:] += 1
    assert_equal(layer(later)[..., :5], result[..., :5])


@pytest.mark.parametrize("relative", [CONV_TRANSPOSE1D, CONV_TRANSPOSE2D], ids=str)
def test_output_size_is_torch_s(relative):
    theirs, ours = layers(relative, stride=3, padding=1)
    dims = relative.pixel_dims
    x = torch.randn(2, 4, *(5, 4)[:dims], dtype=torch.float64)
    scripted = torch.jit.script(ours)
    smallest = list(theirs(x).shape[2:])
    for more in range(3):
        size = [value + more for value in smallest]
        expected = theirs(x, size)
        assert list(expected.shape[2:]) == size
        for layer in (ours, scripted):
            assert_equal(layer(x, size), expected)
            assert_equal(layer(x, [2, 6, *size]), theirs(x, [2, 6, *size]))
            assert_equal(layer(x[0], size), theirs(x[0], size))
    for wrong in ([value - 1 for value in smallest], [value + 3 for value in smallest]):
        for layer in (theirs, ours):
            with pytest.raises(ValueError, match="requested an output size of"):
                layer(x, wrong)
    for layer in (theirs, ours):
        with pytest.raises(ValueError, match="output_size"):
            layer(x, [1] * (dims + 3))


def test_output_size_with_padding_of_each_side():
    layer = haloconv.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=(0, 1, 2, 0))
    x = torch.randn(2, 4, 5, 4)
    assert layer(x).shape == (2, 6, 10, 7)
    assert layer(x, [11, 7]).shape == (2, 6, 11, 7)
    with pytest.raises(ValueError, match="dimension 1 range from 7 to 8"):
        layer(x, [11, 9])


class Audio(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down = torch.nn.Conv1d(1, 4, 5, stride=2)
        self.up = torch.nn.ConvTranspose1d(4, 1, 6, stride=2)
        self.image = torch.nn.ConvTranspose2d(1, 1, 2, stride=2)

    def forward(self, x):
        return self.image(self.up(F.relu(self.down(x)))[:, :, None])


CALLS = ["conv1d", "conv_transpose1d", "conv_transpose2d"]


def test_replaced_layers():
    model, x = Audio().double(), torch.randn(2, 1, 21, dtype=torch.float64)
    expected, state = model(x), model.state_dict()
    assert haloconv.replace(model).replaced == ["down", "up", "image"]
    with Seen() as seen:
        assert_equal(model(x), expected)
    assert seen.names == CALLS and list(model.state_dict()) == list(state)
    assert haloconv.replace(model).replaced == []


def test_routed_functions():
    model, x = Audio().double(), torch.randn(2, 1, 21, dtype=torch.float64)
    expected = model(x)
    before = [(module, name, getattr(module, name)) for module in (torch, F) for name in CALLS]
    with haloconv.route():
        with Seen() as seen:
            assert_equal(model(x), expected)
        scripted = torch.jit.script(model)
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        assert_equal(compiled(x), expected)
    assert seen.names == CALLS
    assert all(getattr(module, name) is function for module, name, function in before)
    with Seen() as seen:
        assert_equal(model(x), expected)
    assert not seen.names
    assert all(f"haloconv::{name}" in str(scripted.inlined_graph) for name in CALLS)
