"""The programs that time single calls: conv2d_fused, and the host's part of a small convolution."""

import json
from contextlib import nullcontext

import pytest
import torch

import family_cases
import fused
import haloconv
import host_overhead
import loss_curve
import nonfinite
import paths
from fakes import CPU, SMALL, FakeTimer
from fused import CONV, CUDNN, FUSED, PYTORCH
from problems import parse
from timing import HostTimer

EVEN = "even n2c4h6w7 k6r3s2 stride=2,1 pad=1,1,2,2 groups=2 # as PyTorch takes it"
SIDES = "sides n2c4h6w7 k6r3s2 pad=0,1,2,0 # PyTorch takes no such padding"


def test_fused_from_end_to_end(tmp_path, capsys):
    shapes = tmp_path / "shapes.txt"
    shapes.write_text(f"{EVEN}\n{SIDES}\n")
    arguments = ["--device", "cpu", "--shapes", str(shapes), "--seconds-per-case", "0"]
    assert fused.main([*arguments, "--output", str(tmp_path)]) == 0
    even, sides = json.loads((tmp_path / "fused.json").read_text())["cases"]
    assert even["seconds"].keys() == {CONV, FUSED, PYTORCH}
    assert even["reasons"].keys() == {CUDNN}
    assert sides["seconds"].keys() == {CONV, FUSED}
    assert "padding=[0, 1, 2, 0]" in sides["reasons"][PYTORCH]
    for case in (even, sides):
        # On a CPU the fused operator is the other three in place.
        assert case["difference"] == 0 and case["implementation"] == "aten"
    assert "| even | aten | " in capsys.readouterr().out


def test_fused_shares_and_ratios():
    # 4 bytes of each of 2 x 6 x 3 x 8 elements.
    case = fused.Case("any", residual=2 * 6 * 3 * 8 * 4 / 4e12)
    assert case.share() is None and case.ratio(PYTORCH) is None
    case.seconds = {FUSED: 3e-9, CONV: 2e-9, PYTORCH: 6e-9}
    assert case.share() == pytest.approx(3e-9 / (2e-9 + 0.288e-9))
    assert case.ratio(PYTORCH) == pytest.approx(2.0) and case.ratio(CUDNN) is None
    assert "| any |  | 0.000 | 0.000 | 0.000 | 1.31 | 0.000 | 2.00 | failed |  |  |" in (
        fused.report([case])
    )


def test_nonfinite_from_end_to_end(tmp_path, capsys):
    shapes = tmp_path / "shapes.txt"
    shapes.write_text(EVEN)
    arguments = ["--device", "cpu", "--shapes", str(shapes), "--seconds-per-case", "0"]
    arguments += ["--implementation", "auto", "--dtypes", "float32", "--output", str(tmp_path)]
    assert nonfinite.main(arguments) == 0
    fprop, dgrad, wgrad = json.loads((tmp_path / "nonfinite.json").read_text())["cases"]
    assert [case["direction"] for case in (fprop, dgrad, wgrad)] == ["fprop", "dgrad", "wgrad"]
    second = {"gradient, hundred", "gradient, 1 %"}
    assert fprop["seconds"].keys() == {"finite", *nonfinite.CASES} - second
    assert dgrad["seconds"].keys() == fprop["seconds"].keys()
    assert wgrad["seconds"].keys() == {"finite", *nonfinite.CASES} - {"weight"}
    assert "implementation: aten" in wgrad["explanation"]
    assert "| even | wgrad | tf32 | rows | aten | " in capsys.readouterr().out


def test_nonfinite_ratios():
    seconds = {"finite": 2e-3, "corner": 3e-3}
    case = nonfinite.Case("any", "dgrad", "bf16", "sm90, halo", "channels", seconds)
    assert case.ratio("corner") == pytest.approx(1.5) and case.ratio("weight") is None
    line = "| any | dgrad | bf16 | channels | sm90, halo | 2.000 | 1.50 |"
    assert nonfinite.report([case]).splitlines()[-1] == line + "  |" * (len(nonfinite.CASES) - 1)


