"""What the smaller programs share: options, Markdown tables, and the files that they write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    add = parser.add_argument
    add("--output", type=Path, help="folder for NAME.json and NAME.md")
    add("--name", default=name)
    add("--commit", help="to record, for trees that git does not know")


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda", help="cuda (default), or cpu to try it out")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Markdown; the first `texts` columns are words, all others numbers."""
    rule = "|".join("---" if i < texts else "--:" for i in range(len(header)))
    lines = (f"| {' | '.join(cells)} |" for cells in (header, *rows))
    first, *rest = lines
    return "\n".join([first, f"|{rule}|", *rest])


def save(
    options: argparse.Namespace, environment: dict[str, str], record: dict[str, Any], text: str
) -> Path | None:
    """Writes NAME.json and NAME.md, if there is a folder for them; FOLDER/NAME is returned."""
    if not options.output:
        return None
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / options.name
    saved = json.dumps({"environment": environment, **record}, indent=1)
    stem.with_name(stem.name + ".json").write_text(saved + "\n")
    notes = ", ".join(f"{key} {value}" for key, value in environment.items())
    stem.with_name(stem.name + ".md").write_text(f"{text}\n\n{notes}\n")
    return stem
