"""The arithmetic of a cut axis, against counting the rows one by one."""

import random

import pytest

from haloconv.distributed.axis import Axis, Flow
from haloconv.distributed.intervals import Interval, chunks


def _random_axis(rng: random.Random) -> Axis:
    stride, dilation, kernel = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 5)
    before, after = rng.randint(0, 6), rng.randint(0, 6)
    span = dilation * (kernel - 1) + 1
    size = max(1, span - before - after, rng.randint(1, 40))
    output = (size + before + after - span) // stride + 1
    ranks = rng.randint(1, 9)
    inputs, outputs = tuple(chunks(size, ranks)), tuple(chunks(output, ranks))
    return Axis(stride, dilation, kernel, before, inputs, outputs)


_AXES = [_random_axis(random.Random(seed)) for seed in range(300)]


def _hull(rows: list[int]) -> range:
    return range(min(rows), max(rows) + 1) if rows else range(0)


def _rows(interval: Interval) -> range:
    return range(interval.lo, interval.hi) if interval else range(0)


def _reads(axis: Axis, p: int) -> range:
    """From the first to the last input row under the filter, of padding too."""
    first = p * axis.stride - axis.before
    return range(first, first + axis.span)


def test_windows_are_what_is_read() -> None:
    for axis in _AXES:
        inside = range(axis.input_size)
        for output in axis.outputs:
            read = [h for p in _rows(output) for h in _reads(axis, p) if h in inside]
            assert _rows(axis.read_by(output)) == _hull(read), axis
        for input in axis.inputs:
            rows = set(_rows(input))
            readers = [p for p in range(axis.output_size) if rows & set(_reads(axis, p))]
            assert _rows(axis.readers_of(input)) == _hull(readers), axis


@pytest.mark.parametrize("forward", [True, False])
def test_interiors_need_no_other_rank(forward) -> None:
    for axis in _AXES:
        flow = Flow(axis, forward)
        for rank, (own, target) in enumerate(zip(flow.sources, flow.targets, strict=True)):
            inner = flow.interior(rank)
            alone = [
                row
                for row in _rows(target)
                if own and set(_rows(flow.needs(Interval(row, row + 1)))) <= set(_rows(own))
            ]
            assert set(_rows(inner)) <= set(alone), axis
            if inner:  # it ends where another rank is needed
                assert not {inner.lo - 1, inner.hi} & set(alone), axis


@pytest.mark.parametrize("forward", [True, False])
def test_what_is_sent_is_what_is_missing(forward) -> None:
    for axis in _AXES:
        flow = Flow(axis, forward)
        ranks = range(len(flow.sources))
        for rank in ranks:
            received = [row for other in ranks for row in _rows(flow.sent(other)[rank])]
            missing = set(_rows(flow.window(rank))) - set(_rows(flow.sources[rank]))
            assert received == sorted(missing), axis


def test_meetings_are_convolutions_of_their_own() -> None:
    for axis in _AXES:
        for output in axis.outputs:
            for input in axis.inputs:
                rows = set(_rows(input))
                read = {h for p in _rows(output) for h in _reads(axis, p) if h in rows}
                meeting = axis.meeting(output, input)
                if meeting is None:
                    assert not read, axis
                    continue
                size = meeting.before + meeting.input.length + meeting.after
                assert meeting.before >= 0 and meeting.after >= 0, axis
                assert (size - axis.span) // axis.stride + 1 == output.length, axis
                first = meeting.input.lo - meeting.before
                assert first == output.lo * axis.stride - axis.before, axis
                assert read <= set(_rows(meeting.input)), axis
