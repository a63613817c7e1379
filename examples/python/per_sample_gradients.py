"""The gradient of each sample of a batch by itself, with torch.func, in one call.

A network on haloconv's convolutions learns scikit-learn's digits. vmap(grad(loss)) then says of
every image how far it alone would move the weights: the images that would move them most, which
the network finds odd, go to gradients.png, below those that would move them least.
"""

import argparse
import sys
import time
from pathlib import Path

import digits
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

import haloconv

SEED = 0
CHUNK = 128  # samples at a time: each has a copy of the weights' gradients
COMPARED = 256  # samples whose gradients are computed one by one too
SHOWN = 10
# Sums in another order differ by far less; TF32 in one way only, by a few thousandths.
MAX_DIFFERENCE = 0.05


def squared_norm(gradients: dict[str, Tensor]) -> Tensor:
    return sum(gradient.square().sum() for gradient in gradients.values())


def norms_at_once(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The norm of the loss's gradient, of each image (n, 1, 8, 8) by itself: (n)."""

    def loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        scores = functional_call(model, parameters, (image.unsqueeze(0),))
        return nn.functional.cross_entropy(scores, label.unsqueeze(0))

    def norm(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        return squared_norm(grad(loss)(parameters, image, label)).sqrt()

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    return vmap(norm, in_dims=(None, 0, 0), chunk_size=CHUNK)(parameters, images, labels)


def norms_one_by_one(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    norms = []
    for image, label in zip(images.split(1), labels.split(1), strict=True):
        model.zero_grad()
        nn.functional.cross_entropy(model(image), label).backward()
        norms.append(squared_norm({name: p.grad for name, p in model.named_parameters()}).sqrt())
    return torch.stack(norms)


def timed(function, *arguments) -> tuple[Tensor, float]:
    """What it computes, and how many milliseconds it takes until the host has that."""
    function(*arguments)
    start = time.perf_counter()
    result = function(*arguments).cpu()
    return result, 1e3 * (time.perf_counter() - start)


def save_picture(path: Path, images: Tensor, labels: Tensor, norms: Tensor) -> None:
    order = norms.argsort()
    figure = Figure(figsize=(8, 2.3), layout="constrained")
    rows = figure.subplots(2, SHOWN)
    for row, shown in zip(rows, (order[:SHOWN], order[-SHOWN:]), strict=True):
        for axes, i in zip(row, shown.tolist(), strict=True):
            axes.imshow(images[i, 0], cmap="gray_r")
            axes.set_title(f"{labels[i]}: {norms[i]:.0e}", fontsize=8)
            axes.axis("off")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for what is written")
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(SEED)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = digits.load(device)
    model = digits.network().to(device)
    haloconv.replace(model)
    digits.train(model, images, labels, arguments.steps)

    some = (model, images[:COMPARED], labels[:COMPARED])
    loop, loop_ms = timed(norms_one_by_one, *some)
    at_once, at_once_ms = timed(norms_at_once, *some)
    print(f"| {COMPARED} gradients, on {device} | ms |\n|---|--:|")
    print(f"| one by one | {loop_ms:.0f} |\n| `vmap(grad(loss))` | {at_once_ms:.0f} |")
    difference = ((loop - at_once).norm() / loop.norm()).item()
    print(f"relative difference {difference:.1e}")

    norms = norms_at_once(model, images, labels).cpu()
    save_picture(arguments.out / "gradients.png", images.cpu(), labels.cpu(), norms)
    print(f"Wrote {arguments.out}/gradients.png")
    if not difference < MAX_DIFFERENCE:
        sys.exit("error: the two ways give different gradients")


if __name__ == "__main__":
    main()
