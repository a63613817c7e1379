"""Half-open intervals of rows or columns, and how a tensor's rows are cut among ranks."""

from collections.abc import Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """The rows or columns lo, lo + 1, ..., hi - 1 of a whole tensor."""

    lo: int
    hi: int

    def __bool__(self) -> bool:
        return self.hi > self.lo

    @property
    def length(self) -> int:
        return max(self.hi - self.lo, 0)

    def meet(self, other: "Interval") -> "Interval":
        """What both have; if that is nothing, an empty interval at the gap."""
        lo = max(self.lo, other.lo)
        return Interval(lo, max(lo, min(self.hi, other.hi)))

    def within(self, lo: int, hi: int) -> "Interval":
        """The part inside of lo, ..., hi - 1. Both ends grow with those of the interval."""
        return Interval(min(max(self.lo, lo), hi), min(max(self.hi, lo), hi))

    def before(self, other: "Interval") -> "Interval":
        """The part of this interval that lies before `other`."""
        return Interval(self.lo, max(self.lo, min(self.hi, other.lo)))

    def after(self, other: "Interval") -> "Interval":
        """The part of this interval that lies after `other`."""
        return Interval(max(self.lo, min(self.hi, max(other.hi, other.lo))), self.hi)


def chunks(size: int, ranks: int) -> list[Interval]:
    """What torch.chunk, and so a DTensor's Shard, gives each rank; the last may be empty."""
    chunk = -(-size // ranks)
    return [Interval(min(i * chunk, size), min((i + 1) * chunk, size)) for i in range(ranks)]


def consecutive(lengths: Sequence[int]) -> list[Interval]:
    """Intervals of these lengths, one after the other from 0 on."""
    intervals, lo = [], 0
    for length in lengths:
        intervals.append(Interval(lo, lo + length))
        lo += length
    return intervals
