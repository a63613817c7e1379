"""What two examples share: scikit-learn's handwritten digits, and a network that reads them.

Nothing here knows haloconv: it is the training script that a user already has.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

BATCH = 64


def load(device: torch.device) -> tuple[Tensor, Tensor]:
    """Images (1797, 1, 8, 8), from 0 to 1, and which digits they show (1797)."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32, device=device).unsqueeze(1) / 16
    return images, torch.tensor(digits.target, device=device)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding="same"),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


def train(model: nn.Module, images: Tensor, labels: Tensor, steps: int) -> list[float]:
    """The loss at each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        batch = torch.randint(len(images), (BATCH,)).to(images.device)
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()
