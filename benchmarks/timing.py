"""Seconds per launch, of several candidates in turns, with warm and with cold caches.

Warm: launches follow each other as in a running network. Plans, code, the weight and whatever
else fits stay in the caches, but small problems rotate over several sets of activations.
Cold: one launch at a time, each after a write of more bytes than the L2 cache holds.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch

# A sample lasts at least this long, so that the events' own microseconds do not count.
_SAMPLE_SECONDS = 1e-3
_MAX_LAUNCHES = 100
_MIN_ROUNDS, _MAX_ROUNDS = 5, 100
# Enqueuing one convolution from Python takes 10 to 40 microseconds.
_HOST_SECONDS_PER_LAUNCH = 50e-6
_CYCLES_PER_SECOND = 2e9


@dataclass(frozen=True)
class Candidate:
    """One of the contestants; `call(i)` launches it on the i-th set of operands, modulo sets."""

    name: str
    call: Callable[[int], object]
    context: Callable[[], AbstractContextManager] = nullcontext


@dataclass(frozen=True)
class Timing:
    """Seconds for one launch, over `samples` samples of `launches` launches each."""

    median: float
    lower_quartile: float
    upper_quartile: float
    least: float
    most: float
    samples: int
    launches: int

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a part of the median."""
        return (self.upper_quartile - self.lower_quartile) / (2 * self.median)


class Timer(Protocol):
    cache_bytes: int

    def seconds(self, call: Callable[[int], object], launches: int, cold: bool) -> float:
        """Seconds per launch of call(0) ... call(launches - 1)."""


class CudaTimer:
    """Times by events on the current stream."""

    def __init__(self, device: torch.device):
        self.cache_bytes = torch.cuda.get_device_properties(device).L2_cache_size
        self._flush = torch.empty(4 * self.cache_bytes, dtype=torch.uint8, device=device)
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def seconds(self, call: Callable[[int], object], launches: int, cold: bool) -> float:
        # The device waits while the host enqueues, so that gaps between launches are not timed.
        host_seconds = (launches + 2) * _HOST_SECONDS_PER_LAUNCH
        torch.cuda._sleep(int(host_seconds * _CYCLES_PER_SECOND))
        if cold:
            self._flush.fill_(1)
        self._start.record()
        for i in range(launches):
            call(i)
        self._end.record()
        self._end.synchronize()
        return self._start.elapsed_time(self._end) / 1e3 / launches


class HostTimer:
    """Times the host, which on a CUDA device only enqueues: the device starts idle."""

    cache_bytes = 0

    def __init__(self, device: torch.device):
        self._wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def seconds(self, call: Callable[[int], object], launches: int, cold: bool) -> float:
        self._wait()
        start = time.perf_counter()
        for i in range(launches):
            call(i)
        return (time.perf_counter() - start) / launches


def timer_for(device: torch.device) -> Timer:
    return CudaTimer(device) if device.type == "cuda" else HostTimer(device)


def time_in_turns(
    candidates: Sequence[Candidate], timer: Timer, seconds: float, *, cold: bool = False
) -> dict[str, Timing]:
    """Times the candidates A B A B ..., so that drifting clocks hit all of them alike.

    They must have been called before. `seconds` is a wish: at least five rounds are made.
    """
    first = {c.name: _first_seconds(c, timer) for c in candidates}
    launches = {
        name: 1 if cold else min(_MAX_LAUNCHES, math.ceil(_SAMPLE_SECONDS / duration))
        for name, duration in first.items()
    }
    round_seconds = sum(
        launches[name] * (first[name] + _HOST_SECONDS_PER_LAUNCH) for name in launches
    )
    rounds = max(_MIN_ROUNDS, min(_MAX_ROUNDS, int(seconds / round_seconds)))
    samples: dict[str, list[float]] = {c.name: [] for c in candidates}
    for _ in range(rounds):
        for c in candidates:
            with c.context():
                samples[c.name].append(timer.seconds(c.call, launches[c.name], cold))
    return {name: summarize(samples[name], launches[name]) for name in samples}


def summarize(samples: Sequence[float], launches: int) -> Timing:
    lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, lower, upper, min(samples), max(samples), len(samples), launches)


def count_sets(activation_bytes: int, cache_bytes: int) -> int:
    """Sets of activations to rotate over: twice the cache, but no more than 32 sets."""
    return max(1, min(32, math.ceil(2 * cache_bytes / activation_bytes)))


def _first_seconds(candidate: Candidate, timer: Timer) -> float:
    with candidate.context():
        return min(timer.seconds(candidate.call, 1, False) for _ in range(2))
