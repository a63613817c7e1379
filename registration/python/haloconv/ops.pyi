from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: str = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
) -> Tensor: ...
@overload
def conv2d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    *,
    scale: Tensor | None = ...,
    shift: Tensor | None = ...,
    residual: Tensor | None = ...,
    activation: str = ...,
    activation_arguments: Sequence[float] = ...,
) -> Tensor: ...
@overload
def conv2d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: str = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    *,
    scale: Tensor | None = ...,
    shift: Tensor | None = ...,
    residual: Tensor | None = ...,
    activation: str = ...,
    activation_arguments: Sequence[float] = ...,
) -> Tensor: ...
def conv2d_dgrad(
    grad_output: Tensor,
    weight: Tensor,
    input_size: Sequence[int],
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    *,
    memory_format: torch.memory_format | None = ...,
) -> Tensor: ...
def conv2d_wgrad(
    grad_output: Tensor,
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    *,
    memory_format: torch.memory_format | None = ...,
) -> Tensor: ...
def conv2d_wgrad_bias(
    grad_output: Tensor,
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    *,
    memory_format: torch.memory_format | None = ...,
) -> tuple[Tensor, Tensor]: ...
def conv2d_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    *,
    with_bias: bool = ...,
    input_format: torch.memory_format | None = ...,
    weight_format: torch.memory_format | None = ...,
) -> tuple[Tensor, Tensor, Tensor | None]: ...
@overload
def explain(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    direction: str = ...,
) -> str: ...
@overload
def explain(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: str = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    direction: str = ...,
) -> str: ...
@overload
def conv2d_takes_residual(
    input: Tensor,
    weight: Tensor,
    residual: Tensor,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
) -> bool: ...
@overload
def conv2d_takes_residual(
    input: Tensor,
    weight: Tensor,
    residual: Tensor,
    stride: Sequence[int] = ...,
    padding: str = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
) -> bool: ...
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
) -> Tensor: ...
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: str = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
) -> Tensor: ...
@overload
def conv1d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    *,
    scale: Tensor | None = ...,
    shift: Tensor | None = ...,
    residual: Tensor | None = ...,
    activation: str = ...,
    activation_arguments: Sequence[float] = ...,
) -> Tensor: ...
@overload
def conv1d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: str = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    *,
    scale: Tensor | None = ...,
    shift: Tensor | None = ...,
    residual: Tensor | None = ...,
    activation: str = ...,
    activation_arguments: Sequence[float] = ...,
) -> Tensor: ...
@overload
def conv1d_explain(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    direction: str = ...,
) -> str: ...
@overload
def conv1d_explain(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: str = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    direction: str = ...,
) -> str: ...
@overload
def conv1d_takes_residual(
    input: Tensor,
    weight: Tensor,
    residual: Tensor,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
) -> bool: ...
@overload
def conv1d_takes_residual(
    input: Tensor,
    weight: Tensor,
    residual: Tensor,
    stride: Sequence[int] = ...,
    padding: str = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
) -> bool: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    output_padding: Sequence[int] = ...,
    groups: int = ...,
    dilation: Sequence[int] = ...,
) -> Tensor: ...
def conv_transpose1d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    output_padding: Sequence[int] = ...,
    groups: int = ...,
    dilation: Sequence[int] = ...,
    *,
    scale: Tensor | None = ...,
    shift: Tensor | None = ...,
    residual: Tensor | None = ...,
    activation: str = ...,
    activation_arguments: Sequence[float] = ...,
) -> Tensor: ...
def conv_transpose1d_explain(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    output_padding: Sequence[int] = ...,
    groups: int = ...,
    dilation: Sequence[int] = ...,
    direction: str = ...,
) -> str: ...
def conv_transpose1d_takes_residual(
    input: Tensor,
    weight: Tensor,
    residual: Tensor,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    output_padding: Sequence[int] = ...,
    groups: int = ...,
    dilation: Sequence[int] = ...,
) -> bool: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    output_padding: Sequence[int] = ...,
    groups: int = ...,
    dilation: Sequence[int] = ...,
) -> Tensor: ...
def conv_transpose2d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    output_padding: Sequence[int] = ...,
    groups: int = ...,
    dilation: Sequence[int] = ...,
    *,
    scale: Tensor | None = ...,
    shift: Tensor | None = ...,
    residual: Tensor | None = ...,
    activation: str = ...,
    activation_arguments: Sequence[float] = ...,
) -> Tensor: ...
def conv_transpose2d_explain(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    output_padding: Sequence[int] = ...,
    groups: int = ...,
    dilation: Sequence[int] = ...,
    direction: str = ...,
) -> str: ...
def conv_transpose2d_takes_residual(
    input: Tensor,
    weight: Tensor,
    residual: Tensor,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    output_padding: Sequence[int] = ...,
    groups: int = ...,
    dilation: Sequence[int] = ...,
) -> bool: ...
