"""How a rank computes its part while halos travel: its own part, the row edges, the column edges.

+----------------------+    1. The halo of rows is sent off, and all that the rank's own part of
|   edge of rows       |       the source gives is computed, the whole target at once: what
+---+--------------+---+       lies at the edges is wrong then, for zeros stood for the halo.
| e |              | e |    2. The halo of rows is here. The halo of columns is sent off, with
| d |   interior   | d |       the corners in it, and the edges of rows are written into the
| g |              | g |       same tensor. Where rows are not cut, columns were sent off first.
| e |              | e |    3. The halo of columns is here, and the edges of columns are written.
+---+--------------+---+
|                      |    Where the interior is less than half of the target, one computation
+----------------------+    of all that was received takes the place of the three.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from haloconv._torch_compat import distributed as torch_compat
from haloconv.distributed import halo
from haloconv.distributed.axis import Flow
from haloconv.distributed.bounded import BoundedDict
from haloconv.distributed.halo import COLUMNS, ROWS, Block, Source
from haloconv.distributed.intervals import Interval


@dataclass(frozen=True)
class Line:
    """The ranks along which an axis is cut: their group, and this rank's place in it."""

    group: object
    rank: int


ALONE = Line(None, 0)  # the line of an axis that is not cut
Box = tuple[Interval, Interval]  # rows and columns


class Sweep:
    """One direction of a convolution. Each method computes one rank's part, only from its tensors.

    `ranks` are the rank's places in the lines that `run` was given, and `tensors` its parts of all
    tensors. The first is the source, whose halos are exchanged.
    """

    def __init__(self, rows: Flow, columns: Flow, result_dims: Sequence[int | None]) -> None:
        self.flows = (rows, columns)
        self.result_dims = result_dims  # how many dimensions each result has; None: not wanted

    def own(self, ranks: Sequence[int], tensors: Sequence[Tensor | None]) -> list[Tensor]:
        """The results as far as the rank's own part of the source gives them."""
        raise NotImplementedError

    def finish(
        self,
        source: Source,
        boxes: Sequence[Box],
        halos: Sequence[Block],
        ranks: Sequence[int],
        tensors: Sequence[Tensor | None],
        results: list[Tensor],
    ) -> list[Tensor]:
        """The results with these boxes of the target computed again, from a source with halos.

        `halos` are the parts of the source that are new in this step.
        """
        raise NotImplementedError

    def whole(
        self, source: Source, ranks: Sequence[int], tensors: Sequence[Tensor | None]
    ) -> list[Tensor]:
        """The results by one computation from the rank's whole window of the source."""
        raise NotImplementedError

    def target(self, ranks: Sequence[int]) -> Box:
        return tuple(flow.targets[rank] for flow, rank in zip(self.flows, ranks, strict=False))

    def interior(self, ranks: Sequence[int]) -> Box:
        return tuple(flow.interior(rank) for flow, rank in zip(self.flows, ranks, strict=False))

    def is_split(self, ranks: Sequence[int]) -> bool:
        pairs = zip(self.interior(ranks), self.target(ranks), strict=True)
        return all(2 * inner.length >= outer.length for inner, outer in pairs)

    def block(self, ranks: Sequence[int], source: Tensor) -> Block:
        return Block(source, *(f.sources[r] for f, r in zip(self.flows, ranks, strict=False)))


def _joined(sweep: Sweep, ranks, source: Tensor, received: Sequence[Tensor]) -> Source:
    """The source of a rank with the halos received so far: of rows, or of rows and columns."""
    joined = sweep.block(ranks, source)
    for dim, flow, rank, tensor in zip((ROWS, COLUMNS), sweep.flows, ranks, received, strict=False):
        if tensor is not None:
            joined = halo.unpack(joined, tensor, flow, rank, dim)
    return joined


def _halos(joined: Source) -> list[Block]:
    """The parts that the last exchange brought."""
    if isinstance(joined, Block):
        return []
    before, _, after = joined.parts
    return [part for part in (before, after) if part.rows and part.columns]


