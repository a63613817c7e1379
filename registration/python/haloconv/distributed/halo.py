"""The exchange of halos: what each rank of a line sends, and the tensor that results, in blocks.

The line is a process group along which one axis of a tensor is cut. A halo may be wider than the
neighbour's part. A rank receives from as many ranks as the halo spans, and sends exactly what
others need.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from haloconv.distributed.axis import Flow
from haloconv.distributed.intervals import Interval

ROWS, COLUMNS = 2, 3  # dimensions of (n, channels, rows, columns)


@dataclass(frozen=True)
class Block:
    """A part of a tensor (n, channels, rows, columns), and which part it is."""

    tensor: Tensor
    rows: Interval
    columns: Interval

    def take(self, rows: Interval, columns: Interval) -> Tensor:
        part = self.tensor
        for dim, mine, wanted in ((ROWS, self.rows, rows), (COLUMNS, self.columns, columns)):
            if wanted != mine:
                part = part.narrow(dim, wanted.lo - mine.lo, wanted.length)
        return part


@dataclass(frozen=True)
class Joined:
    """Parts along one dimension that hold all of these rows and columns, and perhaps more."""

    dim: int
    parts: Sequence["Block | Joined"]
    rows: Interval
    columns: Interval

    def take(self, rows: Interval, columns: Interval) -> Tensor:
        taken = []
        for part in self.parts:
            if self.dim == ROWS:
                mine = part.rows.meet(rows), columns
            else:
                mine = rows, part.columns.meet(columns)
            if all(mine):
                taken.append(part.take(*mine))
        return taken[0] if len(taken) == 1 else torch.cat(taken, self.dim)


Source = Block | Joined


def split_sizes(flow: Flow, rank: int) -> list[int]:
    """How many rows `rank` sends to each rank, then how many it receives from each."""
    return [interval.length for interval in (*flow.sent(rank), *flow.received(rank))]


def pack(source: Source, like: Tensor, flow: Flow, rank: int, dim: int) -> Tensor:
    """What `rank` sends, in the order of the receivers, with the axis in front.

    `like` has the tensor's batch, channels and type.
    """
    intervals = [interval for interval in flow.sent(rank) if interval]
    across = source.columns if dim == ROWS else source.rows
    if not intervals or not across:
        count = sum(interval.length for interval in intervals)
        return like.new_empty(count, *like.shape[:2], across.length)
    boxes = [(i, across) if dim == ROWS else (across, i) for i in intervals]
    return torch.cat([source.take(*box).movedim(dim, 0) for box in boxes])


def unpack(source: Source, received: Tensor, flow: Flow, rank: int, dim: int) -> Joined:
    """The rank's window: `source` between the received rows before it and those after it."""
    own, window = flow.sources[rank], flow.window(rank)
    before, after = window.before(own), window.after(own)
    received = received.movedim(0, dim)

    def block(interval: Interval, offset: int) -> Block:
        tensor = received.narrow(dim, offset, interval.length)
        if dim == ROWS:
            return Block(tensor, interval, source.columns)
        return Block(tensor, source.rows, interval)

    parts = [block(before, 0), source, block(after, before.length)]
    if dim == ROWS:
        return Joined(dim, parts, window, source.columns)
    return Joined(dim, parts, source.rows, window)
