"""Gradients against PyTorch's, their layouts, and that none is computed without need."""

import itertools
import json

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import haloconv
from shapes import EDGES, EMPTY, name_of
from support import (
    FLOATS,
    LAYOUTS,
    assert_as_accurate,
    assert_equal,
    dtype_name,
    exact_gradients,
    gradients,
    integers,
    operands,
    pytorch_conv2d,
)

ops = torch.ops.haloconv


@pytest.fixture(autouse=True)
def steady_pytorch(monkeypatch):
    """PyTorch's own error is to be that of float32, and the same in each run."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


def run_gradients(problem, device, dtype):
    """haloconv's gradients of input, weight and bias, and PyTorch's on the same device."""
    *tensors, g = (t.to(device, dtype) for t in operands(problem))
    ours = gradients(lambda x, w, b: ops.conv2d(x, w, b, **problem.arguments), tensors, g)
    pytorch = gradients(lambda x, w, b: pytorch_conv2d(x, w, b, problem), tensors, g)
    return ours, pytorch


@pytest.mark.parametrize("dtype", FLOATS, ids=dtype_name)
@pytest.mark.parametrize("problem", EDGES, ids=name_of)
def test_small_integers(problem, dtype, target):
    ours, pytorch = run_gradients(problem, target.device, dtype)
    for mine, theirs, exact in zip(ours, pytorch, exact_gradients(problem), strict=True):
        if target.implementation == "generic":
            assert_equal(mine.cpu(), exact.to(dtype))
        elif target.device == "cpu" and dtype in (torch.float32, torch.float64):
            assert_equal(mine, exact.to(dtype))
        else:  # cuDNN and oneDNN's 16-bit kernels round partial sums
            assert_as_accurate(mine, theirs, exact)


@pytest.mark.parametrize("problem", EMPTY, ids=name_of)
def test_empty(problem, device):
    x, w, _, _ = operands(problem)
    expected_y = pytorch_conv2d(x, w, None, problem)
    g = torch.ones_like(expected_y)
    expected = gradients(lambda x, w: pytorch_conv2d(x, w, None, problem), (x, w), g)
    actual = gradients(
        lambda x, w: ops.conv2d(x, w, None, **problem.arguments),
        (x.to(device), w.to(device)),
        g.to(device),
    )
    for mine, theirs in zip(actual, expected, strict=True):
        assert_equal(mine.cpu(), theirs)


@pytest.mark.parametrize("grad_layout", ["contiguous", "channels_last", "expanded_n", "sliced"])
@pytest.mark.parametrize("weight_layout", ["contiguous", "channels_last", "permuted"])
@pytest.mark.parametrize("input_layout", ["contiguous", "channels_last", "permuted", "sliced"])
def test_layouts(input_layout, weight_layout, grad_layout, target):
    x = LAYOUTS[input_layout](integers((3, 4, 9, 8), dtype=torch.float32))
    w = LAYOUTS[weight_layout](integers((6, 2, 3, 2), 1, torch.float32))
    g = LAYOUTS[grad_layout](integers((3, 6, 5, 8), 2, torch.float32))
    expected = gradients(lambda x, w: F.conv2d(x, w, None, (2, 1), 1, (1, 2), 2), (x, w), g)
    actual = gradients(
        lambda x, w: haloconv.conv2d(x, w, None, (2, 1), 1, (1, 2), 2),
        (x.to(target.device), w.to(target.device)),
        g.to(target.device),
    )
    for mine, theirs in zip(actual, expected, strict=True):
        assert_equal(mine.cpu(), theirs)
    assert actual[0].stride() == expected[0].stride()
    if weight_layout != "permuted":  # DistributedDataParallel's buckets have the weight's strides
        assert actual[1].stride() == w.stride()


def test_unbatched(device):
    x, w, b = integers((3, 7, 8)), integers((4, 3, 2, 3), 1), integers((4,), 2)
    g = integers((4, 8, 8), 3)
    expected = gradients(lambda *t: F.conv2d(*t, padding=1), (x, w, b), g)
    tensors = [t.to(device) for t in (x, w, b)]
    actual = gradients(lambda *t: haloconv.conv2d(*t, padding=1), tensors, g.to(device))
    for mine, theirs in zip(actual, expected, strict=True):
        assert_equal(mine.cpu(), theirs)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_string_padding(device):
    x, w, b = integers((2, 3, 7, 8)), integers((4, 3, 2, 4), 1), integers((4,), 2)
    g = integers((2, 4, 7, 8), 3)
    expected = gradients(lambda *t: F.conv2d(*t, padding="same"), (x, w, b), g)
    tensors = [t.to(device) for t in (x, w, b)]
    actual = gradients(lambda *t: haloconv.conv2d(*t, padding="same"), tensors, g.to(device))
    for mine, theirs in zip(actual, expected, strict=True):
        assert_equal(mine.cpu(), theirs)


@pytest.mark.parametrize("chosen", [torch.contiguous_format, torch.channels_last, None], ids=str)
@pytest.mark.parametrize("layouts", ["cc", "cl", "lc", "ll"])
def test_memory_format_of_gradient_operators(layouts, chosen, device):
    """Without memory_format, channels_last if either operand is."""
    first, second = (
        torch.channels_last if letter == "l" else torch.contiguous_format for letter in layouts
    )
    wanted = chosen or (torch.channels_last if "l" in layouts else torch.contiguous_format)
    g = integers((2, 4, 5, 6)).to(device, memory_format=first)
    x = integers((2, 3, 7, 8), 1).to(device, memory_format=second)
    w = integers((4, 3, 3, 3), 2).to(device, memory_format=second)
    dx = haloconv.conv2d_dgrad(g, w, (7, 8), memory_format=chosen)
    dw = haloconv.conv2d_wgrad(g, x, 3, memory_format=chosen)
    both, db = haloconv.conv2d_wgrad_bias(g, x, (3, 3), memory_format=chosen)
    assert dx.is_contiguous(memory_format=wanted)
    assert dw.is_contiguous(memory_format=wanted)
    assert both.is_contiguous(memory_format=wanted)
    expected = gradients(F.conv2d, (x, w, torch.zeros(4).to(g)), g)
    for mine, theirs in zip((dx, dw, db), expected, strict=True):
        assert_equal(mine, theirs)
    assert_equal(both, dw)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("groups", [1, 6], ids=["1x1", "depthwise"])
def test_aten_sees_in_which_format_to_compute_an_input_s_gradient(groups, format, tmp_path):
    """The strides of an input that is not there and of a weight that lies alike in both formats
    have cuDNN compute in channels_last: else ATen takes other kernels, or copies grad_output."""
    size = (6, 6, 1, 1) if groups == 1 else (6, 1, 3, 3)
    g, w = integers((2, 6, 5, 5)).contiguous(memory_format=format), integers(size)
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json"))
    observer.start()
    haloconv.conv2d_dgrad(g, w, (5, 5), padding=size[2] // 2, groups=groups)
    observer.stop()
    observer.unregister_callback()
    nodes = json.loads((tmp_path / "trace.json").read_text())["nodes"]
    (call,) = [node for node in nodes if node["name"] == "aten::convolution_backward"]
    _, input_strides, weight_strides, *_ = call["inputs"]["strides"]
    strides = torch.empty(size, device="meta").stride()
    if format is torch.channels_last:
        strides = (size[1] * size[2] * size[3], 1, size[1] * size[3], size[1])
        assert input_strides == list(g.stride())
    assert tuple(weight_strides) == strides


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])
@pytest.mark.parametrize(
    "dtype, kernel", [(torch.float64, 3), (torch.float32, 1)], ids=["float64", "float32"]
)
def test_a_photograph_in_groups(dtype, kernel, batched, device):
    """(h, w, c) in memory. On a CPU, PyTorch 2.11's own gradient of the weight is wrong then."""
    x = integers((5, 6, 8), 0, dtype).to(device).permute(2, 0, 1)
    x = x.unsqueeze(0) if batched else x
    w = integers((8, 2, kernel, kernel), 1, dtype).to(device, memory_format=torch.channels_last)
    g = integers(F.conv2d(x, w, groups=4).shape, 2, dtype).to(device)
    plain = (x.contiguous(), w.contiguous())
    expected = gradients(lambda x, w: F.conv2d(x, w, groups=4), plain, g)
    actual = gradients(lambda x, w: ops.conv2d(x, w, groups=4), (x, w), g)
    for mine, theirs in zip(actual, expected, strict=True):
        assert_equal(mine, theirs)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("wanted", [[0, 1, 2], [1, 2], [2]], ids=str)
