"""Measures haloconv beside PyTorch on problems from the shape files; see --help.

Writes NAME.json, NAME.md and NAME.png to --output and prints the table of warm timings. With
--report it writes one file, NAME.md, for somebody else to read: what haloconv's cost models
expected beside what was measured, of bfloat16 and TF32 in both layouts.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

import mma_sync
import report as reports
from cases import Record, Settings, measure_case
from environment import describe
from expectations import to_send
from limits import DTYPES, measure_ceilings
from operators import DIRECTIONS
from problems import SHAPES, Problem, load
from timing import CudaTimer

_ROOT = Path(__file__).resolve().parents[1]
# The chip is power-capped: a case should not pay for the heat of the one before.
_PAUSE_SECONDS = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a case failed for another reason than memory or an implementation that declines."""
    options = parse_arguments(arguments)
    if not torch.cuda.is_available():
        print("No CUDA device: the benchmark measures GPUs only, nothing was measured.")
        return 0
    device = cuda_device()
    torch.backends.cudnn.benchmark = True
    measured: list[reports.Report] = []
    for settings in settings_of_all(options):
        measured.append(measure(options, settings, device, measured))
        if not is_usable(device):
            print("The device does not answer any more: the run ends here.", file=sys.stderr)
            break
    for report in measured:
        if not options.report:
            reports.save(report, stem_of(options, report))
        files = ".md" if options.report else ".json, .md and .png"
        print(f"Written to {stem_of(options, report)}{files}.\n")
        print(f"{report.title}, warm\n\n{reports.table(report.records)}\n")
        print(reports.summary(report.records))
    records = [record for report in measured for record in report.records]
    return int(any(record.ours.status == "error" for record in records))


