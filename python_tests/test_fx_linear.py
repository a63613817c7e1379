"""Linear layers of images in captured graphs, as convolutions of one tap."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import haloconv
from haloconv.fx import timing as fx_timing
from support import assert_equal, integers

ops = torch.ops.haloconv
# All results are integers below 2048.
SMALL = {"dtype": torch.float16, "bound": 1}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    haloconv.tuning.clear()


class Block(nn.Module):
    """ConvNeXt's: two linear layers between a depthwise convolution and an addition."""

    def __init__(self, activation=nn.ReLU):
        super().__init__()
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.expand, self.activation = nn.Linear(4, 8), activation()
        self.project = nn.Linear(8, 4, bias=False)
        self.scale = nn.Parameter(torch.empty(4, 1, 1))
        for i, parameter in enumerate(self.parameters()):
            parameter.data = integers(parameter.shape, i, **SMALL)

    def forward(self, x):
        y = self.depthwise(x).permute(0, 2, 3, 1).contiguous()
        y = self.project(self.activation(self.expand(y)))
        return torch.permute(y, (0, 3, 1, -2)) * self.scale + x


def image(*size):
    return integers(size or (2, 4, 6, 5), **SMALL).contiguous(memory_format=torch.channels_last)


def compiled(model, **options):
    """The model by the backend, and the graphs that it makes."""
    seen = []

    def keep(graph_module, inputs):
        seen.append(graph_module)
        return graph_module.forward

    options = {"fuse": True} | options
    return torch.compile(model, backend=haloconv.fx.backend(keep, **options)), seen


def targets(seen) -> list:
    return [node.target for node in seen[0].graph.nodes if node.op.startswith("call")]


def fused(seen) -> list:
    return [n for n in seen[0].graph.nodes if n.target is ops.conv2d_fused.default]


def assert_alike(function, model, x):
    """The results and all gradients."""
    wanted = list(model.parameters())
    expected, actual = model(x), function(x)
    assert_equal(actual, expected)
    assert actual.stride() == expected.stride()
    theirs = torch.autograd.grad(expected.sum(), wanted)
    torch.testing.assert_close(torch.autograd.grad(actual.sum(), wanted), theirs)


@pytest.mark.parametrize(("activation", "name"), [(nn.ReLU, "relu"), (nn.Hardtanh, "hardtanh")])
def test_layers_with_what_follows(activation, name, timed):
    """Nothing is left between them."""
    timed.verdict = (0.5, 0.25)
    model = Block(activation)
    function, seen = compiled(model)
    assert_alike(function, model, image())
    first, second = fused(seen)
    assert first.kwargs["activation"] == name and second.args[0] is first
    assert second.kwargs["scale"] is not None and second.kwargs["residual"] is not None
    assert second.kwargs["activation"] == "none"
    left = {"permute", "contiguous", "view", ops.conv2d.default, torch.ops.aten.view.default}
    assert set(targets(seen)) == {*left, ops.conv2d_fused.default}
    assert targets(seen).count("permute") == 2  # on both sides of contiguous()


@pytest.mark.parametrize("is_timed", [True, False], ids=["timed", "not timed"])
def test_layers_that_torch_computes_faster(is_timed, request):
    """The graph computes what it did, and calls nothing of haloconv."""
    if is_timed:
        request.getfixturevalue("timed").verdict = (0.25, 0.5)
    model = Block()
    function, seen = compiled(model)
    assert_alike(function, model, image())
    assert targets(seen).count(F.linear) == 2
    ours = [target for target in targets(seen) if "haloconv" in str(target)]
    assert ours == ([] if is_timed else [ops.conv2d.default])


def test_one_of_two_layers(timed, monkeypatch):
    """Each is given back by itself where channels are innermost."""
    by_channels = {4: (0.5, 0.25), 8: (0.25, 0.5)}  # of the input

    def milliseconds(call, compute, layout=None):
        return by_channels[call.operands[0].shape[1]][compute.func is fx_timing.Call.haloconv_s]

    monkeypatch.setattr(timed, "milliseconds", milliseconds, raising=False)
    model = Block()
    function, seen = compiled(model)
    assert_alike(function, model, image())
    assert targets(seen).count(F.linear) == 1 and len(fused(seen)) == 1


