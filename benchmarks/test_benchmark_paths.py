"""Every path, with a network of one layer or a small U-Net, and what is reported of failures."""

import json

import pytest
import torch
from torch import nn

import models
import paths
from fakes import CPU
from paths import HALOCONV, PYTORCH, Cell
from timing import HostTimer

COMPILED = ["compile", "compile_fx"]  # a C++ compiler runs for some seconds


@pytest.fixture
def networks(monkeypatch):
    def one_layer():
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())

    shape = (2, 3, 16, 16)
    networks = {"one": (one_layer, shape), "unet": (lambda: models.UNet(4, depth=1), shape)}
    monkeypatch.setattr(paths, "NETWORKS", networks)
    return networks


def run(*arguments: str) -> int:
    return paths.main(["--device", "cpu", "--seconds-per-cell", "0", *arguments])


@pytest.mark.parametrize("name", ["one", "unet"])
def test_paths_run_haloconv(name, networks, tmp_path, capsys):
    # aoti has a test of its own, below, and takes longest.
    left = {"aoti"} if name == "one" else {"aoti", *COMPILED}
    chosen = [path for path in paths.PATHS if path not in left]
    assert run("--networks", name, "--paths", *chosen, "--output", str(tmp_path)) == 0
    cells = json.loads((tmp_path / "paths.json").read_text())["cells"]
    assert [cell["path"] for cell in cells] == chosen
    for cell in cells:
        assert cell["reasons"] == {}
        assert cell["calls"] == cell["layers"] == (1 if name == "one" else 8)
        assert cell["seconds"].keys() == {PYTORCH, HALOCONV}
        # float32's own error; on a CPU both compute alike, but for what Inductor rearranges.
        assert 0 < cell["errors"][HALOCONV] < 1 and cell["difference"] < 1
    text = capsys.readouterr().out.strip()
    assert text in (tmp_path / "paths.md").read_text()
    assert text.split("\n")[-len(chosen) - 2].startswith("| haloconv, ms (ratio) | " + name)
    assert len(text.split("\n")[-1].split("|")) == 4


def test_every_network_is_made_and_takes_its_batch():
    for make, shape in paths.NETWORKS.values():
        with torch.device("meta"):
            model = make().eval()
            output = model(torch.empty(1, *shape[1:]))
        output = output["out"] if isinstance(output, dict) else output
        assert output.shape[0] == 1 and any(isinstance(m, nn.Conv2d) for m in model.modules())


def test_failures_are_reported_and_what_works_is_timed(networks, monkeypatch, tmp_path, capsys):
    def fail(network, folder):
        raise ValueError("no such thing\nmore")

    ways = {"ours fails": (paths.as_it_is, fail), "both fail": (fail, fail)}
    ways["theirs fails"] = (fail, paths.replaced)
    monkeypatch.setattr(paths, "PATHS", ways)
    assert run("--networks", "one", "--paths", "both fail", "theirs fails") == 0
    text = capsys.readouterr().out
    assert "- one, both fail, haloconv: ValueError: no such thing\n" in text
    assert "| both fail | fails |" in text
    assert run("--networks", "one", "--paths", "ours fails") == 1
    assert "- one, ours fails, haloconv: ValueError: no such thing\n" in capsys.readouterr().out


def test_wrong_results_and_a_path_without_haloconv_are_found(
    networks, tmp_path, capsys, monkeypatch
):
    def wrong(network, folder):
        model = paths.replaced(network, folder)
        return lambda x: 1.01 * model(x)

    ways = {"wrong": (paths.as_it_is, wrong), "neither": (paths.as_it_is, paths.as_it_is)}
    monkeypatch.setattr(paths, "PATHS", ways)
    for path in ways:
        assert run("--networks", "one", "--paths", path) == 1
        assert ", WRONG |" in capsys.readouterr().out
    network = paths.Network("one", (2, 3, 16, 16), CPU)
    cell = paths.measure(network, "wrong", tmp_path, HostTimer(CPU), 0.0)
    # One layer and one per cent, in units of 2^-18.
    assert cell.errors[HALOCONV] == pytest.approx(0.01 * 2**18, rel=0.01)
    assert cell.difference == pytest.approx(0.01 * 2**18, rel=0.01)


def test_packages_are_used_again(networks, monkeypatch, tmp_path):
    made = []

    def compile_package(program, package_path):
        made.append(package_path)
        torch.export.save(program, package_path)

    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", compile_package)
    monkeypatch.setattr(
        torch._inductor, "aoti_load_package", lambda path: torch.export.load(path).module()
    )
    arguments = ["--networks", "one", "--paths", "aoti", "--packages", str(tmp_path / "packages")]
    assert run(*arguments) == 0 and run(*arguments) == 0
    assert len(made) == 2
    assert run(*arguments, "--size", "8") == 0  # is another program
    assert len(made) == 4


def test_ratio():
    cell = Cell("network", "path", 3)
    assert cell.ratio is None
    cell.seconds = {PYTORCH: 3.0, HALOCONV: 2.0}
    assert cell.ratio == 1.5


@pytest.mark.parametrize("may_leave", [False, True])
def test_only_what_is_timed_first_may_leave_every_layer(may_leave):
    cell = Cell("network", "path", 3, may_leave, calls=0, errors={HALOCONV: 0.5})
    assert cell.is_good is may_leave
    cell.calls = 3
    assert cell.is_good
    cell.errors[HALOCONV] = 3.0
    assert not cell.is_good
