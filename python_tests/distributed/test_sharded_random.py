"""Random problems, meshes and placements: the results of several processes are those of one."""

import random

import pytest
import torch
from sharded_problems import TORCH, random_placements, random_problem


def _check(rank, seed: int, count: int) -> None:
    rng = random.Random(seed)
    for i in range(count):
        problem = random_problem(rng)
        dims = rank.mesh.ndim
        placements = {n: random_placements(rng, t, dims) for n, t in problem.tensors.items()}
        of_gradient = random_placements(rng, problem.grad_output, dims)
        expected = problem.on_one()
        actual = problem.on_mesh(rank.mesh, placements, of_gradient)
        whole = [tensor.full_tensor() for tensor in actual]  # all, for all ranks take part
        equal = [torch.equal(a, b) for a, b in zip(whole, expected, strict=True)]
        assert all(equal), f"{i}: {equal} of {problem}, placed {placements} and {of_gradient}"
        # Of the result, and of the gradients of input and weight.
        layouts = [a.stride() == b.stride() for a, b in zip(actual[:3], expected[:3], strict=True)]
        assert all(layouts), f"{i}: {layouts} of {problem}"


lacks_partial_sums = pytest.mark.skipif(
    TORCH < (2, 11), reason="torch 2.10 does not make partial sums of shards, as its own rules want"
)


@pytest.mark.parametrize(
    "mesh, count", [("2", 40), ("4", 40), pytest.param("2x2", 60, marks=lacks_partial_sums)]
)
def test_random_problems_are_exact(gang, mesh, count) -> None:
    gang.run(mesh, _check, 1, count)
