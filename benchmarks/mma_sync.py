"""What the warp's matrix instruction sustains by itself, whose operands stay in registers.

The loop is compiled with the C++ tests: mma_sync.cu.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

from timing import Candidate, Timer, time_in_turns

LIBRARY = Path(__file__).resolve().parents[1] / "build/benchmarks/libhaloconv_mma_sync.so"
ARITHMETICS = ("tf32", "fp16", "bf16")
_STEPS = 4096  # of a launch: about a millisecond


def measure(
    library: Path, arithmetic: str, timer: Timer, device: torch.device, seconds: float = 0.2
) -> float:
    """FLOP per second of one of ARITHMETICS."""
    loop = ctypes.CDLL(str(library))
    loop.mma_sync_flop.restype = ctypes.c_double
    loop.mma_sync_launch.restype = ctypes.c_char_p
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    result = torch.empty(loop.mma_sync_results(multiprocessors), device=device)
    name = arithmetic.encode()

    def launch(_: int) -> None:
        stream = torch.cuda.current_stream(device).cuda_stream
        where = (ctypes.c_void_p(result.data_ptr()), ctypes.c_void_p(stream))
        error = loop.mma_sync_launch(name, multiprocessors, _STEPS, *where)
        if error is not None:
            raise RuntimeError(f"mma.sync: {error.decode()}")

    launch(0)
    taken = time_in_turns([Candidate("mma.sync", launch)], timer, seconds)["mma.sync"].median
    return loop.mma_sync_flop(name, multiprocessors, _STEPS) / taken
