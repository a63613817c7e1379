"""Networks as they are used, with random weights: torchvision's, and a small U-Net."""

from functools import cache

import torch
import torchvision
from torch import Tensor, nn

from support import normals


def _twice(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
        nn.Conv2d(out_channels, out_channels, 3, padding="same"),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Two levels down and up again, with a transposed convolution and skips."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.down = nn.ModuleList([_twice(3, width), _twice(width, 2 * width)])
        self.bottom = _twice(2 * width, 4 * width)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * n, n, 2, stride=2) for n in (2 * width, width)
        )
        self.join = nn.ModuleList(_twice(2 * n, n) for n in (2 * width, width))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, join in zip(self.up, self.join):  # noqa: B905  (TorchScript's zip has no strict)
            x = join(torch.cat((skips.pop(), up(x)), 1))
        return self.head(x)


_BUILDERS = {
    "resnet50": torchvision.models.resnet50,
    "mobilenet_v3_large": torchvision.models.mobilenet_v3_large,
    "convnext_tiny": torchvision.models.convnext_tiny,
    "deeplabv3_resnet50": lambda: torchvision.models.segmentation.deeplabv3_resnet50(
        weights_backbone=None
    ),
    "unet": UNet,
}
NETWORKS = list(_BUILDERS)


@cache
def network(name: str) -> nn.Module:
    """In evaluation mode; batch norm has seen images, so that folding it changes the weights.

    Shared: whoever changes it copies it first.
    """
    torch.manual_seed(0)
    model = _BUILDERS[name]()
    with torch.no_grad():
        model(images(4))
    return model.eval()


def images(count: int) -> Tensor:
    """Small, but large enough that no layer's result is smaller than 2x2."""
    return normals((count, 3, 64, 64), count, torch.float32)


def results(output: Tensor | list[Tensor] | dict[str, Tensor]) -> list[Tensor]:
    """A network's results, however it hands them over."""
    if isinstance(output, Tensor):
        return [output]
    return list(output.values() if isinstance(output, dict) else output)
