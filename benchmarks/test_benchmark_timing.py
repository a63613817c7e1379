"""Samples, rounds and the operands that they run on."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from fakes import CPU, SMALL, FakeTimer
from operators import make_operands
from timing import Candidate, Timing, count_sets, summarize, time_in_turns


def test_summary_of_samples():
    timing = summarize([5.0, 1.0, 3.0, 2.0, 4.0], 7)
    assert timing == Timing(3.0, 2.0, 4.0, 1.0, 5.0, 5, 7)
    assert timing.spread == pytest.approx(1 / 3)


def test_short_candidates_are_launched_in_batches_and_in_turns():
    forced: list[str | None] = [None]

    @contextmanager
    def force(name):
        forced.append(name)
        yield
        forced.pop()

    timer = FakeTimer({"short": 0.3e-3, "long": 2e-3}, forced)
    candidates = [
        Candidate(name, lambda i: None, lambda name=name: force(name)) for name in timer.durations
    ]
    timings = time_in_turns(candidates, timer, seconds=0.0)
    assert timings["short"].launches == 4 and timings["long"].launches == 1
    assert timings["short"].median == 0.3e-3 and timings["long"].samples == 5
    assert timer.calls[-4:] == 2 * [("short", 4, False), ("long", 1, False)]

    timings = time_in_turns(candidates, timer, seconds=0.0, cold=True)
    assert timings["short"].launches == 1
    assert timer.calls[-2:] == [("short", 1, True), ("long", 1, True)]


def test_number_of_rounds_follows_the_time_allowed():
    timer = FakeTimer({None: 10e-3}, [None])
    candidates = [Candidate("any", lambda i: None)]
    assert time_in_turns(candidates, timer, seconds=0.2)["any"].samples == 19
    assert time_in_turns(candidates, timer, seconds=1e9)["any"].samples == 100


def test_sets_of_activations():
    assert count_sets(1 << 30, 60 << 20) == 1
    assert count_sets(60 << 20, 60 << 20) == 2
    assert count_sets(1, 60 << 20) == 32
    assert count_sets(1, 0) == 1


def test_operands_share_the_weight_and_take_the_layout():
    first, second = make_operands(
        SMALL, "wgrad", 2, dtype=torch.bfloat16, device=CPU, channels_last=True
    )
    assert first.weight is second.weight
    assert not torch.equal(first.input, second.input)
    for tensor in (first.input, first.weight, first.grad_output):
        assert tensor.dtype == torch.bfloat16
        assert tensor.is_contiguous(memory_format=torch.channels_last)
    (fprop,) = make_operands(SMALL, "fprop", 1, dtype=torch.float32, device=CPU)
    assert fprop.grad_output is None
