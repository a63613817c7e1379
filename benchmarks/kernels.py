"""What the device spends its time on, by kind of kernel."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch.autograd import DeviceType

# The first whose pattern is in a kernel's name; names as of CUDA 13 and torch 2.11.
_KINDS = {
    "haloconv": r"haloconv",
    "Inductor": r"^triton",  # its names hold those of what it fused, convolutions too
    "layout copies": r"nchwToNhwc|nhwcToNchw|tensorTransform",
    "batch norm": r"batch_norm|bn_fw|bn_bw",
    "convolutions of cuDNN": r"cudnn|xmma|implicit_|conv|dgrad|wgrad|fprop",
    "matrix products": r"gemm|cublas|nvjet|cutlass",
    "copies": r"[Mm]emcpy|[Mm]emset|copy",
}
_RUNS = 3


def kind_of(kernel: str) -> str:
    return next((kind for kind, name in _KINDS.items() if re.search(name, kernel)), "others")


def milliseconds(run: Callable[[], object]) -> dict[str, float]:
    """Of one run, the kind that takes the most first."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(_RUNS):
            run()
        torch.cuda.synchronize()
    spent: dict[str, float] = {}
    for event in profile.events():
        if event.device_type == DeviceType.CUDA:
            kind = kind_of(event.name)
            spent[kind] = spent.get(kind, 0.0) + event.device_time_total / 1e3 / _RUNS
    return dict(sorted(spent.items(), key=lambda item: -item[1]))
