"""explain of DTensors: the cut, and this rank's own problem; nothing is sent."""

import pytest
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import haloconv
from support import integers


def _lines(rank, placements, direction, kernel=(3, 3), size=(2, 4, 16, 12)) -> list[str]:
    x, w = integers(size), integers((6, 4, *kernel), 1)
    whole = [Replicate()] * rank.mesh.ndim
    x, w = distribute_tensor(x, rank.mesh, placements), distribute_tensor(w, rank.mesh, whole)
    text = haloconv.explain(x, w, padding=(1, 2, 1, 1), direction=direction)
    return [line for line in text.split("\n") if not line.startswith(" ") and line]


@pytest.mark.parametrize("direction", ["fprop", "dgrad", "wgrad"])
def test_rows(gang, direction) -> None:
    """16 rows become 17, of which the first rank has 9; zeros stand for the halo."""
    first, second = gang.run("2", _lines, [Shard(2)], direction)
    assert first[0] == second[0] == "mesh of 2 ranks: cut are rows among 2"
    # Gradients too are of the rank's own part, as far as that gives them.
    assert first[1] == ("this rank: input [2, 4, 8, 12], weight [6, 4, 3, 3], padding [1, 2, 1, 1]")
    assert first[2] == second[2] == "implementation: aten"


def test_images_and_columns(gang) -> None:
    for lines in gang.run("2x2", _lines, [Shard(0), Shard(3)], "fprop"):
        assert lines[0] == "mesh of 2 x 2 ranks: cut are batch among 2, columns among 2"
        assert lines[1].startswith("this rank: input [1, 4, 16, 6], weight [6, 4, 3, 3], padding ")


def test_whole(gang) -> None:
    for lines in gang.run("2", _lines, [Replicate()], "fprop"):
        assert lines[0] == "mesh of 2 ranks: all on each rank"
        assert lines[1] == (
            "this rank: input [2, 4, 16, 12], weight [6, 4, 3, 3], padding [1, 2, 1, 1]"
        )


def _alone(rank) -> list[str]:
    if rank.rank:
        return []
    x = DTensor.from_local(integers((1, 4, 3, 9)), rank.mesh, [Shard(2)], run_check=False)
    w = DTensor.from_local(integers((6, 4, 5, 3), 1), rank.mesh, [Replicate()], run_check=False)
    return haloconv.explain(x, w).split("\n")


def test_one_rank_asks_alone(gang) -> None:
    """Its part is lower than the halo: it computes all that it receives at once."""
    lines, *_ = gang.run("4", _alone)
    # 12 rows become 8, of which a rank has 2, and reads 6.
    assert lines[1] == "this rank: input [1, 4, 6, 9], weight [6, 4, 5, 3], padding [0, 0, 0, 0]"
