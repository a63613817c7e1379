"""Timed choices, kept from one process to the next.

With ``torch.backends.cudnn.benchmark``, the first call of a problem times the candidates on the
GPU, and the fastest runs from then on, as long as the process lives. These functions keep such
results in a file. The environment variable ``HALOCONV_TUNING_FILE`` does the same without a change
to the program: if it names a file when the library first needs a result, the file is loaded if it
exists, and new results are written to it, within a second or at the end of the process.

The file is JSON. It says for which versions of haloconv, torch, CUDA's driver and runtime and
cuDNN, and for which kind of device, each result is. Results for others are ignored, with a warning
if there are none but these. A corrupt file is ignored too, and the next save replaces it. Files are
written whole or not at all, and any number of processes may use one at once: each adds its results
to what the file then holds. They lock FILE.lock beside it.
"""

import os

import torch

from haloconv._torch_compat import disable_dynamo

_ops = torch.ops.haloconv


# Dynamo would run these while it traces, and again when the function runs.
@disable_dynamo
def save(file: str | os.PathLike[str]) -> None:
    """Adds all results of this process to ``file``, also those that it loaded.

    What was timed here replaces what the file says of the same problem. Raises RuntimeError if the
    file cannot be written, or has another format than this version's.
    """
    _ops.tuning_save(os.fspath(file))


@disable_dynamo
def load(file: str | os.PathLike[str]) -> None:
    """Adds the results in ``file`` for problems that have no result yet.

    What was timed or loaded before stays. Raises RuntimeError if the file cannot be read.
    """
    _ops.tuning_load(os.fspath(file))


@disable_dynamo
def clear() -> None:
    """Forgets all results and choices: with benchmark on, what runs next is timed again.

    No file changes.
    """
    _ops.tuning_clear()
