"""haloconv's operators on the parts that one rank has, any of which may be empty."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_ops = torch.ops.haloconv


@dataclass(frozen=True)
class Operators:
    """The operators, with all arguments that ranks have in common; padding differs by call."""

    stride: Sequence[int]
    dilation: Sequence[int]
    groups: int  # of the whole problem
    channels: int  # c of the whole problem
    filters: int  # k of the whole problem
    kernel_size: Sequence[int]
    is_fused: bool = False
    activation: str = "none"
    activation_arguments: Sequence[float] = ()
    input_format: torch.memory_format | None = None
    weight_format: torch.memory_format | None = None

    def groups_of(self, filters: int) -> int:
        """The groups of a part with so many filters: they are whole, or there is only one."""
        return 1 if self.groups == 1 else filters // (self.filters // self.groups)

    def forward(
        self, tensors: Sequence[Tensor | None], padding: Sequence[int], channel_ranks: Sequence[int]
    ) -> Tensor:
        """The output from input, weight, bias, scale, shift and residual.

        If input channels are cut, results are parts of a sum, and only the first rank adds
        what is added once.
        """
        input, weight, bias, scale, shift, residual = tensors
        if any(channel_ranks):
            bias = shift = residual = None
        parameters = (self.stride, padding, self.dilation, self.groups_of(weight.size(0)))
        if not input.numel() or not weight.numel():
            return self._empty_output(input, weight, padding)
        if not self.is_fused:
            return _ops.conv2d(input, weight, bias, *parameters)
        return _ops.conv2d_fused(
            input,
            weight,
            bias,
            *parameters,
            scale=scale,
            shift=shift,
            residual=residual,
            activation=self.activation,
            activation_arguments=self.activation_arguments,
        )

    def input_gradient(
        self, grad_output: Tensor, weight: Tensor, size: Sequence[int], padding: Sequence[int]
    ) -> Tensor:
        groups = self.groups_of(weight.size(0))
        if not grad_output.numel() or not weight.numel():
            return self.no_input_gradient(grad_output, weight, size)
        return _ops.conv2d_dgrad(
            grad_output,
            weight,
            size,
            self.stride,
            padding,
            self.dilation,
            groups,
            memory_format=self.input_format,
        )

    def weight_gradient(
        self, grad_output: Tensor, input: Tensor, padding: Sequence[int], with_bias: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The gradient of the weight, and of the bias if it is asked for."""
        if not grad_output.numel() or not input.numel():
            grad_bias = bias_gradient(grad_output) if with_bias else None
            return self.no_weight_gradient(grad_output, input), grad_bias
        operator = _ops.conv2d_wgrad_bias if with_bias else _ops.conv2d_wgrad
        gradients = operator(
            grad_output,
            input,
            self.kernel_size,
            self.stride,
            padding,
            self.dilation,
            self.groups_of(grad_output.size(-3)),
            memory_format=self.weight_format,
        )
        return gradients if with_bias else (gradients, None)

    def gradients(
        self,
        grad_output: Tensor,
        input: Tensor,
        weight: Tensor,
        padding: Sequence[int],
        with_bias: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The gradients of input, weight, and of the bias if it is asked for."""
        if not grad_output.numel() or not input.numel() or not weight.numel():
            grad_input = self.no_input_gradient(grad_output, weight, input.shape[-2:])
            return grad_input, *self.weight_gradient(grad_output, input, padding, with_bias)
        return _ops.conv2d_backward(
            grad_output,
            input,
            weight,
            self.stride,
            padding,
            self.dilation,
            self.groups_of(weight.size(0)),
            with_bias=with_bias,
            input_format=self.input_format,
            weight_format=self.weight_format,
        )

    def no_input_gradient(self, grad_output: Tensor, weight: Tensor, size: Sequence[int]) -> Tensor:
        """Zeros, as large as the gradient of an input of this (h, w)."""
        channels = weight.size(1) * self.groups_of(weight.size(0))
        size = (*grad_output.shape[:-3], channels, *size)
        format = self.input_format if len(size) == 4 else None
        return torch.zeros_like(grad_output.new_empty(size), memory_format=format)

    def no_weight_gradient(self, grad_output: Tensor, input: Tensor) -> Tensor:
        filters = grad_output.size(-3)
        channels = input.size(-3) if self.groups == 1 else self.channels // self.groups
        like = grad_output.new_empty(filters, channels, *self.kernel_size)
        return torch.zeros_like(like, memory_format=self.weight_format)

    def _empty_output(self, input: Tensor, weight: Tensor, padding: Sequence[int]) -> Tensor:
        """The output without images or filters, or without channels, as a sum of nothing."""
        top, bottom, left, right = padding
        size = [*input.shape[:-3], weight.size(0)]
        sides = (top + bottom, left + right)
        for i in range(2):
            span = self.dilation[i] * (self.kernel_size[i] - 1) + 1
            size.append((input.size(i - 2) + sides[i] - span) // self.stride[i] + 1)
        return input.new_zeros(size)


def bias_gradient(grad_output: Tensor) -> Tensor:
    """The sum over images and pixels."""
    dims = (0, 2, 3) if grad_output.dim() == 4 else (1, 2)
    return grad_output.sum(dims)
