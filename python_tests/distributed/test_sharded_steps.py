"""What a sharded step does when a problem is met for the first time, and what it does each time."""

from unittest import mock

import pytest
import torch
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode

import haloconv
from haloconv._torch_compat import distributed as torch_compat
from haloconv.distributed import dispatch
from support import integers


class Calls(TorchDispatchMode):
    """The operators that are called on this rank's parts, and where it waits for a halo."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented  # its parts come here afterwards
        if not any(isinstance(a, torch.Tensor) and a.is_meta for a in args):
            self.names.append(function._schema.name)
        return function(*args, **(kwargs or {}))

    def __enter__(self):
        exchange = torch_compat.all_to_all

        def watched(*arguments):
            wait = exchange(*arguments)
            return lambda: (self.names.append("wait"), wait())[1]

        self.patch = mock.patch.object(torch_compat, "all_to_all", watched)
        self.patch.start()
        return super().__enter__()

    def __exit__(self, *error):
        self.patch.stop()
        return super().__exit__(*error)


def _tensors(rank, shape, dim):
    x = distribute_tensor(integers(shape), rank.mesh, [Shard(dim)])
    w, b = (
        distribute_tensor(integers(s, 1), rank.mesh, [Replicate()]) for s in ((4, 3, 3, 3), (4,))
    )
    return x, w, b


def _check_waiting(rank, dim: int) -> None:
    leaves = [t.requires_grad_() for t in _tensors(rank, (2, 3, 22, 26), dim)]
    g = distribute_tensor(integers((2, 4, 22, 26), 2), rank.mesh, [Shard(dim)])
    own, edge, gradients = "haloconv::conv2d", "haloconv::conv2d", "haloconv::conv2d_backward"
    for is_new in (True, False, False):
        with Calls() as forward:
            y = haloconv.conv2d(*leaves, padding=1)
        with Calls() as backward:
            torch.autograd.grad(y, leaves, g)
        orders = [
            [n for n in c.names if n in ("wait", own, gradients)] for c in (forward, backward)
        ]
        if is_new:
            assert orders == [["wait", own, edge], ["wait", gradients]]
        else:
            assert orders == [[own, "wait", edge], [gradients, "wait"]]


@pytest.mark.parametrize("dim", [2, 3])
def test_the_interior_is_computed_while_the_halo_travels(gang, dim) -> None:
    """But for a new problem, whose kernels may be chosen by time: nothing travels meanwhile."""
    gang.run("2", _check_waiting, dim)


def _check_division(rank) -> None:
    tensors = _tensors(rank, (2, 3, 18, 14), 2)
    with mock.patch.object(dispatch, "divide", wraps=dispatch.divide) as divide:
        results = [haloconv.conv2d(*tensors, padding=1).full_tensor() for _ in range(3)]
    assert divide.call_count == 1
    expected = torch.conv2d(
        integers((2, 3, 18, 14)), *(t.to_local() for t in tensors[1:]), padding=1
    )
    assert all(torch.equal(result, expected) for result in results)
    with mock.patch.object(dispatch, "divide", wraps=dispatch.divide) as divide:
        haloconv.conv2d(*tensors, padding=2)
        haloconv.conv2d(*_tensors(rank, (2, 3, 18, 14), 3), padding=1)
    assert divide.call_count == 2  # other arguments, another placement


def test_a_problem_is_divided_once(gang) -> None:
    gang.run("2", _check_division)


def _check_bias(rank, dim: int, size: int) -> list[str]:
    leaves = [t.requires_grad_() for t in _tensors(rank, (2, 3, size, size), dim)]
    y = haloconv.conv2d(*leaves, padding=1)
    g = distribute_tensor(integers(y.shape, 2), rank.mesh, [Shard(dim)])
    with Calls() as calls:
        gradients = torch.autograd.grad(y, leaves, g)
    assert torch.equal(gradients[2].full_tensor(), integers(y.shape, 2).sum((0, 2, 3)))
    return calls.names


@pytest.mark.parametrize("dim", [2, 3])
def test_the_bias_is_summed_where_the_weight_s_gradient_is(gang, dim) -> None:
    """Not in a pass of its own, which takes as long as the rest on large pictures."""
    for names in gang.run("2", _check_bias, dim, 16):
        assert "haloconv::conv2d_backward" in names and "aten::sum" not in names
