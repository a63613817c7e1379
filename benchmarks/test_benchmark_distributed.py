"""Problems cut among processes: what is timed is right, and what fails is told, on the CPU."""

import json
from dataclasses import asdict

import pytest
import torch

import distributed
import ranks
import scaling
import scaling_chart
import sharded_networks
from cuts import BATCH, COLUMNS, CUTS, GRID, ROWS, STRONG, WEAK, cuts_of
from problems import parse
from ranks import Failed, Ranks, Seconds
from scaling import Case
from sharded_layers import ALONE, BOTH, DTENSOR, FORWARD, NO_OVERLAP, SHARDED, Settings

QUICK = ["--device", "cpu", "--processes", "2", "--dtype", "float32", "--seconds-per-case", "0"]


def test_cuts_are_of_all_ranks():
    shape = (8, 3, 24, 16)
    for count in (2, 3, 4, 8):
        for cut in cuts_of(count):
            enlarged = cut.enlarged(shape)
            assert torch.Size(enlarged).numel() == count * torch.Size(shape).numel()
            assert torch.Size(cut.mesh_shape).numel() == count
    assert [cut.name for cut in cuts_of(3)] == [ROWS, COLUMNS, BATCH]
    assert [cut.name for cut in cuts_of(8)] == list(CUTS)
    assert [cut.mesh_shape for cut in cuts_of(8, [GRID])] == [(4, 2)]


def test_a_problem_grows_with_the_ranks():
    problem = parse("some n2c4h16w12 k6r3s3 # even")
    rows = cuts_of(4, [ROWS])[0]
    assert rows.scaled(problem, STRONG) is problem
    assert rows.scaled(problem, WEAK).input_shape == (2, 4, 64, 12)


def test_efficiency_is_of_all_devices():
    seconds = {ALONE: Seconds(8.0, 1.0), SHARDED: Seconds(4.0, 1.0)}
    case = Case("some", STRONG, ROWS, FORWARD, 4, seconds=seconds)
    assert case.efficiency(SHARDED, ALONE) == 0.5
    case.scaling = WEAK
    assert case.efficiency(SHARDED, ALONE) == 2
    assert case.efficiency(NO_OVERLAP, ALONE) is None
    assert "| 8000.000 | 4000.000 | 1000.000 | 200% |" in scaling.report([case])


def test_the_chart_has_a_bar_for_each_number_of_devices(tmp_path):
    def recorded(devices: int, scaling: str) -> dict:
        seconds = {ALONE: Seconds(8.0, 1.0), SHARDED: Seconds(4.0, 1.0)}
        return asdict(Case("some", scaling, ROWS, FORWARD, devices, seconds=seconds))

    layers = {"cases": [recorded(n, scaling) for n in (2, 4) for scaling in (STRONG, WEAK)]}
    steps = [
        asdict(Case("net", WEAK, cut, "step", n, seconds={SHARDED: Seconds(time, 1.0)}))
        for cut, n, time in (("one device", 1, 3.0), ("DDP", 2, 4.0))
    ]
    bars = scaling_chart.bars([layers, {"cases": steps}])
    assert [(bar.scaling, bar.devices, bar.efficiency) for bar in bars] == [
        (STRONG, 2, 1.0),
        (WEAK, 2, 2.0),
        (STRONG, 4, 0.5),
        (WEAK, 4, 2.0),
        (WEAK, 2, 0.75),
    ]
    chart = tmp_path / "chart.png"
    assert not scaling_chart.is_of(bars, chart)
    scaling_chart.draw(bars, "some device", chart)
    assert scaling_chart.is_of(bars, chart)
    assert not scaling_chart.is_of(bars[1:], chart)


def run_together(here: Ranks) -> None:
    """What needs processes, in one start of them."""
    torch.manual_seed(here.rank)

    def fail() -> None:
        if here.rank == 1:
            raise KeyError("of one rank")

    with pytest.raises(Failed, match="of one rank"):
        here.attempt(fail)
    assert here.attempt(lambda: here.rank) == here.rank

    seconds = here.seconds(lambda: torch.ones(1), 0)
    assert here.gathered(seconds) == [seconds] * 2

    settings = Settings(here.device, torch.float64, torch.contiguous_format)
    x = torch.randn(2, 3, 32, 16, generator=torch.Generator().manual_seed(0)).double()
    whole = sharded_networks.unet(settings, 4, 2)
    expected = whole(x)
    gradient = torch.randn_like(expected, generator=None)
    torch.distributed.broadcast(gradient, 0)
    expected.backward(gradient)
    for cut in cuts_of(2, [ROWS, COLUMNS]):
        mesh = here.mesh(2)
        (dim,) = cut.ranks
        model = sharded_networks.cut_network(sharded_networks.unet(settings, 4, 2), cut, mesh)
        y = model(x.chunk(2, dim)[here.rank].contiguous())
        torch.testing.assert_close(y, expected.chunk(2, dim)[here.rank])
        y.backward(gradient.chunk(2, dim)[here.rank].contiguous())
        for mine, its in zip(model.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, its.grad)


def test_ranks_agree_and_a_network_that_is_cut_computes_the_same():
    ranks.spawn(2, "cpu", run_together)


def run(tmp_path, *arguments: str) -> dict:
    distributed.main([*QUICK, "--output", str(tmp_path), "--name", "some", *arguments])
    (file,) = tmp_path.glob("some_*.json")
    return json.loads(file.read_text())


def test_layers_beside_torch(tmp_path):
    options = ["--only", "plain", "--cuts", "rows", "batch", "--scaling", "strong"]
    record = run(tmp_path, "layers", *options)
    cases = {(case["cut"], case["direction"]): case for case in record["cases"]}
    assert cases.keys() == {(cut, pass_) for cut in (ROWS, BATCH) for pass_ in (FORWARD, BOTH)}
    for (cut, direction), case in cases.items():
        assert {ALONE, SHARDED} <= case["seconds"].keys()
        assert (NO_OVERLAP in case["seconds"]) == (cut == ROWS)
        assert ("PyTorch's DDP" in case["seconds"]) == (cut == BATCH and direction == BOTH)
        assert 0 < case["expected"] < 1
    assert DTENSOR in cases[BATCH, FORWARD]["seconds"]
    # torch takes the halo of the columns.
    assert "wrong" in cases[ROWS, FORWARD]["failed"][DTENSOR]
    text = (tmp_path / "some_layers.md").read_text()
    assert "| plain | strong | rows | forward |" in text
    assert "- PyTorch's DTensor failed: its result is wrong" in text


def test_a_network_and_its_training(tmp_path):
    options = [
        "--network-width",
        "4",
        "--network-depth",
        "1",
        "--network-shape",
        *"1 3 8 8".split(),
    ]
    record = run(tmp_path, "network", *options, "--cuts", "rows", "batch", "--passes", FORWARD)
    named = [(case["scaling"], case["cut"]) for case in record["cases"]]
    assert named == [(STRONG, ROWS), (WEAK, ROWS), (WEAK, BATCH)]  # one image is not cut
    assert not any(case["failed"] for case in record["cases"])
    (tmp_path / "some_network.json").unlink()

    options += ["--training-shape", *"2 3 8 8".split()]
    record = run(tmp_path, "training", *options)
    assert [case["cut"] for case in record["cases"]] == ["one device", "DDP", "FSDP2"]
    assert all({"haloconv", "PyTorch"} == case["seconds"].keys() for case in record["cases"])


def test_no_case_is_begun_after_the_limit(tmp_path, capfd):
    distributed.main([*QUICK, "--only", "plain", "--time-limit", "-1"])
    assert "plain" not in capfd.readouterr().out
