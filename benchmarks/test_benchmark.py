"""Whole cases, reports and the program, with a timer that makes its times up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cases
import report as reports
import run
from cases import Measurement, Settings, failure, measure_case
from fakes import CPU, H200, SMALL, FakeHaloconv, FakeTimer, made_up_device
from operators import DIRECTIONS
from timing import summarize


def measure(problem, direction, durations, **settings):
    haloconv = FakeHaloconv(problem)
    timer = FakeTimer(durations, haloconv.forced)
    names = tuple(name for name in durations if name is not None)
    settings = Settings(implementations=names, seconds_per_case=0.0, **settings)
    arguments = (problem, direction, settings, H200, timer, CPU, haloconv, haloconv.force)
    return measure_case(*arguments), timer


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_case_from_end_to_end(direction):
    records, _ = measure(SMALL, direction, {"auto": 1e-3, "generic": 4e-3, None: 2e-3})
    assert [record.implementation for record in records] == ["auto", "generic"]
    auto, generic = records
    assert auto.ours.status == auto.pytorch.status == "ok"
    assert (auto.ratio(), generic.ratio()) == (2.0, 0.5)
    assert auto.ratio("cold") == 2.0 and auto.ours.cold.median == 2e-3
    assert auto.limit == SMALL.bytes(4) / H200.copy and auto.bound == "bytes"
    assert auto.fraction() == auto.limit / 1e-3
    assert auto.fraction("pytorch", "cold") == auto.limit / 4e-3
    # float32 sums of at most 84 products.
    assert 0 < auto.ours.error < 1e-6 and auto.ours.error == auto.pytorch.error
    assert "implementation: generic\n" in auto.plan and f"ms, {direction} kernel=" in auto.plan
    # The weight's gradient is measured together with the bias's: so must its plan be.
    assert ("with_bias" in auto.plan) == (direction == "wgrad")
    assert auto.ours.extra_bytes is None  # A CPU counts no memory.


def test_quick_skips_errors_and_cold_timings():
    (record,), timer = measure(SMALL, "fprop", {"auto": 1e-3, None: 2e-3}, quick=True)
    assert record.ratio() == 2.0
    assert record.ours.error is None and record.ours.cold is None
    assert not any(cold for _, _, cold in timer.calls)


def test_failures_are_reported_and_the_others_measured():
    durations = {"declining": 1e-3, "broken": 1e-3, "wrong": 1e-3, "auto": 1e-3, None: 2e-3}
    records, timer = measure(SMALL, "dgrad", durations)
    sides = {record.implementation: record.ours for record in records}
    assert sides["declining"].status == "declined"
    assert sides["declining"].reason == "haloconv: declining declines this problem: a reason"
    assert (sides["broken"].status, sides["broken"].reason) == ("error", "launch failed")
    assert sides["wrong"].status == "error" and sides["wrong"].error == pytest.approx(1.0)
    assert sides["wrong"].reason.startswith("wrong result")
    assert {name for name, _, _ in timer.calls} == {"auto", None}
    assert records[-1].ratio() == 2.0
    assert all(record.ratio() is None for record in records[:-1])


def test_out_of_memory_and_empty_problems():
    assert failure(torch.OutOfMemoryError("CUDA out of memory.\nTried")) == Measurement(
        "out of memory", "CUDA out of memory."
    )
    (record,), _ = measure(replace(SMALL, n=0), "fprop", {"auto": 1e-3, None: 2e-3})
    assert record.ours.status == record.pytorch.status == "skipped"


def test_operands_that_do_not_fit(monkeypatch):
    def fail(*arguments, **settings):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(cases, "make_operands", fail)
    (record,), _ = measure(SMALL, "fprop", {"auto": 1e-3, None: 2e-3})
    assert record.ours.status == "out of memory"


@pytest.fixture
def report():
    durations = {"auto": 1e-3, "declining": 4e-3, None: 2e-3}
    records = [r for d in DIRECTIONS for r in measure(SMALL, d, durations)[0]]
    environment = {"device": "A Device", "driver": "1.2", "commit": "abc"}
    settings = Settings(implementations=("auto", "declining"))
    return reports.Report(environment, settings, H200, records)


def test_json_round_trip(report):
    text = reports.to_json(report)
    assert reports.from_json(text) == report
    derived = json.loads(text)["records"][0]["derived"]
    assert derived["warm_ratio"] == 2.0
    assert derived["cold_fraction"] == report.records[0].fraction("ours", "cold")


def test_a_group_takes_what_one_of_its_families_takes():
    explanation = """\
