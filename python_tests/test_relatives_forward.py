"""conv_transpose2d, conv1d and conv_transpose1d: values, shapes, dtypes and strides."""

import pytest
import torch
import torch.nn.functional as F

from relatives import (
    CONV1D,
    CONV_TRANSPOSE1D,
    CONV_TRANSPOSE2D,
    EDGES,
    RELATIVES,
    random_calls,
)
from support import (
    FLOATS,
    LAYOUTS,
    assert_as_accurate,
    assert_equal,
    dtype_name,
    integers,
    normals,
)

ops = torch.ops.haloconv
OTHERS = [torch.int32, torch.int64, torch.uint8, torch.complex64, torch.complex128]


@pytest.fixture(autouse=True)
def no_tf32(monkeypatch):
    """PyTorch's own error is to be that of float32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=dtype_name)
@pytest.mark.parametrize("call", EDGES, ids=str)
def test_small_integers(call, dtype, bias, target):
    x, w, b = call.tensors()
    b = b if bias else None
    on_device = [None if t is None else t.to(target.device, dtype) for t in (x, w, b)]
    if str(target) == "cuda-aten":  # cuDNN may transform the operands (Winograd), which rounds
        assert_as_accurate(call.run(*on_device), call.pytorch(*on_device), call.pytorch(x, w, b))
    else:
        assert_equal(call.run(*on_device).cpu(), call.pytorch(x, w, b).to(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=dtype_name)
@pytest.mark.parametrize("call", EDGES, ids=str)
def test_random_values(call, dtype, target):
    exact = [t.to(dtype).double() for t in call.tensors(data=lambda s, i, _: normals(s, i))]
    on_device = [t.to(target.device, dtype) for t in exact]
    assert_as_accurate(call.run(*on_device), call.pytorch(*on_device), call.pytorch(*exact))


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_random_problems(relative):
    for call in random_calls(relative, 100):
        x, w, b = call.tensors()
        assert_equal(call.run(x, w, b), call.pytorch(x, w, b))


@pytest.mark.parametrize("dtype", OTHERS, ids=dtype_name)
@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_other_dtypes_on_cpu(relative, dtype):
    """As torch's function: an error has its words, where there is one."""
    image = (2, 4, 6, 5)[: relative.pixel_dims + 2]
    x, w = integers(image, 0, dtype, 2), integers((4, *[2] * (len(image) - 1)), 1, dtype, 2)
    b = integers((4,), 2, dtype, 2)
    arguments = (w, b, 2, 1, 0, 2) if relative.transposed else (w, b, 2, 1, 1, 2)
    try:
        expected = relative.pytorch(x, *arguments)
    except RuntimeError as error:
        with pytest.raises(type(error), match="not implemented for"):
            relative.op(x, *_lists(arguments))
        return
    assert_equal(relative.op(x, *_lists(arguments)), expected)


def _lists(arguments):
    *parameters, groups = arguments
    return [[p] if isinstance(p, int) else p for p in parameters] + [groups]


@pytest.mark.parametrize("weight_layout", LAYOUTS)
@pytest.mark.parametrize("input_layout", LAYOUTS)
def test_conv_transpose2d_layouts(input_layout, weight_layout, target):
    x, w = integers((3, 4, 5, 6)), integers((4, 3, 3, 2), 1)
    arguments = ([2, 1], [1, 0], [1, 0], 2, [1, 2])
    expected = F.conv_transpose2d(
        LAYOUTS[input_layout](x), LAYOUTS[weight_layout](w), None, *arguments
    )
    x, w = x.to(target.device, torch.float32), w.to(target.device, torch.float32)
    actual = ops.conv_transpose2d(
        LAYOUTS[input_layout](x), LAYOUTS[weight_layout](w), None, *arguments
    )
    assert_equal(actual.cpu().double(), expected)
    assert actual.stride() == expected.stride()


def innermost(t):
    """(n, c, w) with its channels innermost."""
    return t.transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize("relative", [CONV1D, CONV_TRANSPOSE1D], ids=str)
