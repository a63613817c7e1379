"""conv2d_fused's activations, what each computes, and calls for the tests of its derivatives."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import haloconv
from support import normals


@dataclass(frozen=True)
class Activation:
    name: str
    arguments: tuple[float, ...]
    function: object
    exact: bool  # on integers

    def __str__(self) -> str:
        return "-".join([self.name, *map(str, self.arguments)])

    @property
    def named(self) -> dict:
        return {"activation": self.name, "activation_arguments": self.arguments}


ACTIVATIONS = [
    Activation("none", (), lambda x: x, True),
    Activation("relu", (), F.relu, True),
    Activation("leaky_relu", (), F.leaky_relu, False),
    Activation("leaky_relu", (0.25,), lambda x: F.leaky_relu(x, 0.25), True),
    Activation("leaky_relu", (-0.5,), lambda x: F.leaky_relu(x, -0.5), True),
    Activation("clamp", (-3, 5), lambda x: x.clamp(-3, 5), True),
    Activation("clamp", (-float("inf"), 1.5), lambda x: x.clamp(max=1.5), True),
    Activation("hardtanh", (), F.hardtanh, True),
    Activation("hardtanh", (-2, 7), lambda x: F.hardtanh(x, -2, 7), True),
    Activation("relu6", (), F.relu6, True),
    Activation("sigmoid", (), torch.sigmoid, False),
    Activation("tanh", (), torch.tanh, False),
    Activation("silu", (), F.silu, False),
    Activation("gelu", (), F.gelu, False),
    Activation("gelu_tanh", (), lambda x: F.gelu(x, approximate="tanh"), False),
    Activation("hardswish", (), F.hardswish, False),
    # F.hardsigmoid has no second derivative.
    Activation("hardsigmoid", (), lambda x: F.relu6(x + 3) / 6, False),
    Activation("mish", (), F.mish, False),
    Activation("elu", (), F.elu, False),
    Activation("elu", (0.5,), lambda x: F.elu(x, 0.5), False),
    Activation("elu", (-0.5,), lambda x: F.elu(x, -0.5), False),
]


def composed(activation, y, scale=None, shift=None, residual=None) -> Tensor:
    """What fusion means, of conv2d's result."""
    if scale is not None:
        y = y * scale[:, None, None]
    if shift is not None:
        y = y + shift[:, None, None]
    if residual is not None:
        y = y + residual
    return activation.function(y)


# Which derivatives the call asks for, by name: each way of keeping what they need.
WANTED = {
    "all": "x w b scale shift residual",
    "no residual": "x w b scale shift",
    "input": "x",
    "input and residual": "x residual",
    "weight": "w",
    "scale": "scale",
    "residual": "residual",
}


def small(wanted: str, given: str | None = None) -> dict[str, Tensor | None]:
    shapes = {
        "x": (2, 2, 4, 3),
        "w": (2, 1, 2, 2),
        "b": (2,),
        "scale": (2,),
        "shift": (2,),
        "residual": (2, 2, 3, 2),
    }
    tensors = {}
    for seed, (name, shape) in enumerate(shapes.items()):
        tensors[name] = normals(shape, seed).requires_grad_(name in wanted.split())
    if "residual" not in wanted:
        tensors["residual"] = None
    return tensors


def fused(x, w, b=None, scale=None, shift=None, residual=None, **activation) -> Tensor:
    return haloconv.conv2d_fused(
        x, w, b, 1, 0, 1, 2, scale=scale, shift=shift, residual=residual, **activation
    )


def of_wanted(tensors, activation):
    """The call as a function of the tensors that need gradients, and those tensors."""
    wanted = [n for n, t in tensors.items() if t is not None and t.requires_grad]

    def call(*values):
        return fused(**{**tensors, **dict(zip(wanted, values, strict=True))}, **activation.named)

    return call, [tensors[n] for n in wanted]
