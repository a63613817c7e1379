"""Plans for parallelize_module: the networks compute and learn what they do on one process."""

import copy

import pytest
import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

import haloconv
from haloconv.distributed import Spatial, plan
from support import integers


def _network() -> torch.nn.Module:
    layer = haloconv.nn.Conv2d
    network = torch.nn.Sequential(
        layer(3, 4, 3, padding=1),
        torch.nn.ReLU(),
        layer(4, 4, 5, padding=(2, 2, 0, 4), groups=4, stride=(2, 1)),
        torch.nn.ReLU(),
        layer(4, 2, 3, dilation=2, bias=False),
    ).double()
    for seed, parameter in enumerate(network.parameters()):
        parameter.data = integers(parameter.shape, seed, bound=2)
    return network


def _gradients(network, x) -> list:
    x = x.clone().requires_grad_()
    y = network(x)
    y.sum().backward()
    return [y.detach(), x.grad, *(parameter.grad for parameter in network.parameters())]


def _check(rank, styles: str) -> None:
    whole = _network()
    x = integers((2, 3, 21, 18))
    expected = _gradients(copy.deepcopy(whole), x)
    network = parallelize_module(whole, rank.mesh, plan(whole, styles))
    actual = _gradients(network, x)
    for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
        a = a.full_tensor() if isinstance(a, DTensor) else a
        assert torch.equal(a, b), i


@pytest.mark.parametrize("styles", ["rows", "columns", "channels"])
def test_plans(gang, styles) -> None:
    gang.run("2", _check, styles)


def _check_parts(rank) -> None:
    whole = _network()
    x = integers((2, 3, 20, 18))
    expected = whole(x)
    network = parallelize_module(whole, rank.mesh, Spatial("rows", "part", "dtensor"))
    y = network(x.chunk(2, 2)[rank.rank])
    assert torch.equal(y.full_tensor(), expected)


def test_parts_of_pictures(gang) -> None:
    gang.run("2", _check_parts)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="expected cut to be one of"):
        Spatial("channels")
    with pytest.raises(ValueError, match="expected styles to be 'rows', 'columns' or 'channels'"):
        plan(_network(), "batch")