fprop n2c8h16w16 k16r3s3 float32
implementation: sm90, halo
  sm90, pointwise: declined, the filter has more than one tap
  sm90, halo: expected 1 ms, fprop tile=1x8x32
  generic, depthwise: declined, a group sums over more than one channel
  aten: expected 3 ms
"""
    assert [reports.takes(explanation, name) for name in ("sm90", "halo", "aten")] == [True] * 3
    assert not any(reports.takes(explanation, name) for name in ("pointwise", "generic", "other"))
    assert reports.implementation_of(explanation) == "sm90"
    assert reports.plan_line(explanation).startswith("sm90, halo: expected 1 ms")


def test_table(report):
    lines = reports.table(report.records).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == 2 + len(report.records)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    auto, declined = (dict(zip(cells[0], row, strict=True)) for row in cells[2:4])
    assert auto["problem"] == "small" and auto["direction"] == "fprop"
    assert auto["ours ms"] == "1.000" and auto["PyTorch ms"] == "2.000"
    assert auto["ratio"] == "2.00" and auto["bound"] == "bytes"
    assert auto["float32"] == "in full" and declined["float32"] == ""
    assert auto["plan"] == "generic: expected 1.2 ms, fprop kernel=128x128 workspace=73728"
    assert declined["ours ms"] == "declined" and declined["ratio"] == ""
    assert declined["PyTorch ms"] == "2.000"
    assert declined["plan"] == "declining: haloconv: declining declines this problem: a reason"


# What explain says on a GPU, and the line that the table shows.
EXPLANATIONS = {
    "generic": (
        """\
fprop n2c8h16w16 k16r3s3 float32
chip: NVIDIA H200: compute capability 9.0, 132 multiprocessors at 1.83 GHz
implementation: generic
  generic: expected 1.2 ms, fprop kernel=128x128 workspace=73728
  aten: expected 3 ms
""",
        "generic: expected 1.2 ms, fprop kernel=128x128 workspace=73728",
    ),
    "aten": (
        """\
dgrad n2c8h16w16 k16r3s3 float32
implementation: aten
  generic: declined, a tensor has no element
  aten: expected 3 ms
""",
        "aten: expected 3 ms",
    ),
    "timed": (
        """\
fprop n2c8h16w16 k16r3s3 float32
implementation: generic
  generic: expected 1.2 ms, fprop kernel=128x128 workspace=73728
  aten: expected 3 ms
timed: aten
""",
        "timed: aten",
    ),
    "none": (
        """\
fprop n2c8h16w16 k16r3s3 other
implementation: none
  generic: declined, the element type is none of float32, float64, float16 and bfloat16
  aten: declined, another implementation is forced