def test_a_bias_of_complex_float16(wanted):
    shapes = ((2, 3, 5, 4), (4, 3, 3, 3), (4,))
    tensors = [torch.complex(*integers((2, *s), i, torch.float32)) for i, s in enumerate(shapes)]
    results = []
    for conv, dtype in ((ops.conv2d, torch.complex32), (F.conv2d, torch.complex64)):
        leaves = [t.to(dtype) for t in tensors]
        of = [leaves[i].requires_grad_() for i in wanted]
        y = conv(*leaves)
        results.append(torch.autograd.grad(y, of, torch.ones_like(y)))
    for mine, theirs in zip(*results, strict=True):
        assert mine.dtype == torch.complex32
        assert_equal(mine.to(torch.complex64), theirs)


FORMATS = [torch.contiguous_format, torch.channels_last, None]


@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("formats", itertools.product(FORMATS, FORMATS), ids=str)
@pytest.mark.parametrize("case", ["even", "four_sided", "unbatched", "complex", "no_images"])
def test_backward_gives_what_the_single_operators_give(case, formats, with_bias, target):
    padding = [1, 0, 2, 1] if case == "four_sided" else [1]
    dtype = torch.complex128 if case == "complex" else torch.float32
    if dtype.is_complex and target.implementation not in ("aten", "auto"):
        pytest.skip("aten alone takes complex numbers")
    n = 0 if case == "no_images" else 2
    shapes = (n, 4, 7, 8), (6, 2, 3, 3), (n, 6, *((6, 9) if case == "four_sided" else (7, 8)))
    x, w, g = (
        integers(shape, seed, dtype).to(target.device, memory_format=torch.channels_last)
        for seed, shape in enumerate(shapes)
    )
    parameters = ([1, 1], padding, [1, 1], 2)
    if case == "unbatched":
        x, g = x[0], g[0]
    of_input, of_weight = ({"memory_format": format} for format in formats)
    expected = [
        ops.conv2d_dgrad(g, w, [7, 8], *parameters, **of_input),
        *ops.conv2d_wgrad_bias(g, x, [3, 3], *parameters, **of_weight),
    ]
    dx, dw, db = haloconv.conv2d_backward(
        g,
        x,
        w,
        *parameters,
        with_bias=with_bias,
        input_format=formats[0],
        weight_format=formats[1],
    )
    for mine, theirs in zip((dx, dw, db), expected, strict=True):
        if mine is not None:
            assert_equal(mine, theirs)
            assert mine.stride() == theirs.stride()
    assert (db is not None) == with_bias


