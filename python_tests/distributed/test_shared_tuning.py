"""What ranks timed, shared."""

import torch
import torch.distributed as dist

import haloconv
from haloconv.distributed import share_tuning

_ops = torch.ops.haloconv
_PROBLEMS = ("of all", "of the last", "of none")


def _share(rank, size: int) -> list[str]:
    """What the rank then knows; each has timed the first problem, the last rank the second too."""
    cpu = torch.device("cpu")
    haloconv.tuning.clear()
    try:
        _ops.tuning_add("of all", cpu, f"plan of {rank.rank}", 1.0)
        if rank.rank == size - 1:
            _ops.tuning_add("of the last", cpu, f"plan of {rank.rank}", 2.0)
        share_tuning(rank.mesh.get_group(0))
        return [_ops.tuning_find(problem, cpu) for problem in _PROBLEMS]
    finally:
        haloconv.tuning.clear()


def test_all_ranks_know_the_same(gang) -> None:
    expected = ["plan of 0", "plan of 1", ""]
    assert gang.run("2", _share, 2) == [expected] * 2
    assert gang.run("4", _share, 4) == [["plan of 0", "plan of 3", ""]] * 4


def _share_nothing(rank) -> str:
    haloconv.tuning.clear()
    share_tuning(rank.mesh.get_group(0))
    dist.barrier(rank.mesh.get_group(0))
    return _ops.tuning_find("of all", torch.device("cpu"))


def test_nothing_timed(gang) -> None:
    assert gang.run("2", _share_nothing) == ["", ""]
