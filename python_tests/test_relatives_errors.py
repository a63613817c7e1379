"""What conv_transpose2d, conv1d and conv_transpose1d refuse, in aten's words where aten does."""

import re

import pytest
import torch

from relatives import CONV1D, CONV_TRANSPOSE1D, CONV_TRANSPOSE2D

OF_A_TRANSPOSED = {
    "channels": dict(weight=(5, 3, 3, 3)),
    "channels, before rows": dict(input=(2, 5, 0, 6)),
    "dimensions of the weight": dict(weight=(4, 3)),
    "bias": dict(bias=(4,)),
    "dimensions of the input": dict(input=(5, 6)),
    "zero rows": dict(input=(2, 4, 0, 6)),
    "groups": dict(groups=3),
    "more groups than channels": dict(groups=5),
    "no groups": dict(groups=0),
    "values of stride": dict(stride=[1, 1, 1]),
    "no stride": dict(stride=[0]),
    "values of output_padding": dict(output_padding=[1, 1, 1]),
    "negative output_padding": dict(output_padding=[-1]),
    "output_padding": dict(output_padding=[2], stride=[2]),
    "negative padding": dict(padding=[-1]),
    "too much padding": dict(padding=[5]),
    "stride, before the weight's dtype": dict(stride=[0], dtype=torch.float32),
    "channels, before the weight's dtype": dict(weight=(5, 3, 3, 3), dtype=torch.float32),
    "bias, before the weight's dtype": dict(bias=(4,), dtype=torch.float32),
    "rows, before the weight's dtype": dict(input=(2, 4, 0, 6), dtype=torch.float32),
    "output_padding, before the weight's dtype": dict(output_padding=[1], dtype=torch.float32),
    "channels, before the weight's rows": dict(weight=(5, 3, 0, 3)),
    "bias, before a dilation of 0": dict(bias=(4,), dilation=[0]),
    "output_padding, before stride": dict(output_padding=[-1], stride=[0]),
    "values of output_padding, before stride": dict(output_padding=[0, 0, 0], stride=[0]),
    "padding, before output_padding": dict(padding=[-1], output_padding=[-1]),
}
OF_ONE_DIMENSION = {
    "dimensions of the input": dict(input=(9,)),
    "too many dimensions": dict(input=(1, 2, 4, 9)),
    "channels": dict(input=(2, 3, 9)),
    "channels without a batch": dict(input=(3, 9)),
    "channels, before columns": dict(input=(2, 3, 0)),
    "dimensions of the weight": dict(weight=(3, 4)),
    "too many dimensions of the weight": dict(weight=(3, 4, 3, 3)),
    "the same without a batch": dict(input=(4, 9), weight=(3, 4, 3, 3)),
    "no columns": dict(input=(2, 4, 0)),
    "kernel": dict(input=(2, 4, 2)),
    "values of stride": dict(stride=[1, 1]),
    "bias": dict(bias=(4,)),
    "negative padding": dict(padding=[-1]),
    "stride, before the weight's dtype": dict(stride=[0], dtype=torch.float32),
    "channels, before the weight's dtype": dict(input=(2, 3, 9), dtype=torch.float32),
    "kernel, before the weight's dtype": dict(input=(2, 4, 2), dtype=torch.float32),
    "bias, before the weight's columns": dict(weight=(3, 4, 0), bias=(4,)),
}


def call(relative, function, input, weight, bias=None, dtype=torch.float64, **parameters):
    """In float64, but for the weight: with float32, oneDNN's words come before aten's."""
    input, weight = torch.ones(input, dtype=torch.float64), torch.ones(weight, dtype=dtype)
    bias = None if bias is None else torch.ones(bias, dtype=torch.float64)
    return function(input, weight, bias, **parameters)


def check(relative, arguments):
    with pytest.raises(RuntimeError) as theirs:
        call(relative, relative.pytorch, **arguments)
    words = str(theirs.value)
    # A 1-D call is a 2-D one when aten looks at these.
    words = words.replace("(1 x ", "(") if relative.pixel_dims == 1 else words
    for device in ("cpu", "meta"):
        with pytest.raises(RuntimeError, match=re.escape(words)) as ours, torch.device(device):
            call(relative, relative.op, **arguments)
        assert f"haloconv::{relative.name}: expected" in str(ours.value)