def test_what_is_timed(timed):
    """Each layer once for each side, in the graph's layout, whatever layout that would get."""
    timed.verdict = (0.5, 0.25)
    compiled(Block())[0](image())
    linear = [call for call in timed if call.is_linear]
    expand = [call for call in linear if call.operands[0].shape == (2, 4, 6, 5)]
    assert len(linear) == 4 and len(expand) == 2
    assert expand[0].operands[0].layout is torch.channels_last
    assert expand[0].operands[1].shape == (8, 4, 1, 1)
    call = replace(expand[0], following=None)
    tensors = [operand and operand.make(operand.layout) for operand in call.operands]
    torch.testing.assert_close(call.torch_s(*tensors), call.haloconv_s(*tensors))
    assert call.torch_s(*tensors).is_contiguous(memory_format=torch.channels_last)


LEFT = {
    "of rows": lambda x, w: F.linear(x[:, :, 0], w),
    "of a vector": lambda x, w: F.linear(x[0, 0, 0], w),
    "of pixels apart": lambda x, w: F.linear(x.transpose(1, 2), w),
    "to one number": lambda x, w: F.linear(x, w[0]),
    "of float32": lambda x, w: F.linear(x.float(), w.float()),
}


@pytest.mark.parametrize("why", LEFT)
def test_what_stays_linear(why, timed):
    timed.verdict = (0.5, 0.25)
    x, w = integers((2, 6, 5, 4), **SMALL), integers((8, 4), 1, **SMALL)
    function, seen = compiled(LEFT[why])
    assert_equal(function(x, w), LEFT[why](x, w))
    assert not timed and F.linear in targets(seen)


@pytest.mark.parametrize("options", [{"fuse": False}, {"only_if_faster": False}], ids=str)
def test_only_where_what_follows_is_timed_too(options, timed):
    timed.verdict = (0.5, 0.25)
    function, seen = compiled(Block(), **options)
    function(image())
    assert targets(seen).count(F.linear) == 2 and ops.conv2d.default in targets(seen)


def test_a_result_that_is_used_as_pixels_and_as_an_image(timed):
    timed.verdict = (0.5, 0.25)
    w = integers((8, 4), 1, **SMALL)

    def model(x):
        y = F.linear(x, weight=w)
        return y.permute(0, 3, 1, 2).relu(), y.sum(-1), F.linear(y, w.t()).clamp_(-9, 9)

    x = integers((2, 6, 5, 4), **SMALL)
    function, seen = compiled(model)
    for actual, expected in zip(function(x), model(x), strict=True):
        assert_equal(actual, expected)
        assert actual.stride() == expected.stride()
    assert F.linear not in targets(seen)


def test_autocast(timed):
    timed.verdict = (0.5, 0.25)
    model = Block().float()
    function, seen = compiled(model)
    with torch.autocast("cpu", torch.bfloat16):
        actual, expected = function(image().float()), model(image().float())
    assert actual.dtype is expected.dtype
    assert_equal(actual, expected)
    assert F.linear not in targets(seen)


@pytest.mark.parametrize("inner", ["aot_eager", "inductor"])
def test_compiled_graphs(inner, timed):
    timed.verdict = (0.5, 0.25)
    model = Block()
    function = torch.compile(model, backend=haloconv.fx.backend(inner, fuse=True), dynamic=True)
    for size in ((2, 4, 6, 5), (3, 4, 7, 5)):
        assert_alike(function, model, image(*size))


@pytest.mark.parametrize("faster", ["haloconv", "by time"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_on_each_device(dtype, faster, device, monkeypatch):
    def compare(calls, layouts):
        ours = dict.fromkeys(layouts, [0.5] * len(calls))
        return fx_timing.Times({torch.channels_last: [1.0] * len(calls)}, ours)

    if faster == "haloconv":
        monkeypatch.setattr(fx_timing, "compare", compare)
        monkeypatch.setattr(fx_timing, "_is_timed", lambda device: True)
    model, x = Block(nn.GELU).to(device, dtype), image().to(device, dtype)
    function, seen = compiled(model)
    # Each step is rounded, by 2^-9 of at most some hundred, and there are fewer with haloconv.
    torch.testing.assert_close(function(x), model(x), rtol=0, atol=1)
    if faster == "haloconv":
        assert len(fused(seen)) == 2
