"""conv_transpose2d, conv1d and conv_transpose1d compiled, exported, scripted, counted and cast."""

import io

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.export import Dim
from torch.utils.flop_counter import FlopCounterMode

import haloconv
from relatives import CONV1D, CONV_TRANSPOSE1D, CONV_TRANSPOSE2D, RELATIVES, random_calls
from support import assert_equal, gradients, integers

ops = torch.ops.haloconv
# In each operator's order, with everything that a symbolic size may meet.
PARAMETERS = {
    CONV_TRANSPOSE2D: ([2, 1], [1, 0, 1, 2], [1, 0], 1, [1, 1]),
    CONV1D: ([2], [2, 1], [1], 1),
    CONV_TRANSPOSE1D: ([2], [1, 0], [1], 1, [1]),
}
SIZES = [(5, 9, 8), (3, 12, 7), (2, 20, 31), (4, 6, 16)]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        yield


def layer(relative):
    def function(x, w, b):
        return relative.op.default(x, w, b, *PARAMETERS[relative]).relu()

    return function


def operands(relative, n=3, h=12, width=7):
    """No size but the batch and the pixels occurs twice."""
    x = integers((n, 10, h, width) if relative.pixel_dims == 2 else (n, 10, h * width))
    w = integers((10, 10, *(3, 2)[: relative.pixel_dims]), 1)
    return x, w, integers((10,), 2)


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_dynamic_shapes_compile_once(relative):
    counter = CompileCounter()
    function = layer(relative)
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for size in SIZES:
        tensors = operands(relative, *size)
        assert_equal(compiled(*tensors), function(*tensors))
    assert counter.frame_count == 1


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_gradients(relative):
    function = layer(relative)
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for size in SIZES:
        tensors = operands(relative, *size)
        g = integers(function(*tensors).shape, 5)
        expected = gradients(function, tensors, g)
        for mine, theirs in zip(gradients(compiled, tensors, g), expected, strict=True):
            assert_equal(mine, theirs)


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_exported_graphs_hold_the_operator(relative, tmp_path):
    class Layer(torch.nn.Module):
        def forward(self, x, w, b):
            return layer(relative)(x, w, b)

    x, w, b = operands(relative)
    dynamic = {0: Dim("n", min=2, max=64), x.dim() - 1: Dim("width", min=5, max=1000)}
    program = torch.export.export(Layer(), (x, w, b), dynamic_shapes=(dynamic, None, None))
    for exported in (program, program.run_decompositions()):
        targets = [str(node.target) for node in exported.graph.nodes]
        assert f"haloconv.{relative.name}.default" in targets
        assert not any("conv2d" in target and "transpose" not in target for target in targets)
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    for n, h, width in SIZES:
        x, w, b = operands(relative, n, 12 if relative.pixel_dims == 2 else h, width)
        assert_equal(loaded.module()(x, w, b), layer(relative)(x, w, b))


class Net(torch.nn.Module):
    """A causal layer, an upsampling one, and both in two dimensions."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(integers((4, 4, 3)))

    def forward(self, x):
        x = torch.ops.haloconv.conv1d(x, self.w, None, [1], [2, 0])
        x = torch.ops.haloconv.conv_transpose1d_fused(x, self.w, None, [2], [1], activation="relu")
        w = self.w.unsqueeze(-2)
        return torch.ops.haloconv.conv_transpose2d(x.unsqueeze(-2), w, None, [1, 2], [0], [0, 1])


def test_scripted_and_saved():
    x = integers((2, 4, 9))
    expected = Net()(x)
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Net()), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    for name in ("conv1d", "conv_transpose1d_fused", "conv_transpose2d"):
        assert f"haloconv::{name}(" in str(loaded.graph)
    g = integers(expected.shape, 5)
    for _ in range(3):  # the profiling executor optimises from the second call on
        assert_equal(loaded(x), expected)
        assert_equal(gradients(loaded, (x,), g)[0], gradients(Net(), (x,), g)[0])


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_flops_are_counted_as_pytorchs(relative, groups):
    x, w, b = operands(relative)
    w = w if relative.transposed else w[:, : 10 // groups]
    b = torch.cat([b] * groups) if relative.transposed else b
    parameters = ([2], [1], [1], groups, [1]) if relative.transposed else ([2], [1], [1], groups)

    def counted(function):
        with FlopCounterMode(display=False) as counter:
            function(x, w, b, *parameters)
        return counter.get_total_flops()

    assert counted(relative.op) == counted(relative.fused) == counted(relative.pytorch) > 0


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_autocast(relative, device):
    x, w, b = (t.float().to(device) for t in operands(relative))
    with torch.autocast(device, torch.bfloat16):
        y = relative.op(x, w, b)
        fused = relative.fused(x, w, b, activation="relu")
        assert relative.explain(x, w, b)
    expected = relative.op(x.bfloat16(), w.bfloat16(), b.bfloat16())
    assert_equal(y, expected)
    assert_equal(fused, expected.relu())


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_takes_residual(relative):
    (call,) = random_calls(relative, 1)
    x, w, _ = call.tensors()
    takes = getattr(ops, f"{relative.name}_takes_residual")
    y = call.run(x, w, None)
    assert takes(x, w, y, *call.parameters)
    assert not takes(x, w, y[..., :-1], *call.parameters)
    assert not takes(x, w, y.float(), *call.parameters)
    assert not takes(x, w, y.unsqueeze(0), *call.parameters)


def test_forced_implementation():
    x, w = torch.ones(1, 2, 5), torch.ones(2, 2, 3)
    with haloconv.implementation("aten"):
        assert_equal(ops.conv1d(x, w), torch.nn.functional.conv1d(x, w))
    with haloconv.implementation("generic"), pytest.raises(RuntimeError, match="conv_transpose1d"):
        ops.conv_transpose1d(x, w)
