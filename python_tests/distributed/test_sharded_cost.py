"""The cost function, against counts by hand, and the figures of docs/distributed.md."""

import math
from pathlib import Path

import pytest
import torch

import haloconv
from haloconv.distributed import INFINIBAND, NVLINK, Layer, estimate, layers_of, table

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "distributed.md"
_ROWS, _CHANNELS = 8192, 64


def _layer(rows: int, columns: int = _ROWS) -> Layer:
    image = (1, _CHANNELS, rows, columns)
    weight = (_CHANNELS, _CHANNELS, 3, 3)
    return Layer(image, weight, image, (1, 1), (1, 1, 1, 1), (1, 1), 1, torch.bfloat16)


def test_layers_are_recorded_without_computing() -> None:
    model = torch.nn.Sequential(
        haloconv.nn.Conv2d(3, 8, (3, 5), stride=(2, 1), padding=(1, 0, 2, 2)),
        torch.nn.ConvTranspose2d(8, 8, 2),
        torch.nn.Conv2d(8, 8, 3, dilation=2, groups=4),
    )
    layers = layers_of(model, torch.empty(2, 3, 10**6, 100, device="meta"))
    assert [(layer.weight, layer.groups) for layer in layers] == [
        ((8, 3, 3, 5), 1),
        ((8, 2, 3, 3), 4),
    ]
    assert layers[0].output == (2, 8, 500000, 100) and layers[0].padding == (1, 0, 2, 2)


def test_bytes_and_flop_are_counted() -> None:
    layer = _layer(1024, 512)
    width, weights = 2, 2 * _CHANNELS**2 * 9
    flop = 2 * 1024 * 512 * _CHANNELS**2 * 9
    row = 512 * _CHANNELS * width
    inference = estimate([layer], 4, "rows", training=False)
    assert inference.flop == flop / 4 and inference.bytes_sent == 2 * row  # to both neighbours
    training = estimate([layer], 4, "rows")
    assert training.flop == 3 * flop / 4
    assert training.bytes_sent == 4 * row + 2 * weights * 3 / 4
    assert estimate([layer], 4, "batch").flop == 3 * flop  # of one image, whose rank has it all
    channels = estimate([layer], 4, "in_channels", training=False)
    assert channels.bytes_sent == 2 * 1024 * row * 3 / 4  # an all-reduce of the output
    assert estimate([layer], 1, "rows").bytes_sent == 0
    assert "groups" in estimate([layer], 4, "groups").obstacle


def test_halos_are_hidden_behind_the_interior() -> None:
    cost = estimate([_layer(_ROWS)], 2, "rows", training=False)
    assert cost.seconds == cost.compute_seconds > cost.link_seconds > 0


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="expected cut to be one of"):
        estimate([_layer(64)], 2, "depth")
    with pytest.raises(ValueError, match="expected devices to be at least 1"):
        estimate([_layer(64)], 0, "rows")
    with pytest.raises(RuntimeError, match='expected name to be one of .*"NVIDIA H200"'):
        estimate([_layer(64)], 2, "rows", chip="abacus")


def test_table_has_each_cut() -> None:
    model = haloconv.nn.Conv2d(3, 8, 3)
    costs = table(model, torch.empty(4, 3, 64, 64), devices=(1, 2), cuts=("batch", "rows"))
    assert [(c.cut, c.devices) for c in costs] == [
        ("batch", 1),
        ("batch", 2),
        ("rows", 1),
        ("rows", 2),
    ]


def _scaling(devices: int) -> str:
    """A line of the page: eight layers alike, of one image and of 512 rows for each device."""
    link = NVLINK if devices <= 8 else INFINIBAND

    def cells(rows: int, alone: float) -> str:
        cost = estimate([_layer(rows)], devices, "rows", link=link)
        sent = 8 * cost.bytes_sent / 2**20
        return f"{8 * cost.seconds * 1e3:.3g} | {sent:.3g} | {alone / cost.seconds:.0%}"

    strong = estimate([_layer(_ROWS)], 1, "rows").seconds / devices
    weak = estimate([_layer(512)], 1, "rows").seconds
    return f"| {devices:,} | {cells(_ROWS, strong)} | {cells(512 * devices, weak)} |"


def test_the_page_has_the_model_s_figures() -> None:
    lines = [_scaling(2**power) for power in range(int(math.log2(4096)) + 1)]
    assert "\n".join(lines) in _PAGE.read_text(), "\n".join(lines)
