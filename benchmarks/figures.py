"""The tables of README.md and docs/, and charts, from the recorded runs, written in place.

A page has a comment, "<!-- figures: KIND NAME... -->", before a table that is made from
results/NAME.json, and "<!-- end of figures -->" after it; what lies between is written anew. With
the kinds "scaling" and "limits" that is a picture, results/CHART.png, which is drawn anew. The
kinds "best" and "paths" take NAME=NETWORK,NETWORK, which shows only these networks of the run.

    figures.py [--check] [PAGE.md...]    all pages by default; --check only says which are old
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path

import limits_chart
import nonfinite
import report
import scaling_chart

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- figures: ([^>]*?) -->\n)(.*?)(<!-- end of figures -->)", re.S)

DIRECTIONS = {"fprop": "fprop", "dgrad": "dgrad", "wgrad": "wgrad and bias"}


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


def operators(page: Path, name: str, *only: str) -> str:
    """Times and ratios of a run, problem by problem; `only` names some of them."""
    run = load(name)
    rows = []
    for problem in dict.fromkeys(r["problem"] for r in run["records"]):
        if only and problem not in only:
            continue
        found = {r["direction"]: r for r in run["records"] if r["problem"] == problem}
        cells = [(milliseconds(found[d]), digits(ratios([found[d]])[0])) for d in DIRECTIONS]
        rows.append([f"`{problem}`", *(cell for pair in cells for cell in pair)])
    records = different(run["records"])
    count = len({r["shape"] for r in records})
    means = [("", f"**{mean(ratios(records, d)):.2f}**") for d in DIRECTIONS]
    rows.append([f"geometric mean of {count}", *(cell for pair in means for cell in pair)])
    header = ["ms", *(cell for d in DIRECTIONS.values() for cell in (d, "ratio"))]
    return table(header, rows) + from_run(run["environment"], page, name)


def networks(page: Path, *names: str) -> str:
    """How many layers of the networks are faster, and by how much; one run for each direction."""
    rows = []
    for name in names:
        records = load(name)["records"]
        dense = [r for r in records if not is_depthwise(r)]
        faster = [r for r in records if ratios([r])[0] >= 1.03]
        rows.append(
            [
                DIRECTIONS[records[0]["direction"]],
                f"{len(faster)} of {len(records)}",
                f"{mean(ratios(faster)):.2f}",
                f"{mean(ratios(records)):.2f}",
                f"{mean(ratios(dense)):.2f}",
                f"{min(ratios(records)):.3f}",
            ]
        )
    header = ["direction", "faster by 3 % or more", "mean of those", "mean of all"]
    header += [f"mean of the {len(dense)} that are not depthwise", "least"]
    return table(header, rows) + from_run(load(names[0])["environment"], page, *names)


def accuracy(page: Path, *names: str) -> str:
    """Relative errors beside float64: haloconv's and PyTorch's."""
    rows = []
    for name in names:
        run = load(name)
        for problem in dict.fromkeys(r["problem"] for r in run["records"]):
            cells = []
            for d in DIRECTIONS:
                (r,) = (r for r in run["records"] if (r["problem"], r["direction"]) == (problem, d))
                cells += [f"{r['ours']['error']:.1e}", f"{r['pytorch']['error']:.1e}"]
            rows.append([f"`{problem}`", *cells])
    header = ["", *(cell for d in DIRECTIONS.values() for cell in (d, "PyTorch's"))]
    return table(header, rows) + from_run(run["environment"], page, *names)


def infinities(page: Path, name: str) -> str:
    """How much longer infinities and NaN take, at worst, of each family."""
    run = load(name)
    cases = [nonfinite.Case(**case) for case in run["cases"]]
    return f"{nonfinite.summary(cases)}\n" + from_run(run["environment"], page, name)


def memory(page: Path, name: str) -> str:
    """Device memory above operands and results, in MiB: haloconv's and PyTorch's."""
    run = load(name)
    rows = []
    for problem in dict.fromkeys(r["problem"] for r in run["records"]):
        found = {r["direction"]: r for r in run["records"] if r["problem"] == problem}
        pairs = [(found[d]["ours"], found[d]["pytorch"]) for d in DIRECTIONS]
        cells = [f"{side['extra_bytes'] / 2**20:,.1f}" for pair in pairs for side in pair]
        rows.append([f"`{problem}`", *cells])
    header = ["MiB", *(cell for d in DIRECTIONS.values() for cell in (d, "PyTorch's"))]
    return table(header, rows) + from_run(run["environment"], page, name)


def training(page: Path, *names: str) -> str:
    text = ""
    for name in names:
        run = load(name)
        rows = [
            [model, digits(r["pytorch_ms"]), digits(r["haloconv_ms"]), f"{r['ratio']:.2f}"]
            for model, r in run["rows"].items()
        ]
        text += table(["ms a step", "PyTorch", "haloconv", "ratio"], rows)
        text += from_run(run["environment"], page, name) + "\n"
    return text.rstrip("\n") + "\n"


def run_and_networks(entry: str) -> tuple[str, list[str]]:
    """Of "NAME=NETWORK,NETWORK" the run and the networks that are shown; none means all."""
    name, _, shown = entry.partition("=")
    return name, shown.split(",") if shown else []


def paths(page: Path, entry: str) -> str:
    """Whole networks by each path to haloconv: ms, and the ratio in parentheses."""
    name, shown = run_and_networks(entry)
    run = load(name)
    found = {(c["path"], c["network"]): c for c in run["cells"]}
    ways = dict.fromkeys(way for way, _ in found)
    nets = shown or list(dict.fromkeys(network for _, network in found))

    def cell(way: str, network: str) -> str:
        seconds = found.get((way, network), {}).get("seconds", {})
        if "haloconv" not in seconds:
            return "–"
        ratio = seconds["PyTorch"] / seconds["haloconv"]
        return f"{digits(seconds['haloconv'] * 1e3)} ({ratio:.2f})"

    rows = [[way, *(cell(way, network) for network in nets)] for way in ways]
    return table(["ms (ratio)", *nets], rows) + from_run(run["environment"], page, name)


def best(page: Path, *entries: str) -> str:
    """Whole networks, each side in its fastest configuration, of several runs in one table."""
    sides = ("PyTorch", "haloconv")
    rows, versions = [], set()
    for name, shown in map(run_and_networks, entries):
        run = load(name)
        device, rest = device_and_versions(run["environment"]).split(", ", 1)
        versions.add(rest)
        commit, date = run["environment"]["commit"], run["environment"]["date"][:10]
        for row in run["rows"]:
            if shown and row["network"] not in shown:
                continue
            ms = row["in_turns"]
            times = [f"{digits(ms[side])}, {row['best'][side].split(',')[0]}" for side in sides]
            link = f"[{commit}]({results_folder(page)}/{name}.md), {date}"
            ratio = f"{ms['PyTorch'] / ms['haloconv']:.2f}"
            rows.append([row["network"], *times, ratio, device.split()[1], link])
    (rest,) = versions  # runs with other versions belong in another table
    return table(["ms", *sides, "ratio", "GPU", "run"], rows) + f"\n*NVIDIA, {rest}.*\n"


def fused(page: Path, name: str) -> str:
    run = load(name)
    rows = []
    for case in run["cases"]:
        s = case["seconds"]
        times = [digits(s[k] * 1e3) for k in ("PyTorch", "cudnn_convolution_add_relu")]
        ratio = f"{s['PyTorch'] / s['conv2d_fused']:.2f}"
        share = f"{s['conv2d_fused'] / (s['conv2d'] + case['residual']):.2f}"
        rows.append(
            [f"`{case['problem']}`", *times, digits(s["conv2d_fused"] * 1e3), ratio, share]
        )  # fmt: skip
    header = ["ms", "PyTorch", "cuDNN's fused", "haloconv", "ratio", "beside conv2d and a copy"]
    return table(header, rows) + from_run(run["environment"], page, name)


def host(page: Path, name: str) -> str:
    """What a call costs the host, in us."""
    run = load(name)
    kinds = list(run["seconds"])
    rows = [
        [f"`{call}`", *(f"{run['seconds'][kind][call]['median'] * 1e6:.1f}" for kind in kinds)]
        for call in run["seconds"][kinds[0]]
    ]
    return table(["us of the host", *kinds], rows) + from_run(run["environment"], page, name)


def summary(page: Path, *entries: str) -> str:
    """Geometric means of whole runs.

    An entry is LABEL|WHAT_RUNS=NAME, or PREFIX_* for NAME: one run for each direction, of which
    depthwise layers are left out. An underscore in the labels is a space.
    """
    rows, dates = [], set()
    for entry in entries:
        labels, name = entry.split("=")
        runs = [load(name.replace("*", d)) for d in DIRECTIONS] if "*" in name else [load(name)]
        records = [r for run in runs for r in run["records"]]
        if "*" in name:
            kept = [r for r in records if not is_depthwise(r)]
        else:
            kept = different(records)
        commits = dict.fromkeys(run["environment"]["commit"] for run in runs)
        dates |= {run["environment"]["date"][:10] for run in runs}
        means = [f"{mean(ratios(kept, d)):.2f}" for d in DIRECTIONS]
        label, what_runs = labels.replace("_", " ").split("|")
        rows.append([label, what_runs, *means, ", ".join(commits)])
    e = load(entries[0].split("=")[1].replace("*", "fprop"))["environment"]
    header = ["times as fast as PyTorch", "what runs", "forward", "input gradient"]
    header += ["weight and bias gradient", "commit"]
    return (
        table(header, rows)
        + f"\n*{device_and_versions(e)}, {' to '.join(dict.fromkeys((min(dates), max(dates))))}.*\n"
    )


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


def scaling(page: Path, chart: str, *names: str) -> str:
    """A picture of how well what is cut among devices scales: results/CHART.png."""
    alt = "Efficiency of strong and weak scaling, by problem and cut"
    picture = f"![{alt}]({results_folder(page)}/{chart}.png)\n"
    environments = [load(name)["environment"] for name in names]
    commits = ", ".join(dict.fromkeys(e["commit"] for e in environments))
    return picture + from_run(environments[0] | {"commit": commits}, page, *names)


def limits(page: Path, chart: str, *names: str) -> str:
    """A picture of the fractions of the limit, a panel for each run: results/CHART.png."""
    alt = "Fraction of the device's limit that haloconv and PyTorch reach"
    return f"![{alt}]({results_folder(page)}/{chart}.png)\n"


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


def steps(page: Path, name: str, *models: str) -> str:
    """Training steps in a sentence."""
    run = load(name)
    parts = []
    for model in models:
        row = run["rows"][model]
        parts.append(f"{model} {digits(row['pytorch_ms'])} → {digits(row['haloconv_ms'])} ms")
    return f"Training steps in TF32: {', '.join(parts)}.\n" + from_run(
        run["environment"], page, name
    )


KINDS: dict[str, Callable[..., str]] = {
    f.__name__: f
    for f in (
        operators, networks, accuracy, infinities, memory, training, paths, best, fused, host,
        summary, sharded, parallel, scaling, limits, steps,
    )
}  # fmt: skip


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
