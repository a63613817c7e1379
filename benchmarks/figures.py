"""The tables of README.md and docs/, and charts, from the recorded runs, written in place.

A page has a comment, "<!-- figures: KIND NAME... -->", before a table that is made from
results/NAME.json, and "<!-- end of figures -->" after it; what lies between is written anew. With
the kinds "scaling" and "limits" that is a picture, results/CHART.png, which is drawn anew. The
kinds "best" and "paths" take NAME=NETWORK,NETWORK, which shows only these networks of the run.

    figures.py [--check] [PAGE.md...]    all pages by default; --check only says which are old
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import distributed_tables
import limits_chart
import network_tables
import operator_tables
import report
import scaling_chart
from recorded_runs import RESULTS, ROOT, load, results_folder

BLOCK = re.compile(r"(<!-- figures: ([^>]*?) -->\n)(.*?)(<!-- end of figures -->)", re.S)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def limits(page: Path, chart: str, *names: str) -> str:
    """A picture of the fractions of the limit, a panel for each run: results/CHART.png."""
    alt = "Fraction of the device's limit that haloconv and PyTorch reach"
    return f"![{alt}]({results_folder(page)}/{chart}.png)\n"


KINDS: dict[str, Callable[..., str]] = {
    f.__name__: f
    for f in (
        operator_tables.operators,
        operator_tables.networks,
        operator_tables.summary,
        operator_tables.accuracy,
        operator_tables.infinities,
        operator_tables.memory,
        operator_tables.fused,
        operator_tables.host,
        network_tables.best,
        network_tables.ratios_of_best,
        network_tables.training,
        network_tables.steps,
        network_tables.paths,
        distributed_tables.sharded,
        distributed_tables.parallel,
        distributed_tables.scaling,
        limits,
    )
}


def filled(page: Path, text: str) -> str:
    """The page with its tables as the recorded runs have them."""

    def block(match: re.Match) -> str:
        kind, *names = match.group(2).split()
        return f"{match.group(1)}\n{KINDS[kind](page, *names)}\n{match.group(4)}"

    return BLOCK.sub(block, text)


class ScalingChart:
    def __init__(self, names: Sequence[str]) -> None:
        self._runs = [load(name) for name in names]
        self._bars = scaling_chart.bars(self._runs)

    def is_in(self, path: Path) -> bool:
        return scaling_chart.is_of(self._bars, path)

    def draw(self, path: Path) -> None:
        e = self._runs[0]["environment"]
        scaling_chart.draw(self._bars, f"{e['device']}, {e['dtype']}, haloconv", path)


class LimitsChart:
    def __init__(self, names: Sequence[str]) -> None:
        texts = [(RESULTS / f"{name}.json").read_text() for name in names]
        self._panels = [report.from_json(text).panel for text in texts]

    def is_in(self, path: Path) -> bool:
        return limits_chart.is_of(self._panels, path)

    def draw(self, path: Path) -> None:
        limits_chart.draw(self._panels, path)


CHARTS = {"scaling": ScalingChart, "limits": LimitsChart}


def charts(text: str) -> dict[Path, ScalingChart | LimitsChart]:
    """The pictures that figures.py draws for a page."""
    entries = [match.group(2).split() for match in BLOCK.finditer(text)]
    return {
        RESULTS / f"{chart}.png": CHARTS[kind](names)
        for kind, chart, *names in entries
        if kind in CHARTS
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE.md")
    arguments = parser.parse_args()
    old = False
    for page in [p.resolve() for p in arguments.pages] or pages():
        text = page.read_text()
        new = filled(page, text)
        if new != text:
            old = True
            print(f"{page}: {'old' if arguments.check else 'written'}")
            if not arguments.check:
                page.write_text(new)
        for path, chart in charts(new).items():
            if not arguments.check:
                chart.draw(path)
            elif not chart.is_in(path):
                old = True
                print(f"{path}: old")
    return 1 if old and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
