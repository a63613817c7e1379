"""The same timed choices on all ranks, for results that are equal bit for bit."""

import os
import tempfile

import torch.distributed as dist

from haloconv import tuning


def share_tuning(group: dist.ProcessGroup | None = None) -> None:
    """Gives all ranks of a group the results of all, of one problem the lowest rank's.

    With ``torch.backends.cudnn.benchmark`` each rank times for itself, and two whose times are
    close may choose otherwise, and add in another order. After this call all ranks compute alike
    what any of them has timed: call it after a first step, on all ranks. A problem that comes later
    is timed by each rank for itself again; nothing is timed, and nothing needs sharing, where torch
    is to be deterministic.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "tuning.json")
        tuning.save(file)
        with open(file) as saved:
            mine = saved.read()
        of_ranks = [""] * dist.get_world_size(group)
        dist.all_gather_object(of_ranks, mine, group)
        tuning.clear()
        for text in dict.fromkeys(of_ranks):  # what was loaded before stays
            with open(file, "w") as target:
                target.write(text)
            tuning.load(file)