@pytest.mark.parametrize("which", ["neither", "input", "weight", "both"])
def test_one_dimensional_layouts(relative, which, target):
    x, w = integers((2, 4, 9)), integers((4, 4, 3), 1)
    expected = relative.pytorch(x, w, padding=1)
    x, w = x.to(target.device), w.to(target.device)
    x = innermost(x) if which in ("input", "both") else x
    w = innermost(w) if which in ("weight", "both") else w
    actual = relative.op(x, w, None, [1], [1])
    assert_equal(actual.cpu(), expected)
    assert actual.is_contiguous() == (which == "neither")
    assert actual.transpose(1, 2).is_contiguous() == (which != "neither")


@pytest.mark.parametrize("relative", [CONV1D, CONV_TRANSPOSE1D], ids=str)
def test_one_dimensional_strides_are_pytorchs_where_formats_are_ambiguous(relative):
    for image in [(2, 1, 5), (1, 3, 1), (2, 3, 1), (1, 1, 1)]:
        x, w = integers(image), integers((image[1], image[1], 1), 1)
        assert relative.op(x, w).stride() == relative.pytorch(x, w).stride()


def test_one_value_stands_for_both():
    x, w = integers((2, 3, 5, 6)), integers((3, 4, 3, 3), 1)
    expected = F.conv_transpose2d(x, w, None, 2, 1, 1, 1, 2)
    assert_equal(ops.conv_transpose2d(x, w, None, [2], [1], [1], 1, [2]), expected)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_string_padding(kernel, dilation):
    x, w, b = integers((2, 3, 14)), integers((4, 3, kernel), 1), integers((4,), 2)
    for padding in ("same", "valid"):
        expected = F.conv1d(x, w, b, 1, padding, dilation)
        assert_equal(ops.conv1d.padding(x, w, b, [1], padding, [dilation]), expected)
        fused = ops.conv1d_fused.padding(x, w, b, [1], padding, [dilation], activation="relu")
        assert_equal(fused, expected.relu())
        assert "aten" in ops.conv1d_explain.padding(x, w, b, [1], padding, [dilation])
        y = expected.contiguous()
        assert ops.conv1d_takes_residual.padding(x, w, y, [1], padding, [dilation])


def test_an_input_without_channels():
    x, w = torch.ones(2, 0, 5), torch.ones(4, 0, 3)
    assert ops.conv1d(x, w, torch.ones(4)).shape == F.conv1d(x, w, torch.ones(4)).shape == (2, 0, 3)


def test_results_without_channels():
    """Which torch's function refuses on a CPU, in other words for each dtype."""
    x, w = torch.ones(2, 3, 5, 5), torch.ones(3, 0, 2, 2)
    assert ops.conv_transpose2d(x, w).shape == (2, 0, 6, 6)


@pytest.mark.parametrize("call", EDGES, ids=str)
def test_meta_has_the_sizes_and_strides(call):
    x, w, b = call.tensors()
    for layout in (lambda t: t, lambda t: t.movedim(1, -1).contiguous().movedim(-1, 1)):
        y = call.run(layout(x), w, b)
        meta = call.run(layout(x).to("meta"), w.to("meta"), b.to("meta"))
        assert (meta.shape, meta.stride(), meta.dtype) == (y.shape, y.stride(), y.dtype)


@pytest.mark.parametrize("call", EDGES, ids=str)
def test_explain(call):
    x, w, b = call.tensors(torch.float32)
    for direction in ("fprop", "dgrad", "wgrad"):
        text = call.relative.explain(x, w, b, *call.parameters, direction)
        assert text.startswith("implementation: aten")


def test_explain_takes_the_operators_direction(target):
    assert CONV_TRANSPOSE2D.explain(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
    with pytest.raises(RuntimeError, match="conv_transpose2d_explain: expected direction"):
        CONV_TRANSPOSE2D.explain(
            torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), direction="backward"
        )
