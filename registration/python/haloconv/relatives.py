"""conv2d's relatives, transposed and one-dimensional, as functions that also take numbers.

Shapes of conv_transpose2d: input (n, c, h, w) or (c, h, w); weight (c, k / groups, r, s); bias (k);
result (n, k, p, q) or (k, p, q). One-dimensional tensors have no rows: input (n, c, w) or (c, w);
weight (k, c / groups, s), transposed (c, k / groups, s). ``padding`` is one value for all sides, or
one for each dimension, or two for each: (top, bottom, left, right) or (left, right). All other
parameters are one value, or one for each dimension. dtypes, devices and errors are as in
haloconv.functional.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from haloconv import _torch_compat
from haloconv.functional import (
    Ints,
    _forward_parameters,
    _int,
    _ints,
    _overload,
    _require_tensors,
)

_ops = torch.ops.haloconv


def _transposed_parameters(
    stride: Ints, padding: Ints, output_padding: Ints, groups: int, dilation: Ints
) -> tuple[Sequence[int], Sequence[int], Sequence[int], int, Sequence[int]]:
    return (
        _ints("stride", stride),
        _ints("padding", padding),
        _ints("output_padding", output_padding),
        _int("groups", groups),
        _ints("dilation", dilation),
    )


def _require_operands(input: object, weight: object, **optional: object) -> None:
    given = {name: value for name, value in optional.items() if value is not None}
    _require_tensors(input=input, weight=weight, **given)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv1d, whose ``padding`` may also have two values, (left, right).

    A causal convolution has ``padding=(dilation * (s - 1), 0)``. As a string, padding is "valid" or
    "same", as in haloconv.conv2d. Differentiable to any order. Raises what torch's function raises.
    """
    _require_operands(input, weight, bias=bias)
    return _overload(_ops.conv1d, padding)(
        input, weight, bias, *_forward_parameters(stride, padding, dilation, groups)
    )


def conv1d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
    *,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    residual: Tensor | None = None,
    activation: str = "none",
    activation_arguments: Sequence[float] = (),
) -> Tensor:
    """activation(conv1d(...) * scale + shift + residual), as conv2d_fused."""
    _require_operands(input, weight, bias=bias, scale=scale, shift=shift, residual=residual)
    return _overload(_ops.conv1d_fused, padding)(
        input,
        weight,
        bias,
        *_forward_parameters(stride, padding, dilation, groups),
        scale=scale,
        shift=shift,
        residual=residual,
        activation=activation,
        activation_arguments=activation_arguments,
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """torch.nn.functional.conv_transpose2d, whose ``padding`` may also have four values.

    Each side of the result loses its padding; ``output_padding`` adds to the bottom and the right.
    Differentiable to any order. Raises what torch's function raises.
    """
    _require_operands(input, weight, bias=bias)
    return _ops.conv_transpose2d.default(
        input,
        weight,
        bias,
        *_transposed_parameters(stride, padding, output_padding, groups, dilation),
    )


def conv_transpose2d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    *,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    residual: Tensor | None = None,
    activation: str = "none",
    activation_arguments: Sequence[float] = (),
) -> Tensor:
    """activation(conv_transpose2d(...) * scale + shift + residual), as conv2d_fused."""
    _require_operands(input, weight, bias=bias, scale=scale, shift=shift, residual=residual)
    return _ops.conv_transpose2d_fused.default(
        input,
        weight,
        bias,
        *_transposed_parameters(stride, padding, output_padding, groups, dilation),
        scale=scale,
        shift=shift,
        residual=residual,
        activation=activation,
        activation_arguments=activation_arguments,
    )


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """torch.nn.functional.conv_transpose1d, whose ``padding`` may also be (left, right).

    Otherwise it is as conv_transpose2d.
    """
    _require_operands(input, weight, bias=bias)
    return _ops.conv_transpose1d.default(
        input,
        weight,
        bias,
        *_transposed_parameters(stride, padding, output_padding, groups, dilation),
    )


def conv_transpose1d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    *,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    residual: Tensor | None = None,
    activation: str = "none",
    activation_arguments: Sequence[float] = (),
) -> Tensor:
    """activation(conv_transpose1d(...) * scale + shift + residual), as conv2d_fused."""
    _require_operands(input, weight, bias=bias, scale=scale, shift=shift, residual=residual)
    return _ops.conv_transpose1d_fused.default(
        input,
        weight,
        bias,
        *_transposed_parameters(stride, padding, output_padding, groups, dilation),
        scale=scale,
        shift=shift,
        residual=residual,
        activation=activation,
        activation_arguments=activation_arguments,
    )


# A scripted function that calls one of these holds the operator itself, not this file's code.
for _function in (
    conv1d,
    conv1d_fused,
    conv_transpose1d,
    conv_transpose1d_fused,
    conv_transpose2d,
    conv_transpose2d_fused,
):
    _torch_compat.as_scripted_operator(_function, f"haloconv::{_function.__name__}")
