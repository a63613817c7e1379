"""haloconv's forward operators by torch's own, for what knows these alone."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ._activations import ACTIVATIONS

_ops = torch.ops.haloconv


def _conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1) -> Tensor:
    if isinstance(padding, (list, tuple)) and len(padding) == 4:
        from torch.fx.experimental.symbolic_shapes import statically_known_true  # slow to import

        top, bottom, left, right = padding
        # Else the program would hold for those sizes alone where they are.
        if not (statically_known_true(top == bottom) and statically_known_true(left == right)):
            input, top, left = F.pad(input, (left, right, top, bottom)), 0, 0
        padding = (top, left)
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups)


def _conv2d_fused(
    *args, scale=None, shift=None, residual=None, activation="none", activation_arguments=(), **more
) -> Tensor:
    result = _conv2d(*args, **more)
    if scale is not None:
        result = result * scale[:, None, None]
    if shift is not None:
        result = result + shift[:, None, None]
    if residual is not None:
        result = result + residual
    return ACTIVATIONS[activation](result, *activation_arguments)


def decompositions() -> dict[torch._ops.OpOverload, Callable[..., Tensor]]:
    """haloconv::conv2d and conv2d_fused as functions of torch's operators.

    For ``exported.run_decompositions()``, and thereby for what takes exported programs and knows
    torch's operators alone. Padding that differs between opposite sides is a padded copy there, and
    16-bit types are rounded after each step of what is fused.
    """
    return {
        _ops.conv2d.default: _conv2d,
        _ops.conv2d.padding: _conv2d,
        _ops.conv2d_fused.default: _conv2d_fused,
        _ops.conv2d_fused.padding: _conv2d_fused,
    }
