"""The recorded runs in results/, and how their figures look in a page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import exp, log
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

DIRECTIONS = {"fprop": "fprop", "dgrad": "dgrad", "wgrad": "wgrad and bias"}


def load(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def different(records: list[dict]) -> list[dict]:
    """Without problems that were measured under a second name."""
    return list({(r["shape"], r["direction"]): r for r in reversed(records)}.values())[::-1]


def is_depthwise(record: dict) -> bool:
    """Whether each group has one channel to sum over."""
    return re.search(r"c(\d+)h.* groups=\1\b", record["shape"]) is not None


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def digits(value: float) -> str:
    """Three digits that count."""
    return f"{value:.{max(0, 2 - int(f'{value:e}'.split('e')[1]))}f}"


def milliseconds(record: dict, side: str = "ours") -> str:
    return digits(record[side]["warm"]["median"] * 1e3)


def ratios(records: list[dict], direction: str | None = None) -> list[float]:
    return [
        r["derived"]["warm_ratio"] for r in records if direction in (None, r["direction"])
    ]  # fmt: skip


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def device_and_versions(environment: dict) -> str:
    e, cudnn = environment, int(environment["cuDNN"])
    versions = f"torch {e['torch']}, cuDNN {cudnn // 10000}.{cudnn // 100 % 100}"
    return f"{e['device']}, driver {e['driver']}, {versions}"


def results_folder(page: Path) -> str:
    return "benchmarks/results" if page.parent == ROOT else "../benchmarks/results"


def from_run(environment: dict, page: Path, *names: str) -> str:
    """Where, when and with what; with links to the full tables."""
    links = ", ".join(f"[{name}]({results_folder(page)}/{name}.md)" for name in names)
    run = f"commit {environment['commit']}, {environment['date'][:10]}"
    return f"\n*{device_and_versions(environment)}, {run}; full table: {links}.*\n"
