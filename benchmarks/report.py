"""A run's records as JSON, as a Markdown table and as a chart.

As a program it draws table and chart again from saved JSON files: report.py FILE.json...
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import limits_chart
from cases import PYTORCH, Measurement, Record, Settings
from limits import Ceilings
from timing import Timing

NOTES = """\
Times are medians of CUDA events, taken in turns with PyTorch's; ± is half the distance between
the quartiles; "its" columns are PyTorch's, with cudnn.benchmark on. ratio: PyTorch's time over
ours. fraction: limit over time, where limit = max(bytes / copy rate, FLOP / matrix product's
rate); fp32's rate is the larger of its own and a third of TF32's. extra: peak of device memory
above operands and result. error: |result - float64| / |float64|, the larger of weight's and
bias's gradient in wgrad, which computes both (a transposed convolution's the weight's alone).
of mma.sync: the time that the warp's matrix instruction takes for the FLOP, with its operands in
registers, over ours. float32: whether what ran rounds float32 to TF32, or computes in full though
TF32 is allowed, as "auto" does where that costs nothing. plan: what explain says after the first
calls. Warm: launches follow each other, plans, code and weight stay in the caches, small problems
rotate over several sets of activations. Cold: the L2 cache is flushed before each launch."""


@dataclass
class Report:
    environment: dict[str, str]
    settings: Settings
    ceilings: Ceilings
    records: list[Record] = field(default_factory=list)

    @property
    def title(self) -> str:
        layout = "channels_last" if self.settings.channels_last else "NCHW"
        return f"{self.environment['device']}, {self.settings.arithmetic} {layout}"

    @property
    def panel(self) -> limits_chart.Panel:
        return limits_chart.panel(self.title, self.settings.implementations, self.records)


def to_json(report: Report) -> str:
    """Beside what was measured it holds what follows from it, for readers."""
    data = asdict(report) | {"notes": NOTES.replace("\n", " ")}
    for saved, record in zip(data["records"], report.records, strict=True):
        saved["derived"] = {
            f"{cache}_{name}": value
            for cache in ("warm", "cold")
            for name, value in (
                ("ratio", record.ratio(cache)),
                ("fraction", record.fraction("ours", cache)),
                ("pytorch_fraction", record.fraction("pytorch", cache)),
                ("mma_sync_fraction", _mma_sync_fraction(record, cache)),
            )
        } | {"float32": float32_of(record.plan)}
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def from_json(text: str) -> Report:
    data = json.loads(text)
    settings = data["settings"]
    settings["implementations"] = tuple(settings["implementations"])
    records = []
    for saved in data["records"]:
        del saved["derived"]
        sides = {side: _measurement(saved.pop(side)) for side in ("ours", "pytorch")}
        records.append(Record(**saved, **sides))
    return Report(data["environment"], Settings(**settings), Ceilings(**data["ceilings"]), records)


def table(records: Sequence[Record], cache: str = "warm") -> str:
    """Markdown, padded so that it reads well as plain text too; "its" is PyTorch's."""
    header = ["problem", "direction", "implementation", "ours ms", "±%", f"{PYTORCH} ms", "its ±%"]
    header += ["ratio", "limit ms", "bound", "fraction", "its fraction"]
    header += ["extra MiB", "its MiB", "error", "its error"]
    optional = {
        "of mma.sync": [_number(_mma_sync_fraction(record, cache), ".3f") for record in records],
        "float32": [float32_of(record.plan) for record in records],
    }
    optional = {name: cells for name, cells in optional.items() if any(cells)}
    rows = [
        [*_row(record, cache), *(cells[i] for cells in optional.values()), _plan_cell(record)]
        for i, record in enumerate(records)
    ]
    return padded_table([*header, *optional, "plan"], rows, text_columns=3)


def padded_table(header: list[str], rows: list[list[str]], text_columns: int) -> str:
    """Markdown; columns of text are the first ones, "bound", "float32" and "plan"."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    texts = {*header[:text_columns], "bound", "float32", "plan"}
    is_text = [name in texts for name in header]
    rule = [
        "-" * (width - 1) + ("-" if text else ":")
        for width, text in zip(widths, is_text, strict=True)
    ]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(cells, widths, is_text, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    return "\n".join(line(cells) for cells in [header, rule, *rows])


def plan_line(explanation: str) -> str:
    """Of what explain says on a GPU the line of the implementation that runs; "" if none does.

    The problem comes first, then the chip, then "implementation: NAME", then "  NAME: ..." for each
    that there is, then, where the candidates were timed, "timed: NAME, PLAN". A family's NAME is
    that of its group and its own, "sm90, halo".
    """
    lines = [line.strip() for line in explanation.split("\n")]
    timed = [line for line in lines if line.startswith("timed: ")]
    if timed:
        return timed[-1]
    prefix = "implementation: "
    chosen = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    return next((line for line in lines if line.split(": ")[0] in chosen), "")


def implementation_of(explanation: str) -> str:
    """The name of the one that runs: what was found by timing, else what the model chose."""
    return label_of(explanation).split(", ")[0]


def label_of(explanation: str) -> str:
    """The same with the family's name behind that of its group, if it is another: "sm90, halo"."""
    labels = r"^(?:implementation|timed): (\w+(?:, \w+)?)(?=,|$)"
    chosen = re.findall(labels, explanation, re.MULTILINE)
    return chosen[-1] if chosen else "none"


