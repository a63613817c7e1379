"""The same timed choices on all ranks, for results that are equal bit for bit."""

import os
import tempfile

import torch.distributed as dist

from haloconv import tuning


def share_tuning(group: dist.ProcessGroup | None = None) -> None:
    """Gives all ranks of a group all timed results; for each problem the lowest rank's holds.

    With ``torch.backends.cudnn.benchmark`` each rank times for itself. If two candidates are
    about equally fast, ranks may choose differently and then add in different orders. Call this on
    all ranks after a first step. From then on all ranks compute in the same way what any of them
    has timed. A problem that comes later is again timed by each rank for itself. Under
    torch.use_deterministic_algorithms(True) nothing is timed, and nothing needs sharing.
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