def _packed(sweep: Sweep, dim: int, ranks, source: Tensor, received) -> Tensor:
    flow, rank = sweep.flows[dim - ROWS], ranks[dim - ROWS]
    return halo.pack(_joined(sweep, ranks, source, received), source, flow, rank, dim)


def _sizes(sweep: Sweep, dim: int, ranks) -> list[int]:
    return halo.split_sizes(sweep.flows[dim - ROWS], ranks[dim - ROWS])


def _own(sweep: Sweep, ranks, tensors) -> list[Tensor]:
    if sweep.is_split(ranks):
        return sweep.own(ranks, tensors)
    # Each rank has the same number of results at each step.
    return [dims and tensors[0].new_empty((0,) * dims) for dims in sweep.result_dims]


def _row_edges(sweep: Sweep, ranks, tensors, received, results) -> list[Tensor]:
    if not sweep.is_split(ranks):
        return results
    (rows, _), (inner_rows, inner_columns) = sweep.target(ranks), sweep.interior(ranks)
    boxes = [(rows.before(inner_rows), inner_columns), (rows.after(inner_rows), inner_columns)]
    source = _joined(sweep, ranks, tensors[0], [received])
    return sweep.finish(source, boxes, _halos(source), ranks, tensors, results)


def _column_edges(sweep: Sweep, ranks, tensors, received, results) -> list[Tensor]:
    source = _joined(sweep, ranks, tensors[0], received)
    if not sweep.is_split(ranks):
        return sweep.whole(source, ranks, tensors)
    (rows, columns), (_, inner) = sweep.target(ranks), sweep.interior(ranks)
    boxes = [(rows, columns.before(inner)), (rows, columns.after(inner))]
    halos = [] if received[1] is None else _halos(source)
    return sweep.finish(source, boxes, halos, ranks, tensors, results)


def run(sweep: Sweep, lines: Sequence[Line], tensors: Sequence[Tensor | None]) -> list[Tensor]:
    """The sweep's results on this rank. All ranks of the lines call it.

    The first two lines are of rows and of columns.
    """
    ranks = [line.rank for line in lines]
    received: list[Tensor | None] = [None, None]
    is_new = _is_new(sweep, tensors)

    def send(dim: int) -> Callable[[], Tensor] | None:
        """Sends the halo, and returns a function that waits for others'; None if there is none."""
        flow, line = sweep.flows[dim - ROWS], lines[dim - ROWS]
        if len(flow.sources) == 1 or not flow.is_exchanged():
            return None
        sizes = torch_compat.per_rank(_sizes, sweep, dim, ranks)
        packed = torch_compat.per_rank(_packed, sweep, dim, ranks, tensors[0], received)
        half = len(flow.sources)
        wait = torch_compat.all_to_all(packed, sizes[half:], sizes[:half], line.group)
        if not is_new:
            return wait
        halo_of_others = wait()
        return lambda: halo_of_others

    rows = send(ROWS)
    columns = send(COLUMNS) if rows is None else None  # no corners to wait for
    results = torch_compat.per_rank(_own, sweep, ranks, tensors)
    if rows is not None:
        received[0] = rows()
        columns = send(COLUMNS)
        results = torch_compat.per_rank(_row_edges, sweep, ranks, tensors, received[0], results)
    if columns is not None:
        received[1] = columns()
    return torch_compat.per_rank(_column_edges, sweep, ranks, tensors, received, results)


_met: BoundedDict[tuple, bool] = BoundedDict()


def _is_new(sweep: Sweep, tensors: Sequence[Tensor | None]) -> bool:
    """Whether this is the problem's first call.

    Then the kernels may be timed. While halos travel they would be timed wrongly, because the
    transfer holds some of the GPU's multiprocessors until the slowest rank is there.
    """
    if any(t is not None and torch_compat.is_traced(t) for t in tensors):
        return False
    layouts = tuple(t if t is None else (t.dtype, t.shape, t.stride()) for t in tensors)
    key = (type(sweep), sweep.flows, layouts)
    if key in _met:
        return False
    _met[key] = True
    return True
