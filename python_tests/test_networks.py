"""Whole networks on haloconv's operator: rewritten and run in C++, replaced, routed, compiled."""

import copy
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import lookup_backend

import haloconv
from support import assert_equal, needs_dlopen_program, run_in_cpp
from torchvision_networks import NETWORKS, images, network, results
from watched_layers import assert_layers_are_right, watch

# float32's 2^-24, of sums of thousands, layer after layer.
ROUNDING = 1e-5

every_network = pytest.mark.parametrize("name", NETWORKS)


def count(model: nn.Module, *kinds: type[nn.Module]) -> int:
    return sum(type(module) in kinds for module in model.modules())


@cache
def saved(name: str, how: str, folder: Path) -> Path:
    path = folder / f"{name}_{how}.pt"
    model = network(name)
    if how == "script":
        torch.jit.script(model).save(path)
    else:
        torch.jit.trace(model, images(1), strict=False, check_trace=False).save(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("networks")


@needs_dlopen_program
@pytest.mark.parametrize("how,freeze", [("script", False), ("trace", True)])
@every_network
def test_rewritten_networks_compute_the_same_in_cpp(name, how, freeze, folder, tmp_path):
    x, model = images(2), network(name)
    original = torch.jit.load(saved(name, how, folder))
    rewritten = tmp_path / "rewritten.pt"
    torch.ops.haloconv.rewrite_file(str(saved(name, how, folder)), str(rewritten), freeze)

    operators = str(torch.jit.load(rewritten).inlined_graph)
    ours = operators.count("haloconv::conv2d(") + operators.count("haloconv::conv2d_fused(")
    assert ours >= count(model, nn.Conv2d)
    assert "aten::conv2d(" not in operators
    assert operators.count("aten::_convolution(") <= count(model, nn.ConvTranspose2d)

    with torch.no_grad():
        expected = results((torch.jit.freeze(original) if freeze else original)(x))
        unfolded = results(model(x))
    actual = results(run_in_cpp(rewritten, x, tmp_path))
    for mine, theirs, plain in zip(actual, expected, unfolded, strict=True):
        assert plain.abs().max() > 0
        assert_equal(mine, theirs)
        assert distance([mine], [plain]) < ROUNDING  # a fold rounds each weight once more


def outcome(model: nn.Module, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The results, and the gradients of the input and of every parameter."""
    x = x.clone().requires_grad_()
    outputs = results(model(x))
    loss = sum(output.square().sum() for output in outputs)
    return outputs, list(torch.autograd.grad(loss, [x, *model.parameters()]))


def distance(actual: list[Tensor], expected: list[Tensor]) -> float:
    mine, theirs = (torch.cat([t.flatten().double() for t in ts]) for ts in (actual, expected))
    return ((mine - theirs).norm() / theirs.norm()).item()


def assert_alike(actual: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """One by one, so that a wrong small one cannot hide behind the others."""
    for index, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        difference = (mine.double() - theirs.double()).norm()
        assert difference <= tolerance * theirs.double().norm(), f"tensor {index}"


def assert_same_on_cpu(actual, expected) -> None:
    """Equal results; the gradients' sums may be added in another order."""
    for mine, theirs in zip(actual[0], expected[0], strict=True):
        assert_equal(mine, theirs)
    assert_alike(actual[1], expected[1], ROUNDING)


def assert_tf32_explains(actual, exact, layers: int) -> None:
    """``exact`` is float64's.

    Each of n layers rounds both operands, by 2^-11 at most, and such errors add up as random
    numbers do, to sqrt(n). A rectifier whose input is as close to zero as that may open or shut:
    the share of those is like the error, and the gradient moves by the square root of the share.
    That is much: it is watch() that shows whether each layer is right.
    """
    tolerance = 2 * 2**-11 * layers**0.5
    assert distance(actual[0], exact[0]) < tolerance
    assert distance(actual[1], exact[1]) < tolerance**0.5


@pytest.mark.parametrize("way", ["replace", "route"])
@every_network
def test_networks_and_their_gradients(name, way, device):
    model, x = copy.deepcopy(network(name)).to(device), images(2).to(device)
    layers = count(model, nn.Conv2d, nn.ConvTranspose2d)
    if way == "replace":
        ours, diverted = copy.deepcopy(model), nullcontext()
        assert len(haloconv.replace(ours).replaced) == layers
    else:
        ours, diverted = model, haloconv.route()
    with watch(ours) as watched, diverted:
        actual = outcome(ours, x)
    assert len(watched) == layers
    # One layer rounds the operands of TF32, and nothing comes between that would make it more.
    assert_layers_are_right(watched, ROUNDING if device == "cpu" else 2 * 2**-11)
    if device == "cpu":
        assert_same_on_cpu(actual, outcome(model, x))
    else:
        assert_tf32_explains(actual, outcome(model.double(), x.double()), layers)


def half_a_percent_off(weight: Tensor) -> Tensor:
    """The same weight, whose gradient is not what it should be."""
    return weight * 1.005 - weight.detach() * 0.005


class WrongConv2d(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return self._conv_forward(x, half_a_percent_off(self.weight), self.bias)


class WrongConvTranspose2d(nn.ConvTranspose2d):
    def forward(self, x: Tensor) -> Tensor:
        weight = half_a_percent_off(self.weight)
        return nn.functional.conv_transpose2d(x, weight, self.bias, self.stride)


@pytest.mark.parametrize(
    "name, layer, wrong",
    [("resnet50", "layer1.0.conv1", WrongConv2d), ("unet", "up.1", WrongConvTranspose2d)],
)
def test_a_wrong_small_layer_is_noticed(name, layer, wrong):
    model = copy.deepcopy(network(name))
    model.get_submodule(layer).__class__ = wrong
    with watch(model) as watched:
        outcome(model, images(2))
    with pytest.raises(AssertionError, match=f"{layer}: weight"):
        assert_layers_are_right(watched, 2 * 2**-11)


def routed(graph: torch.fx.Graph) -> int:
    """How many nodes are haloconv::conv2d; none may be torch's."""
    targets = [str(node.target) for node in graph.nodes]
    assert not [t for t in targets if t.startswith("aten.conv2d") or "method conv2d" in t]
    return sum(t.startswith("haloconv.conv2d") for t in targets)


@every_network
def test_routed_networks_are_compiled(name):
    torch._dynamo.reset()
    model, x = network(name), images(2)
    graphs = []

    def backend(graph_module, inputs):
        graphs.append(graph_module.graph)
        return lookup_backend("aot_eager")(graph_module, inputs)

    with haloconv.route():
        actual = outcome(torch.compile(model, backend=backend, fullgraph=True), x)
    assert [routed(graph) for graph in graphs] == [count(model, nn.Conv2d)]
    for mine, theirs in zip(actual, outcome(model, x), strict=True):
        assert_alike(mine, theirs, ROUNDING)  # what torch makes of a bilinear resize rounds


@pytest.mark.parametrize("way", ["route", "fx"])
@every_network
def test_networks_are_exported(name, way):
    model, x = network(name), images(2)
    if way == "route":
        with haloconv.route():
            exported = torch.export.export(model, (x,))
    else:
        exported = torch.export.export(model, (x,))
        haloconv.fx.replace_convolutions(exported.graph_module)
    assert routed(exported.graph) == count(model, nn.Conv2d)
    with torch.no_grad():
        actual, expected = results(exported.module()(x)), results(model(x))
    for mine, theirs in zip(actual, expected, strict=True):
        assert_equal(mine, theirs)


@needs_dlopen_program
def test_a_network_compiled_ahead_of_time_runs_in_cpp(tmp_path):
    model, x = network("unet"), images(2)
    with torch.no_grad():
        expected = results(model(x))
        exported = torch.export.export(model, (x,))
    haloconv.fx.replace_convolutions(exported.graph_module)
    package = tmp_path / "network.pt2"
    torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
    actual = results(run_in_cpp(package, x, tmp_path))
    for mine, theirs in zip(actual, expected, strict=True):
        assert distance([mine], [theirs]) < ROUNDING
