"""A chart of how well problems scale that are cut among devices, from recorded runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

SCALINGS = {
    "strong": "strong scaling: the same problem",
    "weak": "weak scaling: a problem larger by their number",
}


@dataclass(frozen=True)
class Bar:
    problem: str  # with its cut
    scaling: str
    direction: str
    devices: int
    efficiency: float


def ours_and_alone(case: dict, alone: float | None = None) -> tuple[float, float] | None:
    """Seconds of the cut problem and of one device's; None where these were not measured.

    ``alone`` is one device's where the case does not have it.
    """
    seconds = {side: times["device"] for side, times in case["seconds"].items()}
    ours = seconds.get("haloconv", seconds.get("haloconv in DDP"))
    alone = seconds.get("haloconv on one device", alone)
    return None if ours is None or alone is None else (ours, alone)


def efficiency(case: dict, ours: float, alone: float) -> float:
    share = case["devices"] if case["scaling"] == "strong" else 1
    return alone / (share * ours)


def bars(runs: Sequence[dict]) -> list[Bar]:
    found = []
    for run in runs:
        alone = None
        for case in run["cases"]:
            is_step = case["direction"] == "step"
            if is_step and case["devices"] == 1:  # which comes first
                alone = case["seconds"].get("haloconv", {}).get("device")
                continue
            times = ours_and_alone(case, alone)
            if times is not None:
                problem = f"{case['name'].removesuffix(' on each device')}, {case['cut']}"
                direction = "training step" if is_step else case["direction"]
                value = efficiency(case, *times)
                found.append(Bar(problem, case["scaling"], direction, case["devices"], value))
    return found


def digest(found: Sequence[Bar]) -> str:
    return hashlib.sha256(repr([astuple(bar) for bar in found]).encode()).hexdigest()


def is_of(found: Sequence[Bar], path: Path) -> bool:
    """Whether the file is the chart of these."""
    return path.exists() and digest(found).encode() in path.read_bytes()


def draw(found: Sequence[Bar], title: str, path: Path) -> None:
    """One device is the line at 100 %; a bar for each pass and number of devices."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    problems = list(dict.fromkeys(bar.problem for bar in found))
    kinds = sorted({(bar.direction, bar.devices) for bar in found})
    of_problem = {
        problem: sorted({(bar.direction, bar.devices) for bar in found if bar.problem == problem})
        for problem in problems
    }
    directions = list(dict.fromkeys(direction for direction, _ in kinds))
    counts = sorted({devices for _, devices in kinds})
    most = max(map(len, of_problem.values()))

    def place(bar: Bar) -> float:
        """Bars of a problem lie around its middle."""
        its = of_problem[bar.problem]
        slot = its.index((bar.direction, bar.devices)) - (len(its) - 1) / 2
        return problems.index(bar.problem) + slot * 0.8 / most

    size = (10, 1.5 + 0.22 * most * len(problems))
    figure, panels = plt.subplots(1, 2, sharey=True, figsize=size, layout="constrained")
    for axes, (scaling, words) in zip(panels, SCALINGS.items(), strict=True):
        for direction, devices in kinds:
            kind = (scaling, direction, devices)
            drawn = [bar for bar in found if (bar.scaling, bar.direction, bar.devices) == kind]
            container = axes.barh(
                [place(bar) for bar in drawn],
                [100 * bar.efficiency for bar in drawn],
                0.8 / most,
                color=f"C{directions.index(direction)}",
                alpha=1 - 0.6 * counts.index(devices) / len(counts),
                label=f"{direction}, {devices} GPUs",
            )
            axes.bar_label(container, fmt="%.0f", padding=-17, fontsize=7, color="white")
        axes.axvline(100, color="black", linewidth=0.8)
        axes.set_xlim(0, 105 * max(1, *(bar.efficiency for bar in found)))
        axes.set_xlabel("efficiency, % of one GPU's", fontsize=9)
        axes.set_title(words, fontsize=9)
    panels[0].set_yticks(range(len(problems)), problems, fontsize=8)
    panels[0].invert_yaxis()
    handles = panels[1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(directions), fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120, metadata={"Description": digest(found)})
    plt.close(figure)
