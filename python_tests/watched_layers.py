"""Each convolution of a network's backward pass, compared with float64 by itself.

Over a whole network rounding adds up, and what a rectifier makes of it is more than a wrong small
layer does. A layer's own gradients follow from its input and its result's gradient.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Watched:
    layer: nn.Conv2d | nn.ConvTranspose2d
    input: Tensor | None = None
    grad_output: Tensor | None = None
    grad_input: Tensor | None = None  # by this layer alone
    grad_weight: Tensor | None = None
    grad_bias: Tensor | None = None

    def attach(self, stack: ExitStack) -> None:
        layer = self.layer
        for hook in (
            layer.register_forward_pre_hook(self._before),
            layer.register_forward_hook(self._after),
            layer.weight.register_hook(self._keep("grad_weight")),
            *([] if layer.bias is None else [layer.bias.register_hook(self._keep("grad_bias"))]),
        ):
            stack.callback(hook.remove)

    def _keep(self, name: str):
        return lambda gradient: setattr(self, name, gradient.clone())

    def _before(self, layer, arguments: tuple[Tensor]) -> Tensor:
        assert self.input is None, "a layer that runs twice has the sum of two gradients"
        self.input = arguments[0].detach().clone()
        own = arguments[0].view_as(arguments[0])
        own.register_hook(self._keep("grad_input"))
        return own

    def _after(self, layer, arguments: tuple[Tensor], output: Tensor) -> None:
        output.register_hook(self._keep("grad_output"))

    def exact(self) -> dict[str, Tensor]:
        """The gradients in float64 by torch's own function."""
        layer, names = self.layer, ["input", "weight"]
        leaves = [self.input, layer.weight]
        if layer.bias is not None:
            names, leaves = [*names, "bias"], [*leaves, layer.bias]
        leaves = [leaf.detach().double().requires_grad_() for leaf in leaves]
        bias = leaves[2:] or [None]
        arguments = [*leaves[:2], *bias, layer.stride, layer.padding]
        if isinstance(layer, nn.ConvTranspose2d):
            arguments += [layer.output_padding, layer.groups, layer.dilation]
            output = F.conv_transpose2d(*arguments)
        else:
            output = F.conv2d(*arguments, layer.dilation, layer.groups)
        gradients = torch.autograd.grad(output, leaves, self.grad_output.double())
        return dict(zip(names, gradients, strict=True))


@contextmanager
def watch(model: nn.Module) -> Iterator[dict[str, Watched]]:
    """What one forward and one backward pass within the context give, by the layers' names."""
    watched = {
        name: Watched(module)
        for name, module in model.named_modules()
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d))
    }
    with ExitStack() as stack:
        for each in watched.values():
            each.attach(stack)
        yield watched


def assert_layers_are_right(watched: dict[str, Watched], tolerance: float) -> None:
    for layer, each in watched.items():
        for name, exact in each.exact().items():
            difference = (getattr(each, f"grad_{name}").double() - exact).norm()
            assert difference <= tolerance * exact.norm(), (
                f"{layer}: {name}'s gradient is off by {difference / exact.norm():.1e}"
            )
