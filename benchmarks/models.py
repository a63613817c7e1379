"""Networks in plain torch, as their papers give them, and torchvision's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from problems import Problem


class OneLayer(nn.Module):
    """A single convolution with bias."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        k, c, r, s = problem.weight_shape
        top, _, left, _ = problem.padding
        self.conv = nn.Conv2d(
            c * problem.groups,
            k,
            (r, s),
            problem.stride,
            (top, left),
            problem.dilation,
            problem.groups,
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


def vgg16(classes: int = 1000) -> nn.Module:
    """Simonyan & Zisserman 2015, configuration D; the classifier pools what the last map is."""
    layers: list[nn.Module] = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(512 * 49, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, classes),
    )


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.branch = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.skip = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.branch(x) + self.skip(x))


def resnet50(classes: int = 1000) -> nn.Module:
    """He et al. 2016, strides on the 3x3 convolutions."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = 4 * width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


class UNet(nn.Module):
    """Ronneberger et al. 2015 with padded convolutions: `depth` halvings from `width` channels."""

    def __init__(self, width: int = 64, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        pairs = zip([3, *widths], widths, strict=False)
        self.down = nn.ModuleList(self._block(a, b) for a, b in pairs)
        upwards = widths[-2::-1]
        self.halve = nn.ModuleList(nn.Conv2d(2 * a, a, 1) for a in upwards)
        self.up = nn.ModuleList(self._block(2 * a, a) for a in upwards)
        self.out = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _block(channels: int, width: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        maps: list[Tensor] = []
        for block in self.down:
            x = block(x if not maps else nn.functional.max_pool2d(x, 2))
            maps.append(x)
        x = maps.pop()
        for halve, up in zip(self.halve, self.up):  # noqa: B905  (TorchScript's zip has no strict)
            x = halve(nn.functional.interpolate(x, scale_factor=2.0))
            x = up(torch.cat([maps.pop(), x], dim=1))
        return self.out(x)


def from_torchvision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options)

    return make
