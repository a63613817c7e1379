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
        if self.op.__name__.startswith("conv2d.") and len(tensors) == 2:
            tensors = (*tensors, None)
        return self.op(*tensors, *self.rest, **self.options)

    def __str__(self) -> str:
        return self.name


# name: input, weight, result, (stride, padding, dilation, groups)
_PROBLEMS = {
    "plain": ((2, 2, 3, 3), (3, 2, 3, 2), (2, 3, 3, 4), ([1, 1], [1, 1], [1, 1], 1)),
    "every_parameter": ((1, 4, 6, 5), (2, 2, 2, 3), (1, 2, 3, 5), ([2, 1], [1, 2], [2, 2], 2)),
    "four_sided": ((1, 1, 3, 4), (2, 1, 2, 2), (1, 2, 3, 3), ([1, 2], [0, 1, 2, 1], [1, 1], 1)),
    "unbatched": ((2, 3, 4), (2, 2, 2, 2), (2, 2, 3), ([1, 1], [0, 0], [1, 1], 1)),
    "depthwise": ((2, 2, 3, 3), (4, 1, 2, 2), (2, 4, 2, 2), ([1, 1], [0, 0], [1, 1], 2)),
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
    return made


SAMPLES = _samples()
