"""What the models expected beside what was measured, in one file that can be sent."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cases import PYTORCH, Record
from report import Report, implementation_of, markdown, milliseconds, padded_table

NOTES = """\
expected: what the cost models say of the implementation that ran, the least of its families, and of
PyTorch's own. off: measured over expected. The tables behind these have the plans."""


def expected(explanation: str, name: str) -> float | None:
    """Seconds that explain expects of a group, a family or "aten"; None: it takes none."""
    lines = re.findall(r"^  ((?:\w+, )?\w+): expected ([\d.e+-]+) ms", explanation, re.MULTILINE)
    times = [1e-3 * float(time) for label, time in lines if name in label.split(", ")]
    return min(times, default=None)


def chip(explanations: Sequence[str]) -> str:
    """The line that says which chip they are for and where its figures come from."""
    found = (re.search(r"^chip: (.*)$", text, re.MULTILINE) for text in explanations)
    return next((line.group(1) for line in found if line), "unknown")


def table(records: Sequence[Record]) -> str:
    header = ["problem", "direction", "implementation", "ran", "expected ms", "measured ms", "off"]
    header += [f"{PYTORCH} expected ms", f"{PYTORCH} measured ms", "off", "ratio"]
    return padded_table(header, [_row(record) for record in records], text_columns=4)


def to_send(reports: Sequence[Report]) -> str:
    """Markdown: the device, then for each report the expectations, then its own tables."""
    explanations = [record.plan for report in reports for record in report.records]
    lines = [f"# {reports[0].environment['device']}: expected and measured", ""]
    lines += [f"- {name}: {value}" for name, value in reports[0].environment.items()]
    lines += [f"- chip: {chip(explanations)}", "", NOTES]
    for report in reports:
        lines += ["", f"## {report.title}", "", table(report.records)]
    for report in reports:
        lines += ["", markdown(report).replace("# ", "## ").rstrip()]
    return "\n".join(lines) + "\n"


def _row(record: Record) -> list[str]:
    ran = implementation_of(record.plan)
    ours, theirs = expected(record.plan, ran), expected(record.plan, "aten")
    took, its = record.ours.warm, record.pytorch.warm
    ratio = record.ratio()
    return [
        record.problem,
        record.direction,
        record.implementation,
        ran if record.ours.status == "ok" else record.ours.status,
        *_cells(ours, took.median if took else None),
        *_cells(theirs, its.median if its else None),
        "" if ratio is None else f"{ratio:.2f}",
    ]


def _cells(expected: float | None, took: float | None) -> list[str]:
    return [
        "" if expected is None else milliseconds(expected),
        "" if took is None else milliseconds(took),
        f"{took / expected:.2f}" if took and expected else "",
    ]