@pytest.mark.parametrize("differentiates", [True, False])
def test_backward_without_channels_knows_its_filters(differentiates, device):
    """The weight says how many there are, which an output without channels does not."""
    x, w = torch.ones(2, 0, 4, 4, device=device), torch.ones(3, 0, 1, 1, device=device)
    x.requires_grad_(differentiates)
    for dx, dw, db in (
        ops.conv2d_backward(torch.ones_like(x), x, w, with_bias=True),
        ops.conv2d_backward(*(t.to("meta") for t in (x.detach(), x, w)), with_bias=True),
    ):
        assert (dx.shape, dw.shape, db.shape) == (x.shape, w.shape, (3,))
    assert not ops.conv2d_backward(torch.ones_like(x), x, w, with_bias=True)[2].any()


def test_aten_computes_all_gradients_by_one_call(device):
    """Which, where they are small, is what they cost."""
    x, w, b = (
        integers(shape).to(device).requires_grad_() for shape in ((2, 3, 6, 6), (4, 3, 3, 3), (4,))
    )
    with haloconv.implementation("aten"), profile(activities=[ProfilerActivity.CPU]) as profiler:
        haloconv.conv2d(x, w, b).sum().backward()
    names = [event.name for event in profiler.events()]
    assert names.count("aten::convolution_backward") == 1


