"""Pictures made up as they are needed: all of a batch is random, and follows from its number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

KINDS = 4  # discs, squares, diamonds, rings
_SHAPES = 3  # of one kind in each picture
_NOISE = 0.2


@dataclass(frozen=True)
class Batch:
    noisy: Tensor  # (n, 3, size, size)
    clean: Tensor  # (n, 3, size, size), in [-0.5, 0.5]
    kind: Tensor  # (n), in [0, KINDS)


def make_batch(number: int, n: int, size: int, device: torch.device) -> Batch:
    random = torch.Generator(device).manual_seed(number)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        values = torch.rand(n, *shape, 1, 1, generator=random, device=device)
        return low + (high - low) * values

    axis = torch.linspace(-1, 1, size, device=device)
    x, y = axis, axis[:, None]
    kind = torch.randint(KINDS, (n,), generator=random, device=device)
    clean = uniform(-0.5, 0.5, 3).repeat(1, 1, size, size)
    for _ in range(_SHAPES):
        radius = uniform(0.2, 0.45)
        right, down = (x - uniform(-0.7, 0.7)).abs(), (y - uniform(-0.7, 0.7)).abs()
        far = (right.square() + down.square()).sqrt()
        disc = far < radius
        square = torch.maximum(right, down) < 0.9 * radius
        diamond = right + down < 1.2 * radius
        of_all_kinds = torch.stack([disc, square, diamond, disc & (far > 0.5 * radius)])
        shape = of_all_kinds[kind, torch.arange(n, device=device)]
        clean = torch.where(shape[:, None], uniform(-0.5, 0.5, 3), clean)
    noise = torch.randn(clean.shape, generator=random, device=device)
    return Batch(clean + _NOISE * noise, clean, kind)
