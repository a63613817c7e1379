"""torch.compile of sharded convolutions: one graph, whose collectives are functional."""

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import haloconv
from support import integers


def _function(x, w, b):
    y = haloconv.conv2d(x, w, b, padding=(2, 2, 1, 1), stride=(1, 2)).relu()
    return haloconv.conv2d_fused(y, w, scale=b, activation="relu")


def _check(rank, backend: str, placements) -> None:
    torch._dynamo.reset()
    shapes = (2, 4, 16, 12), (4, 4, 5, 3), (4,)
    tensors = [integers(shape, seed) for seed, shape in enumerate(shapes)]
    leaves = [t.clone().requires_grad_() for t in tensors]
    expected = _function(*leaves)
    gradients = torch.autograd.grad(expected.sum(), leaves)
    whole = [Replicate()] * rank.mesh.ndim
    parts = [
        distribute_tensor(t.clone(), rank.mesh, placements if i == 0 else whole).requires_grad_()
        for i, t in enumerate(tensors)
    ]
    compiled = torch.compile(_function, backend=backend, fullgraph=True)
    actual = compiled(*parts)
    assert torch.equal(actual.full_tensor(), expected)
    for a, b in zip(torch.autograd.grad(actual.sum(), parts), gradients, strict=True):
        assert torch.equal(a.full_tensor(), b)


def test_rows(gang) -> None:
    gang.run("2", _check, "aot_eager", [Shard(2)])


def test_rows_and_columns(gang) -> None:
    gang.run("2x2", _check, "aot_eager", [Shard(2), Shard(3)])


@pytest.mark.parametrize("cut", [0, 1])
def test_images_and_channels(gang, cut) -> None:
    gang.run("2", _check, "aot_eager", [Shard(cut)])
