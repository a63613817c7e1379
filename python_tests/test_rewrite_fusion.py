"""What haloconv.rewrite() makes part of a convolution, and what it must leave beside it."""

import re
import subprocess
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import haloconv
from support import assert_equal, integers, normals
from test_rewrite import PROGRAM, needs_program


class Model(torch.nn.Module):
    def __init__(self, function: Callable):
        super().__init__()
        self.weight = torch.nn.Parameter(normals((4, 4, 3, 3), 1))
        self.function = function

    def forward(self, x):
        return self.function(x, self.weight)


def inputs(*shape: int) -> Tensor:
    return normals(shape or (2, 4, 6, 7))


def convolved(x, w):
    return F.conv2d(x, w, padding=1)


def rewrite_traced(function: Callable, **options):
    """function(x, weight) traced, as a module, and both rewritten."""
    model = Model(function)
    traced = torch.jit.trace(model, inputs(), check_trace=False)
    return model, *haloconv.rewrite(traced, **options)


def operators(module) -> list[str]:
    return re.findall(r"(?:aten|haloconv)::\w+", str(module.inlined_graph))


ACTIVATIONS = [
    ("relu", torch.relu),
    ("relu_", torch.relu_),
    ("relu6", F.relu6),
    ("leaky_relu", F.leaky_relu),
    ("leaky_relu_", lambda y: F.leaky_relu(y, 0.25, inplace=True)),
    ("hardtanh", lambda y: F.hardtanh(y, -1, 0.5)),
    ("clamp", lambda y: y.clamp(-0.5, 1)),
    ("clamp", lambda y: y.clamp(max=1)),
    ("clamp_", lambda y: y.clamp_(min=0.25)),
    ("sigmoid", torch.sigmoid),
    ("tanh_", torch.tanh_),
    ("silu", F.silu),
    ("silu_", lambda y: F.silu(y, inplace=True)),
    ("gelu", F.gelu),
    ("gelu", lambda y: F.gelu(y, approximate="tanh")),
    ("hardswish", F.hardswish),
    ("hardsigmoid", F.hardsigmoid),
    ("mish", F.mish),
    ("elu", F.elu),
    ("elu_", lambda y: F.elu(y, 0.5, inplace=True)),
]


@pytest.mark.parametrize(("name", "function"), ACTIVATIONS)
def test_an_activation(name, function):
    model, rewritten, report = rewrite_traced(lambda x, w: function(convolved(x, w)))
    assert operators(rewritten) == ["haloconv::conv2d_fused"]
    assert f"  fused {name} into aten::_convolution" in report
    assert_equal(rewritten(inputs()), model(inputs()))


ADDITIONS = {
    "add": lambda y, x: y + x,
    "added to": lambda y, x: x + y,
    "add_": lambda y, x: y.add_(x),
}


@pytest.mark.parametrize("kind", ADDITIONS)
@pytest.mark.parametrize("activated", [False, True])
def test_a_residual(kind, activated):
    def block(x, w):
        y = ADDITIONS[kind](convolved(x, w), x)
        return torch.relu_(y) if activated else y

    model, rewritten, report = rewrite_traced(block)
    name = "add_" if kind == "add_" else "add"
    assert f"  fused {name}{', relu_' if activated else ''} into aten::_convolution" in report
    assert "replaced 1, left 0, fused 1\n" in report
    ours = [o for o in operators(rewritten) if o.startswith("haloconv")]
    assert ours == [
        "haloconv::conv2d_takes_residual", "haloconv::conv2d_fused", "haloconv::conv2d"
    ]  # fmt: skip
    for shape in ((2, 4, 6, 7), (4, 6, 7)):
        assert_equal(rewritten(inputs(*shape)), model(inputs(*shape)))


def test_a_residual_that_another_convolution_computes():
    """The addition belongs to the first, and takes what the second has taken."""

    def block(x, w):
        return torch.relu(convolved(x, w) + torch.sigmoid(convolved(x * 2, w)))

    model, rewritten, report = rewrite_traced(block)
    assert "fused add, relu into" in report and "fused sigmoid into" in report, report
    assert_equal(rewritten(inputs()), model(inputs()))


