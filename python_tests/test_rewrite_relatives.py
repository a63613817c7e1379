"""The transposed and one-dimensional convolutions of saved models, and what follows them."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import haloconv
from support import assert_equal, fill_with_positives, normals

LAYERS = {  # each gives its input's shape, so that this can be added to its result
    "conv_transpose2d": lambda **more: nn.ConvTranspose2d(4, 4, 3, padding=1, groups=2, **more),
    "conv1d": lambda **more: nn.Conv1d(4, 4, 3, padding=1, groups=2, **more),
    "conv_transpose1d": lambda **more: nn.ConvTranspose1d(4, 4, 5, padding=2, **more),
}
NORMS = {"1d": nn.BatchNorm1d, "2d": nn.BatchNorm2d}


class Block(nn.Module):
    """A convolution, batch norm, an addition, and an activation."""

    def __init__(self, name, norm=None, bias=True):
        super().__init__()
        self.conv = LAYERS[name](bias=bias)
        self.norm = norm or nn.Identity()
        fill_with_positives(self)
        self.double().eval()

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)) + x)


def operand(name):
    return normals((2, 4, 6, 7) if name.endswith("2d") else (2, 4, 9), 1)


def scripted(model, x, traced):
    return torch.jit.trace(model, x) if traced else torch.jit.script(model)


def operators(module) -> list[str]:
    return re.findall(r"(?:aten|haloconv)::\w+", str(module.inlined_graph))


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_what_follows_becomes_part(name, traced):
    model, x = Block(name), operand(name)
    rewritten, report = haloconv.rewrite(scripted(model, x, traced), freeze=True)
    assert "fused add, silu into" in report and "replaced 1, left 0, fused 1\n" in report, report
    assert [o for o in operators(rewritten) if o.startswith("haloconv")] == [
        f"haloconv::{name}_takes_residual", f"haloconv::{name}_fused", f"haloconv::{name}"
    ]  # fmt: skip
    assert_equal(rewritten(x), model(x))
    unfrozen, report = haloconv.rewrite(scripted(model, x, traced))
    assert "replaced 1, left 0" in report and f"haloconv::{name}" in operators(unfrozen)
    assert_equal(unfrozen(x), model(x))


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_batch_norm_of_a_frozen_model_is_folded(name, affine, bias, traced):
    model = Block(name, NORMS[name[-2:]](4, affine=affine), bias)
    x = operand(name)
    rewritten, report = haloconv.rewrite(scripted(model, x, traced), freeze=True)
    assert "aten::batch_norm" not in operators(rewritten)
    assert f"haloconv::{name}_fused" in operators(rewritten), report
    torch.testing.assert_close(rewritten(x), model(x), rtol=1e-10, atol=1e-12)  # the fold rounds


def with_statistics_of_the_batch():
    return nn.Sequential(LAYERS["conv_transpose2d"](), nn.BatchNorm2d(4, track_running_stats=False))


class UsedTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = LAYERS["conv_transpose2d"](), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.conv(x)
        return self.norm(y) + y


@pytest.mark.parametrize("make", [with_statistics_of_the_batch, UsedTwice])
def test_a_batch_norm_that_stays(make):
    model, x = make().double().eval(), operand("2d")
    rewritten, report = haloconv.rewrite(torch.jit.script(model), freeze=True)
    assert "replaced 1, left 0" in report and "aten::batch_norm" in operators(rewritten)
    torch.testing.assert_close(rewritten(x), model(x), rtol=1e-12, atol=1e-12)


def test_a_folded_batch_norm_still_refuses_other_dimensions():
    model = nn.Sequential(LAYERS["conv_transpose2d"](), nn.BatchNorm2d(4), nn.ReLU())
    rewritten, report = haloconv.rewrite(torch.jit.script(model.eval()), freeze=True)
    assert "aten::batch_norm" not in operators(rewritten) and "fused relu into" in report, report
    x = operand("2d").float()
    torch.testing.assert_close(rewritten(x), model(x))
    with pytest.raises(Exception, match="expected 4D input"):
        rewritten(x[0])


class General(nn.Module):
    """aten::convolution, whose lists may hold one value for all dimensions."""

    def __init__(self, transposed: bool):
        super().__init__()
        self.weight = nn.Parameter(normals((4, 4, 3, 2), 1))
        self.transposed = transposed

    def forward(self, x):
        return torch.convolution(
            x, self.weight, None, [2], [1], [1, 1], self.transposed, [0], groups=1
        )


@pytest.mark.parametrize("transposed", [False, True])
def test_the_general_operator(transposed):
    model, x = General(transposed), operand("2d")
    rewritten, report = haloconv.rewrite(torch.jit.script(model.eval()), freeze=True)
    name = "conv_transpose2d" if transposed else "conv2d"
    assert operators(rewritten) == [f"haloconv::{name}"], report
    assert_equal(rewritten(x), model(x))


def test_padding_by_name():
    model = nn.Sequential(nn.Conv1d(4, 3, 4, padding="same"), nn.Conv1d(3, 2, 3, padding="valid"))
    x = operand("1d").float()
    for traced in (False, True):
        rewritten, report = haloconv.rewrite(scripted(model, x, traced))
        assert report.startswith("replaced 2, left 0"), report
        assert_equal(rewritten(x), model(x))


def test_gradients():
    model = nn.Sequential(Block("conv_transpose2d"), Block("conv_transpose2d"))
    rewritten, _ = haloconv.rewrite(torch.jit.script(model))
    grads = []
    for module in (model, rewritten):
        x = operand("2d").requires_grad_()
        grads.append(torch.autograd.grad(module(x).square().sum(), (x, *module.parameters())))
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-9)
