"""haloconv.conv2d's values, shapes, dtypes and strides against PyTorch's."""

import pytest
import torch
import torch.nn.functional as F

import haloconv
from shapes import EDGES, EMPTY, name_of
from support import (
    FLOATS,
    LAYOUTS,
    assert_as_accurate,
    assert_equal,
    dtype_name,
    exact_result,
    integers,
    normals,
    operands,
    pytorch_conv2d,
)

EXACT_ON_CPU = (torch.float32, torch.float64)


@pytest.fixture(autouse=True)
def no_tf32(monkeypatch):
    """PyTorch's own error is to be that of float32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def run(problem, tensors, device, dtype):
    """haloconv's result and PyTorch's on the same device."""
    x, w, b = (t.to(device, dtype) for t in tensors)
    parameters = (problem.stride, problem.padding, problem.dilation, problem.groups)
    return haloconv.conv2d(x, w, b, *parameters), pytorch_conv2d(x, w, b, problem)


@pytest.mark.parametrize("dtype", FLOATS, ids=dtype_name)
@pytest.mark.parametrize("problem", EDGES, ids=name_of)
def test_small_integers(problem, dtype, target):
    x, w, b, _ = operands(problem)
    actual, pytorch = run(problem, (x, w, b), target.device, dtype)
    exact = exact_result(problem)
    assert actual.stride() == pytorch.stride()
    if target.implementation == "generic":
        assert_equal(actual.cpu(), exact.to(dtype))
    elif target.device == "cpu":
        assert_equal(actual, exact.to(dtype) if dtype in EXACT_ON_CPU else pytorch)
    else:  # cuDNN may transform the operands (Winograd), which rounds
        assert_as_accurate(actual, pytorch, exact)


@pytest.mark.parametrize("dtype", FLOATS, ids=dtype_name)
@pytest.mark.parametrize("problem", EDGES, ids=name_of)
def test_random_values(problem, dtype, target):
    tensors = [t.to(dtype).double() for t in operands(problem, normals)[:3]]
    actual, pytorch = run(problem, tensors, target.device, dtype)
    assert_as_accurate(actual, pytorch, pytorch_conv2d(*tensors, problem))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("problem", EMPTY, ids=name_of)
def test_empty(problem, bias, device):
    x, w, b, _ = operands(problem)
    actual = haloconv.conv2d(
        x.to(device),
        w.to(device),
        b.to(device) if bias else None,
        problem.stride,
        problem.padding,
        problem.dilation,
        problem.groups,
    )
    expected = pytorch_conv2d(x, w, b if bias else None, problem)
    assert_equal(actual.cpu(), expected)
    assert actual.is_contiguous()


@pytest.mark.parametrize("format", ["contiguous", "channels_last"])
def test_unbatched(format, target):
    x, w, b = integers((2, 3, 7, 8)), integers((4, 3, 2, 3), 1), integers((4,), 2)
    x = LAYOUTS[format](x)[1]
    w = LAYOUTS[format](w)
    expected = F.conv2d(x, w, b, padding=1)
    actual = haloconv.conv2d(
        x.to(target.device), w.to(target.device), b.to(target.device), padding=1
    )
    assert_equal(actual.cpu(), expected)
    assert actual.stride() == expected.stride()


@pytest.mark.parametrize("weight_layout", LAYOUTS)
@pytest.mark.parametrize("input_layout", LAYOUTS)
def test_layouts(input_layout, weight_layout, target):
    x, w = integers((3, 4, 9, 8)), integers((6, 2, 3, 2), 1)
    arguments = ((2, 1), (1, 0), (1, 2), 2)
    expected = F.conv2d(LAYOUTS[input_layout](x), LAYOUTS[weight_layout](w), None, *arguments)
    x, w = x.to(target.device, torch.float32), w.to(target.device, torch.float32)
    actual = haloconv.conv2d(LAYOUTS[input_layout](x), LAYOUTS[weight_layout](w), None, *arguments)
    assert_equal(actual.cpu().double(), expected)
    assert actual.stride() == expected.stride()


@pytest.mark.parametrize("dtype", FLOATS, ids=dtype_name)
@pytest.mark.parametrize("shape", [(2, 3, 6, 5), (2, 1, 6, 5), (1, 3, 3, 2), (2, 3, 3, 2)], ids=str)
@pytest.mark.parametrize("weight_format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("input_format", ["contiguous", "channels_last"])
def test_strides_where_formats_are_ambiguous(input_format, weight_format, shape, dtype, target):
    """Tensors with dimensions of one element are of both formats; aten decides by their strides."""
    x = LAYOUTS[input_format](integers(shape, dtype=dtype))
    w = LAYOUTS[weight_format](integers((4, shape[1], 3, 2), 1, dtype))
    actual = haloconv.conv2d(x.to(target.device), w.to(target.device))
    assert actual.stride() == F.conv2d(x, w).stride()


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "sliced"])
@pytest.mark.parametrize(
    "dtype",
    [
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.complex64,
        torch.complex128,
    ],
    ids=dtype_name,
)
def test_other_dtypes_on_cpu(dtype, layout):
    x = LAYOUTS[layout](integers((2, 4, 8, 7)).to(dtype))
    w, b = integers((6, 2, 3, 3), 1).to(dtype), integers((6,), 2).to(dtype)
    expected = F.conv2d(x, w, b, 2, 1, 1, 2)
    actual = haloconv.conv2d(x, w, b, 2, 1, 1, 2)
    assert_equal(actual, expected)
    assert actual.stride() == expected.stride()


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("format", ["contiguous", "channels_last"])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (1, 1), (5, 2)], ids=str)
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_string_padding(padding, kernel, dilation, format, target):
    x, w = LAYOUTS[format](integers((2, 3, 14, 15))), integers((4, 3, *kernel), 1)
    expected = F.conv2d(x, w, None, 1, padding, dilation)
    actual = haloconv.conv2d(x.to(target.device), w.to(target.device), None, 1, padding, dilation)
    assert_equal(actual.cpu(), expected)
    assert actual.stride() == expected.stride()


def test_one_value_stands_for_both():
    x, w, b = integers((2, 3, 12, 13)), integers((4, 3, 3, 3), 1), integers((4,), 2)
    expected = F.conv2d(x, w, b, 2, 1, 2)
    assert_equal(haloconv.conv2d(x, w, b, 2, 1, 2), expected)
    assert_equal(haloconv.conv2d(x, w, b, (2,), (1,), (2,)), expected)
    assert_equal(torch.ops.haloconv.conv2d(x, w, b, [2], [1], [2]), expected)


def test_positional_defaults():
    x, w = integers((2, 3, 5, 6)), integers((4, 3, 3, 3), 1)
    assert_equal(torch.ops.haloconv.conv2d(x, w), F.conv2d(x, w))
    assert_equal(torch.ops.haloconv.conv2d.padding(x, w), F.conv2d(x, w))


def test_input_is_not_changed_or_aliased(target):
    x = integers((1, 1, 4, 4)).to(target.device)
    w = torch.ones(1, 1, 1, 1, dtype=torch.float64, device=target.device)
    before = x.clone()
    haloconv.conv2d(x, w).fill_(7)
    assert_equal(x, before)
