"""Errors that all ranks raise, with the same words, and before they wait for each other."""

import pytest
import torch
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode

import haloconv
from support import integers


def _operands(mesh):
    x = distribute_tensor(integers((2, 4, 8, 8)), mesh, [Shard(2)])
    w = distribute_tensor(integers((4, 4, 3, 3)), mesh, [Replicate()])
    return x, w


def _message(rank, kind: str) -> str:
    x, w = _operands(rank.mesh)
    calls = {
        "padding": lambda: haloconv.conv2d(x, w, padding=-1),
        "channels": lambda: haloconv.conv2d(x, w, groups=2),
        "kernel": lambda: haloconv.conv2d(x, w, dilation=8),
        "plain": lambda: haloconv.conv2d(x, w.full_tensor()),
        "disagree": lambda: haloconv.conv2d(x, w, padding=1 + (rank.rank == 1)),
        "shapes": lambda: haloconv.conv2d(
            distribute_tensor(integers((2, 4, 8, 8)), rank.mesh, [Shard(2 + (rank.rank == 1))]), w
        ),
    }
    with pytest.raises(RuntimeError) as raised:
        calls[kind]()
    y = haloconv.conv2d(x, w, padding=1).full_tensor()  # the group is as usable as before
    assert torch.equal(y, haloconv.conv2d(x.full_tensor(), w.full_tensor(), padding=1))
    return str(raised.value)


@pytest.mark.parametrize(
    "kind, words",
    [
        ("padding", "negative padding is not supported"),
        ("channels", "to have 8 channels, but got 4"),
        ("kernel", "the kernel to fit into the padded input"),
        ("plain", "expected weight to be a DTensor, as input is, but got a Tensor of size"),
        ("disagree", "expected all ranks of a mesh to call with the same arguments"),
        ("shapes", "expected all ranks of a mesh to call with the same arguments"),
    ],
)
def test_all_ranks_raise(gang, kind, words) -> None:
    messages = gang.run("2", _message, kind)
    assert words in messages[0] and messages[0] == messages[1]


class Comparisons(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented  # its parts come here afterwards
        self.count += function is torch.ops.c10d.allreduce_.default
        return function(*args, **(kwargs or {}))


def _check_modes(rank) -> None:
    x, w = _operands(rank.mesh)
    counts = {}
    for mode in ("always", "first", "never", "auto"):
        haloconv.distributed.check_agreement(mode)
        haloconv.conv2d(x, w)  # the mesh has seen it now, if the mode looks
        with Comparisons() as comparisons:
            haloconv.conv2d(x, w)
        counts[mode] = comparisons.count
    assert counts == {"always": 1, "first": 0, "never": 0, "auto": 1}
    assert haloconv.distributed.check_agreement("auto") == "auto"
    with pytest.raises(ValueError, match="expected when to be one of"):
        haloconv.distributed.check_agreement("sometimes")


def test_when_agreement_is_checked(gang) -> None:
    gang.run("2", _check_modes)