def test_nonfinite_counts_what_takes_too_long():
    def case(problem: str, implementation: str, **ratios: float) -> nonfinite.Case:
        seconds = {name.replace("_", " "): ratio for name, ratio in ratios.items()}
        return nonfinite.Case(
            problem, "dgrad", "bf16", implementation, seconds={"finite": 1.0, **seconds}
        )

    cases = [
        case("a", "sm90, halo", corner=1.1, hundred=1.3, all_NaN=2.0),
        case("b", "sm90, halo", weight=1.25, all_infinite=3.5, last_column=2.5),
        case("c", "generic, heads", corner=1.0, all_NaN=1.0),
    ]
    assert nonfinite.summary(cases).splitlines()[2:] == [
        "| sm90, halo | 2 | 1.30 | 2 | 3.50 | 1 | all infinite: b dgrad bf16, rows |",
        "| generic, heads | 1 | 1.00 | 0 | 1.00 | 0 | all NaN: c dgrad bf16, rows |",
    ]


def test_nonfinite_measures_each_family(monkeypatch, tmp_path, capsys):
    """On a CPU there are none: `explain` is made up, and aten is what is forced in their place."""
    taken = "implementation: sm90, halo\n  sm90, halo: expected 0.05 ms, any\n"
    taken += "  aten: expected 1 ms\n"
    excluded = "  sm90, wgrad: declined, another implementation is forced\n"
    asked = []

    def explain(ops, problem, direction, operands):
        asked.append((direction, operands.input.dtype, operands.input.stride(1)))
        is_taken = direction == "fprop" and operands.input.dtype == torch.float32
        return taken + excluded if is_taken else ""

    monkeypatch.setattr(nonfinite, "explain", explain)
    monkeypatch.setattr(family_cases, "conv2d_problems", lambda: [parse(EVEN)])
    monkeypatch.setattr(haloconv, "implementation", lambda name: nullcontext())
    arguments = ["--device", "cpu", "--families", "--output", str(tmp_path)]
    assert nonfinite.main([*arguments, "--seconds-per-case", "0"]) == 0
    cases = json.loads((tmp_path / "nonfinite.json").read_text())["cases"]
    assert [(case["arithmetic"], case["innermost"]) for case in cases] == [
        ("tf32", "rows"), ("tf32", "channels"), ("fp32", "rows"), ("fp32", "channels")
    ]  # fmt: skip
    assert {case["implementation"] for case in cases} == {"sm90, halo"}
    assert "| sm90, halo | 4 | " in capsys.readouterr().out
    assert len({dtype for _, dtype, _ in asked}) == 4 and {1, 42} == {s for _, _, s in asked}
    assert {case["explanation"] for case in cases} == {taken}
    assert nonfinite.main([*arguments[:3], "heads"]) == 0
    assert capsys.readouterr().out == "\n"


def test_nonfinite_values_are_where_they_are_said():
    (operands,) = nonfinite.make_operands(SMALL, "wgrad", 1, dtype=torch.float32, device=CPU)
    changed = {}
    for name, tensor, change in nonfinite.changes("wgrad", operands):
        kept = tensor.clone()
        change(tensor)
        changed[name] = tensor.clone()
        tensor.copy_(kept)
    assert list(changed) == [name for name in nonfinite.CASES if name != "weight"]
    places = {name: (~values.isfinite()).nonzero().tolist() for name, values in changed.items()}
    assert places["corner"] == [[size - 1 for size in operands.input.shape]]
    assert all(place[3] == operands.input.shape[3] - 1 for place in places["last column"])
    assert len(places["last column"]) == operands.input.numel() // operands.input.shape[3]
    for name, tensor in (("1 %", operands.input), ("gradient, 1 %", operands.grad_output)):
        assert 0.005 < len(places[name]) / tensor.numel() < 0.02
        assert changed[name].isposinf().any() and changed[name].isneginf().any()
    assert changed["all NaN"].isnan().all() and changed["all infinite"].isposinf().all()
    assert changed["gradient, hundred"].shape == operands.grad_output.shape


