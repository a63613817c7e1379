"""Trains a network twice, with torch's convolutions and with haloconv's, from the same start.

haloconv.replace(model) is the one line that differs. The curves of the loss go to losses.png.
"""

import argparse
import sys
from pathlib import Path

import digits
import torch
from matplotlib.figure import Figure

import haloconv

TRAINED_ON = 1500  # the other 297 digits are the test
SEED = 0
MAX_DIFFERENCE = 0.05  # in accuracy: 15 of the test's digits


def save_curves(path: Path, torch_losses: list[float], losses: list[float]) -> None:
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    curves, differences = figure.subplots(2, sharex=True, height_ratios=(2, 1))
    curves.semilogy(torch_losses, color="C1", linewidth=4, alpha=0.5, label="torch.nn.Conv2d")
    curves.semilogy(losses, color="C0", linewidth=1, label="haloconv.nn.Conv2d")
    curves.set_ylabel("loss")
    curves.legend()
    between = [abs(a - b) for a, b in zip(torch_losses, losses, strict=True)]
    differences.semilogy(between, color="C0", linewidth=1)
    differences.set_ylabel("difference")
    differences.set_xlabel("step")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for what is written")
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = digits.load(device)
    curves, accuracies = {}, {}
    for name in ("torch", "haloconv"):
        torch.manual_seed(SEED)
        model = digits.network().to(device)
        if name == "haloconv":
            print(haloconv.replace(model))
        curves[name] = digits.train(
            model, images[:TRAINED_ON], labels[:TRAINED_ON], arguments.steps
        )
        accuracies[name] = digits.accuracy(model, images[TRAINED_ON:], labels[TRAINED_ON:])

    print("| convolutions | first loss | last loss | test accuracy |\n|---|--:|--:|--:|")
    for name, losses in curves.items():
        print(f"| {name} | {losses[0]:.6f} | {losses[-1]:.6f} | {accuracies[name]:.2%} |")
    save_curves(arguments.out / "losses.png", curves["torch"], curves["haloconv"])
    print(f"Wrote {arguments.out}/losses.png")
    if abs(accuracies["torch"] - accuracies["haloconv"]) > MAX_DIFFERENCE:
        sys.exit("error: the two trained networks differ")


if __name__ == "__main__":
    main()
