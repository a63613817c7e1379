"""Tables and pictures of what several devices compute, from the recorded runs."""

from __future__ import annotations

from pathlib import Path

import scaling_chart
from recorded_runs import digits, from_run, load, results_folder, table


def sharded(page: Path, *names: str) -> str:
    """What is cut among devices: on each, and on one that has no others beside it."""
    cells: dict[tuple, dict[str, str]] = {}
    for run in map(load, names):
        for case in run["cases"]:
            times = scaling_chart.ours_and_alone(case)
            if times is None:
                continue
            ours, alone = times
            row = cells.setdefault((case["name"], case["cut"], case["direction"]), {})
            row["alone"] = digits(alone * 1e3)
            row["PyTorch"] = digits(case["seconds"]["PyTorch on one device"]["device"] * 1e3)
            efficiency = scaling_chart.efficiency(case, ours, alone)
            row[case["scaling"]] = f"{digits(ours * 1e3)} ({efficiency:.0%})"
    columns = ("PyTorch", "alone", "strong", "weak")
    rows = [
        [f"{problem}, {cut}, {passes}", *(row.get(column, "") for column in columns)]
        for (problem, cut, passes), row in cells.items()
    ]
    header = ["ms", "PyTorch on one device", "haloconv on one"]
    header += [f"the same on {share}" for share in ("two", "two, twice as large")]
    return table(header, rows) + from_run(load(names[0])["environment"], page, *names)


def parallel(page: Path, name: str) -> str:
    """Training steps by a wrapper of torch's."""
    run = load(name)
    rows = []
    for case in run["cases"]:
        if case["seconds"]:
            theirs, ours = (case["seconds"][side]["device"] for side in ("PyTorch", "haloconv"))
            label = f"{case['name']}, {case['cut']}"
            rows.append([label, digits(theirs * 1e3), digits(ours * 1e3), f"{theirs / ours:.2f}"])
    header = ["ms a step", "PyTorch", "haloconv", "ratio"]
    return table(header, rows) + from_run(run["environment"], page, name)


def scaling(page: Path, chart: str, *names: str) -> str:
    """A picture of how well what is cut among devices scales: results/CHART.png."""
    alt = "Efficiency of strong and weak scaling, by problem and cut"
    picture = f"![{alt}]({results_folder(page)}/{chart}.png)\n"
    environments = [load(name)["environment"] for name in names]
    commits = ", ".join(dict.fromkeys(e["commit"] for e in environments))
    return picture + from_run(environments[0] | {"commit": commits}, page, *names)
