"""Best against best over whole networks: configurations, errors and the table, on the CPU."""

import copy
import gc
import json
import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import haloconv
import kernels
import networks
from configurations import HALOCONV, LAYOUTS, PYTORCH, WAYS, Configuration, configurations


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(8, 2),
    )


def modes(kind):
    torch.manual_seed(0)
    return kind(small(), torch.randn(4, 3, 8, 8))


def test_each_side_has_each_way_in_each_layout():
    everything = configurations(False, list(WAYS), list(LAYOUTS))
    assert len(everything) == len(set(everything)) == 2 * len(WAYS) * len(LAYOUTS)
    trained = {c.way for c in configurations(True, list(WAYS), list(LAYOUTS))}
    assert trained == set(WAYS) - {"frozen", "scripted"}


@pytest.mark.parametrize("side", [PYTORCH, HALOCONV])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", ["eager", "scripted"])
def test_a_configuration_runs_the_sides_convolution_in_its_layout(side, layout, way):
    mode = modes(networks.Inference)
    before = copy.deepcopy(mode.model.state_dict())
    step = Configuration(side, way, layout).prepare(mode.model, mode.batch, mode.make_step)
    step()  # TorchScript's profile
    with torch.profiler.profile() as profile:
        result = step()
    names = {event.key for event in profile.key_averages()}
    assert any(name.startswith("haloconv::conv2d") for name in names) == (side == HALOCONV)
    torch.testing.assert_close(result.double(), mode.exact, rtol=2.0**-6, atol=2.0**-6)
    for name, value in mode.model.state_dict().items():  # a copy ran, not the model
        assert torch.equal(value, before[name])


def test_a_frozen_network_is_compiled_while_inductor_freezes(monkeypatch):
    freezing = []

    def compile(model, **options):
        return lambda batch: freezing.append(torch._inductor.config.freezing) or model(batch)

    monkeypatch.setattr(torch, "compile", compile)
    mode = modes(networks.Inference)
    for way in ("frozen", "compiled"):
        Configuration(PYTORCH, way, "rows").prepare(mode.model, mode.batch, mode.make_step)()
    assert freezing == [True, False, False]


def test_the_layout_is_of_model_and_batch():
    seen = []

    def make_step(model, batch):
        seen.extend([model[0].weight, batch])
        return lambda: model(batch)

    mode = modes(networks.Training)
    for layout, format in LAYOUTS.items():
        Configuration(PYTORCH, "eager", layout).prepare(mode.model, mode.batch, make_step)
        assert all(tensor.is_contiguous(memory_format=format) for tensor in seen)
        seen.clear()


def test_training_computes_the_same_each_time():
    """Dropout is off: else the gradients' error would be noise."""
    mode = modes(networks.Training)
    eager = Configuration(HALOCONV, "eager", "rows")
    errors = [mode.begin(eager)[1] for _ in range(2)]
    assert 0 < errors[0] < 2.0**-5  # bfloat16's rounding, of few layers
    assert errors[0] == errors[1]


def test_an_error_is_seen(monkeypatch):
    mode = modes(networks.Training)
    eager = Configuration(HALOCONV, "eager", "rows")
    _, right = mode.begin(eager)

    def another(self, x):
        return nn.functional.conv2d(x, self.weight.flip(0), padding=1)

    monkeypatch.setattr(haloconv.nn.Conv2d, "forward", another)
    assert mode.begin(eager)[1] > 10 * right


def measured(kind=networks.Inference):
    class Timer:
        cache_bytes = 0

        def seconds(self, call, launches, cold):
            call(0)
            return 2e-3

    mode = modes(kind)
    candidates = configurations(mode.training, ["eager"], list(LAYOUTS))
    return networks.measure("small", mode, candidates, Timer(), 0.01)


@pytest.mark.parametrize("kind", [networks.Inference, networks.Training])
def test_a_row_has_the_best_of_both_sides(kind):
    row = measured(kind)
    assert row.milliseconds[PYTORCH] == {"eager, rows": 2.0, "eager, channels last": 2.0}
    assert row.in_turns == {PYTORCH: 2.0, HALOCONV: 2.0} and row.ratio == 1.0
    assert row.is_good and not row.failed
    text = networks.report([row])
    assert "| small | " + row.mode + " | eager, rows | eager, rows | 2.00 | 2.00 | 1.00 |" in text
    assert f"{row.mode}: 1.00 in the geometric mean, least 1.00" in text


def test_a_side_that_fails_is_named(monkeypatch):
    def fail(model):
        raise RuntimeError("no such luck\nand more")

    monkeypatch.setattr(haloconv, "replace", fail)
    row = measured()
    assert row.ratio is None and not row.is_good
    text = networks.report([row])
    assert "- small, inference, haloconv, eager, rows: RuntimeError: no such luck" in text
    assert "and more" not in text


def test_a_wrong_result_is_marked():
    row = networks.Row("net", "inference", 4, in_turns={PYTORCH: 2.0, HALOCONV: 1.0})
    for theirs, ours, is_wrong in [
        (1e-3, 4.1 * 2.0**-9, True),  # more than twice the rounding of four convolutions
        (1e-3, 3.9 * 2.0**-9, False),
        (5 * 2.0**-9, 8 * 2.0**-9, False),  # as PyTorch's
        (5 * 2.0**-9, 11 * 2.0**-9, True),
    ]:
        row.errors = {PYTORCH: theirs, HALOCONV: ours}
        assert ("2.00, WRONG" in networks.report([row])) == is_wrong


def test_main_writes_what_it_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(networks, "NETWORKS", {"small": (small, (2, 3, 8, 8))})
    arguments = ["--device", "cpu", "--ways", "eager", "--seconds", "0.01", "--layouts", "rows"]
    arguments += ["--networks", "small", "--output", str(tmp_path)]
    assert networks.main(arguments) == 0
    rows = json.loads((tmp_path / "networks.json").read_text())["rows"]
    assert [row["mode"] for row in rows] == ["inference", "training"]
    assert "geometric mean" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("void haloconv::halo::halo_kernel<...>", "haloconv"),
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16", "convolutions of cuDNN"),
        ("void cudnn::engines_precompiled::nchwToNhwcKernel", "layout copies"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW", "batch norm"),
        ("triton_poi_fused_convolution_relu_0", "Inductor"),
        ("nvjet_hsh_128x256", "matrix products"),
        ("Memcpy DtoD", "copies"),
        ("void at::native::vectorized_elementwise_kernel", "others"),
    ],
)
def test_kinds_of_kernels(kernel, kind):
    assert kernels.kind_of(kernel) == kind


def test_a_captured_step_keeps_the_memory_that_its_graph_uses(monkeypatch):
    stream = SimpleNamespace(wait_stream=lambda other: None)
    fakes = {
        "Stream": lambda: stream,
        "current_stream": lambda: stream,
        "stream": nullcontext,
        "CUDAGraph": lambda: SimpleNamespace(replay=lambda: None),
        "graph": lambda graph, stream: nullcontext(),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    used = []

    def make_step(model, batch):
        used.extend((weakref.ref(model), weakref.ref(batch)))
        return lambda: model(batch)

    configuration = Configuration(PYTORCH, "captured", "channels last")
    step = configuration.prepare(nn.Conv2d(3, 2, 1), torch.ones(1, 3, 4, 4), make_step)
    gc.collect()
    step()
    assert [reference() is None for reference in used] == [False, False]
