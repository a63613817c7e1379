"""Trains an autoencoder with transposed layers on handwritten digits, for C++ to run.

Each digit becomes 8 numbers, and an image again. The scripted model goes to autoencoder.pt, digits
that it has not seen and what Python makes of them to unseen.pt: examples/cpp reads both.
"""

import argparse
from pathlib import Path

import digits
import torch
from torch import Tensor, nn

import haloconv

TRAINED_ON = 1500  # the other 297 digits are the test
BATCH = 64
SEED = 0


def autoencoder() -> nn.Module:
    encoder = nn.Sequential(
        haloconv.nn.Conv2d(1, 16, 3, stride=2, padding=1),  # 8x8 to 4x4
        nn.ReLU(),
        haloconv.nn.Conv2d(16, 32, 3, stride=2, padding=1),  # to 2x2
        nn.ReLU(),
        haloconv.nn.Conv2d(32, 8, 2),  # to 8 numbers
    )
    decoder = nn.Sequential(
        haloconv.nn.ConvTranspose2d(8, 32, 2),  # to 2x2
        nn.ReLU(),
        haloconv.nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),  # to 4x4
        nn.ReLU(),
        haloconv.nn.ConvTranspose2d(16, 1, 3, stride=2, padding=1, output_padding=1),  # to 8x8
        nn.Sigmoid(),
    )
    return nn.Sequential(encoder, decoder)


def train(model: nn.Module, images: Tensor, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(steps):
        batch = images[torch.randint(len(images), (BATCH,)).to(images.device)]
        loss = nn.functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for what is written")
    parser.add_argument("--steps", type=int, default=500, help="training steps")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(SEED)
    images, _ = digits.load(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    model = autoencoder().to(images.device)
    train(model, images[:TRAINED_ON], arguments.steps)
    unseen = images[TRAINED_ON:]
    with torch.no_grad():
        decoded = model(unseen)
    print(f"Python  error {(decoded - unseen).square().mean().sqrt():.4f}, white is 1")

    torch.jit.script(model.eval()).save(arguments.out / "autoencoder.pt")
    saved = {"images": unseen.cpu(), "decoded": decoded.cpu()}
    torch.save(saved, arguments.out / "unseen.pt")
    print(f"Wrote {arguments.out}/autoencoder.pt and unseen.pt")


if __name__ == "__main__":
    main()
