"""The transposed and one-dimensional convolutions of captured graphs, and what follows them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx

import haloconv
from haloconv.fx import timing as fx_timing
from relatives import EDGES, RELATIVES
from support import assert_equal, fill_with_positives, gradients, integers

aten, ops = torch.ops.aten, torch.ops.haloconv
FLOAT = torch.float32


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def targets(graph) -> list:
    return [node.target for node in graph.nodes if node.op == "call_function"]


LAYERS = {  # each gives its input's shape, so that this can be added to its result
    "conv2d": lambda **more: nn.Conv2d(4, 4, 3, padding=1, **more),
    "conv_transpose2d": lambda **more: nn.ConvTranspose2d(4, 4, 3, padding=1, **more),
    "conv1d": lambda **more: nn.Conv1d(4, 4, 3, padding=1, groups=2, **more),
    "conv_transpose1d": lambda **more: nn.ConvTranspose1d(4, 4, 5, padding=2, groups=2, **more),
}
NAMES = [str(relative) for relative in RELATIVES]
NORMS = {"1d": nn.BatchNorm1d, "2d": nn.BatchNorm2d}


class Layer(nn.Module):
    """A convolution, batch norm, an addition, and an activation."""

    def __init__(self, name, norm=True):
        super().__init__()
        self.conv = LAYERS[name](bias=not norm)
        self.norm = NORMS[name[-2:]](4) if norm else nn.Identity()
        fill_with_positives(self)
        self.eval()

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)) + x)


def operand(name):
    return integers((2, 4, 6, 7) if name.endswith("2d") else (2, 4, 9), 1, FLOAT)


@pytest.mark.parametrize("capture", ["export", "compile", "inductor"])
@pytest.mark.parametrize("name", NAMES)
def test_what_follows_becomes_part(name, capture):
    model, x = Layer(name), operand(name)
    expected = model(x).detach()
    if capture == "inductor":
        compiled = torch.compile(model, backend=haloconv.fx.backend("inductor", fuse=True))
        torch.testing.assert_close(compiled(x), expected)
        return
    if capture == "compile":
        seen = []

        def keep(graph_module, inputs):
            seen.append(graph_module)
            return graph_module.forward

        actual = torch.compile(model, backend=haloconv.fx.backend(keep, fuse=True))(x)
        (module,) = seen
    else:
        exported = torch.export.export(model, (x,))
        module = exported.graph_module
        result = haloconv.fx.replace_convolutions(module, fuse=True)
        assert list(result.fused.values()) == ["batch norm, residual, silu"] and not result.left
        actual = exported.module()(x)
    (fused,) = (n for n in module.graph.nodes if "haloconv" in str(n.target))
    assert fused.target is getattr(ops, f"{name}_fused").default
    assert fused.kwargs["activation"] == "silu" and fused.kwargs["residual"] is not None
    assert not {"batch_norm", "silu"} & {getattr(t, "__name__", "") for t in targets(module.graph)}
    torch.testing.assert_close(actual.detach(), expected)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_the_batch_norm(name):
    model, x = Layer(name).double(), operand(name).double().requires_grad_()
    compiled = torch.compile(model, backend=haloconv.fx.backend("aot_eager", fuse=True))
    leaves = (x, *model.parameters())
    expected = torch.autograd.grad(model(x).square().sum(), leaves)
    actual = torch.autograd.grad(compiled(x).square().sum(), leaves)
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_what_is_not_taken_stays_beside():
    """A function that is no activation; a batch norm whose channels are an unbatched result's."""
    beside = nn.Sequential(nn.ConvTranspose2d(4, 4, 3), nn.LogSigmoid())
    unbatched = nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.BatchNorm1d(6)).eval()
    unbatched[1].running_mean.uniform_(1, 2)
    for model, x in ((beside, operand("2d")), (unbatched, integers((4, 6), 1, FLOAT))):
        exported = torch.export.export(model, (x,))
        result = haloconv.fx.replace_convolutions(exported.graph_module, fuse=True)
        assert len(result.replaced) == 1 and not result.fused
        torch.testing.assert_close(exported.module()(x), model(x))


def chained(x, w, row, v, b):
    """Convolutions alone, for which Inductor has no C++ to compile."""
    return F.conv_transpose2d(x, w, b, (2, 1), 1, (1, 0)), F.conv_transpose1d(
        F.conv1d(row, v, b, padding=2), v, b, 3
    )


def chain_operands():
    shapes = ((2, 4, 5, 6), (4, 4, 3, 2), (2, 4, 9), (4, 4, 3), (4,))
    return [integers(shape, i, FLOAT) for i, shape in enumerate(shapes)]


