"""A model's convolutions that are haloconv's: which implementation takes them, or has to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from operators import DIRECTIONS
from report import implementation_of, takes


@dataclass(frozen=True)
class Call:
    """One of a module's calls."""

    module: nn.Module
    shape: torch.Size  # of the input
    directions: tuple[str, ...]  # forward and, where gradients are asked for, their own

    def explain(self, direction: str) -> str:
        import haloconv

        m = self.module
        input = torch.empty(self.shape, dtype=m.weight.dtype, device=m.weight.device)
        return haloconv.explain(
            input, m.weight, m.bias, m.stride, m.padding, m.dilation, m.groups, direction
        )

    def accepts(self, name: str, *directions: str) -> bool:
        """Whether the implementation takes all of these directions."""
        return name != "auto" and all(takes(self.explain(d), name) for d in directions)


class Convolutions:
    """Watches haloconv's convolutions in a model as they are called.

    With a name, each is forced to run that implementation where it takes the forward and backward
    pass.
    """

    def __init__(self, model: nn.Module, forced: str = "auto") -> None:
        import haloconv

        self._forced = forced
        self._calls: dict[nn.Module, Call] = {}
        self._forces: dict[nn.Module, bool] = {}  # found once, for explain plans anew
        for module in model.modules():
            if isinstance(module, haloconv.nn.Conv2d):
                module.register_forward_pre_hook(self._before)
                module.register_forward_hook(self._after)

    def counts(self) -> dict[str, dict[str, int]]:
        """For each direction, how many of the convolutions each implementation takes."""
        return {
            direction: dict(
                Counter(
                    self._taken_by(module, direction)
                    for module, call in self._calls.items()
                    if direction in call.directions
                ).most_common()
            )
            for direction in DIRECTIONS
        }

    def _taken_by(self, module: nn.Module, direction: str) -> str:
        if self._forces[module]:
            return self._forced
        return implementation_of(self._calls[module].explain(direction))

    def _before(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if module not in self._calls:
            (input,) = inputs
            gradients = ("dgrad",) * input.requires_grad + ("wgrad",) * module.weight.requires_grad
            call = Call(module, input.shape, ("fprop", *gradients))
            self._calls[module] = call
            self._forces[module] = call.accepts(self._forced, *call.directions)
        if self._forces[module]:
            _force(self._forced)

    def _after(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        _force("auto")


def _force(name: str) -> None:
    torch.ops.haloconv.force_implementation(name)
