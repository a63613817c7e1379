"""The pictures, the verdict on curves, forcing by layer, and the whole program on a small U-Net."""

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import convolutions
import haloconv
import loss_curve
import models
from convolutions import Convolutions
from fakes import CPU
from loss_curve import Distance, chance, judge
from pictures import KINDS, make_batch
from report import implementation_of


def test_pictures_follow_from_their_number():
    one, same, other = (make_batch(number, 8, 16, CPU) for number in (3, 3, 4))
    assert torch.equal(one.noisy, same.noisy) and torch.equal(one.kind, same.kind)
    assert not torch.equal(one.noisy, other.noisy)
    assert one.noisy.shape == one.clean.shape == (8, 3, 16, 16)
    assert one.clean.abs().max() <= 0.5 and 0 <= one.kind.min() and one.kind.max() < KINDS
    # A background and three shapes, each of one colour: some of them hide others.
    colours = [len(picture.flatten(1).unique(dim=1)[0]) for picture in one.clean]
    assert max(colours) == 4 and min(colours) >= 2
    assert 0.15 < (one.noisy - one.clean).std() < 0.25


def falling(offset: float = 0.0, last: float = 0.0, first: float = 0.0) -> list[float]:
    offsets = [first] * 5 + [offset] * 20 + [last] * 75
    return [math.exp(-i / 30) + offsets[i] for i in range(100)]


@pytest.mark.parametrize(
    ("ours", "passed"),
    [
        (falling(0.05), True),
        (falling(0.2), False),  # farther from it than the seeds are from each other
        (falling(0.05, first=0.03), False),  # at the beginning
        (falling(0.05, last=0.04), False),  # late
        ([*falling()[:-1], math.nan], False),
    ],
)
def test_the_verdict_on_curves(ours, passed):
    noise = Distance(first=0.02, greatest=0.1, late=0.01)
    assert Distance.between(ours, falling()).is_within([noise, Distance(0.03, 0.0, 0.0)]) is passed


@pytest.mark.parametrize(("above", "passed"), [(0.0, True), (0.001, True), (0.01, False)])
def test_the_verdict_on_last_values(above, passed):
    """All of haloconv's last values above all of PyTorch's are no chance."""
    pytorch = {seed: falling(0.1 * seed, 0.001 * seed) for seed in range(6)}
    ours = {seed: falling(0.1 * seed, 0.001 * seed + above) for seed in range(6)}
    verdict = judge(pytorch, {"auto": ours})
    assert verdict.passed is passed
    likely = {0.0: 1, 0.001: 420 / 924, 0.01: 2 / 924}  # by enumeration
    assert verdict.chances["auto"] == pytest.approx(likely[above])


def test_chance():
    assert chance([1.0, 2.0], [3.0, 4.0]) == pytest.approx(2 / 6)  # or all the other way round
    assert chance([1.0, 4.0], [2.0, 3.0]) == 1
    assert chance([1.0], [2.0, 3.0, 4.0]) == pytest.approx(2 / 4)  # 1 or 4 by itself
    assert chance([math.nan, 2.0], [3.0, 4.0]) == 0


def test_curves_are_smoothed():
    # One outlier of 20 is a twentieth in the mean of 20 steps.
    spiked = [1.0] * 30 + [2.0] + [1.0] * 29
    spike = pytest.approx(0.05)
    assert Distance.between(spiked, [1.0] * 60) == Distance(0.0, spike, spike)


@pytest.fixture
def layers():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True), nn.Conv2d(3, 2, 1))
    haloconv.replace(model)
    return model


@pytest.mark.parametrize(
    ("name", "forced"), [("aten", ["aten", "auto"]), ("generic", []), ("auto", [])]
)
def test_layers_are_forced_where_the_implementation_takes_them(layers, name, forced, monkeypatch):
    """Both layers, whose backward passes remember it; on a CPU generic takes none."""
    calls = []

    def note(name: str) -> None:
        calls.append((name, torch.ops.haloconv.force_implementation(name)))

    monkeypatch.setattr(convolutions, "_force", note)
    watched = Convolutions(layers, name)
    layers(torch.randn(1, 2, 5, 5)).sum().backward()
    # What each call changed: it was something else before.
    assert [new for new, previous in calls if new != previous] == 2 * forced
    assert watched.counts() == {
        "fprop": {"aten": 2},
        "dgrad": {"aten": 1},
        "wgrad": {"aten": 2},
    }


def test_what_was_timed_is_what_runs():
    chosen = "fprop n1\nimplementation: aten\n  sm90: expected 2 ms\n  aten: expected 1 ms\n"
    assert implementation_of(chosen) == "aten"
    assert implementation_of(chosen + "timed: sm90, a plan\n") == "sm90"
    assert implementation_of("implementation: none\n") == "none"


@pytest.mark.parametrize("network", list(loss_curve.TASKS))
def test_the_program(network, monkeypatch, tmp_path, capsys):
    small = {"unet": lambda: models.UNet(4, depth=2, classes=3), "resnet50": Small}
    task = replace(loss_curve.TASKS[network], make=small[network])
    monkeypatch.setitem(loss_curve.TASKS, network, task)
    arguments = ["--device", "cpu", "--network", network, "--output", str(tmp_path)]
    arguments += ["--steps", "30", "--batch", "2", "--size", "16", "--implementation", "auto"]
    assert loss_curve.main([*arguments, "aten", "--seeds", *"01234"]) == 0
    saved = json.loads((tmp_path / "loss_curve.json").read_text())
    curves = saved["curves"]
    # haloconv computes as PyTorch does on a CPU, but for the order of the gradients' sums.
    for name, seed in itertools.product(("auto", "aten"), range(5)):
        expected = pytest.approx(curves[f"PyTorch, seed {seed}"], rel=1e-3)
        assert curves[f"haloconv ({name}), seed {seed}"] == expected
    assert curves["PyTorch, seed 0"] != pytest.approx(curves["PyTorch, seed 1"], rel=1e-3)
    assert sum(saved["implementations"]["auto"]["wgrad"].values()) > 0
    text = capsys.readouterr().out.strip()
    assert text.split("\n")[-1] == "haloconv's curves are within the noise of PyTorch's seeds."
    assert text in (tmp_path / "loss_curve.md").read_text()
    assert (tmp_path / "loss_curve.png").stat().st_size > 0


class Small(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 4, 3, 2),
            nn.BatchNorm2d(4),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, KINDS),
        )


@pytest.mark.parametrize("seeds", ["0123", "01233"])
def test_few_seeds_cannot_fail(seeds, capsys):
    with pytest.raises(SystemExit):
        loss_curve.main(["--seeds", *seeds])
    assert "--seeds takes five different ones or more" in capsys.readouterr().err
