"""The transposed and one-dimensional operators on DTensors, as on one process."""

import random

import pytest
import torch
from sharded_problems import Problem, random_placements
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from support import integers

_ops = torch.ops.haloconv


def _random_problem(rng: random.Random, name: str) -> Problem:
    dims = 1 if "1d" in name else 2
    is_transposed = "transpose" in name
    groups = rng.choice([1, 1, 2])
    channels, filters = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    kernel, stride, dilation = ([rng.randint(1, 3) for _ in range(dims)] for _ in range(3))
    padding = [rng.randint(0, 1) for _ in range(2 * dims)]
    size = [rng.randint(7, 12) for _ in range(dims)]
    parameters = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    ends = (channels, filters // groups) if is_transposed else (filters, channels // groups)
    tensors = {
        "input": integers((rng.randint(1, 3), channels, *size), rng.randrange(99), bound=2),
        "weight": integers((*ends, *kernel), rng.randrange(99), bound=2),
    }
    if rng.random() < 0.6:
        tensors["bias"] = integers((filters,), rng.randrange(99))
    if is_transposed:
        parameters["output_padding"] = [rng.randrange(s) for s in stride]
    output = getattr(_ops, name)(**tensors, **parameters)
    operator = getattr(_ops, name)
    if rng.random() < 0.4:
        operator = getattr(_ops, name + "_fused")
        tensors["scale"] = integers((filters,), rng.randrange(99))
        tensors["residual"] = integers(output.shape, rng.randrange(99))
        parameters["activation"] = "relu"
    return Problem(tensors, parameters, operator, integers(output.shape, 1, bound=2))


def _check(rank, name: str) -> None:
    rng = random.Random(11)
    dims = rank.mesh.ndim
    for _ in range(15):
        problem = _random_problem(rng, name)
        placements = {n: random_placements(rng, t, dims) for n, t in problem.tensors.items()}
        of_gradient = random_placements(rng, problem.grad_output, dims)
        actual = problem.on_mesh(rank.mesh, placements, of_gradient)
        whole = [tensor.full_tensor() for tensor in actual]
        equal = [torch.equal(a, b) for a, b in zip(whole, problem.on_one(), strict=True)]
        described = {n: list(t.shape) for n, t in problem.tensors.items()}
        assert all(equal), f"{equal} of {described}, {problem.parameters}, placed {placements}"


@pytest.mark.parametrize("mesh", ["2", "2x2"])
@pytest.mark.parametrize("name", ["conv_transpose2d", "conv1d", "conv_transpose1d"])
def test_random_problems_are_exact(gang, name, mesh) -> None:
    gang.run(mesh, _check, name)


def _check_output_padding(rank) -> None:
    x, w = integers((1, 2, 6, 6)), integers((2, 2, 3, 3), 1)
    parameters = {"output_padding": [1, 1], "dilation": [2, 2]}
    parts = (
        distribute_tensor(x, rank.mesh, [Shard(2)]),
        distribute_tensor(w, rank.mesh, [Replicate()]),
    )
    actual = _ops.conv_transpose2d(*parts, **parameters).full_tensor()
    assert torch.equal(actual, _ops.conv_transpose2d(x, w, **parameters))
    # It is autograd's kernel that appends the zeros, which an inference leaves out.
    words = "expected output_padding to be smaller than the stride"
    with torch.inference_mode(), pytest.raises(NotImplementedError, match=words):
        _ops.conv_transpose2d(*parts, **parameters)


def test_output_padding_of_a_stride(gang) -> None:
    gang.run("2", _check_output_padding)
