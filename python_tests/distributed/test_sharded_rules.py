"""Which placements come of which, and what is sent for them: no more than the halo."""

import pytest
import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode

import haloconv
from support import integers

R, P, S = Replicate(), Partial(), Shard

# input, weight, bias, grad_output; result, gradients of input, weight and bias
_CUTS = {
    "batch": (S(0), R, R, S(0), S(0), S(0), P, P),
    "out_channels": (R, S(0), S(0), S(1), S(1), P, S(0), S(0)),
    "in_channels": (S(1), S(1), R, R, P, S(1), S(1), R),
    "rows": (S(2), R, R, S(2), S(2), S(2), P, P),
    "columns": (S(3), R, R, S(3), S(3), S(3), P, P),
    "nothing": (R, R, R, R, R, R, R, R),
}


class Collectives(TorchDispatchMode):
    """The collectives that are called, and the elements that this rank sends by all-to-all."""

    def __init__(self) -> None:
        super().__init__()
        self.names, self.sent = [], 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented  # its parts come here afterwards
        name = function.__name__
        if name.startswith("alltoall_base_"):
            self.names.append("all_to_all_single")
            self.sent += args[1].numel()
        if function.namespace == "_c10d_functional" and not name.startswith(("wait", "_wrap")):
            self.names.append(name.split(".")[0])
        return function(*args, **(kwargs or {}))


def _tensors(mesh, placements, groups=1):
    shapes = (4, 4, 8, 8), (8, 4 // groups, 3, 3), (8,), (4, 8, 8, 8)
    return [
        distribute_tensor(integers(shape, seed), mesh, placement)
        for seed, (shape, placement) in enumerate(zip(shapes, placements, strict=True))
    ]


def _check_placements(rank, first: str, second: str | None, groups: int) -> None:
    cuts = [_CUTS[first]] + ([_CUTS[second]] if second else [])
    *operands, gradient = _tensors(rank.mesh, list(zip(*cuts, strict=True))[:4], groups)
    leaves = [tensor.requires_grad_() for tensor in operands]
    with Collectives() as collectives:
        result = haloconv.conv2d(*leaves, padding=1, groups=groups)
        gradients = torch.autograd.grad(result, leaves, gradient)
    expected = list(zip(*cuts, strict=True))[4:]
    assert [tensor.placements for tensor in (result, *gradients)] == expected
    spatial = {first, second} & {"rows", "columns"}
    # The halos of the input and of the output's gradient.
    assert collectives.names == ["all_to_all_single"] * 2 * len(spatial), collectives.names


@pytest.mark.parametrize("cut", _CUTS)
def test_placements(gang, cut) -> None:
    gang.run("2", _check_placements, cut, None, 1)


def test_placements_on_two_dimensions(gang) -> None:
    for first, second in [
        ("batch", "out_channels"),
        ("in_channels", "out_channels"),
        ("rows", "columns"),
        ("columns", "batch"),
        ("rows", "in_channels"),
        ("out_channels", "rows"),
        ("batch", "batch"),
    ]:
        gang.run("2x2", _check_placements, first, second, 1)


def _check_groups(rank) -> None:
    placements = [S(1)], [S(0)], [S(0)], [S(1)]
    *operands, gradient = _tensors(rank.mesh, placements, groups=4)
    leaves = [tensor.requires_grad_() for tensor in operands]
    with Collectives() as collectives:
        result = haloconv.conv2d(*leaves, padding=1, groups=4)
        gradients = torch.autograd.grad(result, leaves, gradient)
    assert not collectives.names
    assert [t.placements[0] for t in (result, *gradients)] == [S(1), S(1), S(0), S(0)]


def test_whole_groups_are_cut(gang) -> None:
    gang.run("4", _check_groups)


def _check_halo(rank) -> None:
    ours, last = rank.mesh.get_local_rank(), rank.mesh.size() - 1
    x = distribute_tensor(integers((2, 3, 32, 5)), rank.mesh, [Shard(2)]).requires_grad_()
    w = distribute_tensor(integers((4, 3, 5, 3)), rank.mesh, [Replicate()]).requires_grad_()
    rows = 2 * ((ours > 0) + (ours < last))  # two on each side, for a filter of 5 rows
    with Collectives() as forward:
        y = haloconv.conv2d(x, w, padding=(2, 2, 1, 1))
    assert forward.sent == 2 * 3 * 5 * rows
    with Collectives() as backward:
        torch.autograd.grad(y.sum(), (x, w))
    assert backward.sent == 2 * 4 * 5 * rows


def test_the_halo_is_all_that_is_sent(gang) -> None:
    gang.run("4", _check_halo)


def _check_pointwise(rank) -> None:
    x = distribute_tensor(integers((1, 3, 9, 5)), rank.mesh, [Shard(2)])
    w = distribute_tensor(integers((4, 3, 1, 1)), rank.mesh, [Replicate()])
    with Collectives() as collectives:
        haloconv.conv2d(x, w)
    assert not collectives.names


def test_no_halo_is_no_exchange(gang) -> None:
    gang.run("4", _check_pointwise)


def _check_second_order(rank, placements) -> None:
    tensors = [integers(s, seed) for seed, s in enumerate([(2, 3, 7, 6), (4, 3, 3, 3), (4,)])]

    def second(x, w, b):
        y = haloconv.conv2d(x, w, b, padding=1, stride=(2, 1))
        dx, dw = torch.autograd.grad((y * y).sum(), (x, w), create_graph=True)
        return torch.autograd.grad((dx * dx).sum() + (dw * dw).sum(), (x, w, b))

    expected = second(*[t.clone().requires_grad_() for t in tensors])
    pairs = zip(tensors, placements, strict=True)
    actual = second(
        *[distribute_tensor(t.clone(), rank.mesh, p).requires_grad_() for t, p in pairs]
    )
    whole = [tensor.full_tensor() for tensor in actual]
    assert all(torch.equal(a, b) for a, b in zip(whole, expected, strict=True))


@pytest.mark.parametrize("placements", [(S(2), R, R), (S(1), S(1), R), (S(0), R, R)], ids=str)
def test_second_derivatives(gang, placements) -> None:
    gang.run("2", _check_second_order, [[p] for p in placements])


def _check_inference(rank) -> None:
    x, w = integers((2, 3, 9, 5)), integers((4, 3, 5, 2), 1)
    with torch.inference_mode():
        parts = [distribute_tensor(x, rank.mesh, [S(2)]), distribute_tensor(w, rank.mesh, [R])]
        actual = haloconv.conv2d(*parts, padding="same")
        assert actual.placements == (S(2),)
        assert torch.equal(actual.full_tensor(), haloconv.conv2d(x, w, padding="same"))


def test_inference_mode_and_padding_by_name(gang) -> None:
    gang.run("2", _check_inference)


def _check_unbatched(rank) -> None:
    x, w = integers((3, 9, 5)), integers((4, 3, 5, 2), 1)
    parts = [distribute_tensor(x, rank.mesh, [S(1)]), distribute_tensor(w, rank.mesh, [R])]
    with Collectives() as collectives:
        actual = haloconv.conv2d(*parts, padding=2)
    assert actual.placements == (S(1),) and collectives.names == ["all_to_all_single"]
    assert torch.equal(actual.full_tensor(), haloconv.conv2d(x, w, padding=2))


def test_rows_of_an_input_without_a_batch(gang) -> None:
    gang.run("2", _check_unbatched)