@pytest.mark.parametrize("what", OF_A_TRANSPOSED)
def test_conv_transpose2d(what):
    usual = {"input": (2, 4, 5, 6), "weight": (4, 3, 3, 3)}
    check(CONV_TRANSPOSE2D, {**usual, **OF_A_TRANSPOSED[what]})


@pytest.mark.parametrize("what", OF_ONE_DIMENSION)
def test_conv1d(what):
    check(CONV1D, {"input": (2, 4, 9), "weight": (3, 4, 3), **OF_ONE_DIMENSION[what]})


@pytest.mark.parametrize(
    "arguments",
    [
        {"padding": [6]},
        {"output_padding": [2], "stride": [2]},
        {"groups": 3},
        {"weight": (5, 3, 3)},
        {"weight": (4, 3, 3, 3)},
    ],
    ids=str,
)
def test_conv_transpose1d(arguments):
    check(CONV_TRANSPOSE1D, {"input": (2, 4, 9), "weight": (4, 3, 3), **arguments})


def test_what_aten_does_not_refuse_so():
    with pytest.raises(RuntimeError, match="1, 2 or 4 values"):
        call(CONV_TRANSPOSE2D, CONV_TRANSPOSE2D.op, (1, 1, 3, 3), (1, 1, 2, 2), padding=[1, 1, 1])
    with pytest.raises(RuntimeError, match=re.escape("1 or 2 values (left, right)")):
        call(CONV1D, CONV1D.op, (1, 1, 9), (1, 1, 2), padding=[1, 1, 1])
    with pytest.raises(RuntimeError, match="expected each value of dilation to be at least 1"):
        call(CONV1D, CONV1D.op, (1, 1, 9), (1, 1, 2), dilation=[0])
    with pytest.raises(RuntimeError, match="conv_transpose2d: expected weight to have rows"):
        call(CONV_TRANSPOSE2D, CONV_TRANSPOSE2D.op, (1, 1, 3, 3), (1, 1, 0, 2))


@pytest.mark.parametrize("name", ["stride", "padding", "output_padding", "dilation"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_parameters_whose_products_would_not_fit_64_bits(name, device):
    x, w = torch.ones(1, 1, 3, device=device), torch.ones(1, 1, 3, device=device)
    message = f"each value of {name} to be at most 2147483647, but got .{2**63 - 1}"
    with pytest.raises(RuntimeError, match=f"haloconv::conv_transpose1d: expected {message}"):
        CONV_TRANSPOSE1D.op(x, w, **{name: [2**63 - 1]})


@pytest.mark.parametrize("name", ["scale", "shift", "residual"])
@pytest.mark.parametrize("relative", [CONV_TRANSPOSE2D, CONV1D, CONV_TRANSPOSE1D], ids=str)
def test_what_follows(relative, name):
    x, w = (
        torch.ones(2, 4, *[5] * relative.pixel_dims),
        torch.ones(4, 4, *[2] * relative.pixel_dims),
    )
    with pytest.raises(RuntimeError, match=f"{relative.name}_fused: expected {name}"):
        relative.fused(x, w, **{name: torch.ones(3)})


def test_dtypes_and_kinds():
    x, w = torch.ones(2, 4, 9), torch.ones(3, 4, 3)
    with pytest.raises(RuntimeError, match="should be the same; haloconv::conv1d: expected weight"):
        CONV1D.op(x, w.double())
    with pytest.raises(RuntimeError, match=r"Input type \(float\) and bias type \(double\) should"):
        CONV1D.op(x, w, torch.ones(3).double())
    with pytest.raises(RuntimeError, match="haloconv::conv1d: expected input to be a strided"):
        CONV1D.op(x.to_sparse(), w)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("relative", [CONV_TRANSPOSE2D, CONV1D, CONV_TRANSPOSE1D], ids=str)
def test_kinds_that_no_kernel_takes(relative):
    """Their sizes or strides, which some do not have, are not read before."""
    x, w = (torch.ones(4, 4, *[size] * relative.pixel_dims) for size in (9, 3))
    with pytest.raises(RuntimeError, match=f"{relative.name}: expected input to be a strided"):
        relative.op(x.to_mkldnn(), w)
    with pytest.raises(NotImplementedError, match=f"haloconv::{relative.name}.*NestedTensor"):
        relative.op(torch.nested.nested_tensor([x, x]), w)
