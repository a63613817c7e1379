"""The training benchmark's models, steps and table; the timing itself needs a GPU."""

import copy

import pytest
import torch

import haloconv
import models
import train
from problems import SHAPES, load


@pytest.mark.parametrize("make", [lambda: models.resnet50(8), lambda: models.UNet(8, depth=2)])
def test_networks_train_alike_with_haloconv(make):
    batch = torch.randn((2, 3, 32, 32), generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    theirs = make()
    with torch.no_grad():
        target = torch.randn_like(theirs(batch))
    ours = copy.deepcopy(theirs)
    haloconv.replace(ours)
    assert any(isinstance(module, haloconv.nn.Conv2d) for module in ours.modules())
    for model in (theirs, ours):
        train.training_step(model, batch, target)()
    for expected, parameter in zip(theirs.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected)


@pytest.mark.parametrize("name", train.NETWORKS)
def test_networks_take_their_batches(name):
    make, shape = train.NETWORKS[name]
    with torch.device("meta"):
        result = make()(torch.empty(shape))
    assert result.shape == ((8, 2, 512, 512) if name == "U-Net" else (64, 1000))


def test_one_layer_is_the_problem():
    for problem in load(SHAPES / "reference.txt"):
        with torch.device("meta"):
            layer = models.OneLayer(problem)
            assert layer(torch.empty(problem.input_shape)).shape == problem.output_shape


def test_table_has_a_row_for_each_model():
    row = dict.fromkeys(
        ("pytorch_ms", "haloconv_ms", "ratio", "pytorch_peak_gib", "haloconv_peak_gib"), 1.5
    )
    lines = train.table({"a": row, "b": row}).split("\n")
    assert len(lines) == 4
    assert lines[2] == "| a | 1.50 | 1.50 | 1.50 | 1.50 | 1.50 |"


def test_without_a_gpu_nothing_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert train.main([]) == 0
    assert "nothing was measured" in capsys.readouterr().out
