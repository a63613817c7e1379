"""The column "of mma.sync", with a loop and a device that are made up."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import mma_sync
import report as reports
import run
from fakes import CPU, SMALL, FakeTimer, made_up_device

RATE = SMALL.flop / 0.5e-3


class FakeLoop:
    """Stands for libhaloconv_mma_sync.so; C functions' result types may be set on these."""

    def __init__(self, error: bytes | None = None):
        self.launches: list[tuple] = []
        self.mma_sync_results = lambda multiprocessors: 512 * multiprocessors
        self.mma_sync_flop = lambda name, multiprocessors, steps: 1e6 * multiprocessors * steps
        self.mma_sync_launch = lambda *arguments: self.launches.append(arguments) or error


@pytest.fixture
def loop(monkeypatch):
    fake = FakeLoop()
    monkeypatch.setattr(ctypes, "CDLL", lambda path: fake)
    properties, stream = SimpleNamespace(multi_processor_count=3), SimpleNamespace(cuda_stream=7)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    return fake


def test_the_rate_is_that_of_the_loop(loop):
    rate = mma_sync.measure(Path("any"), "tf32", FakeTimer({None: 2e-3}, [None]), CPU, seconds=0)
    steps = loop.launches[0][2]
    assert rate == pytest.approx(1e6 * 3 * steps / 2e-3)
    assert all(launch[:2] == (b"tf32", 3) for launch in loop.launches)
    assert loop.mma_sync_flop.restype is ctypes.c_double


def test_a_failure_of_the_loop_is_raised(loop):
    loop.mma_sync_launch = lambda *arguments: b"no kernel image"
    with pytest.raises(RuntimeError, match="mma.sync: no kernel image"):
        mma_sync.measure(Path("any"), "bf16", FakeTimer({None: 2e-3}, [None]), CPU, seconds=0)


def test_sm80_is_compared_with_it(monkeypatch, tmp_path, capsys):
    arguments = made_up_device(monkeypatch, tmp_path, {"auto": 1e-3, "sm80": 2e-3, None: 2e-3})
    arguments += ["--directions", "fprop,dgrad", "--implementation", "auto", "sm80", "--name", "a"]
    monkeypatch.setattr(mma_sync, "measure", lambda library, arithmetic, timer, device: RATE)
    built = tmp_path / "libhaloconv_mma_sync.so"
    monkeypatch.setattr(mma_sync, "LIBRARY", built)
    assert run.main(arguments) == 0
    said = capsys.readouterr()
    assert f"mma.sync is not measured: {built} is not built." in said.err
    assert "of mma.sync" not in said.out

    built.touch()
    assert run.main(arguments) == 0
    said = capsys.readouterr()
    assert "not measured" not in said.err
    assert "sm80 fprop: geometric mean of the ratios 1.00, least 1.00, 1 problems, " in said.out
    assert said.out.count(", of mma.sync 0.25") == 2  # not of auto, which runs generic here
    saved = reports.from_json((tmp_path / "a.json").read_text())
    assert saved.ceilings.mma_sync == RATE
    assert [record.mma_sync_fraction() for record in saved.records] == [0.5, 0.25] * 2
    text = (tmp_path / "a.md").read_text()
    assert f"mma.sync {RATE / 1e12:.1f} TFLOP/s" in text and "| of mma.sync |" in text


@pytest.mark.parametrize(
    "arguments, measured",
    [
        ("", False),
        ("--implementation sm80", True),
        ("--implementation sm80 --dtype bfloat16", True),
        ("--implementation sm80 --no-tf32", False),
        ("--implementation sm80 --dtype float64", False),
        ("--mma-sync elsewhere.so", True),
    ],
)
def test_when_it_is_measured(monkeypatch, tmp_path, arguments, measured):
    monkeypatch.setattr(mma_sync, "LIBRARY", tmp_path)  # is there
    options = run.parse_arguments(arguments.split())
    library = run.mma_sync_library(options, run.settings_of(options))
    expected = Path("elsewhere.so") if "elsewhere" in arguments else tmp_path
    assert library == (expected if measured else None)


def test_the_mean_is_geometric(monkeypatch, tmp_path):
    plan = "implementation: sm80, implicit_gemm\n  sm80, implicit_gemm: expected 1 ms, fprop\n"
    path = run._ROOT / "benchmarks" / "results" / "sm80_tf32_nchw_h200.json"
    records = [
        replace(record, plan=plan, mma_sync=fraction * record.ours.warm.median)
        for record, fraction in zip(
            reports.from_json(path.read_text()).records, (0.25, 1.0), strict=False
        )
    ]
    first = replace(records[1], direction=records[0].direction)
    assert reports.summary([records[0], first]).endswith("2 problems, of mma.sync 0.50")
