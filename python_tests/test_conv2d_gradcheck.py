"""Derivatives of every operator against finite differences, in every mode and twice over."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from samples import SAMPLES
from support import assert_equal_sums


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_first_order(sample):
    assert gradcheck(
        sample.call,
        sample.tensors(),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_second_order(sample):
    assert gradgradcheck(sample.call, sample.tensors(), check_fwd_over_rev=True)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_forward_over_forward(sample):
    """The tangent of a tangent, against the finite difference of the tangent."""
    tensors = [t.detach() for t in sample.tensors()]
    first = [torch.randn_like(t) for t in tensors]
    second = [torch.randn_like(t) for t in tensors]

    def tangent(*inputs):
        return torch.func.jvp(sample.call, inputs, tuple(first))[1]

    _, actual = torch.func.jvp(tangent, tuple(tensors), tuple(second))
    # Quadratic in each step, so that the central difference has no error but rounding.
    after = tangent(*(t + s for t, s in zip(tensors, second, strict=True)))
    before = tangent(*(t - s for t, s in zip(tensors, second, strict=True)))
    pairs = zip(after, before, strict=True) if isinstance(after, tuple) else [(after, before)]
    expected = [(a - b) / 2 for a, b in pairs]
    actual = actual if isinstance(actual, tuple) else [actual]
    for mine, theirs in zip(actual, expected, strict=True):
        assert_equal_sums(mine, theirs)
