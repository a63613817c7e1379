"""How haloconv and how PyTorch compute one direction of a problem."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from problems import Problem

DIRECTIONS = ("fprop", "dgrad", "wgrad")


@dataclass(frozen=True)
class Operands:
    input: Tensor  # (n, c, h, w)
    weight: Tensor  # (k, c / groups, r, s)
    grad_output: Tensor | None = None  # (n, k, p, q); fprop has none


def make_operands(
    problem: Problem,
    direction: str,
    sets: int,
    *,
    dtype: torch.dtype,
    device: torch.device,
    channels_last: bool = False,
) -> list[Operands]:
    """Random operands: `sets` different activations, all with the same weight."""
    layout = torch.channels_last if channels_last else torch.contiguous_format

    def random(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, dtype=dtype, device=device).contiguous(memory_format=layout)

    weight = random(problem.weight_shape)
    return [
        Operands(
            random(problem.input_shape),
            weight,
            None if direction == "fprop" else random(problem.output_shape),
        )
        for _ in range(sets)
    ]


def run_haloconv(ops, problem: Problem, direction: str, operands: Operands) -> tuple[Tensor, ...]:
    """`ops` is torch.ops.haloconv. wgrad gives the weight's and the bias's gradient."""
    input, weight, grad_output = operands.input, operands.weight, operands.grad_output
    if direction == "fprop":
        return (ops.conv2d(input, weight, None, **problem.arguments),)
    if direction == "dgrad":
        size = [problem.h, problem.w]
        return (ops.conv2d_dgrad(grad_output, weight, size, **problem.arguments),)
    size = [problem.r, problem.s]
    return tuple(ops.conv2d_wgrad_bias(grad_output, input, size, **problem.arguments))


def run_aten(problem: Problem, direction: str, operands: Operands) -> tuple[Tensor, ...]:
    """The same through aten; a padding that it does not know costs it a padded copy, as a user."""
    padding, rest = _split_padding(problem)
    settings = {
        "stride": list(problem.stride),
        "padding": padding,
        "dilation": list(problem.dilation),
        "groups": problem.groups,
    }
    input = F.pad(operands.input, rest) if any(rest) else operands.input
    if direction == "fprop":
        return (torch.conv2d(input, operands.weight, None, **settings),)
    is_dgrad = direction == "dgrad"
    grad_input, grad_weight, grad_bias = torch.ops.aten.convolution_backward(
        operands.grad_output,
        input,
        operands.weight,
        [problem.k],
        **settings,
        transposed=False,
        output_padding=[0, 0],
        output_mask=[is_dgrad, not is_dgrad, not is_dgrad],
    )
    if is_dgrad:
        return (F.pad(grad_input, [-size for size in rest]) if any(rest) else grad_input,)
    return grad_weight, grad_bias


def _split_padding(problem: Problem) -> tuple[list[int], list[int]]:
    """What both sides share (rows, columns), and the rest in F.pad's order."""
    top, bottom, left, right = problem.padding
    rows, columns = min(top, bottom), min(left, right)
    return [rows, columns], [left - columns, right - columns, top - rows, bottom - rows]
