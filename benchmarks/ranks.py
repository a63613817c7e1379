"""The processes of a run, one for each device: their start, what they agree on, and their times.

All methods of Ranks are called on all ranks. What one rank cannot do, none does.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

T = TypeVar("T")
Step = Callable[[], object]

# A sample is long enough for the ranks' start, some microseconds apart, not to count. More than
# a thousand launches would fill the device's queue, in which the host then waits.
_SAMPLE_SECONDS = 20e-3
_MAX_STEPS = 20
_MIN_SAMPLES, _MAX_SAMPLES = 5, 50
_WARM_UP = 3
_CYCLES_PER_SECOND = 2e9


class Failed(Exception):
    """Raised on all ranks, with the reason of the first that failed."""


@dataclass(frozen=True)
class Seconds:
    """Of one step, on the slowest rank: medians over samples."""

    device: float
    host: float  # to enqueue it; on CPUs, where nothing is enqueued, the same as the device's


@dataclass(frozen=True)
class Ranks:
    rank: int
    size: int
    device: torch.device
    control: object  # a group of the hosts, which waits for no device

    def mesh(self, *shape: int) -> DeviceMesh:
        return init_device_mesh(self.device.type, shape)

    def gathered(self, value: T) -> list[T]:
        values: list = [None] * self.size
        dist.all_gather_object(values, value, self.control)
        return values

    def attempt(self, function: Callable[[], T]) -> T:
        """What the function returns; Failed on all ranks if it raised on any of them."""
        result, reason = None, None
        try:
            result = function()
        except Exception as error:  # whatever it is, the other ranks must know
            lines = str(error).strip().splitlines()
            reason = lines[0] if lines else type(error).__name__
        reasons = [reason for reason in self.gathered(reason) if reason is not None]
        if reasons:
            raise Failed(reasons[0])
        return result

    def seconds(self, step: Step, wanted: float) -> Seconds:
        """Times a step for so many seconds; at least five samples are taken."""

        def warm_up() -> Seconds:
            for _ in range(_WARM_UP):
                step()
            return self._sample(step, 1, 0)

        first = self._slowest(self.attempt(warm_up))
        count = min(_MAX_STEPS, math.ceil(_SAMPLE_SECONDS / max(first.device, first.host)))
        each = count * (first.device + first.host)
        samples = max(_MIN_SAMPLES, min(_MAX_SAMPLES, int(wanted / each)))
        taken = [self._slowest(self._sample(step, count, first.host)) for _ in range(samples)]
        return Seconds(
            statistics.median(s.device for s in taken), statistics.median(s.host for s in taken)
        )

    def _slowest(self, sample: Seconds) -> Seconds:
        samples = self.gathered(sample)
        return Seconds(max(s.device for s in samples), max(s.host for s in samples))

    def _sample(self, step: Step, count: int, host_seconds: float) -> Seconds:
        """A step's mean over `count`, of which each takes the host so long to enqueue."""
        dist.barrier(self.control)
        if self.device.type == "cpu":
            begin = time.perf_counter()
            for _ in range(count):
                step()
            each = (time.perf_counter() - begin) / count
            return Seconds(each, each)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # The device waits while the host enqueues, and then for the other ranks' devices.
        torch.cuda._sleep(int(1.2 * count * host_seconds * _CYCLES_PER_SECOND))
        dist.all_reduce(torch.zeros(1, device=self.device))
        start.record()
        begin = time.perf_counter()
        for _ in range(count):
            step()
        host = time.perf_counter() - begin
        end.record()
        end.synchronize()
        return Seconds(start.elapsed_time(end) / 1e3 / count, host / count)


def spawn(count: int, device: str, function: Callable, *arguments: object) -> None:
    """Calls function(ranks, *arguments) in `count` processes, and waits for them.

    One that ends with an error ends all. The function is one that processes can import.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        mp.spawn(_work, (count, device, store, function, arguments), nprocs=count)


def _work(rank: int, count: int, device: str, store: str, function, arguments) -> None:
    here = torch.device(device)
    if device == "cuda":
        here = torch.device(device, rank)
        torch.cuda.set_device(here)  # before the group: NCCL takes the current one
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        store=dist.FileStore(store, count),
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=60),
    )
    control = dist.new_group(backend="gloo", timeout=timedelta(seconds=180))
    function(Ranks(rank, count, here, control), *arguments)
    dist.destroy_process_group()
