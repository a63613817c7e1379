"""The library's table of conv2d_fused's activations."""

import inspect
import math
from dataclasses import dataclass
from types import FunctionType

import torch
from torch import Tensor

from haloconv._torch_compat import OpOverload, schema_of


@dataclass(frozen=True)
class Activation:
    name: str  # in conv2d_fused
    aten: str  # aten's operator; "": the identity
    approximate: str  # aten's argument of this name; "": its default
    arguments: tuple[str, ...]  # those of aten's operator that a call may give
    defaults: tuple[float, ...]  # none: a call must give them

    @property
    def operator(self) -> OpOverload:
        return getattr(torch.ops.aten, self.aten).default

    def __call__(self, x: Tensor, *arguments: float) -> Tensor:
        """By aten's operator; the arguments as conv2d_fused takes them."""
        if not self.aten:
            return x
        chosen = {"approximate": self.approximate} if self.approximate else {}
        return self.operator(x, *(arguments or self.defaults), **chosen)

    def arguments_of(self, target, args: tuple, kwargs: dict) -> list[float] | None:
        """The arguments with which conv2d_fused does what a call of ``target`` does, if it can.

        ``target`` is the operator, or torch's function or method of the same name.
        """
        schema = schema_of(self.operator).arguments
        if isinstance(target, FunctionType):  # torch.nn.functional's orders its arguments itself
            call = inspect.signature(target).bind(*args, **kwargs)
            call.apply_defaults()
            given = call.arguments
        else:
            names = [argument.name for argument in schema]
            given = dict(zip(names, args, strict=False)) | kwargs
        expected = {argument.name: argument.default_value for argument in schema[1:]}
        given = expected | given
        if self.approximate:
            expected["approximate"] = self.approximate
        fixed = expected.keys() - set(self.arguments)
        if any(given[name] != expected[name] for name in fixed):
            return None
        unbounded = (-math.inf, math.inf)
        values = [given[name] for name in self.arguments]
        values = [u if v is None else v for v, u in zip(values, unbounded, strict=False)]
        return None if len(values) == 2 and not values[0] <= values[1] else values


ACTIVATIONS = {
    name: Activation(name, aten, approximate, tuple(arguments), tuple(defaults))
    for name, (aten, approximate, arguments, defaults) in torch.ops.haloconv.activations().items()
}
