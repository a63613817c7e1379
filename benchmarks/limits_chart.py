"""A chart of the fraction of the device's limit that is reached, a panel for each recorded run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from cases import PYTORCH, Record


@dataclass(frozen=True)
class Panel:
    title: str
    cases: tuple[str, ...]  # problem and direction
    fractions: tuple[tuple[str, tuple[float, ...]], ...]  # of each side, for each case


def panel(title: str, implementations: Sequence[str], records: Sequence[Record]) -> Panel:
    cases = list(dict.fromkeys((r.problem, r.direction) for r in records))
    sides = {name: [0.0] * len(cases) for name in (*implementations, PYTORCH)}
    for record in records:
        i = cases.index((record.problem, record.direction))
        sides[record.implementation][i] = record.fraction("ours") or 0.0
        sides[PYTORCH][i] = record.fraction("pytorch") or 0.0
    labels = tuple(f"{problem}\n{direction}" for problem, direction in cases)
    return Panel(title, labels, tuple((name, tuple(f)) for name, f in sides.items()))


def digest(panels: Sequence[Panel]) -> str:
    return hashlib.sha256(repr([astuple(one) for one in panels]).encode()).hexdigest()


def is_of(panels: Sequence[Panel], path: Path) -> bool:
    """Whether the file is the chart of these."""
    return path.exists() and digest(panels).encode() in path.read_bytes()


def draw(panels: Sequence[Panel], path: Path) -> None:
    """A bar for each side, per case; the panels lie one below another."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    bars = max(len(one.cases) * len(one.fractions) for one in panels)
    height = 5.0 if len(panels) == 1 else 3.4 * len(panels)
    figure, rows = plt.subplots(
        len(panels),
        1,
        squeeze=False,
        sharey=True,
        figsize=(max(7.0, 0.3 * bars), height),
        layout="constrained",
    )
    for axes, one in zip(rows[:, 0], panels, strict=True):
        width = 0.8 / len(one.fractions)
        for i, (name, fractions) in enumerate(one.fractions):
            offset = (i - (len(one.fractions) - 1) / 2) * width
            centres = [case + offset for case in range(len(one.cases))]
            is_theirs = name == PYTORCH
            label = name if is_theirs else f"haloconv, {name}"
            color = "#999999" if is_theirs else None
            axes.bar(centres, fractions, width, label=label, color=color)
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_xticks(range(len(one.cases)), one.cases, rotation=60, fontsize=8)
        axes.set_ylabel("fraction of the limit, warm")
        axes.set_title(one.title)
    rows[0, 0].legend()
    figure.savefig(path, dpi=120, metadata={"Description": digest(panels)})
    plt.close(figure)
