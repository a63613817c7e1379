"""What was measured of a problem that is cut among devices, what was expected, and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

import tables
from cuts import STRONG, WEAK, Cut
from ranks import Seconds
from sharded_layers import (
    ALONE,
    BOTH,
    DDP,
    DTENSOR,
    HALOCONV_DDP,
    NO_OVERLAP,
    PYTORCH_ALONE,
    SHARDED,
)

NOTES = """\
Times are a step's on the device, its queue filled, of the slowest rank; "host" is what the host
takes to enqueue it, and no step of a program that does nothing else is faster. Efficiency: strong,
one device's time over that of all devices together; weak, one device's time over each device's,
of a problem larger by their number. Expected: the efficiency that haloconv.distributed.estimate
computes. Backward passes sum the weights' gradients over the ranks; of images, forward passes send
nothing, in DDP neither."""


@dataclass
class Case:
    """One problem, cut in one way; its candidates' times, and the reasons of those that failed."""

    name: str
    scaling: str
    cut: str
    direction: str
    devices: int
    expected: float | None = None  # efficiency
    seconds: dict[str, Seconds] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def milliseconds(self, name: str) -> str:
        if name in self.seconds:
            return f"{1e3 * self.seconds[name].device:.3f}"
        return "failed" if name in self.failed else ""

    def efficiency(self, name: str, alone: str) -> float | None:
        if not {name, alone} <= self.seconds.keys():
            return None
        share = self.devices if self.scaling == STRONG else 1
        return self.seconds[alone].device / (share * self.seconds[name].device)

    def line(self) -> str:
        """For who watches the run."""
        times = ", ".join(f"{name} {self.milliseconds(name)}" for name in self.seconds)
        failed = "".join(f"; {name} failed: {why}" for name, why in self.failed.items())
        return f"{self.name}, {self.scaling}, {self.cut}, {self.direction}: {times}{failed}"


def expected_efficiency(
    layers: Sequence, enlarged: Sequence, cut: Cut, devices: int, scaling: str, direction: str,
    chip: str,
) -> float | None:  # fmt: skip
    """By haloconv's model of the layers, and of those as weak scaling has them; None: no model."""
    import haloconv

    if len(cut.ranks) > 1:
        return None
    of_all = enlarged if scaling == WEAK else layers

    def seconds(some: Sequence, count: int) -> float:
        estimate = haloconv.distributed.estimate
        return estimate(some, count, cut.name, chip, training=direction == BOTH).seconds

    share = devices if scaling == STRONG else 1
    return seconds(layers, 1) / (share * seconds(of_all, devices))


def known_chip(name: str) -> str:
    """The device's, or the H200's where haloconv does not know the device."""
    try:
        torch.ops.haloconv.chip(name)
    except RuntimeError:
        return "NVIDIA H200"
    return name


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f}%"


def report(cases: Sequence[Case]) -> str:
    header = ["problem", "scaling", "cut", "pass", "one device, ms", "cut, ms", "host, ms"]
    header += ["efficiency", "expected", "without overlap, ms", "PyTorch on one, ms"]
    header += ["its DTensor, ms", "its DDP, ms", "its efficiency"]
    rows = []
    for case in cases:
        ours = next((n for n in (SHARDED, HALOCONV_DDP) if n in case.seconds), SHARDED)
        theirs = next((n for n in (DDP, DTENSOR) if n in case.seconds), DTENSOR)
        host = case.seconds.get(ours)
        rows.append(
            [
                case.name,
                case.scaling,
                case.cut,
                case.direction,
                case.milliseconds(ALONE),
                case.milliseconds(ours),
                "" if host is None else f"{1e3 * host.host:.3f}",
                _percent(case.efficiency(ours, ALONE)),
                _percent(case.expected),
                case.milliseconds(NO_OVERLAP),
                case.milliseconds(PYTORCH_ALONE),
                case.milliseconds(DTENSOR),
                case.milliseconds(DDP),
                _percent(case.efficiency(theirs, PYTORCH_ALONE)),
            ]
        )
    return "\n".join([tables.table(header, rows, texts=4), "", NOTES, *_reasons(cases)])


def training_report(cases: Sequence[Case]) -> str:
    header = ["training step", "devices", "PyTorch, ms", "haloconv, ms", "ratio"]
    rows = []
    for case in cases:
        seconds = [case.seconds.get(side) for side in ("PyTorch", "haloconv")]
        ratio = "" if None in seconds else f"{seconds[0].device / seconds[1].device:.2f}"
        times = [case.milliseconds(side) for side in ("PyTorch", "haloconv")]
        rows.append([f"{case.name}, {case.cut}", str(case.devices), *times, ratio])
    return "\n".join([tables.table(header, rows), "", *_reasons(cases)])


def _reasons(cases: Sequence[Case]) -> list[str]:
    found = {}
    for case in cases:
        for name, why in case.failed.items():
            found.setdefault((name, why[:200]), []).append(
                f"{case.name}, {case.scaling}, {case.cut}, {case.direction}"
            )
    return [
        f"- {name} failed: {why} ({len(where)} cases, the first: {where[0]})"
        for (name, why), where in found.items()
    ]
