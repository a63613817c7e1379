"""Ways to cut a problem among ranks: how large it is, and tensors of which each rank has a part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from unittest import mock

import torch
from torch.distributed import tensor as dtensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from problems import Problem

WEAK, STRONG = "weak", "strong"  # as much for each rank as for one alone; as much for all of them
ROWS, COLUMNS, GRID, BATCH = "rows", "columns", "rows by columns", "batch"
CUTS = (ROWS, COLUMNS, GRID, BATCH)


@dataclass(frozen=True)
class Cut:
    """How many ranks cut each dimension of a picture's tensor; the others are whole."""

    name: str
    ranks: dict[int, int]  # by the dimension of (n, c, h, w)

    @property
    def placements(self) -> list[Shard]:
        return [Shard(dim) for dim in self.ranks]

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        return tuple(self.ranks.values())

    @property
    def is_spatial(self) -> bool:
        return self.name != BATCH

    def enlarged(self, shape: Sequence[int]) -> tuple[int, ...]:
        """For weak scaling."""
        return tuple(size * self.ranks.get(dim, 1) for dim, size in enumerate(shape))

    def divides(self, shape: Sequence[int]) -> bool:
        """Whether each rank gets something."""
        return all(shape[dim] >= ranks for dim, ranks in self.ranks.items())

    def scaled(self, problem: Problem, scaling: str) -> Problem:
        if scaling == STRONG:
            return problem
        n, _, h, w = self.enlarged(problem.input_shape)
        return replace(problem, n=n, h=h, w=w)


def cuts_of(ranks: int, names: Sequence[str] = CUTS) -> list[Cut]:
    """Those of so many ranks: a grid needs a number that is no prime."""
    divisors = [i for i in range(2, math.isqrt(ranks) + 1) if ranks % i == 0]
    found = [Cut(ROWS, {2: ranks}), Cut(COLUMNS, {3: ranks})]
    if divisors:
        found.append(Cut(GRID, {2: ranks // divisors[-1], 3: divisors[-1]}))
    found.append(Cut(BATCH, {0: ranks}))
    return [cut for cut in found if cut.name in names]


def random_part(
    shape: Sequence[int],
    mesh: DeviceMesh,
    cut: Cut,
    dtype: torch.dtype,
    format: torch.memory_format,
) -> DTensor:
    """Of normal numbers; no rank ever has the whole tensor."""
    part = dtensor.empty(*shape, dtype=dtype, device_mesh=mesh, placements=cut.placements)
    local = part.to_local().normal_().contiguous(memory_format=format)
    strides = torch.empty(shape, device="meta").contiguous(memory_format=format).stride()
    return DTensor.from_local(
        local, mesh, cut.placements, run_check=False, shape=torch.Size(shape), stride=strides
    )


def overlap(is_on: bool) -> AbstractContextManager:
    """Off: halos are waited for, and then each rank computes its part at once.

    It is what haloconv does where a rank's interior is small.
    """
    from haloconv.distributed.sweep import Sweep

    return nullcontext() if is_on else mock.patch.object(Sweep, "is_split", lambda *_: False)
