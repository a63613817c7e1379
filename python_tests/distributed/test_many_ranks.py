"""Meshes of more ranks than there are processors for: all in this process, one after the other."""

import random

import pytest
import torch
import torch.distributed as dist
from sharded_problems import TORCH, Problem, random_placements, random_problem
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard

import haloconv
from support import integers

LocalTensorMode = pytest.importorskip("torch.distributed._local_tensor").LocalTensorMode
RANKS = 24


@pytest.fixture(scope="module", autouse=True)
def fake_group():
    dist.init_process_group("fake", rank=0, world_size=RANKS)
    yield
    dist.destroy_process_group()


def _check(mesh, problem, placements, of_gradient) -> None:
    expected = problem.on_one()
    with LocalTensorMode(RANKS):
        actual = problem.on_mesh(mesh, placements, of_gradient)
        whole = [tensor.full_tensor().reconcile() for tensor in actual]
    for a, b in zip(whole, expected, strict=True):
        assert torch.equal(a, b), f"{problem}, placed {placements} and {of_gradient}"


# Parts that are cut again by the mesh's second dimension.
parts_of_parts = pytest.param(
    (6, 4),
    marks=pytest.mark.skipif(
        TORCH < (2, 11), reason="torch 2.10 wants as many parts of each rank's tensor"
    ),
)


@pytest.mark.parametrize("shape", [(24,), parts_of_parts], ids=str)
def test_random_problems_are_exact(shape) -> None:
    rng = random.Random(7)
    mesh = init_device_mesh("cpu", shape)
    for _ in range(4):
        problem = random_problem(rng)
        placements = {
            name: random_placements(rng, t, len(shape)) for name, t in problem.tensors.items()
        }
        of_gradient = random_placements(rng, problem.grad_output, len(shape))
        _check(mesh, problem, placements, of_gradient)


# Even parts: torch itself cannot gather three uneven dimensions in this mode.
def test_images_rows_and_columns_are_cut_at_once() -> None:
    mesh = init_device_mesh("cpu", (2, 3, 4))
    parts, whole = [Shard(0), Shard(2), Shard(3)], [Replicate()] * 3
    tensors = {"input": integers((2, 2, 12, 16)), "weight": integers((3, 2, 5, 3), 1)}
    parameters = {"padding": (2, 2, 0, 2), "stride": (1, 2)}
    problem = Problem(tensors, parameters, haloconv.conv2d, integers((2, 3, 12, 8), 2))
    _check(mesh, problem, {"input": parts, "weight": whole}, parts)