def measure(
    options: argparse.Namespace,
    settings: Settings,
    device: torch.device,
    before: Sequence[reports.Report],
) -> reports.Report:
    """All cases. What was measured is saved after each, also that of the reports before."""
    haloconv_ops, force = load_haloconv()
    timer = CudaTimer(device)
    ceilings = measure_ceilings(settings.arithmetic, timer, device)
    if library := mma_sync_library(options, settings):
        rate = mma_sync.measure(library, settings.arithmetic, timer, device)
        ceilings = replace(ceilings, mma_sync=rate)
    report = reports.Report(describe(device, options.commit), settings, ceilings)
    stem = stem_of(options, report)
    stem.parent.mkdir(parents=True, exist_ok=True)
    cases = list(product(options.problems, options.directions))
    for number, (problem, direction) in enumerate(cases, start=1):
        time.sleep(_PAUSE_SECONDS)
        records = measure_case(
            problem,
            direction,
            settings,
            ceilings,
            timer,
            device,
            haloconv_ops,
            force,
        )
        for record in records:
            progress = f"[{number}/{len(cases)}] {progress_line(record)}"
            print(progress, file=sys.stderr, flush=True)
        report.records += records
        # A run that is cut off leaves what it measured.
        if options.report:
            stem.with_name(stem.name + ".md").write_text(to_send([*before, report]))
        else:
            reports.save_json(report, stem)
        if not is_usable(device):
            break
        torch.cuda.empty_cache()
    return report


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add(
        "--shapes",
        nargs="+",
        default=["reference"],
        metavar="FILE",
        help="shape files, or names of those in cpp_tests/shapes (default: reference)",
    )
    add("--only", nargs="+", metavar="NAME", help="problems to take (default: all)")
    add(
        "--directions",
        type=lambda text: text.split(","),
        default=list(DIRECTIONS),
        help="of fprop,dgrad,wgrad (default: all)",
    )
    add("--dtype", choices=list(DTYPES), default="float32")
    add(
        "--tf32",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether float32 may compute in TF32 (default: yes, as PyTorch's convolutions)",
    )
    add("--channels-last", action="store_true", help="instead of NCHW")
    add(
        "--implementation",
        nargs="+",
        metavar="NAME",
        help="haloconv's implementations to force, a row each (default: auto)",
    )
    add("--seconds-per-case", type=float, metavar="N", help="for timing (default: 1; quick: 0.2)")
    add("--quick", action="store_true", help="neither errors nor cold timings")
    add(
        "--report",
        action="store_true",
        help="one file to send, of bfloat16 and TF32 in both layouts, quick; "
        "--implementation is auto and sm80 unless given",
    )
    add(
        "--mma-sync",
        type=Path,
        metavar="FILE",
        help="the library with the loop of mma.sync, for the column of what part of its rate sm80 "
        "reaches (default, if sm80 is forced: that of the build)",
    )
    add("--output", type=Path, default=_ROOT / "out", metavar="DIR", help="folder (default: out)")
    add("--name", help="of the files written (default: from device and arithmetic)")
    add("--commit", help="where git does not know this tree")
    options = parser.parse_args(arguments)

    if options.implementation is None:
        options.implementation = ["auto", "sm80"] if options.report else ["auto"]
    options.quick = options.quick or options.report
    unknown = set(options.directions) - set(DIRECTIONS)
    if unknown:
        parser.error(f"unknown direction: {', '.join(sorted(unknown))}")
    try:
        options.problems = choose_problems(options.shapes, options.only)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return options


def choose_problems(files: Sequence[str], only: Sequence[str] | None = None) -> list[Problem]:
    """The named problems of all files, the reference problems first."""
    paths = [Path(file) if Path(file).is_file() else SHAPES / f"{file}.txt" for file in files]
    paths.sort(key=lambda path: path.stem != "reference")
    problems = [problem for path in paths for problem in load(path)]
    if only is None:
        return problems
    unknown = set(only) - {problem.name for problem in problems}
    if unknown:
        raise ValueError(f"no such problem: {', '.join(sorted(unknown))}")
    return [problem for problem in problems if problem.name in only]


def settings_of(options: argparse.Namespace) -> Settings:
    seconds = options.seconds_per_case
    return Settings(
        dtype=options.dtype,
        tf32=options.tf32,
        channels_last=options.channels_last,
        implementations=tuple(dict.fromkeys(options.implementation)),
        seconds_per_case=seconds if seconds is not None else (0.2 if options.quick else 1.0),
        quick=options.quick,
    )


def settings_of_all(options: argparse.Namespace) -> list[Settings]:
    settings = settings_of(options)
    if not options.report:
        return [settings]
    return [
        replace(settings, dtype=dtype, tf32=True, channels_last=channels_last)
        for dtype, channels_last in product(("bfloat16", "float32"), (False, True))
    ]


def mma_sync_library(options: argparse.Namespace, settings: Settings) -> Path | None:
    """None where no column needs it, or where it is not built, which is then said."""
    if settings.arithmetic not in mma_sync.ARITHMETICS:
        return None
    if options.mma_sync:
        return options.mma_sync
    if "sm80" not in settings.implementations:
        return None
    if mma_sync.LIBRARY.exists():
        return mma_sync.LIBRARY
    print(f"mma.sync is not measured: {mma_sync.LIBRARY} is not built.", file=sys.stderr)
    return None


def stem_of(options: argparse.Namespace, report: reports.Report) -> Path:
    if options.report:
        name = re.sub(r"\W+", "_", report.environment["device"].lower()) + "_report"
    else:
        name = default_name(report.title, report.settings)
    return options.output / (options.name or name)


def default_name(title: str, settings: Settings) -> str:
    name = re.sub(r"\W+", "_", title.lower())
    return f"{name}_quick" if settings.quick else name


def progress_line(record: Record) -> str:
    line = f"{record.problem} {record.direction} {record.implementation}: "
    if record.ours.status != "ok":
        line += f"{record.ours.status} ({record.ours.reason})"
    elif record.ours.warm:
        line += f"{1e3 * record.ours.warm.median:.3f} ms"
    if record.pytorch.warm:
        line += f", PyTorch {1e3 * record.pytorch.warm.median:.3f} ms"
    return line


def load_haloconv() -> tuple[Any, Callable[[str], AbstractContextManager]]:
    """The operators, and the context that forces one of their implementations."""
    sys.path.insert(0, str(_ROOT / "registration" / "python"))
    import haloconv

    return torch.ops.haloconv, haloconv.implementation


def cuda_device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def is_usable(device: torch.device) -> bool:
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