def float32_of(explanation: str) -> str:
    """How float32 is computed where TF32 is allowed: "in full", "TF32" or "PyTorch's".

    "" for other types, where TF32 is not allowed, and of older runs, which do not say it.
    """
    said = re.search(r"^float32: (in full|rounded|as PyTorch)", explanation, re.MULTILINE)
    words = {"in full": "in full", "rounded": "TF32", "as PyTorch": "PyTorch's"}
    return words[said.group(1)] if said else ""


def takes(explanation: str, name: str) -> bool:
    """Whether a family of the group `name`, or the family of that name, takes the problem."""
    lines = re.findall(r"^  ((?:\w+, )?\w+): (.*)$", explanation, re.MULTILINE)
    answers = [answer for label, answer in lines if name in label.split(", ")]
    return any(not answer.startswith("declined") for answer in answers)


def summary(records: Sequence[Record], cache: str = "warm") -> str:
    """Per implementation and direction: mean and least speed-up over PyTorch, full float32."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.ratio(cache) is not None:
            groups.setdefault((record.implementation, record.direction), []).append(record)
    return "\n".join(
        f"- {implementation} {direction}: {_summary_of(group, cache)}"
        for (implementation, direction), group in groups.items()
    )


def _summary_of(records: Sequence[Record], cache: str) -> str:
    ratios = [ratio for record in records if (ratio := record.ratio(cache)) is not None]
    text = f"geometric mean of the ratios {_geometric_mean(ratios):.2f}, "
    text += f"least {min(ratios):.2f}, {len(ratios)} problems"
    fractions = [_mma_sync_fraction(record, cache) for record in records]
    if of_mma_sync := [fraction for fraction in fractions if fraction is not None]:
        text += f", of mma.sync {_geometric_mean(of_mma_sync):.2f}"
    float32 = [float32_of(record.plan) for record in records]
    if any(float32):
        is_chosen = records[0].implementation == "auto"
        text += ", full float32" + (" for free" if is_chosen else "")
        text += f": {float32.count('in full')} of {len(records)}"
    return text


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _mma_sync_fraction(record: Record, cache: str) -> float | None:
    """None where another instruction multiplies."""
    multiplies_by_it = implementation_of(record.plan) == "sm80"
    return record.mma_sync_fraction(cache) if multiplies_by_it else None


def markdown(report: Report) -> str:
    products = ", ".join(
        f"{name} {rate / 1e12:.1f} TFLOP/s" for name, rate in report.ceilings.products.items()
    )
    lines = [f"# {report.title}", ""]
    lines += [f"- {name}: {value}" for name, value in report.environment.items()]
    lines += [f"- {name}: {value}" for name, value in asdict(report.settings).items()]
    if report.ceilings.mma_sync:
        products += f", mma.sync {report.ceilings.mma_sync / 1e12:.1f} TFLOP/s"
    lines += [f"- ceilings: copy {report.ceilings.copy / 1e12:.2f} TB/s, product {products}"]
    lines += ["", NOTES]
    for cache in ("warm", "cold"):
        if any(getattr(record.ours, cache) for record in report.records) or cache == "warm":
            lines += ["", f"## {cache.capitalize()}", "", table(report.records, cache)]
            lines += ["", summary(report.records, cache)]
    return "\n".join(lines) + "\n"


def save(report: Report, stem: Path) -> None:
    """Writes stem.json, stem.md and, where matplotlib is installed, stem.png."""
    save_json(report, stem)
    _with_suffix(stem, ".md").write_text(markdown(report))
    try:
        limits_chart.draw([report.panel], _with_suffix(stem, ".png"))
    except ModuleNotFoundError as error:
        print(f"no chart: {error}; report.py draws it from the JSON file", file=sys.stderr)


def save_json(report: Report, stem: Path) -> None:
    _with_suffix(stem, ".json").write_text(to_json(report))


def main(files: Sequence[str]) -> None:
    for file in files:
        save(from_json(Path(file).read_text()), Path(file).with_suffix(""))


def _with_suffix(stem: Path, suffix: str) -> Path:
    return stem.with_name(stem.name + suffix)  # a stem may hold dots


def _measurement(saved: dict[str, Any]) -> Measurement:
    for cache in ("warm", "cold"):
        saved[cache] = Timing(**saved[cache]) if saved[cache] else None
    return Measurement(**saved)


def _row(record: Record, cache: str) -> list[str]:
    ours, theirs = record.ours, record.pytorch
    return [
        record.problem,
        record.direction,
        record.implementation,
        *_time_cells(ours, cache),
        *_time_cells(theirs, cache),
        _number(record.ratio(cache), ".2f"),
        milliseconds(record.limit),
        record.bound,
        _number(record.fraction("ours", cache), ".3f"),
        _number(record.fraction("pytorch", cache), ".3f"),
        _mebibytes(ours.extra_bytes),
        _mebibytes(theirs.extra_bytes),
        _number(ours.error, ".2e"),
        _number(theirs.error, ".2e"),
    ]


def _plan_cell(record: Record) -> str:
    plan = plan_line(record.plan)
    reasons = [
        f"{name}: {side.reason}"
        for name, side in ((record.implementation, record.ours), (PYTORCH, record.pytorch))
        if side.reason
    ]
    return "; ".join([plan, *reasons] if plan else reasons).replace("|", "/")


def _time_cells(side: Measurement, cache: str) -> tuple[str, str]:
    timing = getattr(side, cache)
    if timing is None or side.status != "ok":
        return (side.status if side.status != "ok" else "", "")
    return milliseconds(timing.median), f"{100 * timing.spread:.1f}"


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:#.4g}".rstrip(".")


def _mebibytes(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:.1f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


if __name__ == "__main__":
    main(sys.argv[1:])