""",
        "",
    ),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_plan_line_is_that_of_the_implementation_that_runs(name):
    explanation, line = EXPLANATIONS[name]
    assert reports.plan_line(explanation) == line


def test_summary_is_the_geometric_mean(report):
    first = next(record for record in report.records if record.ratio())
    slower = replace(first.ours.warm, median=8e-3)
    other = replace(first, plan="of an older run", ours=replace(first.ours, warm=slower))
    mean = "geometric mean of the ratios 0.71, least 0.25, 2 problems"
    assert reports.summary([first, other]) == f"- auto fprop: {mean}, full float32 for free: 1 of 2"
    forced = [replace(record, implementation="sm90") for record in (first, other)]
    assert reports.summary(forced) == f"- sm90 fprop: {mean}, full float32: 1 of 2"


@pytest.mark.parametrize(
    "line, float32",
    [
        ("float32: in full, though TF32 is allowed", "in full"),
        ("float32: rounded to TF32", "TF32"),
        ("float32: as PyTorch computes it where TF32 is allowed", "PyTorch's"),
        ("timed: sm90, halo, fprop tile=1x8x32", ""),  # an older run
    ],
)
def test_how_float32_is_computed_is_read_from_what_explain_says(report, line, float32):
    explanation = f"fprop n2c8h16w16 k16r3s3 float32\n  aten: expected 3 ms\n{line}\n"
    assert reports.float32_of(explanation) == float32
    record = replace(report.records[0], plan=explanation)
    assert ("| float32" in reports.table([record])) == (float32 != "")
    assert ("full float32" in reports.summary([record])) == (float32 != "")
    (saved,) = json.loads(reports.to_json(replace(report, records=[record])))["records"]
    assert saved["derived"]["float32"] == float32


def test_saved_files(report, tmp_path):
    pytest.importorskip("matplotlib")
    stem = tmp_path / "a.name"
    reports.save(report, stem)
    text = (tmp_path / "a.name.md").read_text()
    assert text.startswith("# A Device, tf32 NCHW\n")
    assert "## Warm" in text and "## Cold" in text and "commit: abc" in text
    chart = tmp_path / "a.name.png"
    assert chart.read_bytes().startswith(b"\x89PNG")
    chart.unlink()
    reports.main([str(tmp_path / "a.name.json")])
    assert chart.exists() and (tmp_path / "a.name.md").read_text() == text


def test_milliseconds_keep_four_digits():
    timing = summarize([13.0e-3, 13.634e-3, 14.0e-3], 1)
    assert reports._time_cells(Measurement(warm=timing), "warm") == ("13.63", "1.8")
    assert reports.milliseconds(1234e-3) == "1234"
    assert reports.milliseconds(5.1e-6) == "0.005100"


def test_without_a_gpu_it_says_so_and_exits_cleanly(tmp_path):
    script = Path(run.__file__)
    done = subprocess.run(
        [sys.executable, str(script), "--output", str(tmp_path)],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "No CUDA device" in done.stdout
    assert not list(tmp_path.iterdir())


def test_options():
    options = run.parse_arguments(
        "--shapes layers reference --only vgg_5 asym_5x9 --directions dgrad,fprop --no-tf32 "
        "--implementation generic aten generic --quick".split()
    )
    assert [problem.name for problem in options.problems] == ["asym_5x9", "vgg_5"]
    assert options.directions == ["dgrad", "fprop"]
    settings = run.settings_of(options)
    assert settings.implementations == ("generic", "aten") and settings.arithmetic == "fp32"
    assert settings.seconds_per_case == 0.2
    assert run.default_name("NVIDIA H200, fp32 NCHW", settings) == "nvidia_h200_fp32_nchw_quick"
    defaults = run.parse_arguments([])
    assert [problem.name for problem in defaults.problems] == [
        "square_3x3",
        "asym_5x7",
        "dilated_5x9",
        "asym_5x9",
    ]
    assert run.settings_of(defaults) == Settings()


@pytest.mark.parametrize(
    "arguments", [["--only", "nothing"], ["--directions", "up"], ["--shapes", "nowhere"]]
)
def test_bad_options_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        run.parse_arguments(arguments)
    assert stop.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_program_with_made_up_device(monkeypatch, tmp_path, capsys):
    """main() as a whole: cases in order, files written, the exit code that failures give."""
    durations = {"auto": 1e-3, "declining": 1e-3, "broken": 1e-3, None: 2e-3}
    common = made_up_device(monkeypatch, tmp_path, durations)
    assert run.main([*common, "--implementation", "auto", "declining"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") >= 6 and "[3/3] small wgrad auto: 1.000 ms" in captured.err
    assert "auto wgrad: geometric mean of the ratios 2.00" in captured.out
    saved = reports.from_json((tmp_path / "a_device_tf32_nchw.json").read_text())
    assert [record.direction for record in saved.records[::2]] == list(DIRECTIONS)
    assert (tmp_path / "a_device_tf32_nchw.md").exists()

    assert run.main([*common, "--implementation", "broken", "--name", "other"]) == 1
    assert (tmp_path / "other.json").exists()
