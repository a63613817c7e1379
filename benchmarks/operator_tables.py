"""Tables of single operators from the recorded runs, each by the page and the runs' names."""

from __future__ import annotations

from pathlib import Path

import nonfinite
from recorded_runs import (
    DIRECTIONS,
    device_and_versions,
    different,
    digits,
    from_run,
    is_depthwise,
    load,
    mean,
    milliseconds,
    ratios,
    table,
)


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
