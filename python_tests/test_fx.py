"""Captured graphs on haloconv's operator: torch.fx, torch.compile's backends, torch.export."""

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo import lookup_backend
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses import FakeTensorMode
from torch.export import Dim

import haloconv
from haloconv.fx import timing as fx_timing
from support import assert_equal, gradients, integers, needs_gpu

INTEGERS = {"dtype": torch.float32}  # small integers: every sum is exact
aten, ops = torch.ops.aten, torch.ops.haloconv


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    haloconv.tuning.clear()


def targets(graph: torch.fx.Graph) -> list:
    return [node.target for node in graph.nodes if node.op == "call_function"]


def in_every_form(x, w, b):
    """torch's convolutions with each kind of argument, each with another number of taps."""
    x = F.conv2d(x, w, b, padding=1)
    x = torch.conv2d(x, w, None, (2, 1), "valid")
    x = F.conv2d(x, weight=w[:, :1], padding="same", dilation=(1, 2), groups=4)
    x = F.conv_transpose2d(x, w, b, stride=2, output_padding=(1, 0))
    x = F.conv1d(x[:, :, 0], w[:, :, 0], b, padding=1)
    x = torch.conv1d(x, w[:, :2, 0], None, 2, "valid", 1, 2)
    return torch.conv_transpose1d(x, w[:, :, 0], None, [3], 1, 1, 1, 2)


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
    assert len(result.replaced) == 7 and not result.left, result
    assert set(result.replaced) <= set(names)
    assert str(result) == "replaced 7 of 7 convolutions"
    ours = [t.overloadpacket for t in targets(module.graph) if "haloconv" in str(t)]
    assert ours == [ops.conv2d] * 3 + [ops.conv_transpose2d] + [ops.conv1d] * 2 + [
        ops.conv_transpose1d
    ]
    actual = module(*operands())
    assert_equal(actual[0] if isinstance(actual, tuple) else actual, in_every_form(*operands()))
    assert haloconv.fx.replace_convolutions(module).replaced == []


def test_modules_that_are_not_traced_into_are_left_to_replace():
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.ReLU(), torch.nn.Conv1d(6, 2, 3))
    module = torch.fx.symbolic_trace(model)
    result = haloconv.fx.replace_convolutions(module)
    why = "it is a module, which haloconv.replace() takes"
    assert result.left == {"_0": why, "_2": why} and not result.replaced
    assert haloconv.replace(module).replaced == ["0", "2"]
    assert str(haloconv.fx.replace_convolutions(module)) == "replaced 0 of 0 convolutions"
    assert not haloconv.fx.replace_convolutions(torch.fx.symbolic_trace(model).graph).replaced


def test_a_graph_without_a_module():
    module = torch.fx.symbolic_trace(in_every_form)
    assert len(haloconv.fx.replace_convolutions(module.graph).replaced) == 7
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

    captured = aot_autograd(fw_compiler=record)
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
    assert {"haloconv.conv2d.default", "haloconv.conv2d_backward.default"} <= names
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


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("verdict", [(0.5, 0.25), (0.25, 0.5)])
def test_only_if_faster(verdict, timed):
    """All convolutions of a graph, or none."""
    timed.verdict = verdict
    module = forward_graph("export")
    result = haloconv.fx.replace_convolutions(module, only_if_faster=True)
    last = timed[-7:]  # haloconv's: torch's seven without bias, twice, came before
    assert len(timed) == 21 and {call.operands[2] for call in timed[:14]} == {None}
    assert {(call.name, call.arguments) for call in last} == {
        ("conv2d", ((1, 1), (1, 1), (1,), 1)),
        ("conv2d", ((2, 1), (0,), (1,), 1)),
        ("conv2d", ((1, 1), "same", (1, 2), 4)),
        ("conv_transpose2d", ((2, 2), (0, 0), (1, 0), 1, (1,))),
        ("conv1d", ((1,), (1,), (1,), 1)),
        ("conv1d", ((2,), "valid", (1,), 2)),
        ("conv_transpose1d", ((3,), (1,), (1,), 1, (2,))),
    }
    assert [len(call.operands[2].shape) for call in last if call.operands[2]] == [1, 1, 1]
    count = 7 if verdict[1] < verdict[0] else 0
    assert len(result.replaced) == count and len(result.left) == 7 - count
    why = "all take 1.75 ms as torch's and 3.50 ms as haloconv's"
    assert list(result.left.values()).count(why) == 7 - count
    assert sum("haloconv" in str(target) for target in targets(module.graph)) == count
    assert_equal(module(*operands())[0], in_every_form(*operands()))


