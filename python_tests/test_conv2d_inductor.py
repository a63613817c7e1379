"""What torch.compile's Inductor makes around the operators: no copy that it would not make around
aten's convolution, and the strides that eager mode gives."""

import re
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config, metrics
from torch._inductor.utils import run_and_get_code

import haloconv
from support import assert_equal, gradients, integers, normals

pytestmark = pytest.mark.skipif(
    not Path(sysconfig.get_path("include"), "Python.h").is_file(),
    reason="needs Python's headers, which Inductor's kernels include",
)

# What changes a layout and computes nothing.
LAYOUT_CHANGES = {
    torch.ops.aten.clone.default,
    torch.ops.aten.copy.default,
    torch.ops.aten._to_copy.default,
    torch.ops.aten.as_strided.default,
    torch.ops.aten.contiguous.default,
}


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    metrics.reset()
    with config.patch(fx_graph_cache=False):
        yield


def block(x, w, b):
    y = F.silu(F.conv2d(x, w, b, padding=1, groups=2)) * 2
    return F.conv2d(y, w, padding=1, groups=2) + x


def after_a_permutation(x, w, b):
    """As after a layer norm over channels."""
    y = (x.permute(0, 2, 3, 1) * 2).softmax(-1)
    return F.conv2d(y.permute(0, 3, 1, 2), w, b, padding=1).relu()


def after_a_slice(x, w, b):
    return F.conv2d((x + 1)[:, :, 1:, 2:], w, b, padding=1).relu()


def after_a_concatenation(x, w, b):
    return F.conv2d(torch.cat([x[:, :4], x[:, 4:].exp()], 1), w, b, stride=2).tanh()


def with_a_computed_weight(x, w, b):
    return F.conv2d(x, w - w.mean((1, 2, 3), keepdim=True), b, dilation=2) * 2


FUNCTIONS = [
    block,
    after_a_permutation,
    after_a_slice,
    after_a_concatenation,
    with_a_computed_weight,
]


def compiled_run(function, tensors):
    """Result, gradients, how many kernels were generated, and how often layouts change."""
    torch._dynamo.reset()
    metrics.reset()
    changes = Counter()

    def count(graph):
        changes.update(node.target for node in graph.nodes if node.target in LAYOUT_CHANGES)

    leaves = [t.detach().requires_grad_() for t in tensors]
    with config.patch(post_grad_custom_post_pass=count):
        y = torch.compile(function, fullgraph=True)(*leaves)
        grads = torch.autograd.grad(y.square().sum(), leaves)
    return y.detach(), grads, metrics.generated_kernel_count, changes.total()


def operands(function, format, device, data=normals):
    w = data((8, 4 if function is block else 8, 3, 3), 1, torch.float32).to(device)
    x = data((2, 8, 12, 14), 0, torch.float32).to(device)
    b = data((8,), 2, torch.float32).to(device)
    return x.contiguous(memory_format=format), w.contiguous(memory_format=format), b


def assert_close(actual, expected):
    """Generated kernels add up and round exponentials otherwise than aten's: by float32's 2^-24, a
    few times over. Where a GPU has TF32, such a bit may round an operand up instead of down, by
    2^-10 of it. Either is relative to the largest element: sums may cancel.
    """
    tolerance = 1e-5 if actual.device.type == "cpu" else 1e-2
    largest = expected.abs().max().item()
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_no_copy_that_aten_would_not_have(function, format, device):
    tensors = operands(function, format, device)
    theirs, _, aten_kernels, aten_changes = compiled_run(function, tensors)
    with haloconv.route():
        y, grads, kernels, changes = compiled_run(function, tensors)
        eager = function(*tensors)
        eager_grads = gradients(function, tensors, 2 * eager)
    assert kernels <= aten_kernels and changes <= aten_changes
    assert y.stride() == theirs.stride() == eager.stride()
    # Of the weight, aten's compiled gradient has another layout than its eager one.
    assert [g.stride() for g in grads] == [g.stride() for g in eager_grads]
    for mine, plain in zip((y, *grads), (eager, *eager_grads), strict=True):
        assert_close(mine, plain)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_a_convolution_alone_has_no_kernel_of_inductor_s(format, device):
    """Neither forward nor backward: no operand and no gradient is copied, and nothing is added up
    otherwise than in eager mode.
    """

    def alone(x, w, b):
        return haloconv.conv2d(x, w, b, padding=(1, 0, 2, 1), stride=(1, 2))

    def with_everything(x, w, b):
        return haloconv.conv2d_fused(x, w, b, padding=1, residual=x, activation="silu")

    for function in (alone, with_everything):
        torch._dynamo.reset()
        metrics.reset()
        tensors = operands(function, format, device, integers)
        compiled = torch.compile(function, fullgraph=True)
        with torch.no_grad():
            y = compiled(*tensors)
        assert metrics.generated_kernel_count == 0
        eager = function(*tensors)
        assert y.stride() == eager.stride()
        assert_equal(y, eager)
    torch._dynamo.reset()
    tensors = operands(alone, format, device, integers)
    g = integers(alone(*tensors).shape, 3, torch.float32).to(device, memory_format=format)
    grads = gradients(torch.compile(alone, fullgraph=True), tensors, g)
    eager_grads = gradients(alone, tensors, g)
    assert metrics.generated_kernel_count == 0
    assert [t.stride() for t in grads] == [t.stride() for t in eager_grads]
    for mine, plain in zip(grads, eager_grads, strict=True):
        assert_equal(mine, plain)


