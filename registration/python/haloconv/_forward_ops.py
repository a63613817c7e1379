"""The forward operators, conv2d and its relatives, as one table.

Torch has a function and an operator of aten by the name of each, with the same arguments.
"""

from dataclasses import dataclass

import torch

from haloconv._torch_compat import OpOverload

_aten, _ops = torch.ops.aten, torch.ops.haloconv


@dataclass(frozen=True)
class ForwardOp:
    name: str
    pixel_dims: int  # 2: images are (n, c, h, w); 1: rows are (n, c, w)
    transposed: bool

    @property
    def parameters(self) -> dict[str, int]:
        """What follows input, weight and bias, in order, with its default."""
        if self.transposed:
            return {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1}
        return {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}

    @property
    def overloads(self) -> list[str]:
        """Of the operator and of its fused form; "padding" takes a padding by name."""
        return ["default"] if self.transposed else ["default", "padding"]

    def ours(self, overload: str) -> OpOverload:
        return getattr(getattr(_ops, self.name), overload)

    def fused(self, overload: str) -> OpOverload:
        return getattr(getattr(_ops, f"{self.name}_fused"), overload)

    def aten(self, overload: str) -> OpOverload:
        packet = getattr(_aten, self.name)
        return getattr(packet, overload if overload in packet.overloads() else "input")


FORWARD_OPS = (
    ForwardOp("conv2d", 2, False),
    ForwardOp("conv_transpose2d", 2, True),
    ForwardOp("conv1d", 1, False),
    ForwardOp("conv_transpose1d", 1, True),
)