def test_inductor_s_own_pass():
    reports = []

    def replace(graph):
        reports.append(haloconv.fx.replace_convolutions(graph))

    with torch._inductor.config.patch(post_grad_custom_pre_pass=replace), torch.no_grad():
        compiled = torch.compile(chained, backend="inductor", fullgraph=True)
        for mine, theirs in zip(
            compiled(*chain_operands()), chained(*chain_operands()), strict=True
        ):
            assert_equal(mine, theirs)
    assert [(len(report.replaced), report.left) for report in reports] == [(3, {})]


@pytest.mark.parametrize("inner", ["aot_eager", "inductor"])
def test_compiled_graphs_and_their_gradients(inner):
    def function(*tensors):
        return torch.cat([result.flatten() for result in chained(*tensors)])

    seen = []

    def record(graph_module, inputs):
        seen.extend(str(target) for target in targets(graph_module.graph))
        return graph_module.forward

    captured = aot_autograd(fw_compiler=record)
    tensors = chain_operands()
    g = integers(function(*tensors).shape, 9, FLOAT)
    for within in (captured, inner):
        compiled = torch.compile(function, backend=haloconv.fx.backend(within), fullgraph=True)
        assert_equal(compiled(*tensors), function(*tensors))
        for mine, theirs in zip(
            gradients(compiled, tensors, g), gradients(function, tensors, g), strict=True
        ):
            assert_equal(mine, theirs)
        torch._dynamo.reset()
    assert {f"haloconv.{name}.default" for name in NAMES} <= set(seen)
    assert not [name for name in seen if name.startswith("aten.conv")]


def test_a_list_of_one_value_is_for_all_dimensions():
    """aten.convolution's dimensions are its filter's."""

    def function(x, w):
        return aten.convolution(x, w, None, [2], [1], [1], True, [1], 1)

    x, w = integers((2, 4, 5, 6), 0, FLOAT), integers((4, 3, 3, 2), 1, FLOAT)
    module = make_fx(function)(x, w)
    result = haloconv.fx.replace_convolutions(module)
    assert len(result.replaced) == 1
    assert ops.conv_transpose2d.default in targets(module.graph)
    assert_equal(module(x, w), function(x, w))


def test_three_dimensions_are_left():
    def function(x, w):
        return F.conv_transpose3d(F.conv3d(x, w), w)

    x, w = integers((1, 2, 4, 4, 4), 0, FLOAT), integers((2, 2, 2, 2, 2), 1, FLOAT)
    for module in (torch.fx.symbolic_trace(function), make_fx(function)(x, w)):
        result = haloconv.fx.replace_convolutions(module)
        assert not result.replaced and list(result.left.values()) == ["it is 3-D"] * 2


def test_a_row_keeps_its_layout_when_it_is_timed(monkeypatch):
    """Channels innermost where the graph has them so, whatever layout its images get."""
    monkeypatch.setattr(fx_timing, "_is_timed", lambda device: True)
    row = torch.randn(2, 9, 4).transpose(1, 2)
    operand = fx_timing.Operand.of(row, row)
    for layout in (torch.contiguous_format, torch.channels_last):
        assert operand.make(layout).stride() == row.stride()
    seen = []

    def milliseconds(call, compute, layout=None):
        seen.append((compute.func, layout))
        return 1.0

    monkeypatch.setattr(fx_timing.Call, "milliseconds", milliseconds)
    call = fx_timing.Call("conv1d", (operand, operand, None), ((1,), (0,), (1,), 1))
    haloconv.tuning.clear()
    layouts = (None, torch.contiguous_format, torch.channels_last)
    assert fx_timing.compare([call], layouts).haloconv.keys() == {None}
    assert seen.count((fx_timing.Call.haloconv_s, None)) == 1
    assert seen.count((fx_timing.Call.torch_s, torch.channels_last)) == 1


class Called(nn.Module):
    def __init__(self, call, fused):
        super().__init__()
        self.call, self.fused = call, fused

    def forward(self, x, w, b):
        if self.fused:
            more = {"scale": b, "shift": b, "activation": "relu"}
            return self.call.relative.fused(x, w, b, *self.call.parameters, **more)
        return self.call.run(x, w, b)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("call", [c for c in EDGES if 0 not in c.input], ids=str)
def test_back_to_torch_s_operators(call, fused):
    tensors = call.tensors()
    model = Called(call, fused)
    exported = torch.export.export(model, tensors)
    exported = exported.run_decompositions(haloconv.fx.decompositions())
    assert not any("haloconv" in str(target) for target in targets(exported.graph))
    assert_equal(exported.module()(*tensors), model(*tensors))