def test_an_addition_belongs_to_one_convolution():
    model, rewritten, report = rewrite_traced(lambda x, w: convolved(x, w) + convolved(x * 2, w))
    assert "fused 1\n" in report and "aten::add is part of another convolution" in report, report
    assert_equal(rewritten(inputs()), model(inputs()))


@pytest.mark.parametrize("kind", ADDITIONS)
@pytest.mark.parametrize(
    "residual",
    [
        normals((2, 4, 6, 7), 3),
        normals((4, 1, 1), 3),
        normals((1, 4, 6, 7), 3),
        normals((7,), 3),
        normals((2, 4, 6, 7), 3, torch.float32),
        normals((2, 4, 6, 7), 3).contiguous(memory_format=torch.channels_last),
        torch.tensor(1.5),
    ],
    ids=["same", "per channel", "one image", "row", "float32", "channels_last", "number"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_tensor_that_may_be_no_residual(residual, kind, dtype):
    class Adding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(normals((4, 4, 3, 3), 1, dtype))

        def forward(self, x, residual):
            return torch.relu(ADDITIONS[kind](F.conv2d(x, self.weight, padding="same"), residual))

    model = Adding()
    example = inputs().to(dtype)
    traced = torch.jit.trace(model, (example, example), check_trace=False)
    rewritten, report = haloconv.rewrite(traced)
    assert f"fused {'add_' if kind == 'add_' else 'add'}, relu into" in report
    actual, expected = rewritten(example, residual), model(example, residual)
    assert_equal(actual, expected)
    assert actual.stride() == expected.stride()


def test_a_residual_that_makes_the_result_larger():
    model, rewritten, _ = rewrite_traced(lambda x, w: F.conv2d(x, w) + x[..., :1, :1, :1])
    x = inputs(1, 4, 3, 3)
    larger = inputs(5, 4, 3, 3)
    assert_equal(rewritten(x), model(x))
    broadcast = Model(lambda x, w: F.conv2d(x[:1], w) + x)
    ours, _ = haloconv.rewrite(torch.jit.trace(broadcast, larger, check_trace=False))
    assert ours(larger).shape == (5, 4, 3, 3)
    assert_equal(ours(larger), broadcast(larger))


def test_autocast_keeps_its_types():
    model, rewritten, _ = rewrite_traced(lambda x, w: torch.relu(convolved(x, w) + x))
    model.float()
    rewritten.float()
    x = inputs().float()
    with torch.autocast("cpu", torch.bfloat16):
        actual, expected = rewritten(x), model(x)
    assert actual.dtype == expected.dtype == torch.float32
    assert_equal(actual, expected)


def test_gradients():
    model, rewritten, _ = rewrite_traced(lambda x, w: F.silu(convolved(x, w) + x))
    grads = []
    for module in (model, rewritten):
        x = inputs().requires_grad_()
        grads.append(torch.autograd.grad(module(x).square().sum(), (x, *module.parameters())))
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-11)


def two_uses(x, w):
    y = convolved(x, w)
    return torch.relu(y) + y


def added_to_itself(x, w):
    y = convolved(x, w)
    return y + y


def view_of_the_result(x, w):
    y = convolved(x, w)
    first = y[0]
    return torch.relu_(y).sum() + first.sum()


def scaled_addition(x, w):
    return torch.add(convolved(x, w), x, alpha=2)


def added_number(x, w):
    return convolved(x, w) + 1.5


def residual_written(x, w):
    residual = x * 1
    return residual.add_(convolved(residual, w)) + residual


def bounds_crossed(x, w):
    return convolved(x, w).clamp(1, -1)


def scaled_elu(x, w):
    return F.selu(convolved(x, w))


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (two_uses, "its result has more than one use"),
        (added_to_itself, "its result has more than one use"),
        (view_of_the_result, "its result has more than one use"),
        (scaled_addition, "aten::add multiplies or adds a number"),
        (added_number, "aten::add multiplies or adds a number"),
        (residual_written, "aten::add_ adds to another tensor"),
        (bounds_crossed, "aten::clamp has arguments that are not known or not supported"),
        (scaled_elu, "aten::selu follows"),
        (convolved, "its result leaves the block"),
    ],
)
def test_what_is_left(function, why):
    model, rewritten, report = rewrite_traced(function)
    assert "haloconv::conv2d_fused" not in operators(rewritten)
    assert re.search(rf"fused nothing into aten::_convolution in .*: {why}\n", report), report
    assert_equal(rewritten(inputs()), model(inputs()))


