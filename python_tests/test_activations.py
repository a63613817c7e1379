"""conv2d_fused's activations: tests and documentation list what the library's table holds."""

import inspect
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import fused_calls
import haloconv
import test_fx_fusion
import test_rewrite_fusion
from haloconv._activations import ACTIVATIONS
from support import assert_equal, normals

_HEADER = Path(__file__).resolve().parents[1] / "registration" / "conv2d.h"
_FUSIBLE = {name for name, a in ACTIVATIONS.items() if a.aten}


def signature(name: str) -> str:
    """As pages write it: "leaky_relu" (negative_slope=0.01)."""
    activation = ACTIVATIONS[name]
    defaults = activation.defaults or [None] * len(activation.arguments)
    pairs = zip(activation.arguments, defaults, strict=True)
    arguments = ", ".join(a if d is None else f"{a}={d:g}" for a, d in pairs)
    return f'"{name}" ({arguments})' if arguments else f'"{name}"'


def test_the_tests_know_every_activation():
    assert {a.name for a in fused_calls.ACTIVATIONS} == set(ACTIVATIONS)
    assert set(test_fx_fusion.ACTIVATIONS) == _FUSIBLE
    rewritten = {name.rstrip("_") for name, _ in test_rewrite_fusion.ACTIVATIONS}
    assert rewritten == {ACTIVATIONS[name].aten for name in _FUSIBLE}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_row_is_what_the_operator_does(name):
    activation = ACTIVATIONS[name]
    x, w = normals((1, 1, 1, 99), dtype=torch.float32) * 5, torch.ones(1, 1, 1, 1)
    arguments = (-2.0, 3.0) if name == "clamp" else ()
    y = haloconv.conv2d_fused(x, w, activation=name, activation_arguments=arguments)
    torch.testing.assert_close(y, activation(x, *arguments))


@pytest.mark.parametrize("text", ["conv2d.h", "functional.py"])
def test_the_documentation_lists_them(text):
    documentation = {
        "conv2d.h": _HEADER.read_text().replace("//", ""),
        "functional.py": inspect.getdoc(haloconv.conv2d_fused),
    }[text]
    plain = re.sub(r"\s+", " ", documentation).replace(" = ", "=")
    listed = re.search(r'"none", "relu",.* or "elu" \(.*?\)', plain).group()
    assert re.split(r", (?=\")| or ", listed) == [signature(name) for name in ACTIVATIONS]


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "expected"),
    [
        (F.elu, (0.5, True), {}, [0.5]),
        (F.elu, (0.5,), {"inplace": False}, [0.5]),
        (torch.ops.aten.elu.default, (0.5, 1.0, 1), {}, [0.5]),
        (torch.ops.aten.elu.default, (0.5, 2), {}, None),
        (F.hardtanh, (), {"max_val": 3}, [-1, 3]),
        ("clamp", (), {"max": 3}, [-float("inf"), 3]),
        (torch.clamp, (4, 3), {}, None),
    ],
)
def test_a_call_s_arguments(target, args, kwargs, expected):
    name = target if isinstance(target, str) else target.__name__.split(".")[0]
    assert ACTIVATIONS[name].arguments_of(target, (object(), *args), kwargs) == expected


def test_a_call_s_approximation_chooses_the_name():
    for approximate, taken in (("none", "gelu"), ("tanh", "gelu_tanh")):
        for name in ("gelu", "gelu_tanh"):
            given = ACTIVATIONS[name].arguments_of(F.gelu, (), {"approximate": approximate})
            assert given == ([] if name == taken else None)


def test_the_decomposition_of_what_has_no_default():
    x = normals((2, 3))
    assert_equal(ACTIVATIONS["clamp"](x, -0.5, 0.5), x.clamp(-0.5, 0.5))
