"""Tables of whole networks from the recorded runs, each by the page and the runs' names."""

from __future__ import annotations

from pathlib import Path

from recorded_runs import device_and_versions, digits, from_run, load, mean, results_folder, table


def run_and_networks(entry: str) -> tuple[str, list[str]]:
    """Of "NAME=NETWORK,NETWORK" the run and the networks that are shown; none means all."""
    name, _, shown = entry.partition("=")
    return name, shown.split(",") if shown else []


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


def ratios_of_best(page: Path, *entries: str) -> str:
    """The ratios of `best` alone: a row for each run, all of which have the same networks.

    An entry is LABEL=NAME. An underscore in the label is a space.
    """
    rows, dates = [], set()
    for entry in entries:
        label, name = entry.split("=")
        run = load(name)
        e, in_turns = run["environment"], [row["in_turns"] for row in run["rows"]]
        values = [ms["PyTorch"] / ms["haloconv"] for ms in in_turns]
        cells = [f"{value:.2f}" for value in [*values, mean(values)]]
        commit = f"[{e['commit']}]({results_folder(page)}/{name}.md)"
        rows.append([label.replace("_", " "), *cells, commit])
        dates.add(e["date"][:10])
    networks = [row["network"] for row in run["rows"]]
    header = ["times as fast as PyTorch", *networks, "geometric mean", "commit"]
    when = " to ".join(dict.fromkeys((min(dates), max(dates))))
    return table(header, rows) + f"\n*{device_and_versions(e)}, {when}.*\n"


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