class Calls(TorchDispatchMode):
    """Notes the haloconv operators that reach the kernels, and aten's convolutions."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if func.namespace == "haloconv" or "convolution" in name:
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "wanted, expected",
    [
        ("x", ["conv2d_dgrad"]),
        ("w", ["conv2d_wgrad"]),
        ("xw", ["conv2d_backward"]),
        ("wb", ["conv2d_wgrad_bias"]),
        ("xwb", ["conv2d_backward"]),
        ("b", []),
        ("xb", ["conv2d_dgrad"]),
    ],
)
def test_only_what_is_asked_for_is_computed(wanted, expected, device):
    shapes = {"x": (2, 3, 6, 6), "w": (4, 3, 3, 3), "b": (4,)}
    tensors = {
        name: integers(shape).to(device).requires_grad_(name in wanted)
        for name, shape in shapes.items()
    }
    y = haloconv.conv2d(*tensors.values())
    with Calls() as calls:
        y.sum().backward()
    assert sorted(calls.names) == expected
    for name, t in tensors.items():
        assert (t.grad is not None) == (name in wanted)


def test_autograd_grad_of_one_of_several(device):
    """All three require a gradient, and only one is asked for."""
    x, w, b = (
        integers(shape).to(device).requires_grad_() for shape in ((2, 3, 6, 6), (4, 3, 3, 3), (4,))
    )
    y = haloconv.conv2d(x, w, b)
    with Calls() as calls:
        torch.autograd.grad(y.sum(), w)
    assert calls.names == ["conv2d_wgrad"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant, device):
    tensors = [
        integers((2, 3, 6, 6)).to(device),
        integers((4, 3, 3, 3), 1).to(device),
        integers((4,), 2).to(device),
    ]
    g = integers((2, 4, 4, 4), 3).to(device)
    expected = gradients(haloconv.conv2d, tensors, g)
    leaves = [t.clone().requires_grad_() for t in tensors]
    checkpoint(haloconv.conv2d, *leaves, use_reentrant=reentrant).backward(g)
    for leaf, theirs in zip(leaves, expected, strict=True):
        assert_equal(leaf.grad, theirs)


def test_second_backward_is_an_error(device):
    x = integers((1, 2, 5, 5)).to(device).requires_grad_()
    w = integers((3, 2, 3, 3), 1).to(device).requires_grad_()
    y = haloconv.conv2d(x, w).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_saved_tensor_changed_in_place_is_an_error(device):
    x = integers((1, 2, 5, 5)).to(device).requires_grad_()
    w = integers((3, 2, 3, 3), 1).to(device).requires_grad_()
    y = haloconv.conv2d(x, w)
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_no_graph_without_need(device):
    x, w = integers((1, 2, 5, 5)).to(device), integers((3, 2, 3, 3), 1).to(device)
    assert not haloconv.conv2d(x, w).requires_grad
    w.requires_grad_()
    with torch.no_grad():
        assert not haloconv.conv2d(x, w).requires_grad
    with torch.inference_mode():
        assert haloconv.conv2d(x, w).is_inference()


def test_gradients_accumulate_without_a_copy(device):
    """AccumulateGrad keeps a gradient of the weight's layout as it is."""
    w = integers((4, 3, 3, 3)).to(device).contiguous(memory_format=torch.channels_last)
    w.requires_grad_()
    computed = []
    w.register_hook(lambda gradient: computed.append(gradient.data_ptr()))
    haloconv.conv2d(integers((2, 3, 6, 6)).to(device), w).sum().backward()
    assert w.grad.stride() == w.stride()
    assert computed == [w.grad.data_ptr()]