class Layer(torch.nn.Conv2d):
    """Its gradients may be wanted or not, its input another layout or dtype."""

    def __init__(self, recorded: bool = True, dtype: torch.dtype | None = None):
        super().__init__(3, 4, 3)
        self.recorded, self.dtype = recorded, dtype

    def forward(self, x):
        if self.dtype is not None:
            with torch.autocast("cpu", self.dtype):
                x = super().forward(x)
        elif self.recorded:
            x = super().forward(x)
        else:
            with torch.no_grad():
                x = super().forward(x)
        return x


def compiled_with_timing(model):
    return torch.compile(model, backend=haloconv.fx.backend("aot_eager"))


def test_what_is_timed_is_what_the_graph_computes(timed):
    """Gradients, dtype and layout are the result's and the input's, then others."""
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    for recorded, dtype in ((True, None), (False, None), (True, torch.bfloat16)):
        compiled_with_timing(Layer(recorded, dtype))(x)
        torch._dynamo.reset()
        for call in timed:
            image, weight, bias = call.operands
            assert image.layout is torch.channels_last and not image.requires_grad
            assert weight.requires_grad is recorded
            # Torch's bias is timed where it has a gradient.
            assert bias.requires_grad if recorded else bias in (None, timed[-1].operands[2])
            assert {image.dtype, weight.dtype} == {dtype or torch.float32}
        assert len(timed) == 3  # rows are no layout that torch's would get
        timed.clear()
    haloconv.tuning.clear()
    with torch.no_grad():
        compiled_with_timing(Layer())(x)
    exported = torch.export.export(Layer(), (x,))
    haloconv.fx.replace_convolutions(exported.graph_module, only_if_faster=True)
    assert len(timed) == 3 + 2
    assert not [o for call in timed for o in call.operands if o is not None and o.requires_grad]


def test_what_becomes_part_of_a_convolution_is_timed_with_it(timed):
    """Torch's take a pass over the result for it; an addition is part of one convolution alone."""
    timed.verdict = (0.5, 0.25)
    first, second = torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(3, 4, 3)
    norm = torch.nn.BatchNorm2d(4).eval()

    def model(x):
        with torch.no_grad():
            return torch.relu(norm(first(x)) + second(x)), torch.nn.functional.gelu(first(x))

    torch.compile(model, backend=haloconv.fx.backend("aot_eager", fuse=True))(
        torch.randn(2, 3, 8, 8)
    )
    residual = fx_timing.Operand(
        (2, 4, 6, 6), torch.float32, torch.device("cpu"), torch.contiguous_format, False
    )
    assert len(timed) == 3 * 4
    assert {call.following for call in timed} == {
        fx_timing.Following(True, True, residual, "relu"),
        None,
        fx_timing.Following(activation="gelu"),
    }


def test_timing_is_apart_from_what_the_caller_does(timed):
    """Hooks on what autograd saves, modes that make tensors fake, and autocast."""
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    compiled = compiled_with_timing(Layer())
    torch.utils.checkpoint.checkpoint(compiled, x, use_reentrant=False).sum().backward()
    assert len(timed) == 4
    exported = torch.export.export(Layer(), (x,))
    with FakeTensorMode(), torch.autocast("cpu", torch.bfloat16):
        haloconv.fx.replace_convolutions(exported.graph_module, only_if_faster=True)
    assert len(timed) == 4 + 3


