"""Captured graphs on haloconv's operator: torch.fx, torch.compile's backends, torch.export."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo import lookup_backend
from torch.export import Dim

import haloconv
from haloconv import fx_timing
from support import assert_equal, gradients, integers, needs_gpu

INTEGERS = {"dtype": torch.float32}  # small integers: every sum is exact
aten, ops = torch.ops.aten, torch.ops.haloconv


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def targets(graph: torch.fx.Graph) -> list:
    return [node.target for node in graph.nodes if node.op == "call_function"]


def in_every_form(x, w, b):
    """torch.conv2d with each kind of argument; two convolutions that are left."""
    x = F.conv2d(x, w, b, padding=1)
    x = torch.conv2d(x, w, None, (2, 1), "valid")
    x = F.conv2d(x, weight=w[:, :1], padding="same", dilation=(1, 2), groups=4)
    x = F.conv_transpose2d(x, w, stride=2)
    return F.conv1d(x[:, :, 0], w[:, :, 0])


def operands():
    return [integers(s, i, **INTEGERS) for i, s in enumerate(((2, 4, 8, 9), (4, 4, 3, 3), (4,)))]


def forward_graph(form: str) -> torch.fx.GraphModule:
    if form == "symbolic_trace":
        return torch.fx.symbolic_trace(in_every_form)
    if form == "make_fx":  # what is left of conv2d below autograd: aten.convolution
        return torch.fx.experimental.proxy_tensor.make_fx(in_every_form)(*operands())

    class Module(torch.nn.Module):
        def forward(self, x, w, b):
            return in_every_form(x, w, b)

    exported = torch.export.export(Module(), tuple(operands()))
    return (exported.run_decompositions() if form == "decomposed" else exported).graph_module


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("form", ["symbolic_trace", "make_fx", "export", "decomposed"])
def test_graphs_keep_their_meaning(form):
    module = forward_graph(form)
    names = [node.name for node in module.graph.nodes]
    result = haloconv.fx.replace_convolutions(module)
    assert len(result.replaced) == 3, result
    assert sorted(result.left.values()) == ["it is 1-D", "it is transposed"]
    assert set(result.replaced) | set(result.left) <= set(names)
    assert str(result).startswith("replaced 3 of 5 convolutions")
    ours = [t for t in targets(module.graph) if t in (ops.conv2d.default, ops.conv2d.padding)]
    assert len(ours) == 3
    actual = module(*operands())
    assert_equal(actual[0] if isinstance(actual, tuple) else actual, in_every_form(*operands()))
    assert haloconv.fx.replace_convolutions(module).replaced == []


def test_a_graph_without_a_module():
    module = torch.fx.symbolic_trace(in_every_form)
    assert len(haloconv.fx.replace_convolutions(module.graph).replaced) == 3
    module.recompile()
    assert_equal(module(*operands()), in_every_form(*operands()))


def test_three_dimensions_and_gradients_are_left():
    def step(x, w, volume, filter):
        def loss(w):
            return F.conv2d(x, w).square().sum()

        return torch.func.grad(loss)(w), F.conv3d(volume, filter)

    x, w = operands()[:2]
    tensors = (x, w, integers((1, 2, 4, 4, 4), **INTEGERS), integers((1, 2, 2, 2, 2), **INTEGERS))
    module = torch.fx.experimental.proxy_tensor.make_fx(step)(*tensors)
    result = haloconv.fx.replace_convolutions(module)
    assert len(result.replaced) == 1
    assert sorted(result.left.values()) == ["it is 3-D", "it is a gradient"]
    for mine, theirs in zip(module(*tensors), step(*tensors), strict=True):
        assert_equal(mine, theirs)


def test_arguments():
    with pytest.raises(TypeError, match="torch.fx.GraphModule or Graph, but got Conv2d"):
        haloconv.fx.replace_convolutions(torch.nn.Conv2d(1, 1, 1))


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x):
        first = self.layer(x)
        return torch.cond(first.sum() > 0, self.layer, lambda x: -self.layer(x), (x,))


def test_conditions_of_an_exported_program(tmp_path):
    model = Branches()
    x = torch.randn(2, 3, 6, 7)
    exported = torch.export.export(model, (x,), dynamic_shapes={"x": {0: Dim("n")}}, strict=False)
    result = haloconv.fx.replace_convolutions(exported.graph_module)
    assert len(result.replaced) == 3 and sum("." in name for name in result.replaced) == 2
    torch.export.save(exported, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    assert ops.conv2d.default in targets(loaded.graph)
    assert aten.conv2d.default not in targets(loaded.graph)
    for sign in (1, -1):
        with torch.no_grad():
            x = sign * torch.randn(3, 3, 6, 7)
            assert_equal(loaded.module()(x), model(x))


def layers(x, w, b):
    """Two convolutions alone, for which Inductor has no C++ to compile."""
    return F.conv2d(F.conv2d(x, w, b, padding=1), w, stride=(2, 1))


@pytest.mark.parametrize("inner", ["aot_eager", "inductor"])
def test_compiled_graphs_and_their_gradients(inner):
    """After autograd, no convolution of torch's is left in either direction."""
    seen = []

    def record(graph_module, inputs):
        seen.extend(targets(graph_module.graph))
        return graph_module.forward

    captured = torch._dynamo.backends.common.aot_autograd(fw_compiler=record)
    tensors = operands()
    g = torch.ones_like(layers(*tensors))
    for within in (captured, inner):
        compiled = torch.compile(layers, backend=haloconv.fx.backend(within), fullgraph=True)
        assert_equal(compiled(*tensors), layers(*tensors))
        for mine, theirs in zip(
            gradients(compiled, tensors, g), gradients(layers, tensors, g), strict=True
        ):
            assert_equal(mine, theirs)
        torch._dynamo.reset()
    names = {str(target) for target in seen}
    assert "haloconv.conv2d.default" in names and "haloconv.conv2d_dgrad.default" in names
    assert not [name for name in names if name.startswith("aten.conv")]