def test_nonfinite_takes_small_layers_too():
    names = [problem.name for problem in nonfinite.problems_of(None, None)]
    assert names[0] == "square_3x3" and names[-len(nonfinite.LAYERS) :] == list(nonfinite.LAYERS)
    assert [of.name for of in nonfinite.problems_of(None, ["vgg16_3"])] == ["vgg16_3"]
    assert "vgg16_3" not in [of.name for of in nonfinite.problems_of(["reference"], None)]


def test_a_forced_implementation_that_declines_is_an_error(tmp_path, capsys):
    shapes = tmp_path / "shapes.txt"
    shapes.write_text(EVEN)
    arguments = ["--device", "cpu", "--shapes", str(shapes), "--seconds-per-case", "0"]
    assert fused.main([*arguments, "--implementation", "generic"]) == 1
    assert f"- even, {FUSED}: haloconv::conv2d_fused: the forced" in capsys.readouterr().out


def test_fused_takes_the_residual_s_bytes_at_the_copy_rate():
    timer = FakeTimer({None: 1e-3}, [None])
    case = fused.measure(SMALL, CPU, "auto", timer, 0.0, copy_rate=1e9)
    n, k, p, q = SMALL.output_shape
    assert case.residual == pytest.approx(4 * n * k * p * q / 1e9)


def test_fused_finds_a_difference(monkeypatch):
    operands = fused.Operands(SMALL, CPU)
    assert operands.difference() == 0
    monkeypatch.setattr(operands, "residual", operands.residual.clone())
    plain = operands.conv2d()
    monkeypatch.setattr(operands, "conv2d", lambda: 2 * plain)
    assert operands.difference() > 0.01


def test_host_overhead_from_end_to_end(tmp_path, capsys):
    assert host_overhead.main(["--device", "cpu", "--loops", "2", "--output", str(tmp_path)]) == 0
    seconds = json.loads((tmp_path / "host_overhead.json").read_text())["seconds"]
    parts = ("", ", gradients", ", backward")
    assert list(seconds) == [size + part for part in parts for size in ("3x3", "1x1")]
    for timings in seconds.values():
        assert timings["haloconv.conv2d, generic"] == "declined"  # a CPU
        measured = [timing for timing in timings.values() if timing != "declined"]
        assert len(measured) == 9 and all(timing["launches"] == 200 for timing in measured)
    lines = capsys.readouterr().out.strip().split("\n")
    assert lines[2].startswith("| F.conv2d | ") and lines[2].count("(1.00)") == 6
    assert lines[-1] == f"| haloconv.conv2d, sm90 {6 * '| declined '}|"


@pytest.mark.parametrize("part", ["", "gradients", "backward"])
@pytest.mark.parametrize("size", [1, 3])
def test_host_overhead_calls_compute_the_same(size, part):
    def results(candidate):
        result = candidate.call(0)
        return result if part == "backward" else (result,)

    first, *others = host_overhead.candidates(size, part, CPU)
    expected = results(first)
    assert expected[0].shape == (1, 8, 8, 8) and len(expected) == 1 + (part == "backward")
    assert expected[0].requires_grad is (part == "gradients")
    assert len(others) == 10
    for other in others:
        for mine, theirs in zip(results(other), expected, strict=True):
            assert torch.equal(mine, theirs), other.name


def test_the_host_s_timer_counts_calls():
    calls = []
    assert HostTimer(CPU).seconds(calls.append, 3, False) > 0
    assert calls == [0, 1, 2]


@pytest.mark.parametrize("program", [fused, host_overhead, loss_curve, paths])
def test_without_a_gpu_nothing_is_measured(program, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert program.main([]) == 0
    assert "nothing was measured" in capsys.readouterr().out
