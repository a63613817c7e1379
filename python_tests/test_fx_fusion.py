"""What follows convolutions in captured graphs, made part of them."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import haloconv
from support import assert_equal, fill_with_positives, integers

aten, ops = torch.ops.aten, torch.ops.haloconv

ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "mish": F.mish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "hardtanh": lambda x: F.hardtanh(x, -2, 3),
    "clamp": lambda x: x.clamp(-3, 2),
    "elu": lambda x: F.elu(x, 0.5),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


class Layer(nn.Module):
    """A convolution, and what `after` makes of its result and of an operand of the same shape."""

    def __init__(self, after, norm=False, padding=1):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=padding, bias=not norm)
        self.norm = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.after = after
        fill_with_positives(self)
        self.eval()

    def forward(self, x):
        return self.after(self.norm(self.conv(x)), x)


def operand():
    return integers((2, 4, 6, 7), 1, dtype=torch.float32)


def export(model):
    return torch.export.export(model, (operand(),))


def fused_nodes(graph):
    return [
        n for n in graph.nodes if n.target in (ops.conv2d_fused.default, ops.conv2d_fused.padding)
    ]


def functions(graph):
    return {n.target for n in graph.nodes if n.op == "call_function"}


TAKEN_APART = ("silu", "hardswish", "hardsigmoid", "mish")  # by torch's decompositions


@pytest.mark.parametrize(
    ("name", "capture"),
    [(name, capture) for name in ACTIVATIONS for capture in ("export", "compile")]
    + [(name, "decomposed") for name in ACTIVATIONS if name not in TAKEN_APART],
)
def test_every_activation(name, capture):
    model = Layer(lambda y, x: ACTIVATIONS[name](y + x))
    with torch.no_grad():
        expected = model(operand())
        if capture == "compile":
            seen = []

            def keep(graph_module, inputs):
                seen.append(graph_module)
                return graph_module.forward

            actual = torch.compile(model, backend=haloconv.fx.backend(keep, fuse=True))(operand())
            (module,) = seen
        else:
            exported = export(model)
            exported = exported.run_decompositions() if capture == "decomposed" else exported
            module = exported.graph_module
            result = haloconv.fx.replace_convolutions(module, fuse=True)
            assert len(result.fused) == 1 and "residual" in str(result)
            actual = exported.module()(operand())
    (node,) = fused_nodes(module.graph)
    assert node.kwargs["residual"] is not None and node.kwargs["activation"] != "none"
    assert functions(module.graph) == {ops.conv2d_fused.default}
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("capture", ["export", "decomposed", "compile"])
def test_batch_norm_by_the_statistics_it_keeps(capture):
    model = Layer(lambda y, x: F.relu_(y.add_(x)), norm=True, padding="same")
    expected = model(operand())
    if capture == "compile":
        compiled = torch.compile(model, backend=haloconv.fx.backend("aot_eager", fuse=True))
        torch.testing.assert_close(compiled(operand()), expected)
        return
    exported = export(model)
    exported = exported.run_decompositions() if capture == "decomposed" else exported
    result = haloconv.fx.replace_convolutions(exported.graph_module, fuse=True)
    assert list(result.fused.values()) == ["batch norm, residual, relu"]
    assert not functions(exported.graph_module.graph) & {
        aten.batch_norm.default,
        aten.relu_.default,
    }
    torch.testing.assert_close(exported.module()(operand()), expected)


def test_a_batch_norm_of_16_bits_is_rounded_once():
    model = Layer(lambda y, x: y, norm=True).to(torch.bfloat16)
    x = operand().to(torch.bfloat16)
    exported = torch.export.export(model, (x,))
    haloconv.fx.replace_convolutions(exported.graph_module, fuse=True)
    norm = model.norm
    mean, var, weight, bias = (
        t.float() for t in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )
    scale = torch.rsqrt(var + norm.eps) * weight
    shift = bias - mean * scale
    expected = haloconv.conv2d_fused(
        x, model.conv.weight, padding=1, scale=scale.bfloat16(), shift=shift.bfloat16()
    )
    assert_equal(exported.module()(x), expected)


def test_gradients_reach_the_batch_norm():
    model = Layer(lambda y, x: F.relu(y), norm=True)
    compiled = torch.compile(model, backend=haloconv.fx.backend("aot_eager", fuse=True))
    model(operand()).sum().backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    compiled(operand()).sum().backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def multiply_in_place(y, x, factor):
    y *= factor
    return y


PRODUCTS = {
    "tensor first": lambda y, x, factor: y * factor,
    "tensor second": lambda y, x, factor: factor * y,
    "in place": multiply_in_place,
    "with what follows": lambda y, x, factor: F.relu(torch.mul(y, factor) + x),
}


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1)], ids=str)
@pytest.mark.parametrize("form", PRODUCTS)
def test_a_factor_of_each_channel(form, shape):
    factor = nn.Parameter(integers(shape, 2, dtype=torch.float32))
    model = Layer(lambda y, x: PRODUCTS[form](y, x, factor))
    seen = []

    def keep(graph_module, inputs):
        seen.append(graph_module)
        return graph_module.forward

    compiled = torch.compile(model, backend=haloconv.fx.backend(keep, fuse=True))
    wanted = [*model.parameters(), factor]
    expected = torch.autograd.grad(model(operand()).sum(), wanted)
    actual = torch.autograd.grad(compiled(operand()).sum(), wanted)
    torch.testing.assert_close(compiled(operand()), model(operand()))
    torch.testing.assert_close(actual, expected)
    (node,) = fused_nodes(seen[0].graph)
    assert node.kwargs["scale"] is not None and node.kwargs["shift"] is None
    assert functions(seen[0].graph) == {ops.conv2d_fused.default, aten.view.default}


def in_use_elsewhere(y, x):
    return F.relu(y), y


LEFT = {
    "used twice": in_use_elsewhere,
    "another shape": lambda y, x: y + x[:1],
    "a number": lambda y, x: y + 1,
    "a multiple": lambda y, x: torch.add(y, x, alpha=2),
    "itself": lambda y, x: y + y,
    "another function": lambda y, x: torch.exp(y),
    "one bound": lambda y, x: y.clamp(max=2),  # AOTInductor loads no infinite number
    "an infinite bound": lambda y, x: F.hardtanh(y, -math.inf, 2.0),
    "bounds crossed": lambda y, x: y.clamp(2, 1),
    "scaled elu": lambda y, x: F.selu(y),
    "added to another": lambda y, x: x.clone().add_(y),
    "a product by a number": lambda y, x: y * 2,
    "a factor of each element": lambda y, x: y * x,
    "a factor of each image": lambda y, x: y * x[:, :1, :1, :1],
    "a factor of each column": lambda y, x: y * x[0, 0, 0],
    "a factor of another type": lambda y, x: y * x[0, :, :1, :1].double(),
    "in training": lambda y, x: F.batch_norm(y, None, None, training=True),
}


@pytest.mark.parametrize("why", LEFT)
def test_what_is_not_taken(why):
    model = Layer(LEFT[why])
    exported = export(model)
    result = haloconv.fx.replace_convolutions(exported.graph_module, fuse=True)
    assert len(result.replaced) == 1 and not result.fused
    torch.testing.assert_close(exported.module()(operand()), model(operand()))


@pytest.mark.parametrize(
    "after",
    [
        lambda y, x, out: torch.add(y, x, out=out),
        lambda y, x, out: torch.sigmoid(y, out=out),
        lambda y, x, out: torch.clamp(y, 0, 1, out=out),
    ],
    ids=["add", "sigmoid", "clamp"],
)
@torch.no_grad()
def test_a_tensor_given_as_out_is_written(after):
    outs = [torch.zeros_like(operand()) for _ in range(2)]
    convolution = nn.Conv2d(4, 4, 3, padding=1)

    def function(x, out):
        return after(convolution(x), x, out)

    compiled = torch.compile(function, backend=haloconv.fx.backend("eager", fuse=True))
    assert_equal(compiled(operand(), outs[0]), function(operand(), outs[1]))
    assert_equal(*outs)


def test_a_batch_norm_of_an_unbatched_result_is_left():
    """Its channels come second, the result's first."""
    model = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm1d(6)).eval()
    model[1].running_mean.uniform_(1, 2)
    exported = torch.export.export(model, (operand()[0],))
    result = haloconv.fx.replace_convolutions(exported.graph_module, fuse=True)
    assert len(result.replaced) == 1 and not result.fused
    torch.testing.assert_close(exported.module()(operand()[0]), model(operand()[0]))