def test_other_sizes_are_timed_as_well(timed):
    compiled = compiled_with_timing(Layer())
    for batch in (2, 3, 5):  # the second makes the batch a symbol, which serves the third
        compiled(torch.randn(batch, 3, 8, 8))
    assert [call.operands[0].shape[0] for call in timed] == 4 * [2] + 4 * [3]


def test_a_graph_is_timed_once(timed, tmp_path):
    """And not at all in a process that reads the file."""
    timed.verdict = (0.5, 0.25)
    x = torch.randn(2, 3, 8, 8)
    for _ in range(2):
        torch._dynamo.reset()
        compiled_with_timing(Layer())(x)
    assert len(timed) == 4
    haloconv.tuning.save(tmp_path / "tuning.json")
    haloconv.tuning.clear()
    haloconv.tuning.load(tmp_path / "tuning.json")
    torch._dynamo.reset()
    timed.verdict = (0.25, 0.5)  # would leave it to torch
    result = haloconv.fx.backend(lambda module, inputs: seen.append(module) or module)
    seen = []
    torch.compile(Layer(), backend=result)(x)
    assert len(timed) == 4 and ops.conv2d.default in targets(seen[0].graph)
    haloconv.tuning.clear()
    torch._dynamo.reset()
    compiled_with_timing(Layer())(x)
    assert len(timed) == 8


def test_what_the_times_depend_on_is_timed_again(timed):
    for change in ({}, {"stride": 2}, {"size": 9}, {"recorded": False}):
        layer = Layer(change.get("recorded", True))
        layer.stride = (change.get("stride", 1),) * 2
        torch._dynamo.reset()
        before = len(timed)
        compiled_with_timing(layer)(torch.randn(2, 3, 8, change.get("size", 8)))
        assert len(timed) == before + 4
    for setting in ("benchmark", "allow_tf32"):
        with torch.backends.cudnn.flags(**{setting: not getattr(torch.backends.cudnn, setting)}):
            torch._dynamo.reset()
            before = len(timed)
            compiled_with_timing(Layer())(torch.randn(2, 3, 8, 8))
            assert len(timed) == before + 4


def test_what_cannot_be_timed_is_replaced(timed, monkeypatch):
    def replaced(form: str = "export") -> int:
        graph = forward_graph(form)
        return len(haloconv.fx.replace_convolutions(graph, only_if_faster=True).replaced)

    assert replaced() == 0 and timed
    timed.clear()
    assert replaced("symbolic_trace") == 7  # its sizes are not known
    torch.use_deterministic_algorithms(True)
    try:
        assert replaced() == 7
    finally:
        torch.use_deterministic_algorithms(False)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    assert replaced() == 7 and not timed
    monkeypatch.undo()
    assert replaced() == 7  # on a CPU