def test_backend_by_itself_and_unknown():
    compiled = torch.compile(layers, backend=haloconv.fx.backend(lookup_backend("eager")))
    assert_equal(compiled(*operands()), layers(*operands()))
    with pytest.raises(torch._dynamo.exc.InvalidBackend):
        haloconv.fx.backend("no such backend")


def test_inductor_s_own_pass():
    reports = []

    def replace(graph):
        reports.append(haloconv.fx.replace_convolutions(graph))

    with torch._inductor.config.patch(post_grad_custom_pre_pass=replace), torch.no_grad():
        compiled = torch.compile(layers, backend="inductor", fullgraph=True)
        assert_equal(compiled(*operands()), layers(*operands()))
    assert [len(report.replaced) for report in reports] == [2]


def test_padding_computed_from_the_shape():
    def function(x, w):
        return F.conv2d(x, w, padding=x.shape[2] // 4, groups=x.shape[1])

    backend = haloconv.fx.backend("aot_eager")
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=True)
    w = integers((4, 1, 3, 2), 1, **INTEGERS)
    for n, h, width in ((5, 9, 8), (3, 12, 7)):
        x = integers((n, 4, h, width), **INTEGERS)
        assert_equal(compiled(x, w), function(x, w))


@pytest.mark.parametrize(("theirs", "ours"), [(1.5, 1.25), (1.25, 1.5)])
def test_only_if_faster(theirs, ours, monkeypatch):
    """All convolutions of a graph, or none: of what is timed, here on a CPU, and of how it ends."""
    timed = []

    def compare(calls):
        timed.extend(calls)
        return theirs, ours

    def of(value):
        known = (tuple(value.shape), value.dtype, value.device, value.requires_grad)
        return fx_timing.Operand(*known)

    monkeypatch.setattr(fx_timing, "compare", compare)
    monkeypatch.setattr(fx_timing.Operand, "of", of)
    module = forward_graph("export")
    result = haloconv.fx.replace_convolutions(module, only_if_faster=True)
    assert [call.arguments for call in timed] == [
        ((1, 1), (1, 1), (1,), 1),
        ((2, 1), (0,), (1,), 1),
        ((1, 1), "same", (1, 2), 4),
    ]
    assert [len(call.operands) for call in timed] == [3, 3, 3]
    assert timed[0].operands[2].shape == (4,) and timed[1].operands[2] is None
    count = 3 if ours < theirs else 0
    assert len(result.replaced) == count and len(result.left) == 5 - count
    why = "the graph's take 1.25 ms as torch's and 1.50 ms as haloconv's"
    assert list(result.left.values()).count(why) == 3 - count
    assert sum("haloconv" in str(target) for target in targets(module.graph)) == count
    assert_equal(module(*operands())[0], in_every_form(*operands()))


def test_what_cannot_be_timed_is_replaced(monkeypatch):
    monkeypatch.setattr(fx_timing, "compare", None)  # may not be called
    for form in ("symbolic_trace", "export"):  # of unknown sizes; on a CPU
        result = haloconv.fx.replace_convolutions(forward_graph(form), only_if_faster=True)
        assert len(result.replaced) == 3


@needs_gpu
@pytest.mark.parametrize("requires_grad", [False, True])
def test_times_are_those_of_all_calls(requires_grad):
    """Twice the calls take twice the time, and random numbers stay as they were."""

    def operand(*shape):
        return fx_timing.Operand(shape, torch.float32, torch.device("cuda", 0), requires_grad)

    call = fx_timing.Call((operand(4, 32, 64, 64), operand(32, 32, 3, 3), operand(32)), ())
    pointwise = fx_timing.Call((operand(4, 32, 64, 64), operand(64, 32, 1, 1), None), ())
    state = torch.cuda.get_rng_state()
    once, more = fx_timing.compare([call]), fx_timing.compare([call, pointwise, call])
    assert torch.equal(state, torch.cuda.get_rng_state())
    # A timing of some microseconds may err, not by half.
    assert all(0 < a * 1.5 < b for a, b in zip(once, more, strict=True))
    if requires_grad:
        forward = fx_timing.Call(
            tuple(o and replace(o, requires_grad=False) for o in call.operands), ()
        )
        assert all(a < b for a, b in zip(fx_timing.compare([forward]), once, strict=True))


@needs_gpu
def test_a_compiled_model_is_timed(monkeypatch):
    times = []
    compare = fx_timing.compare
    monkeypatch.setattr(
        fx_timing, "compare", lambda calls: times.append(compare(calls)) or times[-1]
    )
    model = torch.nn.Conv2d(64, 64, 5, device="cuda")
    x = torch.randn(4, 64, 128, 128, device="cuda")
    compiled = torch.compile(model, backend=haloconv.fx.backend("aot_eager"))
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-2, atol=1e-2)  # TF32, two ways
    assert len(times) == 1 and min(times[0]) > 0