class SigmoidOut(torch.nn.Module):
    def forward(self, x, w, out):
        return torch.sigmoid(F.conv2d(x, w, padding=1), out=out)


class ClampOut(torch.nn.Module):
    def forward(self, x, w, out):
        return torch.clamp(F.conv2d(x, w, padding=1), 0.0, 1.0, out=out)


class AddOut(torch.nn.Module):
    def forward(self, x, w, out):
        return torch.add(F.conv2d(x, w, padding=1), x, out=out)


@pytest.mark.parametrize("kind", [SigmoidOut, ClampOut, AddOut])
def test_a_tensor_given_as_out_is_written(kind):
    model = kind()
    rewritten, report = haloconv.rewrite(torch.jit.script(model))
    assert re.search(r"fused nothing into aten::\w+ in .*: aten::\w+ has out=\n", report), report
    x, w = inputs(), normals((4, 4, 3, 3), 1)
    outs = [torch.zeros_like(x) for _ in range(2)]
    results = [module(x, w, out) for module, out in zip((rewritten, model), outs, strict=True)]
    assert_equal(*results)
    assert_equal(*outs)


class Integers(torch.nn.Module):
    """Most activations of integers give floating-point numbers."""

    def forward(self, x, w):
        y = F.conv2d(x, w, padding=1)
        return y.clamp(0, 5), torch.sigmoid(F.conv2d(x, w)), F.conv2d(x, w).clamp(min=-1)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_integers(device):
    rewritten, report = haloconv.rewrite(torch.jit.script(Integers()))
    assert re.findall(r"fused (.*) into", report) == ["clamp", "sigmoid", "clamp"], report
    x, w = (integers(shape, dtype=torch.int64).to(device) for shape in ((2, 4, 6, 7), (4, 4, 3, 3)))
    for mine, theirs in zip(rewritten(x, w), Integers()(x, w), strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if device == "cpu":
            assert_equal(mine, theirs)


class Residual(torch.nn.Module):
    def forward(self, x, w):
        return torch.relu(F.conv2d(x, w, padding=1) + x)


def test_a_residual_on_meta_tensors():
    rewritten, report = haloconv.rewrite(torch.jit.script(Residual()))
    assert "fused add, relu into" in report
    result = rewritten(inputs().to("meta"), normals((4, 4, 3, 3), 1).to("meta"))
    assert result.is_meta and result.shape == inputs().shape


class ChangedBetween(torch.nn.Module):
    """The convolution's operand changes before the residual is added: it cannot wait until then."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 4, 3, padding=1).double()

    def forward(self, x):
        x = x * 1
        y = self.conv(x)
        x.relu_()
        return y + x


class SharedInPlace(ChangedBetween):
    def forward(self, x):
        y = self.conv(x)
        z = torch.relu_(y)
        return z * 2 + y


class ResidualUsedLater(ChangedBetween):
    def forward(self, x):
        x = x * 1
        y = torch.relu(self.conv(x) + x)
        x.mul_(3)
        return y, x


class ResidualMadeLater(ChangedBetween):
    def forward(self, x):
        y = self.conv(x)
        shortcut = torch.tanh(x) + 1
        y += shortcut
        other = shortcut * 2
        return torch.relu_(y), other


class Condition(ChangedBetween):
    def forward(self, x):
        y = self.conv(x)
        if x.size(0) > 1:
            y = torch.relu(y)
            y = torch.sigmoid(self.conv(y))
        return y


class Loop(ChangedBetween):
    def forward(self, x):
        y = self.conv(x)
        for _ in range(x.size(0)):
            x = torch.relu(self.conv(x) + y)
        return x


class Tail(ChangedBetween):
    """Two convolutions added: only one can take the other."""

    def forward(self, x):
        return torch.relu(self.conv(x) + self.conv(x * 2))


@pytest.mark.parametrize(
    ("kind", "fused"),
    [
        (ChangedBetween, ["nothing"]),
        (SharedInPlace, ["nothing"]),
        (ResidualUsedLater, ["add, relu"]),
        (ResidualMadeLater, ["add_, relu_"]),
        (Condition, ["nothing", "sigmoid"]),
        (Loop, ["nothing", "add, relu"]),
        (Tail, ["add, relu", "nothing"]),
    ],
)
def test_order_and_control_flow(kind, fused):
    torch.manual_seed(0)
    model = kind().eval()
    rewritten, report = haloconv.rewrite(torch.jit.script(model), freeze=True)
    assert re.findall(r"fused (.*) into", report) == fused, report
    for x in (inputs(), inputs(1, 4, 6, 7)):
        actual, expected = rewritten(x.clone()), model(x.clone())
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


class Bottleneck(torch.nn.Module):
    """As torchvision's: batch norm, activations in place, a shortcut."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(4, 8, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(8)
        self.conv2 = torch.nn.Conv2d(8, 4, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(4)
        self.relu = torch.nn.ReLU(inplace=True)

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


@pytest.mark.parametrize("traced", [False, True])
def test_a_frozen_residual_block(traced):
    torch.manual_seed(0)
    model = torch.nn.Sequential(Bottleneck(), Bottleneck()).double()
    model(inputs())
    model.eval()
    x = inputs()
    scripted = torch.jit.trace(model, x) if traced else torch.jit.script(model)
    rewritten, report = haloconv.rewrite(scripted, freeze=True)
    assert re.findall(r"fused (.*) into", report) == ["relu_", "add_, relu_"] * 2, report
    torch.testing.assert_close(rewritten(x), model(x), rtol=1e-10, atol=1e-12)
    # Not frozen, batch norm stays, and modules return what they compute.
    unfrozen, report = haloconv.rewrite(scripted)
    assert "fused 0\n" in report
    assert_equal(unfrozen(x), model(x))


def test_fusion_can_be_left_out():
    model, rewritten, report = rewrite_traced(lambda x, w: torch.relu(convolved(x, w)), fuse=False)
    assert operators(rewritten) == ["haloconv::conv2d", "aten::relu"]
    assert " into " not in report
    assert_equal(rewritten(inputs()), model(inputs()))


@needs_program
def test_the_program_fuses_unless_told_not_to(tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 3), torch.nn.ReLU())
    torch.jit.script(model).save(tmp_path / "in.pt")
    command = [PROGRAM, "--freeze", "--check", "1,1,5,5", tmp_path / "in.pt", tmp_path / "out.pt"]
    for more, expected in (((), "  fused relu into "), (("--no-fuse",), "fused 0\n")):
        done = subprocess.run([*command, *more], capture_output=True, text=True)
        assert done.returncode == 0 and expected in done.stdout, done


@pytest.mark.parametrize(
    ("residual", "fits"),
    [
        (integers((2, 4, 6, 7)), True),
        (integers((1, 4, 6, 7)), False),
        (integers((2, 4, 6, 7), dtype=torch.float32), False),
        (integers((2, 4, 6, 7)).contiguous(memory_format=torch.channels_last), False),
        (integers((2, 4, 6, 7)).to("meta"), False),
    ],
)
@pytest.mark.parametrize("padding", [1, "same"])
def test_what_counts_as_a_residual(residual, fits, padding):
    padding = padding if isinstance(padding, str) else [padding]
    arguments = (inputs(), normals((4, 4, 3, 3)), residual, [1], padding)
    assert torch.ops.haloconv.conv2d_takes_residual(*arguments) is fits
    vmapped = torch.func.vmap(
        lambda x, r: (
            torch.ops.haloconv.conv2d_takes_residual(x, arguments[1], r, [1], padding) and x
        ),
        in_dims=0,
    )
    if fits:
        assert_equal(
            vmapped(inputs(3, 2, 4, 6, 7), residual.expand(3, -1, -1, -1, -1)),
            inputs(3, 2, 4, 6, 7),
        )
