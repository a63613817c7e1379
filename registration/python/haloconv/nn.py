"""torch.nn's convolution layers on haloconv's operators.

Their arguments are torch's, but ``padding`` may also have two values for each dimension:
(top, bottom, left, right) or (left, right). torch's layers load their state_dicts, and they load
those of torch's layers. All are scriptable and exportable.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from haloconv.functional import conv2d, conv2d_of_layer
from haloconv.relatives import conv1d, conv_transpose1d, conv_transpose2d

_Single = int | tuple[int]
_Pair = int | tuple[int, int]
_Sides1d = tuple[int, int]
_Sides2d = tuple[int, int, int, int]
_PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
_Device = torch.device | str | int | None


def _is_per_side(padding: object, pixel_dims: int) -> bool:
    return isinstance(padding, (tuple, list)) and len(padding) == 2 * pixel_dims


class Conv2d(torch.nn.Conv2d):
    """torch.nn.Conv2d that calls haloconv::conv2d.

    input (n, in_channels, h, w) or (in_channels, h, w) -> (n, out_channels, p, q) or without n;
    weight (out_channels, in_channels / groups, *kernel_size).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Pair,
        stride: _Pair = 1,
        padding: str | _Pair | _Sides2d = 0,
        dilation: _Pair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: _PaddingMode = "zeros",
        device: _Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        four_sided = _is_per_side(padding, 2)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            0 if four_sided else padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        if four_sided:
            top, bottom, left, right = padding
            self.padding = (top, bottom, left, right)
            self._reversed_padding_repeated_twice = [left, right, top, bottom]  # F.pad's order

    def forward(self, input: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            # Module.__getattr__ takes as long as the rest of this. It is needed only if a subclass
            # defines these names, or if one of them is no parameter, such as a pruned weight.
            parameters = self._parameters
            if type(self) is Conv2d and "weight" in parameters and "bias" in parameters:
                return self._conv_forward(input, parameters["weight"], parameters["bias"])
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return conv2d(padded, weight, bias, self.stride, 0, self.dilation, self.groups)
        if not torch.jit.is_scripting():
            return conv2d_of_layer(
                input, weight, bias, self.stride, self.padding, self.dilation, self.groups
            )
        return conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(torch.nn.Conv1d):
    """torch.nn.Conv1d that calls haloconv::conv1d.

    input (n, in_channels, w) or (in_channels, w) -> (n, out_channels, q) or without n; weight
    (out_channels, in_channels / groups, *kernel_size).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Single,
        stride: _Single = 1,
        padding: str | _Single | _Sides1d = 0,
        dilation: _Single = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: _PaddingMode = "zeros",
        device: _Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        two_sided = _is_per_side(padding, 1)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            0 if two_sided else padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        if two_sided:
            left, right = padding
            self.padding = (left, right)
            self._reversed_padding_repeated_twice = [left, right]

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return conv1d(padded, weight, bias, self.stride, 0, self.dilation, self.groups)
        return conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class _Transposed:
    """What the transposed layers share: the padding of their result."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        output_padding = _output_padding(
            input,
            output_size,
            self.stride,
            self.padding,
            self.kernel_size,
            self.output_padding,
            self.dilation,
        )
        return self._transposed(input, output_padding)


class ConvTranspose2d(_Transposed, torch.nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d that calls haloconv::conv_transpose2d.

    input (n, in_channels, h, w) or (in_channels, h, w) -> (n, out_channels, p, q) or without n;
    weight (in_channels, out_channels / groups, *kernel_size). forward() takes ``output_size`` as
    torch's.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Pair,
        stride: _Pair = 1,
        padding: _Pair | _Sides2d = 0,
        output_padding: _Pair = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _Pair = 1,
        padding_mode: Literal["zeros"] = "zeros",
        device: _Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        four_sided = _is_per_side(padding, 2)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            0 if four_sided else padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        if four_sided:
            top, bottom, left, right = padding
            self.padding = (top, bottom, left, right)

    def _transposed(self, input: Tensor, output_padding: list[int]) -> Tensor:
        return conv_transpose2d(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_Transposed, torch.nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d that calls haloconv::conv_transpose1d.

    input (n, in_channels, w) or (in_channels, w) -> (n, out_channels, q) or without n; weight
    (in_channels, out_channels / groups, *kernel_size). forward() takes ``output_size`` as torch's.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Single,
        stride: _Single = 1,
        padding: _Single | _Sides1d = 0,
        output_padding: _Single = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _Single = 1,
        padding_mode: Literal["zeros"] = "zeros",
        device: _Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        two_sided = _is_per_side(padding, 1)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            0 if two_sided else padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        if two_sided:
            left, right = padding
            self.padding = (left, right)

    def _transposed(self, input: Tensor, output_padding: list[int]) -> Tensor:
        return conv_transpose1d(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


def _output_padding(
    input: Tensor,
    output_size: list[int] | None,
    stride: list[int],
    padding: list[int],
    kernel_size: list[int],
    output_padding: list[int],
    dilation: list[int],
) -> list[int]:
    """The output_padding of a transposed layer: its own, or the one that gives the wanted size.

    ``padding`` has one value or two for each dimension, all other lists one.
    """
    if output_size is None:
        return output_padding
    pixel_dims = len(kernel_size)
    batch_dims = input.dim() - pixel_dims
    wanted = output_size[batch_dims:] if len(output_size) == input.dim() else output_size
    if len(wanted) != pixel_dims:
        raise ValueError(
            f"haloconv: expected output_size to have {pixel_dims} or {input.dim()} values, "
            f"but got {output_size}"
        )
    result: list[int] = []
    for i in range(pixel_dims):
        before, after = padding[i], padding[i]
        if len(padding) == 2 * pixel_dims:
            before, after = padding[2 * i], padding[2 * i + 1]
        extent = dilation[i] * (kernel_size[i] - 1) + 1
        least = (input.size(batch_dims + i) - 1) * stride[i] - before - after + extent
        if not least <= wanted[i] < least + stride[i]:
            raise ValueError(
                f"haloconv: requested an output size of {output_size}, but the valid sizes of "
                f"dimension {i} range from {least} to {least + stride[i] - 1} (for an input of "
                f"{input.size()[batch_dims:]})"
            )
        result.append(wanted[i] - least)
    return result
