"""How haloconv and how PyTorch compute one direction of a problem."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from problems import Problem

DIRECTIONS = ("fprop", "dgrad", "wgrad")


@dataclass(frozen=True)
class Operands:
    input: Tensor  # (n, c, h, w)
    weight: Tensor  # (k, c / groups, r, s)
    grad_output: Tensor | None = None  # (n, k, p, q); conv2d's fprop has none

    @cached_property
    def rows(self) -> Operands:
        """Of a problem with a single row, without it."""
        tensors = (self.input, self.weight, self.grad_output)
        return Operands(*(None if t is None else t.squeeze(-2) for t in tensors))


def conv2d_direction(problem: Problem, direction: str) -> str:
    """What a direction of the problem's operator is for conv2d."""
    swapped = {"fprop": "dgrad", "dgrad": "fprop"}
    return swapped.get(direction, direction) if problem.transposed else direction


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
    needs_output = direction != "fprop" or problem.transposed
    return [
        Operands(
            random(problem.input_shape),
            weight,
            random(problem.output_shape) if needs_output else None,
        )
        for _ in range(sets)
    ]


def run_ours(ops, problem: Problem, direction: str, operands: Operands) -> tuple[Tensor, ...]:
    """The problem's operator forward, and in a backward pass the operators that autograd calls."""
    if problem.operator != "conv2d" and direction == "fprop":
        given = operands.rows if problem.pixel_dims == 1 else operands
        input = given.grad_output if problem.transposed else given.input
        operator = getattr(ops, problem.operator)
        return (operator(input, given.weight, None, **problem.operator_arguments),)
    if problem.transposed and direction == "wgrad":
        tensors, size = (operands.grad_output, operands.input), [problem.r, problem.s]
        return (ops.conv2d_wgrad(*tensors, size, **problem.arguments),)
    return run_haloconv(ops, problem, conv2d_direction(problem, direction), operands)


def run_pytorch(problem: Problem, direction: str, operands: Operands) -> tuple[Tensor, ...]:
    given = operands.rows if problem.pixel_dims == 1 else operands
    if problem.transposed:
        return _run_transposed(problem, direction, given)
    if problem.operator == "conv1d" and direction == "fprop" and problem.stride[1] == 1:
        return (_causal(problem, given),)
    return run_aten(problem, direction, given)


def _causal(problem: Problem, operands: Operands) -> Tensor:
    """As models write it: both sides padded alike, and what is too much cut off, without a copy."""
    _, _, left, right = problem.padding
    padding, dilation = max(left, right), problem.dilation[1]
    result = torch.conv1d(
        operands.input, operands.weight, None, 1, padding, dilation, problem.groups
    )
    return result.narrow(-1, padding - left, problem.q)


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
    settings, rest = _settings(problem, operands)
    function = torch.conv2d if operands.weight.dim() == 4 else torch.conv1d
    input = F.pad(operands.input, rest) if any(rest) else operands.input
    if direction == "fprop":
        return (function(input, operands.weight, None, **settings),)
    is_dgrad = direction == "dgrad"
    grad_input, grad_weight, grad_bias = torch.ops.aten.convolution_backward(
        operands.grad_output,
        input,
        operands.weight,
        [problem.k],
        **settings,
        transposed=False,
        output_padding=[0] * len(settings["stride"]),
        output_mask=[is_dgrad, not is_dgrad, not is_dgrad],
    )
    if is_dgrad:
        return (F.pad(grad_input, [-size for size in rest]) if any(rest) else grad_input,)
    return grad_weight, grad_bias


def _run_transposed(problem: Problem, direction: str, operands: Operands) -> tuple[Tensor, ...]:
    """The transposed operator through aten; what padding it does not know is cut off its result.

    wgrad gives the weight's gradient alone: the bias's is a sum, the same for haloconv and PyTorch.
    """
    settings, rest = _settings(problem, operands)
    settings["output_padding"] = problem.output_padding[-len(settings["stride"]) :]
    input, weight = operands.grad_output, operands.weight
    if direction == "fprop":
        function = torch.conv_transpose2d if weight.dim() == 4 else torch.conv_transpose1d
        result = function(input, weight, None, **settings)
        return (F.pad(result, [-size for size in rest]) if any(rest) else result,)
    is_dgrad = direction == "dgrad"
    grad_output = F.pad(operands.input, rest) if any(rest) else operands.input
    grad_input, grad_weight, _ = torch.ops.aten.convolution_backward(
        grad_output,
        input,
        weight,
        None,
        **settings,
        transposed=True,
        output_mask=[is_dgrad, not is_dgrad, False],
    )
    return (grad_input if is_dgrad else grad_weight,)


def _settings(problem: Problem, operands: Operands) -> tuple[dict, list[int]]:
    """aten's arguments, and the padding that they do not say, in F.pad's order."""
    padding, rest = _split_padding(problem)
    dims = operands.weight.dim() - 2
    settings = {
        "stride": list(problem.stride)[-dims:],
        "padding": padding[-dims:],
        "dilation": list(problem.dilation)[-dims:],
        "groups": problem.groups,
    }
    return settings, rest[: 2 * dims]


def _split_padding(problem: Problem) -> tuple[list[int], list[int]]:
    """What both sides share (rows, columns), and the rest in F.pad's order."""
    top, bottom, left, right = problem.padding
    rows, columns = min(top, bottom), min(left, right)
    return [rows, columns], [left - columns, right - columns, top - rows, bottom - rows]