def calls(code):
    """How often generated code calls which of haloconv's operators."""
    return Counter(re.findall(r"= torch\.ops\.haloconv\.(\w+)\.default\(", "".join(code)))


PARAMETERS = {
    "numbers": ({"stride": 2, "padding": 1, "dilation": (1, 1)}, True),
    "of one pixel": ({}, True),
    "four equal sides": ({"padding": (1, 1, 1, 1), "groups": 2}, True),
    "two strides": ({"stride": (1, 2)}, False),
    "one side": ({"padding": (1, 0, 0, 0)}, False),
    "two dilations": ({"dilation": (2, 1)}, False),
}


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_training_graph_calls_one_operator_forward_and_one_backward(name, format, device):
    """Those of numbers, which Python passes sooner than lists, where each list is one number."""
    parameters, are_numbers = PARAMETERS[name]

    def step(x, w, b):
        y = haloconv.conv2d(x, w, b, **parameters)
        return y, torch.autograd.grad(y, (x, w, b), torch.ones_like(y))

    x, w, b = (t.requires_grad_() for t in operands(step, format, device, integers))
    if "groups" in parameters:
        w = w.detach()[:, :4].contiguous(memory_format=format).requires_grad_()
    compiled = torch.compile(lambda x, w, b: haloconv.conv2d(x, w, b, **parameters), fullgraph=True)

    def compiled_step():
        y = compiled(x, w, b)
        return y, torch.autograd.grad(y, (x, w, b), torch.ones_like(y))

    (y, grads), code = run_and_get_code(compiled_step)
    names = ("_conv2d_square", "_conv2d_backward_square")
    assert calls(code) == Counter(names if are_numbers else ("conv2d", "conv2d_backward"))
    expected, expected_grads = step(x, w, b)
    for mine, eager in zip((y, *grads), (expected, *expected_grads), strict=True):
        assert mine.stride() == eager.stride()
        assert_equal(mine, eager)


def test_lists_stay_lists_where_sizes_or_the_language_need_them(device):
    """A number that is a symbol, and code in C++, which may outlive this version of the library."""

    def padded_by_its_size(x, w, b):
        return haloconv.conv2d(x, w, b, padding=(x.shape[2] // 6, x.shape[2] // 6))

    def padded(x, w, b):
        return haloconv.conv2d(x, w, b, padding=1)

    tensors = operands(padded, torch.contiguous_format, device, integers)
    with torch.no_grad():
        dynamic = torch.compile(padded_by_its_size, fullgraph=True, dynamic=True)
        y, code = run_and_get_code(dynamic, *tensors)
        assert calls(code) == Counter(["conv2d"])
        assert_equal(y, padded_by_its_size(*tensors))
        with config.patch(cpp_wrapper=True):
            y, code = run_and_get_code(torch.compile(padded, fullgraph=True), *tensors)
        assert "_conv2d_square" not in "".join(code)
        assert_equal(y, padded(*tensors))


def test_operators_say_that_strides_matter():
    """Whatever layout torch takes custom operators to need by default."""
    for name in (
        "conv2d",
        "conv2d_fused",
        "conv2d_dgrad",
        "conv2d_wgrad",
        "conv2d_wgrad_bias",
        "conv2d_backward",
        "_conv2d_square",
        "_conv2d_backward_square",
    ):
        assert torch.Tag.needs_exact_strides in getattr(torch.ops.haloconv, name).default.tags
