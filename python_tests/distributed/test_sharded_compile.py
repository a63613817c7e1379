"""torch.compile of sharded convolutions: one graph, whose collectives are functional."""

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import haloconv
from support import integers


def _function(x, w, b):
    y = haloconv.conv2d(x, w, b, padding=(2, 2, 1, 1), stride=(1, 2)).relu()
    return haloconv.conv2d_fused(y, w, scale=b, activation="relu")


_COMPILING = 600  # seconds, at the most, for a C++ compiler on a busy machine


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


def test_rows_by_inductor(gang) -> None:
    gang.run("2", _check, "inductor", [Shard(2)], seconds=_COMPILING)


def _code(rank) -> str:
    """What Inductor makes of a forward pass."""
    torch._dynamo.reset()
    tensors = integers((2, 4, 16, 12)), integers((4, 4, 5, 3), 1), integers((4,), 2)
    placements = [Shard(2)], [Replicate()], [Replicate()]
    parts = [distribute_tensor(t, rank.mesh, p) for t, p in zip(tensors, placements, strict=True)]
    compiled = torch.compile(_function, fullgraph=True)
    result, (code,) = run_and_get_code(compiled, *parts)
    assert torch.equal(result.full_tensor(), _function(*tensors))
    return code


def test_inductor_s_code_holds_operators_and_collectives(gang) -> None:
    """The own part is computed before the halo is waited for."""
    for code in gang.run("2", _code, seconds=_COMPILING):
        sent, own, waited = (
            code.index(f"torch.ops.{name}")
            for name in (
                "_c10d_functional.all_to_all_single.default(",
                "haloconv.conv2d.default(",
                "_c10d_functional.wait_tensor.default(",
            )
        )
        assert sent < own < waited


def test_rows_and_columns(gang) -> None:
    gang.run("2x2", _check, "aot_eager", [Shard(2), Shard(3)])


@pytest.mark.parametrize("cut", [0, 1])
def test_images_and_channels(gang, cut) -> None:
    gang.run("2", _check, "aot_eager", [Shard(cut)])
