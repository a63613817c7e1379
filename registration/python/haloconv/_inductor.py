"""What the code that Inductor generates calls for a convolution.

If stride, padding and dilation are one number each, it calls the operators that take numbers:
torch.ops reads a list in a microsecond, at every call.
"""

from collections.abc import Sequence

import torch

from haloconv import _torch_compat

# An operator and its arguments.
_Call = tuple[_torch_compat.OpOverload, tuple]


def _numbers(groups: int, *lists: Sequence[int]) -> tuple[int, ...] | None:
    """One number for each list, and the groups; None if a list has two, or there is a symbol."""
    numbers = (*(values[0] for values in lists), groups)
    same = all(value == values[0] for values in lists for value in values)
    return numbers if same and all(type(number) is int for number in numbers) else None


def _conv2d(
    input, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1
) -> _Call | None:
    numbers = _numbers(groups, stride, padding, dilation)
    square = torch.ops.haloconv._conv2d_square.default
    return numbers and (square, (input, weight, bias, *numbers))


def _conv2d_backward(
    grad_output,
    input,
    weight,
    stride=(1,),
    padding=(0,),
    dilation=(1,),
    groups=1,
    *,
    with_bias=False,
    input_format=None,
    weight_format=None,
) -> _Call | None:
    numbers = _numbers(groups, stride, padding, dilation)
    if numbers is None or None in (input_format, weight_format):
        return None
    in_channels = (f is torch.channels_last for f in (input_format, weight_format))
    arguments = (grad_output, input, weight, *numbers, with_bias, *in_channels)
    return torch.ops.haloconv._conv2d_backward_square.default, arguments


def register() -> None:
    ops = torch.ops.haloconv
    _torch_compat.lower_in_inductor(ops.conv2d.default, _conv2d)
    _torch_compat.lower_in_inductor(ops.conv2d_backward.default, _conv2d_backward)
