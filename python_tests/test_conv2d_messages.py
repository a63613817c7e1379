"""What aten says of a bad call begins our message: PyTorch's tests and users' code match on it."""

import re

import pytest
import torch
import torch.nn.functional as F

import haloconv
from test_conv2d_errors import BAD, call

# Those of which our message begins with the whole first line of torch's.
WHOLE = [
    "input of 2 dimensions",
    "input of 5 dimensions",
    "channels",
    "no filters",
    "filter too large",
    "image without rows",
    "image without rows, padded",
    "groups of 0",
    "groups of -1",
    "filters not divisible",
    "fewer filters than groups",
    "bias too short",
    "bias of 2 dimensions",
    "bias dtype",
    "stride of 0",
    "stride of -1",
    "stride of 3 values",
    "stride of no value",
    "dilation of 0",
    "dilation of -2",
    "dilation of 3 values",
    "negative padding",
    "padding of 3 values",
    "padding of 5 values",
    "unknown padding",
    "same with stride",
]
MORE = {
    "groups of -1, same": {"groups": -1, "padding": "same"},
    "fewer filters than groups, same": {"groups": 5, "padding": "same"},
    "dilation of 0, same": {"dilation": 0, "padding": "same"},
    "stride of 0, valid": {"stride": 0, "padding": "valid"},
    "channels without n": {"input": torch.ones(5, 8, 7)},
    "filter too large with its dilation": {"dilation": 4, "padding": (0, 1)},
    "weight of 1 dimension": {"weight": torch.ones(4)},
    "weight of 2 dimensions": {"weight": torch.ones(4, 6)},
    "weight of 2 dimensions, same": {"weight": torch.ones(4, 6), "padding": "same"},
}
HALF = torch.ones(4, 6, 3, 3).half()  # a weight for an input of float32
# Which of two faults aten names.
OF_TWO = {
    "dtype of the bias, before the weight's": {
        "weight": torch.ones(4, 6, 3, 3).half(),
        "bias": torch.ones(4).half(),
    },
    "dtype of the bias, before dimensions": {
        "input": torch.ones(8, 7),
        "bias": torch.ones(4).double(),
    },
    "dimensions of the input, before stride": {"input": torch.ones(8, 7), "stride": 0},
    "dimensions of the weight, before groups": {"weight": torch.ones(4, 6), "groups": 0},
    "groups, before stride": {"groups": 0, "stride": (1, 1, 1)},
    "values of padding, before stride": {"padding": (1, 1, 1), "stride": 0},
    "padding, before stride": {"padding": -1, "stride": 0},
    "filters, before rows": {"weight": torch.ones(0, 6, 3, 3), "input": torch.ones(2, 6, 0, 7)},
    "channels, before rows": {"input": torch.ones(2, 5, 0, 7)},
    "bias, before rows": {"bias": torch.ones(3), "input": torch.ones(2, 6, 0, 7), "padding": 2},
    "dimensions of the input, before the weight's dtype": {
        "input": torch.ones(8, 7),
        "weight": HALF,
    },
    "dimensions of the weight, before its dtype": {"weight": torch.ones(4, 6).half()},
    "groups, before the weight's dtype": {"weight": HALF, "groups": 0},
    "stride, before the weight's dtype": {"weight": HALF, "stride": 0},
    "padding, before the weight's dtype": {"weight": HALF, "padding": -1},
    "filters, before the weight's dtype": {"weight": HALF, "groups": 5},
    "channels, before the weight's dtype": {"weight": HALF, "input": torch.ones(2, 5, 8, 7)},
    "bias, before the weight's dtype": {"weight": HALF, "bias": torch.ones(3)},
    "kernel, before the weight's dtype": {"weight": HALF, "dilation": 4},
    "rows, before the weight's dtype": {
        "weight": HALF,
        "input": torch.ones(2, 6, 0, 7),
        "padding": 2,
    },
    "filters, before their rows": {"weight": torch.ones(0, 6, 0, 3)},
    "channels, before the weight's rows": {"weight": torch.ones(4, 5, 0, 3)},
    "bias, before the weight's rows": {"weight": torch.ones(4, 6, 0, 3), "bias": torch.ones(3)},
    "kernel's columns, before its rows": {"weight": torch.ones(4, 6, 0, 9)},
    "filters, before a dilation of 0": {"weight": torch.ones(0, 6, 3, 3), "dilation": 0},
    "channels, before a dilation of 0": {"input": torch.ones(2, 5, 8, 7), "dilation": 0},
    "bias, before a dilation of 0": {"bias": torch.ones(3), "dilation": 0},
}
# Where torch's differ by device, or name a type otherwise: what both must match.
PARTS = {
    "weight dtype": r"Input type \(torch\.(cuda\.)?FloatTensor\) and weight type "
    r"\(torch\.(cuda\.)?HalfTensor\) should be the same",
    "complex input, real weight": r"Input type \(.+\) and .+ type \(.+\) should be the same",
}


def message(conv, device: str, changes: dict) -> str:
    with pytest.raises(RuntimeError) as error:
        call(conv, device, **changes)
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize("conv", [haloconv.conv2d, haloconv.conv2d_fused])
@pytest.mark.parametrize("name", [*WHOLE, *MORE, *OF_TWO])
def test_atens_words_come_first(name, conv, device):
    """Those that it has on a CPU: for a dilation of 0 it has others on a GPU."""
    changes = BAD[name][0] if name in WHOLE else {**MORE, **OF_TWO}[name]
    ours, atens = message(conv, device, changes), message(F.conv2d, "cpu", changes)
    assert ours.startswith(f"{atens}; haloconv::{conv.__name__}: expected ")


@pytest.mark.parametrize("name", PARTS)
def test_types_should_be_the_same(name, device):
    for conv in (F.conv2d, haloconv.conv2d, haloconv.conv2d_fused):
        assert re.match(PARTS[name], message(conv, device, BAD[name][0]))


def test_a_weight_of_three_dimensions():
    """Of which torch has these words for padding by name alone."""
    words = (
        r"Expected 3-dimensional input for 3-dimensional weight ?\[4, 6, 3\], "
        r"but got 4-dimensional input of size \[2, 6, 8, 7\] instead"
    )
    changes = {"weight": torch.ones(4, 6, 3)}
    assert re.match(words, message(F.conv2d, "cpu", changes | {"padding": "same"}))
    for padding in ("same", "valid", 0):
        assert re.match(words, message(haloconv.conv2d, "cpu", changes | {"padding": padding}))
