"""Small calls of every operator, for the checks that run each operator many ways."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from support import normals

ops = torch.ops.haloconv


@dataclass(frozen=True)
class Sample:
    """A call: op(*tensors, *rest, **options). All tensors are float64 and require gradients."""

    name: str
    op: Callable
    shapes: tuple[tuple[int, ...], ...]
    rest: tuple
    options: dict[str, bool] = field(default_factory=dict)

    def tensors(self) -> list[Tensor]:
        return [normals(s, seed).requires_grad_() for seed, s in enumerate(self.shapes)]

    def call(self, *tensors: Tensor):
        return self.op(*self.with_bias(*tensors), *self.rest, **self.options)

    def with_bias(self, *tensors: Tensor) -> tuple[Tensor | None, ...]:
        """None where a forward operator goes without."""
        is_forward = self.op.__name__.partition(".")[0] in _FORWARD
        return (*tensors, None) if is_forward and len(tensors) == 2 else tensors

    def __str__(self) -> str:
        return self.name


_FORWARD = ("conv2d", "conv_transpose2d", "conv1d", "conv_transpose1d")

# name: input, weight, result, (stride, padding, dilation, groups)
_PROBLEMS = {
    "plain": ((2, 2, 3, 3), (3, 2, 3, 2), (2, 3, 3, 4), ([1, 1], [1, 1], [1, 1], 1)),
    "every_parameter": ((1, 4, 6, 5), (2, 2, 2, 3), (1, 2, 3, 5), ([2, 1], [1, 2], [2, 2], 2)),
    "four_sided": ((1, 1, 3, 4), (2, 1, 2, 2), (1, 2, 3, 3), ([1, 2], [0, 1, 2, 1], [1, 1], 1)),
    "unbatched": ((2, 3, 4), (2, 2, 2, 2), (2, 2, 3), ([1, 1], [0, 0], [1, 1], 1)),
    "depthwise": ((2, 2, 3, 3), (4, 1, 2, 2), (2, 4, 2, 2), ([1, 1], [0, 0], [1, 1], 2)),
}

# operator, name: input, weight, bias, parameters in their order
_RELATIVES = {
    ("conv_transpose2d", "every_parameter"): (
        ((1, 4, 3, 2), (4, 1, 2, 3), (2,)),
        ([2, 1], [1, 0, 1, 2], [1, 0], 2, [2, 2]),
    ),
    ("conv_transpose2d", "unbatched"): (((2, 3, 2), (2, 3, 2, 2)), ([2, 2], [0, 0], [0, 0], 1)),
    # Rows of the result that lie beyond what any tap of the last row of the input reaches.
    ("conv_transpose2d", "beyond"): (
        ((2, 2, 2, 3), (2, 2, 2, 1), (2,)),
        ([1, 1], [0, 0], [2, 0], 1, [3, 1]),
    ),
    ("conv1d", "causal"): (((2, 2, 5), (3, 2, 3), (3,)), ([1], [4, 0], [2], 1)),
    ("conv1d", "unbatched"): (((4, 5), (2, 2, 2)), ([2], [1], [1], 2)),
    ("conv_transpose1d", "every_parameter"): (
        ((2, 4, 3), (4, 1, 3), (2,)),
        ([3], [1, 0], [1], 2, [2]),
    ),
}


def _samples() -> list[Sample]:
    made = []
    for name, (x, w, y, parameters) in _PROBLEMS.items():
        bias = (w[0],)
        size, kernel = list(x[-2:]), list(w[-2:])
        made += [
            Sample(f"conv2d-{name}", ops.conv2d.default, (x, w, bias), parameters),
            Sample(f"dgrad-{name}", ops.conv2d_dgrad.default, (y, w), (size, *parameters)),
            Sample(f"wgrad-{name}", ops.conv2d_wgrad.default, (y, x), (kernel, *parameters)),
            Sample(
                f"wgrad_bias-{name}", ops.conv2d_wgrad_bias.default, (y, x), (kernel, *parameters)
            ),
            Sample(
                f"backward-{name}",
                ops.conv2d_backward.default,
                (y, x, w),
                parameters,
                {"with_bias": True},
            ),
        ]
    x, w, _, _ = _PROBLEMS["plain"]
    made += [
        Sample("conv2d-no_bias", ops.conv2d.default, (x, w), ([1, 1], [0, 0], [1, 1], 1)),
        Sample("padding-same", ops.conv2d.padding, (x, w, (3,)), ([1, 1], "same", [1, 1], 1)),
        Sample("padding-valid", ops.conv2d.padding, (x, w), ([1, 1], "valid", [1, 1], 1)),
    ]
    for (operator, name), (shapes, parameters) in _RELATIVES.items():
        made.append(
            Sample(f"{operator}-{name}", getattr(ops, operator).default, shapes, parameters)
        )
    return made


SAMPLES = _samples()
