"""The error of a result against a float64 reference: |result - reference| / |reference|.

The reference is ATen's own convolution (im2col and a float64 matrix product; cuDNN is off), in
slices of images and output channels, so that a reference several times the operands' size fits.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from operators import Operands, run_aten
from problems import Problem

_SLICE_BYTES = 4 << 30

# Where a reference lies in a result, and the reference's tensors.
Part = tuple[tuple[slice, ...], tuple[Tensor, ...]]


@dataclass(frozen=True)
class ChannelBlock:
    """Output channels that can be computed alone, and the input channels that they read."""

    k: slice
    c: slice
    groups: int


def relative_errors(
    problem: Problem,
    direction: str,
    operands: Operands,
    results: Mapping[str, tuple[Tensor, ...]],
    slice_bytes: int = _SLICE_BYTES,
) -> dict[str, float]:
    """For each named result the largest error among its tensors; NaN if any error is NaN.

    A result of wgrad may be without the bias's gradient.
    """
    count = min(map(len, results.values()))
    norms: dict[int, float] = defaultdict(float)
    differences: dict[tuple[str, int], float] = defaultdict(float)
    for index, references in reference_parts(problem, direction, operands, slice_bytes):
        for i, reference in enumerate(references[:count]):
            norms[i] += _squared_norm(reference)
            for name, tensors in results.items():
                difference = tensors[i][index] - reference
                differences[name, i] += _squared_norm(difference)
    return {
        name: _largest([_relative(differences[name, i], norm) for i, norm in norms.items()])
        for name in results
    }


def reference_parts(
    problem: Problem, direction: str, operands: Operands, slice_bytes: int = _SLICE_BYTES
) -> Iterator[Part]:
    """The float64 reference of a direction, part by part; the parts tile the result."""
    image_bytes = 8 * (problem.c * problem.h * problem.w + 2 * problem.k * problem.p * problem.q)
    images = _image_slices(problem.n, max(1, slice_bytes // image_bytes))
    blocks = channel_blocks(problem, math.ceil(image_bytes / slice_bytes))
    every = slice(None)
    if direction == "fprop":
        for n in images:
            for block in blocks:
                yield (n, block.k), _slice_reference(problem, direction, operands, n, block)
    elif direction == "dgrad":
        for n in images:
            total = torch.zeros_like(operands.input[n], dtype=torch.float64)
            for block in blocks:
                (part,) = _slice_reference(problem, direction, operands, n, block)
                total[:, block.c] += part
            yield (n, every), (total,)
    else:
        for block in blocks:
            parts = (_slice_reference(problem, direction, operands, n, block) for n in images)
            grad_weight, grad_bias = next(parts)
            for more_weight, more_bias in parts:
                grad_weight += more_weight
                grad_bias += more_bias
            yield (block.k,), (grad_weight, grad_bias)


def channel_blocks(problem: Problem, count: int) -> list[ChannelBlock]:
    """About `count` blocks of whole groups, or of output channels where there is one group."""
    groups = problem.groups
    units = problem.k if groups == 1 else groups
    step = math.ceil(units / min(count, units))
    blocks = []
    for first in range(0, units, step):
        last = min(first + step, units)
        if groups == 1:
            blocks.append(ChannelBlock(slice(first, last), slice(0, problem.c), 1))
        else:
            k, c = problem.k // groups, problem.c // groups
            blocks.append(
                ChannelBlock(slice(first * k, last * k), slice(first * c, last * c), last - first)
            )
    return blocks


def _slice_reference(
    problem: Problem, direction: str, operands: Operands, n: slice, block: ChannelBlock
) -> tuple[Tensor, ...]:
    part = Operands(
        operands.input[n, block.c].double(),
        operands.weight[block.k].double(),
        None if operands.grad_output is None else operands.grad_output[n, block.k].double(),
    )
    small = replace(
        problem,
        n=part.input.shape[0],
        c=part.input.shape[1],
        k=part.weight.shape[0],
        groups=block.groups,
    )
    with _cudnn_off():
        return run_aten(small, direction, part)


@contextmanager
def _cudnn_off() -> Iterator[None]:
    enabled = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = enabled


def _image_slices(n: int, step: int) -> list[slice]:
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]


def _squared_norm(tensor: Tensor) -> float:
    return torch.linalg.vector_norm(tensor).item() ** 2


def _relative(difference: float, norm: float) -> float:
    if norm == 0:
        return 0.0 if difference == 0 else math.inf
    return math.sqrt(difference / norm)


def _largest(errors: list[float]) -> float:
    return math.nan if any(map(math.isnan, errors)) else max(errors)