@torch.library.custom_op("haloconv_test::add_one", mutates_args={"x"})
def add_one(x: torch.Tensor) -> None:
    x.add_(1)


@add_one.register_fake
def _(x):
    pass


def autocast_ends_between(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = F.conv2d(F.conv2d(x, w, padding=1), w, padding=1)
    return F.relu(y)


def inference_mode_ends_between(x, w):
    with torch.inference_mode():
        y = F.conv2d(x, w, padding=1)
    return F.relu(y)


def no_grad_ends_between(x, w):
    with torch.no_grad():
        y = F.conv2d(x, w, padding=1)
    return F.relu(y)


def operand_changed_between(x, w):
    x = x * 1
    y = F.conv2d(x, w, padding=1)
    torch.ops.haloconv_test.add_one(x)
    return F.relu(y)


@pytest.mark.parametrize(
    "function",
    [
        autocast_ends_between,
        inference_mode_ends_between,
        no_grad_ends_between,
        operand_changed_between,
    ],
)
def test_a_convolution_stays_where_it_is(function):
    w = integers((4, 4, 3, 3), 2, dtype=torch.float32).requires_grad_()
    compiled = torch.compile(function, backend=haloconv.fx.backend("eager", fuse=True))
    actual, expected = compiled(operand(), w), function(operand(), w)
    assert_equal(actual, expected)
    assert actual.dtype == expected.dtype and actual.requires_grad == expected.requires_grad


def test_nothing_is_read_after_it_was_changed():
    """The convolution would move behind the relu_ of its own input."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x):
            x = x.clone()
            y = self.conv(x)
            return y + x.relu_()

    model = Model()
    exported = export(model)
    result = haloconv.fx.replace_convolutions(exported.graph_module, fuse=True)
    assert len(result.replaced) == 1 and not result.fused
    assert_equal(exported.module()(operand()), model(operand()))


def test_one_activation_and_one_addition():
    model = Layer(lambda y, x: F.relu(F.relu(y + x) + x))
    exported = export(model)
    result = haloconv.fx.replace_convolutions(exported.graph_module, fuse=True)
    assert list(result.fused.values()) == ["residual, relu"]
    assert aten.relu.default in functions(exported.graph_module.graph)
    torch.testing.assert_close(exported.module()(operand()), model(operand()))


def test_a_fused_program_is_saved_and_loaded(tmp_path):
    model = Layer(lambda y, x: F.relu(y + x), norm=True)
    exported = export(model)
    haloconv.fx.replace_convolutions(exported.graph_module, fuse=True)
    torch.export.save(exported, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    assert len(fused_nodes(loaded.graph)) == 1
    torch.testing.assert_close(loaded.module()(operand()), model(operand()))


def test_types_that_differ_are_left():
    """Under autocast the convolution's result is of another type than its operand."""
    model = Layer(lambda y, x: F.relu(y))
    seen = []

    def keep(graph_module, inputs):
        seen.append(graph_module)
        return graph_module.forward

    compiled = torch.compile(model, backend=haloconv.fx.backend(keep, fuse=True))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        compiled(operand())
    assert seen and not any(fused_nodes(module.graph) for module in seen)


class Normalized(torch.nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(4, 4, 3), torch.nn.BatchNorm2d(4, eps=eps)

    def forward(self, x):
        return self.norm(self.conv(x))


def test_an_epsilon_that_is_only_known_at_run_time():
    """Dynamo makes a number that differs between calls one."""

    def call(model, x):
        return model(x)

    compiled = torch.compile(call, backend=haloconv.fx.backend("eager", fuse=True))
    for eps in (1e-5, 1e-3, 1e-1):
        model = Normalized(eps).eval()
        torch.testing.assert_close(compiled(model, operand()), model(operand()))


def test_a_fused_batch_norm_stays_in_its_module():
    model = torch.nn.Sequential(Normalized(), torch.nn.ReLU()).eval()
    exported = torch.export.export(model, (operand(),))
    assert haloconv.fx.replace_convolutions(exported.graph_module, fuse=True).fused
    torch.testing.assert_close(torch.export.unflatten(exported)(operand()), model(operand()))
