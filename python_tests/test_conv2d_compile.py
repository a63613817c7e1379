"""opcheck, torch.compile and torch.export."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim

import haloconv
from samples import SAMPLES
from support import LAYOUTS, assert_equal, gradients, integers

ops = torch.ops.haloconv


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        yield


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_opcheck(sample):
    tensors = sample.with_bias(*sample.tensors())
    torch.library.opcheck(sample.op, (*tensors, *sample.rest), sample.options)


@pytest.mark.parametrize("format", [None, torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("name", ["conv2d_dgrad", "conv2d_wgrad", "conv2d_wgrad_bias"])
def test_opcheck_memory_format(name, format):
    g, x, w = integers((2, 4, 4, 3)), integers((2, 3, 6, 5)), integers((4, 3, 3, 3))
    other, size = (w, [6, 5]) if name == "conv2d_dgrad" else (x, [3, 3])
    utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(
        getattr(ops, name).default,
        (g, other, size),
        {"memory_format": format},
        test_utils=utilities,
    )


@pytest.mark.parametrize("weight_layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("input_layout", ["contiguous", "channels_last", "permuted", "sliced"])
def test_fake_and_meta_strides(input_layout, weight_layout):
    x = LAYOUTS[input_layout](integers((2, 3, 6, 5)))
    w = LAYOUTS[weight_layout](integers((4, 3, 3, 3)))
    assert_shadows_are_like_it(x, w)


def by_taps(filter):
    """As docs/choice.md lays it out."""
    return filter.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)


def test_a_filter_by_taps_leaves_the_result_in_rows():
    """Its channels are innermost, but neither torch nor haloconv takes it for channels_last."""
    x, w = integers((2, 8, 6, 5)), integers((4, 8, 3, 2), 1)
    laid = by_taps(w)
    assert laid.stride() == (8, 1, 64, 32)
    y = assert_shadows_are_like_it(x, laid)
    assert_equal(y, haloconv.conv2d(x, w, padding=(0, 1, 2, 1)))
    assert y.is_contiguous() and torch.conv2d(x, laid).is_contiguous()


def test_a_filter_by_taps_keeps_its_layout(tmp_path):
    """In saved models of either kind, and when other values are loaded."""
    layer = haloconv.nn.Conv2d(8, 4, 3).eval().requires_grad_(False)
    layer.weight.data = by_taps(layer.weight)
    strides, x = layer.weight.stride(), integers((2, 8, 6, 5), dtype=torch.float32)
    layer.load_state_dict({"weight": integers((4, 8, 3, 3), 1), "bias": integers((4,), 2)})
    script, program = tmp_path / "script.pt", tmp_path / "program.pt2"
    torch.jit.script(layer).save(script)
    torch.export.save(torch.export.export(layer, (x,)), program)
    for loaded in (torch.jit.load(script), torch.export.load(program).module()):
        assert dict(loaded.named_parameters())["weight"].stride() == strides
        y = loaded(x)
        assert_equal(y, layer(x))
        assert y.is_contiguous()


def assert_shadows_are_like_it(x, w):
    y = haloconv.conv2d(x, w, padding=(0, 1, 2, 1))
    with FakeTensorMode() as mode:
        fake = haloconv.conv2d(mode.from_tensor(x), mode.from_tensor(w), padding=(0, 1, 2, 1))
    meta = haloconv.conv2d(x.to("meta"), w.to("meta"), padding=(0, 1, 2, 1))
    for shadow in (fake, meta):
        assert (shadow.shape, shadow.stride(), shadow.dtype) == (y.shape, y.stride(), y.dtype)
    return y


def bare(x, w, b):
    return haloconv.conv2d(x, w, b, stride=(2, 1), padding=(1, 0, 1, 2), dilation=1)


def layer(x, w, b):
    return bare(x, w, b).relu()


# None of the first sizes occurs in the weight: dynamo takes equal sizes for one symbol.
SIZES = [(5, 9, 8), (3, 12, 7), (2, 20, 31), (4, 6, 16)]


def test_dynamic_shapes_compile_once():
    counter = CompileCounter()
    function = torch.compile(layer, fullgraph=True, dynamic=True, backend=counter)
    w, b = integers((4, 3, 3, 2), 1), integers((4,), 2)
    for n, h, width in SIZES:
        x = integers((n, 3, h, width))
        assert_equal(function(x, w, b), layer(x, w, b))
    assert counter.frame_count == 1


def test_padding_computed_from_the_shape():
    def function(x, w):
        return haloconv.conv2d(x, w, padding=(x.shape[2] // 4, x.shape[3] // 3))

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    w = integers((4, 3, 3, 2), 1)
    for n, h, width in SIZES:
        x = integers((n, 3, h, width))
        assert_equal(compiled(x, w), function(x, w))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_string_padding_compiles():
    def function(x, w):
        return haloconv.conv2d(x, w, padding="same")

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    w = integers((4, 3, 3, 2), 1)
    for n, h, width in SIZES:
        x = integers((n, 3, h, width))
        assert_equal(compiled(x, w), function(x, w))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients(backend, device):
    """Inductor is given the convolution alone, for which it has no C++ to compile."""
    function = layer if backend == "aot_eager" else bare
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=backend)
    w, b = integers((4, 3, 3, 2), 1).to(device), integers((4,), 2).to(device)
    for n, h, width in SIZES:
        x = integers((n, 3, h, width)).to(device)
        g = torch.ones_like(function(x, w, b))
        expected = gradients(function, (x, w, b), g)
        for mine, theirs in zip(gradients(compiled, (x, w, b), g), expected, strict=True):
            assert_equal(mine, theirs)
            assert mine.stride() == theirs.stride()


def test_a_forced_implementation_ends_with_its_block():
    def function(x, w):
        with haloconv.implementation("aten"):
            return haloconv.conv2d(x, w)

    @haloconv.implementation("aten")
    def decorated(x, w):
        return haloconv.conv2d(x, w)

    x, w = integers((1, 3, 5, 5)), integers((4, 3, 3, 2), 1)
    for call in (function, lambda x, w: decorated(x, w)):
        compiled = torch.compile(call, backend="eager")
        for _ in range(2):
            assert_equal(compiled(x, w), call(x, w))
            assert ops.force_implementation("auto") == "auto"


def test_module_with_channels_last_weights():
    net = torch.nn.Sequential(
        haloconv.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), haloconv.nn.Conv2d(4, 2, 3)
    ).to(memory_format=torch.channels_last)
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend="aot_eager")
    for n, h, width in ((5, 8, 9), (2, 12, 12)):
        x = torch.randn(n, 3, h, width)
        y = compiled(x)
        expected = net(x)
        assert_equal(y, expected)
        assert y.stride() == expected.stride()


def by_the_filters_rows(x, w):
    rows = w.shape[2] // 2
    return haloconv.conv2d(haloconv.conv2d(x, w, padding=rows), w, stride=(rows, rows))


def test_symbolic_trace_of_computed_numbers():
    traced = torch.fx.symbolic_trace(by_the_filters_rows)
    x, w = integers((1, 3, 6, 7)), integers((3, 3, 3, 3), 1)
    assert_equal(traced(x, w), by_the_filters_rows(x, w))


def test_symbolic_trace():
    """torch.fx's proxies pass through the Python function."""
    graph = torch.fx.symbolic_trace(layer)
    x, w, b = integers((2, 3, 9, 8)), integers((4, 3, 3, 2), 1), integers((4,), 2)
    assert_equal(graph(x, w, b), layer(x, w, b))
    assert any("haloconv" in str(node.target) for node in graph.graph.nodes)


def test_functorch_under_compile():
    def per_sample(w, x):
        def loss(w, image):
            return haloconv.conv2d(image, w, padding=1).square().sum()

        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)

    w, x = integers((4, 3, 3, 3)), integers((5, 3, 6, 7), 1)
    compiled = torch.compile(per_sample, fullgraph=True, backend="aot_eager")
    assert_equal(compiled(w, x), per_sample(w, x))


def test_export_with_dynamic_sizes(tmp_path):
    net = torch.nn.Sequential(
        haloconv.nn.Conv2d(3, 4, 3, padding=(0, 1, 2, 1)),
        torch.nn.ReLU(),
        haloconv.nn.Conv2d(4, 2, 3, padding="same"),
    )
    example = torch.randn(2, 3, 16, 20)
    dynamic = {"input": {0: Dim("n"), 2: Dim("h", min=4), 3: Dim("w", min=4)}}
    program = torch.export.export(net, (example,), dynamic_shapes=dynamic, strict=False)
    torch.export.save(program, tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2").module()
    for shape in ((2, 3, 16, 20), (1, 3, 5, 9), (7, 3, 31, 4)):
        x = torch.randn(shape)
        assert_equal(loaded(x), net(x))
