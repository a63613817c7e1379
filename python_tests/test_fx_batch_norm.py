"""Batch norms in training in captured graphs: one operator with what follows them."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import haloconv
from haloconv.fx import batch_norm

ops = torch.ops.haloconv


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch):
    """The same graphs as on a GPU, of small images."""
    torch._dynamo.reset()
    monkeypatch.setattr(batch_norm, "_DEVICES", ("cpu",))
    monkeypatch.setattr(batch_norm, "_FEWEST", 1)


class Block(nn.Module):
    """A branch of two convolutions, and another one of the same input that is added."""

    def __init__(self, channels=8, activation=F.relu_):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.skip = nn.Conv2d(channels, channels, 1, bias=False)
        self.skip_norm = nn.BatchNorm2d(channels)
        self.activation = activation

    def forward(self, x):
        y = self.activation(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        y += self.skip_norm(self.skip(x))
        return self.activation(y)


def images(shape=(4, 8, 6, 5)):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator)
    return x.contiguous(memory_format=torch.channels_last)


def capture(model, x, **options):
    """The graph that a backend behind haloconv's gets, and its result."""
    seen = []

    def keep(graph_module, inputs):
        seen.append(graph_module)
        return graph_module.forward

    compiled = torch.compile(model, backend=haloconv.fx.backend(keep, fuse=True, **options))
    with torch.autocast("cpu", torch.bfloat16):
        compiled(x)
    (module,) = seen
    return module.graph


def taken(graph):
    """The activation of each operator, and whether it has a residual."""
    nodes = graph.find_nodes(op="call_function", target=ops.batch_norm_act.default)
    return [(node.args[8], node.args[5] is not None) for node in nodes]


def test_takes_the_addition_and_the_activation():
    graph = capture(Block().to(memory_format=torch.channels_last), images())
    assert sorted(taken(graph)) == [("none", False), ("relu", False), ("relu", True)]


@pytest.mark.parametrize("activation", [F.silu, lambda x: F.silu(x, inplace=True), torch.relu])
def test_takes_activations_that_have_kernels(activation):
    model = Block(activation=activation).to(memory_format=torch.channels_last)
    names = [name for name, _ in taken(capture(model, images()))]
    assert names.count("none") == 1 and len(names) == 3


