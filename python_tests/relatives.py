"""conv2d's relatives, problems of theirs, and what PyTorch's own functions make of these."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from support import integers

ops = torch.ops.haloconv


@dataclass(frozen=True)
class Relative:
    """An operator, its fused form, and torch's function."""

    name: str
    pixel_dims: int
    transposed: bool
    pytorch: Callable

    @property
    def op(self):
        return getattr(ops, self.name)

    @property
    def fused(self):
        return getattr(ops, f"{self.name}_fused")

    @property
    def explain(self):
        return getattr(ops, f"{self.name}_explain")

    def __str__(self) -> str:
        return self.name


CONV_TRANSPOSE2D = Relative("conv_transpose2d", 2, True, F.conv_transpose2d)
CONV1D = Relative("conv1d", 1, False, F.conv1d)
CONV_TRANSPOSE1D = Relative("conv_transpose1d", 1, True, F.conv_transpose1d)
RELATIVES = [CONV_TRANSPOSE2D, CONV1D, CONV_TRANSPOSE1D]


@dataclass(frozen=True)
class Call:
    """One call: a value for each dimension of a pixel, and a padding for each side."""

    relative: Relative
    reason: str
    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...] = field(default=())
    padding: tuple[int, ...] = field(default=())
    output_padding: tuple[int, ...] = field(default=())
    dilation: tuple[int, ...] = field(default=())
    groups: int = 1

    def _values(self, given: tuple[int, ...], otherwise: int) -> list[int]:
        return list(given) or [otherwise] * self.relative.pixel_dims

    @property
    def out_channels(self) -> int:
        return self.weight[1] * self.groups if self.relative.transposed else self.weight[0]

    @property
    def sides(self) -> list[int]:
        return list(self.padding) or [0] * (2 * self.relative.pixel_dims)

    @property
    def parameters(self) -> tuple:
        """In the operator's order."""
        stride, dilation = self._values(self.stride, 1), self._values(self.dilation, 1)
        if not self.relative.transposed:
            return stride, self.sides, dilation, self.groups
        return stride, self.sides, self._values(self.output_padding, 0), self.groups, dilation

    def tensors(self, dtype=torch.float64, data=integers) -> tuple[Tensor, Tensor, Tensor]:
        shapes = (self.input, self.weight, (self.out_channels,))
        return tuple(data(shape, seed, dtype) for seed, shape in enumerate(shapes))

    def run(self, *tensors: Tensor | None) -> Tensor:
        return self.relative.op(*tensors, *self.parameters)

    def pytorch(self, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        """By torch's function without padding, and padding or cutting by hand."""
        dims, pytorch = self.relative.pixel_dims, self.relative.pytorch
        stride, dilation = self._values(self.stride, 1), self._values(self.dilation, 1)
        before, after = self.sides[::2], self.sides[1::2]
        if not self.relative.transposed:
            return pytorch(F.pad(x, self.sides), w, b, stride, 0, dilation, self.groups)
        y = pytorch(x, w, None, stride, 0, 0, self.groups, dilation)
        more = self._values(self.output_padding, 0)
        y = F.pad(y, [side for size in reversed(more) for side in (0, size)])
        for dim in range(dims):
            size = y.shape[dim - dims] - before[dim] - after[dim]
            y = y.narrow(dim - dims, before[dim], size)
        return y if b is None else y + b.view(-1, *[1] * dims)

    def __str__(self) -> str:
        return f"{self.relative}-{self.reason.replace(' ', '_')}"


def _edges() -> list[Call]:
    two, one, up = CONV_TRANSPOSE2D, CONV1D, CONV_TRANSPOSE1D
    return [
        Call(two, "plain", (2, 3, 5, 6), (3, 4, 3, 3), padding=(1, 1, 1, 1)),
        Call(two, "U-Net", (2, 4, 5, 3), (4, 2, 2, 2), (2, 2)),
        Call(two, "DCGAN", (2, 3, 4, 5), (3, 4, 4, 4), (2, 2), (1, 1, 1, 1)),
        Call(two, "output padding", (1, 3, 4, 5), (3, 2, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
        Call(two, "output padding of one side", (1, 2, 3, 3), (2, 2, 2, 3), (3, 2), (), (2, 0)),
        Call(two, "output padding beyond", (1, 2, 3, 2), (2, 2, 2, 2), (1, 2), (), (4, 0), (6, 1)),
        Call(
            two,
            "padding takes that",
            (1, 2, 3, 2),
            (2, 2, 2, 2),
            (2, 1),
            (0, 3, 1, 2),
            (3, 1),
            (4, 2),
        ),
        Call(
            two,
            "padding over the kernel",
            (2, 2, 6, 5),
            (2, 3, 2, 3),
            (2, 1),
            (3, 3, 4, 4),
            (),
            (1, 2),
        ),
        Call(two, "kernel smaller than stride", (2, 3, 4, 3), (3, 2, 2, 1), (3, 4)),
        Call(two, "groups", (2, 4, 3, 4), (4, 3, 3, 2), (2, 1), groups=2),
        Call(two, "depthwise", (2, 4, 5, 4), (4, 1, 4, 4), (2, 2), (1, 1, 1, 1), groups=4),
        Call(two, "dilation", (1, 2, 4, 3), (2, 3, 3, 2), (2, 2), (), (), (2, 3)),
        Call(two, "four paddings", (2, 2, 4, 5), (2, 3, 3, 4), (2, 3), (0, 3, 2, 1)),
        Call(
            two, "four paddings and more", (2, 2, 4, 5), (2, 3, 3, 4), (2, 3), (2, 0, 0, 4), (1, 2)
        ),
        Call(two, "pointwise", (2, 3, 4, 5), (3, 5, 1, 1)),
        Call(two, "unbatched", (3, 4, 5), (3, 2, 3, 3), (2, 1)),
        Call(two, "no image", (0, 3, 4, 5), (3, 2, 3, 3), (2, 1)),
        Call(one, "plain", (2, 3, 9), (4, 3, 3), padding=(1, 1)),
        Call(one, "Whisper", (1, 4, 12), (6, 4, 3), (2,), (1, 1)),
        Call(one, "WaveNet, causal", (2, 3, 20), (4, 3, 2), (), (8, 0), (), (8,)),
        Call(one, "Mamba, causal", (2, 6, 11), (6, 1, 4), padding=(3, 0), groups=6),
        Call(one, "pointwise", (2, 5, 7), (3, 5, 1)),
        Call(one, "padding alone", (1, 2, 2), (3, 2, 3), padding=(5, 4)),
        Call(one, "kernel smaller than stride", (2, 2, 15), (3, 2, 2), (4,)),
        Call(one, "groups", (2, 6, 13), (4, 3, 4), (3,), (2, 1), (), (2,), 2),
        Call(one, "unbatched", (3, 9), (4, 3, 3), (2,), (0, 2)),
        Call(one, "no image", (0, 3, 9), (4, 3, 3), (2,)),
        Call(up, "plain", (2, 3, 6), (3, 4, 3), padding=(1, 1)),
        Call(up, "HiFi-GAN", (1, 4, 5), (4, 2, 16), (8,), (4, 4)),
        Call(up, "output padding", (2, 3, 5), (3, 2, 3), (2,), (1, 1), (1,)),
        Call(up, "output padding beyond", (2, 2, 3), (2, 2, 2), (2,), (1, 0), (4,), (5,)),
        Call(up, "kernel smaller than stride", (2, 3, 4), (3, 2, 2), (3,)),
        Call(up, "groups, dilation", (2, 4, 4), (4, 1, 3), (3,), (2, 1), (), (2,), 2),
        Call(up, "unbatched", (3, 4), (3, 2, 4), (2,), (0, 2)),
        Call(up, "no image", (0, 3, 4), (3, 2, 4), (2,)),
    ]


EDGES = _edges()


def random_calls(relative: Relative, count: int) -> list[Call]:
    """Problems of small random sizes, every parameter drawn too; their results have pixels."""
    draw = random.Random(relative.name)
    dims = relative.pixel_dims
    calls = []

    def several(least: int, most: int, values: int = dims) -> tuple[int, ...]:
        return tuple(draw.randint(least, most) for _ in range(values))

    while len(calls) < count:
        groups, inputs, outputs = draw.choice([1, 1, 2, 3]), draw.randint(1, 3), draw.randint(1, 3)
        kernel, stride, dilation = several(1, 4), several(1, 4), several(1, 3)
        channels = (inputs * groups, outputs) if relative.transposed else (outputs * groups, inputs)
        image = (draw.randint(1, 3), inputs * groups, *several(1, 7))
        more = tuple(
            draw.randint(0, max(pair) - 1) if relative.transposed else 0
            for pair in zip(stride, dilation, strict=True)
        )
        call = Call(relative, f"random {len(calls)}", image, (*channels, *kernel), stride,
                    several(0, 3, 2 * dims), more, dilation, groups)  # fmt: skip
        try:
            call.run(*(t.to("meta") for t in call.tensors()))
        except RuntimeError as error:
            if "Output size is too small" not in str(error) and "Kernel size" not in str(error):
                raise
            continue
        calls.append(call)
    return calls
