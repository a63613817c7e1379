"""One axis of a convolution, rows or columns, cut among ranks: what each needs from which other.

Output row p reads the input rows p * stride - before + dilation * tap. All numbers here are rows
(or columns) of the whole tensors, of which each rank owns an interval. A network asks the same at
each step, so answers are kept.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from haloconv.distributed.intervals import Interval

_MOST = 4096  # answers of each kind


@dataclass(frozen=True)
class Meeting:
    """How some output rows and some input rows make a convolution of their own."""

    input: Interval  # the input rows that take part
    before: int  # padding on either side of these
    after: int


@dataclass(frozen=True)
class Axis:
    stride: int
    dilation: int
    kernel: int
    before: int  # padding of the whole input; that after it follows from the sizes
    inputs: tuple[Interval, ...]  # by rank
    outputs: tuple[Interval, ...]

    @property
    def span(self) -> int:
        """The input rows from a filter's first tap to its last."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def input_size(self) -> int:
        return self.inputs[-1].hi

    @property
    def output_size(self) -> int:
        return self.outputs[-1].hi

    def reach(self, output: Interval) -> Interval:
        """The input rows that these output rows read, padding included."""
        lo = output.lo * self.stride - self.before
        return Interval(lo, lo + (output.length - 1) * self.stride + self.span if output else lo)

    def read_by(self, output: Interval) -> Interval:
        """The input rows that these output rows read, from the first to the last."""
        # The output rows at either end that read padding alone are not counted.
        first = (self.before - self.span) // self.stride + 1
        last = -(-(self.input_size + self.before) // self.stride)
        return self.reach(output.within(first, last)).within(0, self.input_size)

    def readers_of(self, input: Interval) -> Interval:
        """The output rows that read from the first to the last of these input rows."""
        if not input:
            return Interval(0, 0)
        lo = -(-(input.lo + self.before - self.span + 1) // self.stride)
        hi = (input.hi - 1 + self.before) // self.stride + 1
        return Interval(lo, hi).within(0, self.output_size)

    @lru_cache(_MOST)
    def meeting(self, output: Interval, input: Interval) -> Meeting | None:
        """The convolution of these input rows that gives these output rows; None if it has none.

        Input rows that these output rows do not read are left out. That includes those at the end,
        fewer than a stride, which a convolution would ignore anyway.
        """
        reach = self.reach(output)
        part = input.meet(reach)
        if not output or not part:
            return None
        if input.hi - reach.hi < self.stride and part.hi == reach.hi:
            part = Interval(part.lo, input.hi)
        return Meeting(part, part.lo - reach.lo, max(0, reach.hi - part.hi))


@dataclass(frozen=True)
class Flow:
    """An axis in one direction: from the tensor that is read to the tensor that is computed."""

    axis: Axis
    forward: bool  # from input to output; else from output to input

    @property
    def sources(self) -> tuple[Interval, ...]:
        return self.axis.inputs if self.forward else self.axis.outputs

    @property
    def targets(self) -> tuple[Interval, ...]:
        return self.axis.outputs if self.forward else self.axis.inputs

    def needs(self, target: Interval) -> Interval:
        """The rows of the source from which these rows of the target are computed."""
        return self.axis.read_by(target) if self.forward else self.axis.readers_of(target)

    @lru_cache(_MOST)
    def window(self, rank: int) -> Interval:
        return self.needs(self.targets[rank])

    @lru_cache(_MOST)
    def sent(self, rank: int) -> tuple[Interval, ...]:
        """What `rank` sends to each rank; nothing to itself."""
        own = self.sources[rank]
        return tuple(
            self.window(other).meet(own) if other != rank else Interval(own.lo, own.lo)
            for other in range(len(self.sources))
        )

    @lru_cache(_MOST)
    def received(self, rank: int) -> tuple[Interval, ...]:
        """What `rank` gets from each rank."""
        return tuple(self.sent(other)[rank] for other in range(len(self.sources)))

    @lru_cache(_MOST)
    def is_exchanged(self) -> bool:
        """Whether any rank needs what another one owns. All ranks find the same."""
        return any(any(self.sent(rank)) for rank in range(len(self.sources)))

    @lru_cache(_MOST)
    def interior(self, rank: int) -> Interval:
        """The rows of a rank's target that need no other rank's rows of the source."""
        own, target = self.sources[rank], self.targets[rank]
        if not own or not target:
            return Interval(target.lo, target.lo)

        def row(i: int) -> Interval:
            return self.needs(Interval(i, i + 1))

        # Both ends of what a row needs grow with the row, also where it needs nothing.
        rows = range(target.lo, target.hi)
        lo = target.lo + bisect_left(rows, True, key=lambda i: row(i).lo >= own.lo)
        hi = target.lo + bisect_left(rows, True, key=lambda i: row(i).hi > own.hi)
        return Interval(lo, max(lo, hi))