def test_leaves_other_activations():
    model = Block(activation=F.gelu).to(memory_format=torch.channels_last)
    assert sorted(taken(capture(model, images()))) == [
        ("none", False),
        ("none", False),
        ("none", True),
    ]


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
def test_trains_as_without(inner):
    model = Block().to(memory_format=torch.channels_last)
    plain, compiled = copy.deepcopy(model), copy.deepcopy(model)
    fast = torch.compile(compiled, backend=haloconv.fx.backend(inner, fuse=True))
    x = images()
    for step in (plain, fast):
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16):
                loss = step(x).square().mean()
            loss.backward()
    for expected, actual in zip(plain.parameters(), compiled.parameters(), strict=True):
        assert (expected.grad - actual.grad).norm() <= 0.05 * expected.grad.norm()
    for expected, actual in zip(plain.buffers(), compiled.buffers(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-2, atol=1e-2)


def test_evaluation_and_other_layouts_are_left():
    model = Block().to(memory_format=torch.channels_last)
    assert taken(capture(copy.deepcopy(model).eval(), images())) == []
    torch._dynamo.reset()
    rows = capture(Block(), images().contiguous(), only_if_faster=False)
    assert taken(rows) == []


def test_small_and_wide_tensors_are_left(monkeypatch):
    model = Block().to(memory_format=torch.channels_last)
    monkeypatch.setattr(batch_norm, "_FEWEST", 1 << 30)
    assert taken(capture(model, images())) == []
    monkeypatch.setattr(batch_norm, "_FEWEST", 1)
    torch._dynamo.reset()
    seen = []
    backend = haloconv.fx.backend(lambda m, _: seen.append(m) or m.forward, fuse=True)
    torch.compile(model, backend=backend)(images())  # in float32
    assert taken(seen[0].graph) == []


def test_a_cumulative_average_has_no_number():
    """Of momentum=None torch divides by a count, which may be no constant of the graph."""
    model = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8, momentum=None))
    model = model.to(memory_format=torch.channels_last)
    plain, compiled = copy.deepcopy(model), copy.deepcopy(model)
    fast = torch.compile(compiled, backend=haloconv.fx.backend("eager", fuse=True))
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            plain(images())
            fast(images())
    for expected, actual in zip(plain.buffers(), compiled.buffers(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-2, atol=1e-2)


class Twice(nn.Module):
    """One batch norm of two images; what follows the first comes after the second."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        x = x.bfloat16()
        first = self.norm(x)
        second = self.norm(x * 3)
        return F.relu(first) + second


def test_one_batch_norm_of_two_images_keeps_its_order():
    plain, compiled = Twice(), Twice()
    fast = torch.compile(compiled, backend=haloconv.fx.backend("eager", fuse=True))
    plain(images())
    fast(images())
    for expected, actual in zip(plain.buffers(), compiled.buffers(), strict=True):
        torch.testing.assert_close(actual, expected)


def backward_graph(of_second=False, others=("relu", True)):
    """A backward graph in which the gradient of a result is a sum."""
    graph = torch.fx.Graph()

    def given(name, value):
        node = graph.placeholder(name)
        node.meta["val"] = value
        return node

    image = images().bfloat16()
    a, b, x, r = (given(name, image) for name in "abxr")
    mean, invstd = (given(name, torch.ones(8)) for name in ("mean", "invstd"))
    sum = graph.call_function(torch.ops.aten.add.Tensor, (a, b))
    sum.meta["val"] = image
    arguments = (sum, x, None, None, mean, invstd)
    if others:
        arguments = (*arguments, r, None, 1e-5, *others)
    call = graph.call_function(ops.batch_norm_act_backward.default, arguments)
    graph.output((call, sum) if of_second else (call,))
    return graph, call, (a, b)


# Graphs leave out arguments that are their defaults: here all that have any.
@pytest.mark.parametrize("others", [("relu", True), ()])
def test_the_sum_of_two_gradients_is_left_to_the_operator(others):
    graph, call, gradients = backward_graph(others=others)
    assert batch_norm.take_second_gradients(graph) == 1
    assert (call.args[0], call.args[7]) == gradients
    if not others:
        assert call.args[8:] == (1e-5, "none", False)
    graph.lint()
    assert not graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)


def test_a_sum_that_others_use_stays():
    graph, call, _ = backward_graph(of_second=True)
    assert batch_norm.take_second_gradients(graph) == 0
    assert call.args[7] is None


class Residual(nn.Module):
    """The first batch norm's result, which has no activation, is used twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(8, 8, 1, bias=False) for _ in range(2))
        self.first_norm, self.second_norm = (nn.BatchNorm2d(8) for _ in range(2))

    def forward(self, x):
        y = self.first_norm(self.first(x))
        return y + F.silu(self.second_norm(self.second(y)))


def test_inductor_compiles_gradients_that_the_operator_adds():
    torch.manual_seed(0)
    plain = Residual().to(memory_format=torch.channels_last)
    compiled = copy.deepcopy(plain)
    fast = torch.compile(compiled, backend=haloconv.fx.backend("inductor", fuse=True))
    for model in (plain, fast):
        with torch.autocast("cpu", torch.bfloat16):
            model(images()).float().square().sum().backward()
    for expected, actual in zip(plain.parameters(), compiled.parameters(), strict=True):
        apart = (actual.grad - expected.grad).norm() / expected.grad.norm()
        assert apart < 2**-6  # as many roundings of bfloat16 as there are, at other places
