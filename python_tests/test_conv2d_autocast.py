"""Autocast: the same casts as F.conv2d's, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

import haloconv
from support import dtype_name, integers, needs_gpu

CASES = [
    pytest.param("cpu", torch.bfloat16, id="cpu-bfloat16"),
    pytest.param("cpu", torch.float16, id="cpu-float16"),
    pytest.param("cuda", torch.float16, id="cuda-float16", marks=needs_gpu),
    pytest.param("cuda", torch.bfloat16, id="cuda-bfloat16", marks=needs_gpu),
]


def results(conv, device, dtype, tensor_dtypes):
    """The output and the gradients under autocast of tensors of these dtypes."""
    shapes = ((2, 3, 8, 8), (4, 3, 3, 3), (4,))
    leaves = [
        integers(shape, seed).to(device, given).requires_grad_()
        for seed, (shape, given) in enumerate(zip(shapes, tensor_dtypes, strict=True))
    ]
    with torch.autocast(device, dtype):
        y = conv(*leaves, padding=1)
    y.sum().backward()
    return y, [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("given", [torch.float32, torch.float16, torch.bfloat16], ids=dtype_name)
@pytest.mark.parametrize("device, dtype", CASES)
def test_as_pytorch(device, dtype, given):
    actual, grads = results(haloconv.conv2d, device, dtype, [given] * 3)
    expected, expected_grads = results(F.conv2d, device, dtype, [given] * 3)
    assert actual.dtype == expected.dtype == dtype
    # Equal integers: at most 27 products of at most 16, exact in float32 and rounded once.
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    for mine, theirs in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("device, dtype", CASES)
def test_mixed_dtypes_are_brought_together(device, dtype):
    mixed = [torch.float32, dtype, torch.float32]
    actual, grads = results(haloconv.conv2d, device, dtype, mixed)
    expected, expected_grads = results(F.conv2d, device, dtype, mixed)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert [g.dtype for g in grads] == [g.dtype for g in expected_grads] == mixed


@pytest.mark.parametrize("device, dtype", CASES)
def test_float64_is_as_pytorch(device, dtype):
    """aten's autocast leaves float64 tensors alone."""
    actual, _ = results(haloconv.conv2d, device, dtype, [torch.float64] * 3)
    expected, _ = results(F.conv2d, device, dtype, [torch.float64] * 3)
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize("device, dtype", CASES)
def test_string_padding(device, dtype):
    x, w = integers((2, 3, 8, 8)).float().to(device), integers((4, 3, 3, 3)).float().to(device)
    with torch.autocast(device, dtype):
        actual = haloconv.conv2d(x, w, padding="same")
        expected = F.conv2d(x, w, padding="same")
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize("device, dtype", CASES)
def test_outside_autocast_mixed_dtypes_are_an_error(device, dtype):
    x, w = torch.zeros(1, 3, 8, 8, device=device), torch.zeros(4, 3, 3, 3, device=device)
    with (
        pytest.raises(RuntimeError, match="weight to have the dtype of input"),
        torch.autocast(device, dtype, enabled=False),
    ):
        haloconv.conv2d(x, w.to(dtype))


def test_weight_cast_is_cached():
    """One weight used twice is cast once, as aten's autocast does."""
    x, w = torch.randn(1, 3, 8, 8), torch.randn(3, 3, 3, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        twice = haloconv.conv2d(haloconv.conv2d(x, w), w)
    casts = set()
    pending = [twice.grad_fn]
    while pending:
        node = pending.pop()
        for parent, _ in node.next_functions if node else ():
            if parent is not None and "ToCopy" in parent.name():
                casts.add(parent)
            pending.append(parent)
    assert len(casts) == 1
