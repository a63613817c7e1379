"""The file that somebody with another chip can send."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod

import pytest

import expectations
import limits_chart
import network_tables
import report
import run
from fakes import H200, made_up_device
from recorded_runs import RESULTS, ROOT, load

TIMED = """\
fprop n2c8h16w16 k16r3s3 float32
chip: NVIDIA L4: compute capability 8.9, 58 multiprocessors at 2.04 GHz
implementation: aten
  sm90, halo: declined, the device's compute capability is 8.9
  sm80, implicit_gemm: expected 1.5 ms, fprop tile=128x64 stages=5
  generic, depthwise: declined, a group sums over more than one channel
  generic: expected 1.2e+01 ms, fprop kernel=128x128 workspace=73728
  aten: expected 1.25 ms
timed: sm80, implicit_gemm, fprop tile=64x64 stages=5
"""


def test_expected_is_read_from_what_explain_says():
    assert expectations.expected(TIMED, "sm80") == pytest.approx(1.5e-3)
    assert expectations.expected(TIMED, "implicit_gemm") == pytest.approx(1.5e-3)
    assert expectations.expected(TIMED, "generic") == pytest.approx(12e-3)
    assert expectations.expected(TIMED, "aten") == pytest.approx(1.25e-3)
    assert expectations.expected(TIMED, "sm90") is None
    assert expectations.expected("", "sm80") is None
    assert expectations.chip(["", TIMED]).startswith("NVIDIA L4: compute capability 8.9")
    assert expectations.chip([""]) == "unknown"


def test_one_file_holds_both_types_and_layouts(monkeypatch, tmp_path, capsys):
    ceilings = replace(H200, products={"tf32": 413e12, "bf16": 826e12})
    durations = {"auto": 1.8e-3, "declining": 1e-3, None: 2e-3}
    arguments = made_up_device(monkeypatch, tmp_path, durations)
    monkeypatch.setattr(run, "measure_ceilings", lambda *arguments: ceilings)
    arguments += ["--report", "--directions", "fprop", "--implementation", "auto", "declining"]
    assert run.main(arguments) == 0
    assert [path.name for path in tmp_path.glob("*") if path.name != "shapes.txt"] == [
        "a_device_report.md"
    ]
    text = (tmp_path / "a_device_report.md").read_text()
    assert f"Written to {tmp_path / 'a_device_report'}.md." in capsys.readouterr().out
    titles = [f"A Device, {type} {layout}" for type in ("bf16", "tf32")
              for layout in ("NCHW", "channels_last")]  # fmt: skip
    for title in titles:
        assert f"\n## {title}\n\n| problem" in text  # expected beside measured
        assert f"\n## {title}\n\n- device: A Device" in text  # the tables themselves
    tables = text.split("\n\n")
    table = next(part for part in tables if "expected ms" in part.splitlines()[0])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert rows[2] == ["small", "fprop", "auto", "generic", "1.200", "1.800", "1.50"] + [
        "3.000", "2.000", "0.67", "1.11"
    ]  # fmt: skip
    assert rows[3][:7] == ["small", "fprop", "declining", "declined", "", "", ""]


def test_without_other_wishes_it_measures_the_choice_and_sm80():
    assert run.parse_arguments(["--report"]).implementation == ["auto", "sm80"]
    assert run.parse_arguments([]).implementation == ["auto"]


def test_networks_of_several_runs_stand_in_one_table():
    name = "channels_last_bf16_vgg_unet"
    networks = [row["network"] for row in load(name)["rows"]]
    page = ROOT / "docs" / "performance_of_networks.md"
    text = network_tables.best(page, f"{name}={networks[1]}", name)
    rows = [line for line in text.splitlines()[2:] if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows] == [f"| {n}" for n in [networks[1], *networks]]
    commit = load(name)["environment"]["commit"]
    assert all(f" | [{commit}](../benchmarks/results/{name}.md), 20" in row for row in rows)


def test_ratios_of_several_runs_stand_one_row_each():
    name = "channels_last_bf16_inference"
    in_turns = [row["in_turns"] for row in load(name)["rows"]]
    ratios = [ms["PyTorch"] / ms["haloconv"] for ms in in_turns]
    text = network_tables.ratios_of_best(ROOT / "README.md", f"one_way={name}", f"another={name}")
    header, _, one, another = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[:4]
    )
    assert header[1:-2] == [row["network"] for row in load(name)["rows"]]
    assert (one[0], another[0]) == ("one way", "another") and one[1:] == another[1:]
    assert one[1:-2] == [f"{ratio:.2f}" for ratio in ratios]
    assert one[-2] == f"{prod(ratios) ** (1 / len(ratios)):.2f}"
    assert one[-1].endswith(f"(benchmarks/results/{name}.md)")


def test_chart_shows_the_fractions_and_knows_its_runs(tmp_path):
    path = RESULTS / "sm90_tf32_nchw.json"
    saved = json.loads(path.read_text())["records"]
    one = report.from_json(path.read_text()).panel
    assert one.cases[0] == "square_3x3\nfprop" and len(one.cases) == len(saved)
    for name, fraction in (("auto", "warm_fraction"), ("PyTorch", "warm_pytorch_fraction")):
        assert dict(one.fractions)[name] == tuple(r["derived"][fraction] for r in saved)
    chart = tmp_path / "chart.png"
    assert not limits_chart.is_of([one, one], chart)
    limits_chart.draw([one, one], chart)
    assert limits_chart.is_of([one, one], chart)
    assert not limits_chart.is_of([one], chart)
