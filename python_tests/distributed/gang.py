"""Processes that live as long as the tests, for their start takes seconds: four on the CPU with
gloo, or one for each GPU with NCCL.

A job is a function of a module that the processes can import; it gets a Rank and the job's
arguments, on all processes of the mesh that is asked for. What it raises is raised in the test,
of all ranks; what it returns comes back in the order of the ranks.
"""

import math
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context

import torch

CPU_WORLD = 4
_TIMEOUT = 60  # seconds, of each collective
_START = 300  # seconds, at the most, for processes that import torch
# The processes of a mesh, and its shape.
MESHES = {
    name: (list(range(math.prod(shape))), shape)
    for name, shape in {"2": (2,), "4": (4,), "2x2": (2, 2), "8": (8,), "2x4": (2, 4)}.items()
}


@dataclass
class Rank:
    mesh: "torch.distributed.device_mesh.DeviceMesh"
    rank: int

    @property
    def device(self) -> str:
        return self.mesh.device_type


class JobFailed(AssertionError):
    pass


def meshes_of(world: int) -> dict:
    """Those that so many processes make."""
    return {name: mesh for name, mesh in MESHES.items() if len(mesh[0]) <= world}


def _work(rank: int, world: int, device: str, folder: str, connection) -> None:
    # Here, for importing it takes as long as importing torch.
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        store=dist.FileStore(os.path.join(folder, "store"), world),
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=_TIMEOUT),
    )
    meshes = {
        name: DeviceMesh(device, torch.tensor(ranks).view(shape))
        for name, (ranks, shape) in meshes_of(world).items()
    }
    connection.send(rank)
    while True:
        job = connection.recv()
        if job is None:
            break
        mesh, function, arguments = job
        try:
            connection.send((True, function(Rank(meshes[mesh], rank), *arguments)))
        except BaseException:
            connection.send((False, traceback.format_exc()))
    dist.destroy_process_group()


class Gang:
    """Starts its processes when the first job comes, and anew when they did not answer."""

    def __init__(self, device: str = "cpu", world: int = CPU_WORLD) -> None:
        self.device, self.world = device, world
        self._processes = []

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        context = get_context("spawn")
        self._ends, self._processes = [], []
        for rank in range(self.world):
            mine, its = context.Pipe()
            arguments = (rank, self.world, self.device, self._folder.name, its)
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            self._ends.append(mine)
            self._processes.append(process)
        for end in self._ends:
            if not end.poll(_START):
                raise JobFailed("the processes did not start in time")
            end.recv()

    def run(
        self, mesh: str, function: Callable, *arguments: object, seconds: int = 2 * _TIMEOUT
    ) -> list:
        """`seconds` is how long it may take at the most."""
        assert function.__module__ in sys.modules
        if not self._processes:
            self._start()
        ranks = MESHES[mesh][0]
        for rank in ranks:
            self._ends[rank].send((mesh, function, arguments))
        answers = []
        for rank in ranks:
            if not self._ends[rank].poll(seconds):
                self.close()  # the other ranks wait for it
                raise JobFailed(f"rank {rank} did not answer in time")
            answers.append(self._ends[rank].recv())
        failed = [
            f"rank {r}: {text}" for r, (ok, text) in zip(ranks, answers, strict=True) if not ok
        ]
        if failed:
            raise JobFailed("\n".join(failed))
        return [result for _, result in answers]

    def close(self) -> None:
        if not self._processes:
            return
        for end in self._ends:
            try:
                end.send(None)
            except OSError:
                pass  # it ended with its test
        for process in self._processes:
            process.join(1)
            process.kill()
        self._processes = []
        self._folder.cleanup()
