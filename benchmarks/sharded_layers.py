"""Times one convolution whose tensors are cut among ranks, beside the same on one device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import models
from cuts import BATCH, Cut, overlap, random_part
from problems import Problem
from ranks import Step

# The candidates; what one device computes comes first.
ALONE, PYTORCH_ALONE = "haloconv on one device", "PyTorch on one device"
SHARDED, NO_OVERLAP = "haloconv", "haloconv without overlap"
DTENSOR, DDP, HALOCONV_DDP = "PyTorch's DTensor", "PyTorch's DDP", "haloconv in DDP"
FORWARD, BOTH = "forward", "forward and backward"
PASSES = (FORWARD, BOTH)
_WRONG = 0.02  # of a result's norm: rows at the edges are few, and bfloat16 rounds by 0.002


@dataclass(frozen=True)
class Candidate:
    name: str
    make: Callable[[], Step]
    context: Callable[[], AbstractContextManager] = nullcontext


@dataclass(frozen=True)
class Settings:
    device: torch.device
    dtype: torch.dtype
    format: torch.memory_format

    def random(self, shape) -> Tensor:
        options = {"device": self.device, "dtype": self.dtype}
        return torch.randn(shape, **options).contiguous(memory_format=self.format)

    def module(self, module: nn.Module) -> nn.Module:
        return module.to(self.device, self.dtype, memory_format=self.format)


def step_of(
    convolution: Callable, tensors: list[Tensor], gradient: Tensor | None, finish=lambda _: None
) -> Step:
    """Forward, or, with the output's gradient, backward too, whose results `finish` is given."""
    if gradient is None:

        @torch.no_grad()
        def forward() -> None:
            convolution(*tensors)

        return forward
    leaves = [tensor.requires_grad_() for tensor in tensors]

    def both() -> None:
        finish(torch.autograd.grad(convolution(*leaves), leaves, gradient))

    return both


def alone(problem: Problem, direction: str, settings: Settings) -> list[Candidate]:
    """The whole problem, which each rank computes by itself."""
    import haloconv

    def make(convolution: Callable) -> Step:
        shapes = (problem.input_shape, problem.weight_shape)
        tensors = [*map(settings.random, shapes), _bias(problem, settings)]
        gradient = settings.random(problem.output_shape) if direction == BOTH else None
        return step_of(lambda *t: convolution(*t, **problem.arguments), tensors, gradient)

    return [
        Candidate(ALONE, lambda: make(haloconv.conv2d)),
        Candidate(PYTORCH_ALONE, lambda: make(torch.conv2d)),
    ]


def cut_among(
    problem: Problem, direction: str, cut: Cut, mesh: DeviceMesh, settings: Settings
) -> list[Candidate]:
    """The problem with each rank's part on its device. Weights' gradients are summed over ranks."""
    import haloconv

    whole = [Replicate()] * mesh.ndim

    def replicated(tensor: Tensor) -> Tensor:
        return distribute_tensor(tensor, mesh, whole)

    def sum_over_ranks(gradients) -> None:
        for gradient in gradients[1:]:
            gradient.redistribute(mesh, whole).to_local()

    def make(convolution: Callable, beside: Callable | None = None) -> Step:
        def part(shape):
            return random_part(shape, mesh, cut, settings.dtype, settings.format)

        tensors = [
            part(problem.input_shape),
            replicated(settings.random(problem.weight_shape)),
            replicated(_bias(problem, settings)),
        ]
        if beside is not None:
            _require_alike(*(f(*tensors, **problem.arguments) for f in (convolution, beside)))
        gradient = part(problem.output_shape) if direction == BOTH else None
        return step_of(
            lambda *t: convolution(*t, **problem.arguments), tensors, gradient, sum_over_ranks
        )

    found = [Candidate(SHARDED, lambda: make(haloconv.conv2d))]
    if cut.is_spatial:
        found.append(Candidate(NO_OVERLAP, lambda: make(haloconv.conv2d), lambda: overlap(False)))
    # Of some problems torch's result is wrong, and its time says nothing.
    found.append(Candidate(DTENSOR, lambda: make(torch.conv2d, haloconv.conv2d)))
    if cut.name == BATCH and direction == BOTH:
        found += [
            Candidate(DDP, lambda: _data_parallel(problem, mesh, settings, False)),
            Candidate(HALOCONV_DDP, lambda: _data_parallel(problem, mesh, settings, True)),
        ]
    return found


def _require_alike(mine: DTensor, other: DTensor) -> None:
    """Raises unless no more than rounding lies between the two."""
    if mine.shape != other.shape:
        raise ValueError(f"its result is wrong: {list(mine.shape)}, not {list(other.shape)}")
    part = other.to_local().float()
    difference = mine.redistribute(placements=other.placements).to_local().float().sub_(part)
    error = (difference.norm() / part.norm()).item()
    if not error < _WRONG:
        raise ValueError(f"its result is wrong: an error of {error:.2g}")


def _bias(problem: Problem, settings: Settings) -> Tensor:
    return torch.randn(problem.k, device=settings.device, dtype=settings.dtype)


def _data_parallel(problem: Problem, mesh: DeviceMesh, settings: Settings, is_ours: bool) -> Step:
    import haloconv

    images = len(range(problem.n)[mesh.get_rank() :: mesh.size()])
    if not problem.has_even_padding:
        raise ValueError("torch.nn.Conv2d pads opposite sides alike")
    layer = settings.module(models.OneLayer(problem))
    if is_ours:
        haloconv.replace(layer)
    devices = [settings.device] if settings.device.type == "cuda" else None
    parallel = DistributedDataParallel(layer, devices, process_group=mesh.get_group())
    x = settings.random((images, *problem.input_shape[1:])).requires_grad_()
    gradient = settings.random((images, *problem.output_shape[1:]))

    def step() -> None:
        parallel.zero_grad(set_to_none=True)
        x.grad = None
        parallel(x).backward(gradient)

    return step
