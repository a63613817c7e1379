"""haloconv.distributed.conv2d: plain tensors and process groups."""

import pytest
import torch

import haloconv
from haloconv.distributed import conv2d, output_sizes
from support import integers


def _operands():
    return integers((2, 4, 17, 12)), integers((6, 2, 4, 3), 1), integers((6,), 2)


_PARAMETERS = {"stride": (2, 1), "padding": (2, 1, 1, 0), "dilation": (1, 2), "groups": 2}


def _whole(tensors):
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = haloconv.conv2d(*leaves, **_PARAMETERS)
    return y, integers(y.shape, 3), leaves


def _check(rank, row_sizes, column_sizes, are_given: bool) -> None:
    x, w, b = _operands()
    y, dy, leaves = _whole((x, w, b))
    expected = torch.autograd.grad(y, leaves, dy)
    two = rank.mesh.ndim == 2
    at = [rank.mesh.get_local_rank(i) for i in range(rank.mesh.ndim)] + [0] * (not two)
    groups = {"rows": rank.mesh.get_group(0), "columns": rank.mesh.get_group(1) if two else None}
    sizes = {"row_sizes": row_sizes, "column_sizes": column_sizes} if are_given else {}
    outputs = [
        output_sizes(row_sizes, 4, 2, (2, 1)),
        output_sizes(column_sizes, 3, 1, (1, 0), 2),
    ]
    assert [sum(each) for each in outputs] == list(y.shape[2:])

    def part(tensor, sizes):
        rows = tensor.split(sizes[0], 2)[at[0]]
        return rows.split(sizes[1], 3)[at[1]].contiguous()

    mine = part(x, (row_sizes, column_sizes)).requires_grad_()
    others = [t.clone().requires_grad_() for t in (w, b)]
    actual = conv2d(mine, *others, **_PARAMETERS, **groups, **sizes)
    assert torch.equal(actual, part(y, outputs))
    gradients = torch.autograd.grad(actual, (mine, *others), part(dy, outputs))
    assert torch.equal(gradients[0], part(expected[0], (row_sizes, column_sizes)))
    # Of their own memory: optimizers take pointers to it.
    assert [type(gradient) for gradient in gradients] == [torch.Tensor] * 3
    assert torch.equal(gradients[1], expected[1]) and torch.equal(gradients[2], expected[2])


@pytest.mark.parametrize("are_given", [True, False])
def test_rows_of_any_sizes(gang, are_given) -> None:
    gang.run("2", _check, [5, 12], [12], are_given)
    gang.run("4", _check, [1, 9, 0, 7], [12], are_given)


def test_rows_and_columns(gang) -> None:
    gang.run("2x2", _check, [11, 6], [3, 9], True)


def _message(rank, kind: str) -> str:
    x, w, b = _operands()
    group = rank.mesh.get_group(0)
    with pytest.raises((RuntimeError, ValueError)) as raised:
        if kind == "disagree":
            conv2d(x, w, b, groups=2, padding=rank.rank, rows=group)
        elif kind == "sizes":
            conv2d(x, w, b, groups=2, rows=group, row_sizes=[17, 18, 1], column_sizes=[12])
        else:
            conv2d(x, w, b, rows=group)
    return str(raised.value)


@pytest.mark.parametrize(
    "kind, words",
    [
        ("disagree", "expected all ranks of a mesh to call with the same arguments"),
        ("sizes", "expected row_sizes to have a value for each rank"),
        ("groups", "to have 2 channels, but got 4 channels instead"),
    ],
)
def test_errors(gang, kind, words) -> None:
    assert all(words in message for message in gang.run("2", _message, kind))
