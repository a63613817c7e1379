"""What needs processes of its own: GPUs, a rank that dies, and the example with torchrun."""

import os
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from sharded_problems import random_placements, random_problem
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import haloconv
from support import integers, needs_gpu

ROOT = Path(__file__).resolve().parents[2]
_RANKS = 2
_needs_gpus = pytest.mark.skipif(
    torch.cuda.device_count() < _RANKS, reason="needs a GPU for each rank"
)
# Seen with torch 2.11.0 on an H200, in a loop of distribute_tensor() and redistribute() alone.
_torch_crashes = pytest.mark.skip(
    reason="torch's DTensor.redistribute crashes on gloo with CUDA tensors"
)


def _start(rank: int, folder: str, backend: str, device: str, seconds: int) -> dist.DeviceMesh:
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    store = dist.FileStore(os.path.join(folder, "store"), _RANKS)
    timeout = timedelta(seconds=seconds)
    dist.init_process_group(backend, store=store, rank=rank, world_size=_RANKS, timeout=timeout)
    return init_device_mesh(device, (_RANKS,))


def _compare(rank: int, folder: str, backend: str, device: str) -> None:
    mesh = _start(rank, folder, backend, device, 60)
    rng = random.Random(3)
    for _ in range(20):
        problem = random_problem(rng)
        placements = {n: random_placements(rng, t, 1) for n, t in problem.tensors.items()}
        of_gradient = random_placements(rng, problem.grad_output, 1)
        actual = problem.on_mesh(mesh, placements, of_gradient)
        whole = [tensor.full_tensor().cpu() for tensor in actual]
        equal = [torch.equal(a, b) for a, b in zip(whole, problem.on_one(), strict=True)]
        assert all(equal), f"{equal} of {problem}, placed {placements} and {of_gradient}"
    dist.barrier()  # who leaves first closes what the other may still be reading
    dist.destroy_process_group()


@pytest.mark.parametrize(
    "backend, device",
    [
        ("gloo", "cpu"),
        pytest.param("gloo", "cuda", marks=_torch_crashes),
        pytest.param("nccl", "cuda", marks=_needs_gpus),
    ],
)
def test_random_problems_are_exact(tmp_path, backend, device) -> None:
    mp.spawn(_compare, (str(tmp_path), backend, device), nprocs=_RANKS)


def _lose_a_rank(rank: int, folder: str, backend: str, device: str) -> None:
    # gloo sees at once that a process is gone, but may take long to start on a busy machine.
    mesh = _start(rank, folder, backend, device, 5 if backend == "nccl" else 60)
    x = distribute_tensor(integers((1, 2, 8, 8)), mesh, [Shard(2)])
    w = distribute_tensor(integers((2, 2, 3, 3)), mesh, [Replicate()])
    haloconv.conv2d(x, w)
    if rank == 1:
        os._exit(0)
    try:
        haloconv.conv2d(x, w).to_local().sum().item()
    except RuntimeError as error:
        Path(folder, "error").write_text(str(error))
    os._exit(0)  # the group cannot be taken down with a rank that is gone


@pytest.mark.parametrize(
    "backend, device", [("gloo", "cpu"), pytest.param("gloo", "cuda", marks=needs_gpu)]
)
def test_a_rank_that_dies_ends_the_others(tmp_path, backend, device) -> None:
    context = mp.spawn(_lose_a_rank, (str(tmp_path), backend, device), nprocs=_RANKS, join=False)
    for process in context.processes:
        process.join(120)  # of which the time-out is 5, and starting the rest
        assert process.exitcode == 0
    assert (tmp_path / "error").read_text()


def test_the_example_denoises_by_rows() -> None:
    pytest.importorskip("sklearn")
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "registration" / "python"),
        "HALOCONV_LIBRARY": haloconv.library_path,
    }
    program = ROOT / "examples" / "python" / "denoise_sharded.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", str(_RANKS), program, "--steps", "10"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "whole: 100 MiB, limit: 64 MiB, part: 50 MiB" in done.stdout
