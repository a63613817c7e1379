"""Formulas by which torch.utils.flop_counter counts haloconv's operators.

A multiply-add counts as two operations, and taps on padding count too, as torch counts its own
convolutions.
"""

import math
from types import ModuleType

import torch

from haloconv._after_import import after_import
from haloconv._forward_ops import FORWARD_OPS

_ops = torch.ops.haloconv


def _flop(output_shape, weight_shape) -> int:
    """output (n, k, p, q) or without n, weight (k, c / groups, r, s); of conv1d without p and r."""
    pixel_dims = len(weight_shape) - 2
    *batch, _ = output_shape[:-pixel_dims]
    pixels = output_shape[-pixel_dims:]
    return 2 * math.prod(batch) * math.prod(pixels) * math.prod(weight_shape)


def _packets(transposed: bool) -> list:
    names = [op.name for op in FORWARD_OPS if op.transposed == transposed]
    return [getattr(_ops, name + form) for name in names for form in ("", "_fused")]


def _register(counter: ModuleType) -> None:
    formula_of = counter.register_flop_formula

    @formula_of(_packets(transposed=False))
    def _forward(input_shape, weight_shape, *_, out_shape, **__) -> int:
        return _flop(out_shape, weight_shape)

    @formula_of(_packets(transposed=True))
    def _transposed(input_shape, weight_shape, *_, out_shape, **__) -> int:
        return _flop(input_shape, weight_shape)

    @formula_of(_ops.conv2d_dgrad)
    def _conv2d_dgrad(grad_output_shape, weight_shape, *_, out_shape, **__) -> int:
        return _flop(grad_output_shape, weight_shape)

    @formula_of(_ops.conv2d_wgrad)
    def _conv2d_wgrad(grad_output_shape, *_, out_shape, **__) -> int:
        return _flop(grad_output_shape, out_shape)

    @formula_of(_ops.conv2d_wgrad_bias)
    def _conv2d_wgrad_bias(grad_output_shape, *_, out_shape, **__) -> int:
        weight_shape, _bias_shape = out_shape
        return _flop(grad_output_shape, weight_shape)

    @formula_of(_ops.conv2d_backward)
    def _conv2d_backward(grad_output_shape, _input_shape, weight_shape, *_, **__) -> int:
        return 2 * _flop(grad_output_shape, weight_shape)


# The counter imports Triton, which takes longer than all the rest of haloconv.
after_import("torch.utils.flop_counter", _register)