def test_a_timing_that_fails(timed, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("too large")

    monkeypatch.setattr(timed, "milliseconds", fail)
    result = haloconv.fx.replace_convolutions(forward_graph("export"), only_if_faster=True)
    assert len(result.replaced) == 7


def test_nothing_is_timed_within_a_backward_pass(timed):
    """The gradients would wait for a thread that waits for them."""
    compiled = compiled_with_timing(Layer())

    class Recomputes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return compiled(*ctx.saved_tensors).mean() * grad

    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    Recomputes.apply(x).sum().backward()
    assert x.grad is not None and not timed


@needs_gpu
@pytest.mark.parametrize("requires_grad", [False, True])
def test_calls_are_captured_with_their_gradients(requires_grad, monkeypatch):
    """Each replay of five calls is said to take 5 ms; random numbers stay as they were."""
    gradients_taken = []
    grad = torch.autograd.grad
    monkeypatch.setattr(
        torch.autograd, "grad", lambda *given: gradients_taken.append(given) or grad(*given)
    )
    monkeypatch.setattr(fx_timing, "_replay", lambda graph: graph.replay() or 5.0)

    def operand(*shape):
        device = torch.device("cuda", 0)
        layout = torch.contiguous_format
        return fx_timing.Operand(shape, torch.float32, device, layout, requires_grad)

    call = fx_timing.Call(
        "conv2d", (operand(4, 32, 64, 64), operand(32, 32, 3, 3), operand(32)), ()
    )
    pointwise = fx_timing.Call("conv2d", (operand(4, 32, 64, 64), operand(64, 32, 1, 1), None), ())
    state = torch.cuda.get_rng_state()
    layouts = (None, torch.contiguous_format, torch.channels_last)
    times = fx_timing.compare([call, pointwise, call], layouts)
    each = (1.0, 1.0, 1.0)
    assert times.torch == {torch.contiguous_format: each, torch.channels_last: each}
    # Rows are the layout that all have: not timed again.
    assert times.haloconv == {None: each, torch.channels_last: each}
    assert torch.equal(state, torch.cuda.get_rng_state())
    assert bool(gradients_taken) is requires_grad


@needs_gpu
def test_a_compiled_model_is_timed(monkeypatch):
    times = []
    compare = fx_timing.compare
    monkeypatch.setattr(
        fx_timing, "compare", lambda *given: times.append(compare(*given)) or times[-1]
    )
    model = torch.nn.Conv2d(64, 64, 5, device="cuda")
    x = torch.randn(4, 64, 128, 128, device="cuda")
    compiled = torch.compile(model, backend=haloconv.fx.backend("aot_eager"))
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-2, atol=1e-2)  # TF32, two ways
    (found,) = times
    assert min(found.torch_s, *map(found.of_both, found.haloconv)) > 0


@pytest.mark.parametrize("options", [{"mode": "reduce-overhead"}, {"options": {"max_autotune": 0}}])
def test_torch_compile_s_own_options(options):
    """torch.compile hands them to a backend, and reads them itself for Inductor by name."""
    seen = []

    def inner(graph_module, inputs, **given):
        seen.append(given)
        return graph_module

    x = torch.randn(1, 2, 5, 6)
    model = torch.nn.Conv2d(2, 3, 3)
    torch.compile(model, backend=haloconv.fx.backend(inner), **options)(x)
    assert seen == [options]
    if "mode" in options:
        compiled = torch.compile(model, backend=haloconv.fx.backend("inductor"), **options)
        torch.testing.assert_close(compiled(x), model(x))
    else:
        with pytest.raises(Exception, match="Unexpected type of attr max_autotune"):
            torch.compile(model, backend=haloconv.fx.backend("inductor"), **options)(x)


@pytest.mark.parametrize("name", ["stride", "padding", "dilation"])
def test_arguments_that_only_the_call_knows(name):
    """A number, a tuple or a string, for all that a traced graph says."""
    module = torch.fx.symbolic_trace(lambda x, w, value: F.conv2d(x, w, **{name: value}))
    result = haloconv.fx.replace_convolutions(module)
    assert list(result.left.values()) == [f"whether its {name} is a number is not known"]
    x, w, _ = operands()
    for value in (1, (2, 1)):
        assert_equal(module(x, w, value), F.conv2d(x, w, **{name: value}))


def test_a_number_computed_from_sizes():
    def function(x, w):
        return F.conv2d(x, w, padding=x.shape[2] // 4)

    found = []

    def inner(graph_module, inputs):
        found.append(targets(graph_module.graph).count(ops.conv2d.default))
        return graph_module

    backend = haloconv.fx.backend(inner)
    compiled = torch.compile(function, backend=backend, dynamic=True, fullgraph=True)
    for height in (8, 13):
        x, w = integers((2, 3, height, 9), **INTEGERS), integers((4, 3, 3, 3), 1, **INTEGERS)
        assert_equal(compiled(x, w), function(x, w))
    assert found == [1]
