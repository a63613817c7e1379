"""Trains a small convolutional denoiser on one photograph and tries it on another.

Every layer is haloconv::conv2d. The trained network is scripted and saved to denoiser.pt, the noisy
photograph to photograph.pt: examples/cpp reads both, with no Python.
"""

import argparse
import time
from pathlib import Path

import numpy
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor, nn

from haloconv.nn import Conv2d

NOISE = 25 / 255  # standard deviation, where white is 1
SEED = 0


class Denoiser(nn.Module):
    """Four 3x3 layers that estimate the noise and take it away."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.estimate = nn.Sequential(
            Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, noisy: Tensor) -> Tensor:
        return noisy - self.estimate(noisy)


def photograph(name: str) -> Tensor:
    """One of scikit-learn's two photographs, (1, 3, h, w), from 0 to 1."""
    pixels = torch.from_numpy(numpy.array(load_sample_image(name)))  # (h, w, 3)
    return pixels.permute(2, 0, 1).unsqueeze(0) / 255


def add_noise(clean: Tensor) -> Tensor:
    return clean + NOISE * torch.randn_like(clean)


def psnr(image: Tensor, clean: Tensor) -> float:
    """Peak signal-to-noise ratio in dB."""
    return -10 * (image - clean).square().mean().log10().item()


def random_patches(image: Tensor, count: int, size: int) -> Tensor:
    """Squares of an image (1, 3, h, w), flipped and turned at random: (count, 3, size, size)."""
    h, w = image.shape[2:]
    patches = []
    for _ in range(count):
        y = int(torch.randint(h - size + 1, ()))
        x = int(torch.randint(w - size + 1, ()))
        patch = image[0, :, y : y + size, x : x + size]
        if torch.rand(()) < 0.5:
            patch = patch.flip(2)
        patches.append(patch.rot90(int(torch.randint(4, ())), (1, 2)))
    return torch.stack(patches)


def train(model: Denoiser, clean: Tensor, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    start = time.monotonic()
    for step in range(1, steps + 1):
        patches = random_patches(clean, count=16, size=40)
        loss = (model(add_noise(patches)) - patches).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % max(1, steps // 20) == 0:
            seconds = time.monotonic() - start
            print(
                f"  step {step:5} of {steps}   training patches "
                f"{-10 * loss.log10().item():.2f} dB   {seconds:.0f} s",
                flush=True,
            )


def save_picture(path: Path, images: list[Tensor]) -> None:
    """Images (1, 3, h, w) side by side."""
    row = torch.cat(images, dim=3)[0].clamp(0, 1).mul(255).round().byte()
    Image.fromarray(row.permute(1, 2, 0).cpu().numpy()).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for what is written")
    parser.add_argument("--steps", type=int, default=2400, help="training steps")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(SEED)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Denoiser().to(device)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"Training {parameters} parameters on china.jpg, on {device}")
    train(model, photograph("china.jpg").to(device), arguments.steps)

    torch.manual_seed(SEED)  # the same noise, whatever training drew
    clean = photograph("flower.jpg")
    noisy = add_noise(clean)
    scripted = torch.jit.script(model.eval())
    with torch.no_grad():
        denoised = scripted(noisy.to(device)).cpu()
    print(f"flower.jpg, noisy     {psnr(noisy, clean):.4f} dB")
    print(f"flower.jpg, denoised  {psnr(denoised, clean):.4f} dB")

    scripted.cpu().save(arguments.out / "denoiser.pt")
    torch.save({"noisy": noisy, "clean": clean}, arguments.out / "photograph.pt")
    save_picture(arguments.out / "denoised.png", [noisy, denoised, clean])
    print(f"Wrote {arguments.out}/denoiser.pt, photograph.pt and denoised.png")


if __name__ == "__main__":
    main()
