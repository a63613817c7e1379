"""torch.nn's convolution layer on haloconv's operator."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from haloconv.functional import conv2d

_Pair = int | tuple[int, int]


class Conv2d(torch.nn.Conv2d):
    """torch.nn.Conv2d that calls haloconv::conv2d; state_dicts pass from either to the other.

    input (n, in_channels, h, w) or (in_channels, h, w) -> (n, out_channels, p, q) or without n;
    weight (out_channels, in_channels / groups, *kernel_size).

    The arguments are torch.nn.Conv2d's, and ``padding`` may be four values besides: (top, bottom,
    left, right). Scriptable and exportable.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Pair,
        stride: _Pair = 1,
        padding: str | _Pair | tuple[int, int, int, int] = 0,
        dilation: _Pair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        four_sided = isinstance(padding, (tuple, list)) and len(padding) == 4
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

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return conv2d(padded, weight, bias, self.stride, 0, self.dilation, self.groups)
        return conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
