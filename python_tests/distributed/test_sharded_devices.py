"""What the device of a group may spoil: orders of streams, groups of a mesh's dimensions.

All of it runs on gloo, and on NCCL with as many GPUs as there are.
"""

import copy
from contextlib import nullcontext

import pytest
import torch
from gang import MESHES, meshes_of
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import haloconv
from support import integers

_STEPS = 12
_SECONDS = 90  # at the most, of a job


def _run(gang, mesh: str, function, *arguments) -> list:
    if mesh not in meshes_of(gang.world):
        pytest.skip(f"needs {len(MESHES[mesh][0])} processes")
    return gang.run(mesh, function, *arguments, seconds=_SECONDS)


def _operands(device: str, seed: int = 0) -> list[torch.Tensor]:
    """Large enough that a GPU computes while halos travel."""
    size = 40 if device == "cpu" else 320
    shapes = [(2, 8, size, size), (8, 8, 5, 3), (8,), (2, 8, size, size)]
    return [integers(shape, seed + i).to(device) for i, shape in enumerate(shapes)]


def _results(tensors, function=haloconv.conv2d) -> tuple:
    x, w, b, dy = tensors
    leaves = [t.detach().requires_grad_() for t in (x, w, b)]
    y = function(*leaves, padding=(2, 1))
    return y, *torch.autograd.grad(y, leaves, dy)


def _check_queue(rank, last: bool, own_stream: bool) -> None:
    """Steps follow each other without a wait, and no halo or sum may be read too early."""
    format = torch.channels_last if last else torch.contiguous_format
    spatial = [Shard(2 + i) for i in range(rank.mesh.ndim)]
    placements = [spatial, *[[Replicate()] * rank.mesh.ndim] * 2, spatial]
    steps = [_operands(rank.device, 10 * i) for i in range(_STEPS)]
    steps = [[t.contiguous(memory_format=format) if t.dim() == 4 else t for t in s] for s in steps]
    sharded = [
        [distribute_tensor(t, rank.mesh, p) for t, p in zip(tensors, placements, strict=True)]
        for tensors in steps
    ]
    stream = nullcontext()
    if own_stream and rank.device == "cuda":
        new = torch.cuda.Stream()
        new.wait_stream(torch.cuda.current_stream())
        stream = torch.cuda.stream(new)
    with stream:
        for _ in range(2):  # the first time, ranks compare their arguments, which waits
            results = [_results(tensors) for tensors in sharded]
        wholes = [[t.full_tensor() for t in some] for some in results]
        for whole, tensors in zip(wholes, steps, strict=True):
            for mine, theirs in zip(whole, _results(tensors), strict=True):
                assert torch.equal(mine, theirs)


@pytest.mark.parametrize("own_stream", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mesh", MESHES)
def test_steps_that_follow_each_other_are_exact(any_gang, mesh, last, own_stream) -> None:
    _run(any_gang, mesh, _check_queue, last, own_stream)


def _check_plain(rank) -> None:
    axes = {"rows": 2, "columns": 3}
    groups = {name: rank.mesh.get_group(i) for i, name in enumerate(axes) if i < rank.mesh.ndim}

    def part(tensor: torch.Tensor) -> torch.Tensor:
        for i in range(rank.mesh.ndim):
            tensor = tensor.chunk(rank.mesh.size(i), 2 + i)[rank.mesh.get_local_rank(i)]
        return tensor.contiguous()

    x, w, b, dy = _operands(rank.device)
    expected = _results((x, w, b, dy))

    def convolution(*tensors, **parameters):
        return haloconv.distributed.conv2d(*tensors, **parameters, **groups)

    for _ in range(_STEPS):
        actual = _results((part(x), w, b, part(dy)), convolution)
        for mine, whole in zip(actual[:2], expected[:2], strict=True):
            assert torch.equal(mine, part(whole))
        for mine, whole in zip(actual[2:], expected[2:], strict=True):
            assert torch.equal(mine, whole)


@pytest.mark.parametrize("mesh", MESHES)
def test_plain_tensors_are_exact(any_gang, mesh) -> None:
    _run(any_gang, mesh, _check_plain)


def _message_of_disagreement(rank) -> str:
    x, w, _, _ = _operands(rank.device)
    x = distribute_tensor(x, rank.mesh, [Shard(2)])
    w = distribute_tensor(w, rank.mesh, [Replicate()])
    with pytest.raises(RuntimeError) as raised:
        haloconv.conv2d(x, w, padding=(2, 1), dilation=1 + rank.rank % 2)
    return str(raised.value)


@pytest.mark.parametrize("mesh", ["2", "4", "8"])
def test_ranks_that_disagree_raise_on_all(any_gang, mesh) -> None:
    for message in _run(any_gang, mesh, _message_of_disagreement):
        assert "expected all ranks of a mesh to call with the same arguments" in message
        assert "dilation=[1" in message and "dilation=[2" in message


def _check_data_parallel(rank, wrapper: str) -> None:
    layer = haloconv.nn.Conv2d
    network = torch.nn.Sequential(layer(3, 8, 5, padding=2), torch.nn.ReLU(), layer(8, 4, 3))
    for seed, parameter in enumerate(network.parameters()):
        parameter.data.copy_(integers(parameter.shape, seed))
    network.double().to(rank.device)
    ranks = rank.mesh.size()
    x = integers((2 * ranks, 3, 24, 24)).to(rank.device)
    expected = copy.deepcopy(network)
    (expected(x).sum() / ranks).backward()  # the mean over ranks
    if wrapper == "DDP":
        devices = [torch.cuda.current_device()] if rank.device == "cuda" else None
        parallel = DistributedDataParallel(network, devices, process_group=rank.mesh.get_group())
    else:
        parallel = fully_shard(network, mesh=rank.mesh)
    parallel(x.chunk(ranks)[rank.rank]).sum().backward()
    for mine, whole in zip(network.parameters(), expected.parameters(), strict=True):
        gradient = mine.grad if wrapper == "DDP" else mine.grad.full_tensor()
        assert torch.equal(gradient, whole.grad)


@pytest.mark.parametrize("wrapper", ["DDP", "FSDP2"])
@pytest.mark.parametrize("mesh", ["2", "4", "8"])
def test_data_parallel_gradients_are_exact(any_gang, mesh, wrapper) -> None:
    _run(any_gang, mesh, _check_data_parallel, wrapper)
