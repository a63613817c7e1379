"""What a measurement was taken with."""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from pathlib import Path

import torch

_ROOT = Path(__file__).resolve().parent.parent


def describe(device: torch.device, commit: str | None = None) -> dict[str, str]:
    """`commit` is for trees that git does not know."""
    return _describe_device(device) | {
        "torch": torch.__version__,
        "CUDA": str(torch.version.cuda),
        "cuDNN": str(torch.backends.cudnn.version()),
        "commit": commit or git_commit(),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def find_device(name: str) -> torch.device | None:
    """None where it is cuda and there is none, which is then said."""
    if name == "cuda" and not torch.cuda.is_available():
        print("No CUDA device: nothing was measured. --device cpu tries the program out.")
        return None
    return torch.device(name)


def _describe_device(device: torch.device) -> dict[str, str]:
    if device.type != "cuda":
        return {"device": f"CPU, {torch.get_num_threads()} threads"}
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": properties.name,
        "device memory": f"{properties.total_memory / 2**30:.0f} GiB",
        "L2 cache": f"{properties.L2_cache_size / 2**20:.0f} MiB",
        "driver": driver(),
    }


def driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return _first_line_of(query)


def git_commit() -> str:
    return _first_line_of(["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--tags"])


def _first_line_of(command: list[str]) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return run.stdout.split("\n", 1)[0].strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"
