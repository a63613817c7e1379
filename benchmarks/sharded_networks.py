"""A U-Net whose picture is cut among ranks, and training steps in torch's data parallelism."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import models
from cuts import BATCH, Cut, overlap
from ranks import Step
from sharded_layers import (
    ALONE,
    BOTH,
    DDP,
    HALOCONV_DDP,
    NO_OVERLAP,
    PYTORCH_ALONE,
    SHARDED,
    Candidate,
    Settings,
    step_of,
)
from train import training_step

NONE, FSDP2 = "one device", "FSDP2"
WRAPPERS = (NONE, "DDP", FSDP2)


class PartConv2d(nn.Module):
    """A convolution of pictures of which each rank of a group has equally many rows, or columns."""

    def __init__(
        self,
        convolution: nn.Conv2d,
        rows: dist.ProcessGroup | None,
        columns: dist.ProcessGroup | None,
    ) -> None:
        super().__init__()
        self.convolution, self.rows, self.columns = convolution, rows, columns

    def forward(self, x: Tensor) -> Tensor:
        import haloconv

        layer = self.convolution
        return haloconv.distributed.conv2d(
            x,
            layer.weight,
            layer.bias,
            layer.stride,
            layer.padding,
            layer.dilation,
            layer.groups,
            rows=self.rows,
            columns=self.columns,
            row_sizes=_equal(x.size(2), self.rows),
            column_sizes=_equal(x.size(3), self.columns),
        )


def _equal(size: int, group: dist.ProcessGroup | None) -> list[int]:
    return [size] * (1 if group is None else dist.get_world_size(group))


def cut_network(model: nn.Module, cut: Cut, mesh: DeviceMesh) -> nn.Module:
    """The model, in place, for a rank's part of pictures.

    What lies between its convolutions must need no halo, as pooling and interpolation by two of an
    even number of rows do.
    """
    groups = {dim: mesh.get_group(i) for i, dim in enumerate(cut.ranks)}
    layers = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    for name, layer in layers:
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, PartConv2d(layer, groups.get(2), groups.get(3)))
    return model


def unet(settings: Settings, width: int, depth: int) -> nn.Module:
    torch.manual_seed(0)  # alike on all ranks
    return settings.module(models.UNet(width, depth))


def network_step(model: Callable, x: Tensor, direction: str) -> Step:
    """Forward, or backward too; gradients are of the parameters."""
    if direction != BOTH:
        return step_of(model, [x], None)
    with torch.no_grad():
        gradient = torch.randn_like(model(x))

    def both() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        model(x).backward(gradient)

    return both


def alone(
    make: Callable[[], nn.Module], shape: Sequence[int], direction: str, settings: Settings
) -> list[Candidate]:
    import haloconv

    def ours() -> Step:
        model = make()
        haloconv.replace(model)
        return network_step(model, settings.random(shape), direction)

    def theirs() -> Step:
        return network_step(make(), settings.random(shape), direction)

    return [Candidate(ALONE, ours), Candidate(PYTORCH_ALONE, theirs)]


def cut_among(
    make: Callable[[], nn.Module],
    shape: Sequence[int],
    direction: str,
    cut: Cut,
    mesh: DeviceMesh,
    settings: Settings,
) -> list[Candidate]:
    """Of pictures of this shape, all ranks' together. Gradients are summed over the ranks."""
    part = [size // cut.ranks.get(dim, 1) for dim, size in enumerate(shape)]

    def ours() -> Step:
        model = cut_network(make(), cut, mesh)
        return network_step(model, settings.random(part), direction)

    def data_parallel(is_ours: bool) -> Step:
        model = wrapped(make(), "DDP" if direction == BOTH else NONE, mesh, settings, is_ours)
        return network_step(model, settings.random(part), direction)

    if cut.name == BATCH:
        return [
            Candidate(HALOCONV_DDP, lambda: data_parallel(True)),
            Candidate(DDP, lambda: data_parallel(False)),
        ]
    return [Candidate(SHARDED, ours), Candidate(NO_OVERLAP, ours, lambda: overlap(False))]


def wrapped(
    model: nn.Module, wrapper: str, mesh: DeviceMesh, settings: Settings, is_ours: bool
) -> nn.Module:
    import haloconv

    if is_ours:
        haloconv.replace(model)
    if wrapper == "DDP":
        devices = [settings.device] if settings.device.type == "cuda" else None
        return DistributedDataParallel(model, devices, process_group=mesh.get_group())
    if wrapper == FSDP2:
        for block in [*model.down, *model.up]:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def training(
    make: Callable[[], nn.Module],
    wrapper: str,
    shape: Sequence[int],
    mesh: DeviceMesh,
    settings: Settings,
) -> list[Candidate]:
    """Steps of forward, loss, backward and SGD of a float32 model, under autocast to bfloat16."""
    model = make().float()
    x = settings.random(shape).float()
    with torch.no_grad():
        target = torch.randn_like(model(x))

    def step(is_ours: bool) -> Step:
        network = wrapped(copy.deepcopy(model), wrapper, mesh, settings, is_ours)
        return training_step(network, x, target, autocast=True)

    return [Candidate("haloconv", lambda: step(True)), Candidate("PyTorch", lambda: step(False))]
