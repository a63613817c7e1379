"""The limit of a case: the time below which neither the memory nor the arithmetic goes.

limit = max(bytes / rate of a device-to-device copy, FLOP / rate of a large matrix product),
both rates measured in the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from problems import Problem
from timing import Candidate, Timer, time_in_turns

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}

_PRODUCT_DTYPES = {
    "tf32": torch.float32,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


@dataclass(frozen=True)
class Ceilings:
    copy: float  # bytes per second, read and written
    products: dict[str, float]  # arithmetic -> FLOP per second
    mma_sync: float = 0.0  # FLOP per second of the warp's matrix instruction; 0: not measured

    def arithmetic_rate(self, arithmetic: str) -> float:
        """FLOP per second.

        Three TF32 products make one product that is as accurate as fp32, so the tensor cores
        allow fp32 a third of TF32's rate, where that is more than its own.
        """
        own = self.products[arithmetic]
        return max(own, self.products["tf32"] / 3) if arithmetic == "fp32" else own

    def limit(self, problem: Problem, arithmetic: str, element_size: int) -> tuple[float, str]:
        """Seconds, and which of the two binds: 'bytes' or 'FLOP'."""
        memory = problem.bytes(element_size) / self.copy
        compute = problem.flop / self.arithmetic_rate(arithmetic)
        return (memory, "bytes") if memory > compute else (compute, "FLOP")


def arithmetic_of(dtype: str, tf32: bool) -> str:
    if dtype == "float32":
        return "tf32" if tf32 else "fp32"
    return {"float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}[dtype]


def allow_tf32(allowed: bool) -> None:
    """For convolutions and matrix products alike."""
    precision = "tf32" if allowed else "ieee"
    torch.backends.cudnn.conv.fp32_precision = precision
    torch.backends.cuda.matmul.fp32_precision = precision


def measure_ceilings(
    arithmetic: str,
    timer: Timer,
    device: torch.device,
    *,
    copy_bytes: int = 2 << 30,
    product_size: int = 8192,
    seconds: float = 0.2,
) -> Ceilings:
    """Leaves the TF32 setting as `arithmetic` has it."""
    copy = _copy_rate(copy_bytes, timer, device, seconds)
    # Last the case's own, whose setting stays.
    needed = ["tf32", "fp32"] if arithmetic == "fp32" else [arithmetic]
    products = {name: _product_rate(name, product_size, timer, device, seconds) for name in needed}
    return Ceilings(copy, products)


def _copy_rate(size: int, timer: Timer, device: torch.device, seconds: float) -> float:
    source = torch.randn(size // 4, device=device)
    target = torch.empty_like(source)
    return 2 * size / _time(lambda i: target.copy_(source), timer, seconds)


def _product_rate(
    arithmetic: str, size: int, timer: Timer, device: torch.device, seconds: float
) -> float:
    allow_tf32(arithmetic == "tf32")
    a = torch.randn(size, size, dtype=_PRODUCT_DTYPES[arithmetic], device=device)
    b = torch.randn_like(a)
    result = torch.empty_like(a)
    return 2 * size**3 / _time(lambda i: torch.mm(a, b, out=result), timer, seconds)


def _time(call: Callable[[int], object], timer: Timer, seconds: float) -> float:
    call(0)
    return time_in_turns([Candidate("ceiling", call)], timer, seconds)["ceiling"].median
