"""Which placements a convolution takes, and which it gives.

A convolution is a sum of products over some indices, and each dimension of a mesh may cut one of
them. A cut says how every tensor is placed along that dimension of the mesh: a tensor that has the
index is sharded; an operand without it is replicated; a result without it is a partial sum, or is
the same everywhere if the sum does not go over that index. Cuts affect each other only by sizes, so
each dimension of a mesh is decided by itself.

    cut            input     weight    output    bias
    batch          Shard(0)  Replicate Shard(0)  Replicate
    out_channels   Replicate Shard(0)  Shard(1)  Shard(0)
    in_channels    Shard(1)  Shard(1)  Replicate Replicate
    groups         Shard(1)  Shard(0)  Shard(1)  Shard(0)
    rows           Shard(2)  Replicate Shard(2)  Replicate
    columns        Shard(3)  Replicate Shard(3)  Replicate
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

INPUT, WEIGHT, OUTPUT, BIAS = "input", "weight", "output", "bias"  # roles of tensors

# The dimension of a role's tensor that a cut shards.
CUTS: dict[str, dict[str, int]] = {
    "batch": {INPUT: 0, OUTPUT: 0},
    "out_channels": {WEIGHT: 0, OUTPUT: 1, BIAS: 0},
    "in_channels": {INPUT: 1, WEIGHT: 1},
    "groups": {INPUT: 1, WEIGHT: 0, OUTPUT: 1, BIAS: 0},
    "rows": {INPUT: 2, OUTPUT: 2},
    "columns": {INPUT: 3, OUTPUT: 3},
}
NO_CUT = "none"
SPATIAL = ("rows", "columns")


@dataclass(frozen=True)
class Operand:
    role: str
    placements: tuple[Placement, ...]  # by dimension of the mesh
    bytes: int  # of the whole tensor


@dataclass(frozen=True)
class Problem:
    """What the rules know about a call."""

    is_batched: bool
    channels: int
    filters: int
    groups: int
    is_linear: bool  # in the products: partial sums are sums of partial results


def placement(cut: str, role: str, is_batched: bool) -> Placement:
    """How a cut places an operand."""
    dim = CUTS[cut].get(role) if cut != NO_CUT else None
    if dim is None:
        return Replicate()
    has_batch = role in (INPUT, OUTPUT)
    return Shard(dim if is_batched or not has_batch else dim - 1)


def result_placement(cut: str, role: str, is_batched: bool) -> Placement:
    if cut == NO_CUT or role in CUTS[cut]:
        return placement(cut, role, is_batched)
    if role == BIAS and cut == "in_channels":  # the gradient of a bias is no sum over these
        return Replicate()
    return Partial()


def obstacle(cut: str, problem: Problem, ranks: int, others: Mapping[str, int]) -> str | None:
    """Why the problem cannot be cut so, if other dimensions of the mesh have the cuts `others`.

    These say among how many ranks something is cut already.
    """
    if cut == "batch" and not problem.is_batched:
        return "the input has no batch"
    if cut in SPATIAL and cut in others:
        return f"another dimension of the mesh cuts the {cut} already"
    if cut in ("out_channels", "in_channels") and problem.groups > 1:
        return f"groups={problem.groups}, so only whole groups can be cut"
    if cut == "in_channels" and not problem.is_linear:
        return "an activation follows, which takes no partial sums"
    if cut == "groups":
        if problem.groups == 1:
            return "groups=1"
        ranks *= others.get(cut, 1)
        if cut in others and problem.groups % ranks:
            return f"several dimensions of the mesh, {ranks} ranks, do not divide the groups"
        share = -(-problem.groups // ranks)
        for name, size in (("input", problem.channels), ("output", problem.filters)):
            if -(-size // ranks) != share * (size // problem.groups):
                return f"{ranks} ranks cut the {name}'s {size} channels inside of a group"
    return None


def cost(before: Placement, after: Placement, bytes: int, ranks: int) -> float:
    """About how many bytes each rank sends to change a tensor's placement."""
    if before == after or isinstance(before, Replicate):
        return 0
    share = bytes / ranks * (ranks - 1)
    if before.is_partial():
        return 2 * share if isinstance(after, Replicate) else share
    return share if isinstance(after, Replicate) else share / ranks


def choose(operands: Sequence[Operand], sizes: Sequence[int], problem: Problem) -> list[str]:
    """The cut for each dimension of the mesh.

    Only an index by which an operand is sharded is cut. Among several it is the one that moves the
    fewest bytes, because it redistributes the smaller tensor. All ranks choose alike.
    """
    cuts: list[str] = []
    others: dict[str, int] = {}
    for dim, ranks in enumerate(sizes):
        best, least = NO_CUT, math.inf
        for cut in (*CUTS, NO_CUT):
            wanted = [(o, placement(cut, o.role, problem.is_batched)) for o in operands]
            if cut != NO_CUT:
                if not any(
                    isinstance(target, Shard) and operand.placements[dim] == target
                    for operand, target in wanted
                ):
                    continue
                if obstacle(cut, problem, ranks, others) is not None:
                    continue
            moved = sum(cost(o.placements[dim], p, o.bytes, ranks) for o, p in wanted)
            if moved < least:
                best, least = cut, moved
        cuts.append(best)
        others[best] = others.get(best, 1) * ranks
    return cuts
