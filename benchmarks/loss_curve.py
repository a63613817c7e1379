"""Trains a network with PyTorch from several seeds and with haloconv from the first of them.

All see the same pictures, made up as they are needed, in the same order; haloconv's network starts
from the weights of PyTorch's. A seed changes the initial weights. Curves are smoothed (the mean of
20 steps), and the distance of haloconv's from PyTorch's with the same seed is judged by those
between PyTorch's own with different seeds: it has to be within the greatest of these, and so have
the distances of the last values. In the first steps, before rounding has grown, haloconv's losses
have to be nearer to PyTorch's than any two seeds' are. Exits with 1 if it is not so.

A hundred steps on, rounding moves a curve as far as another seed does, so of last values that are
all alike haloconv's distance is sometimes the greatest by chance: with three seeds in about every
fourth run, with six in about every twentieth.

Prints which implementations took haloconv's convolutions, then the distances; with --output, writes
them as NAME.json, NAME.md and NAME.png.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import models
import tables
from convolutions import Convolutions
from environment import describe, find_device
from pictures import KINDS, Batch, make_batch
from run import load_haloconv

SMOOTH = 20
FIRST = 5  # steps


@dataclass(frozen=True)
class Task:
    make: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Batch], Tensor]
    batch: int
    size: int
    rate: float  # of Adam


TASKS = {
    "unet": Task(  # takes the noise away
        lambda: models.UNet(classes=3),
        lambda model, batch: F.mse_loss(model(batch.noisy), batch.clean),
        batch=8,
        size=256,
        rate=3e-4,
    ),
    "resnet50": Task(  # tells the kinds of shapes
        lambda: models.resnet50(KINDS),
        lambda model, batch: F.cross_entropy(model(batch.noisy), batch.kind),
        batch=32,
        size=128,
        rate=1e-3,
    ),
}


def train(task: Task, model: nn.Module, steps: int, device: torch.device) -> list[float]:
    """The loss of each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=task.rate)
    losses = []
    for step in range(steps):
        loss = task.loss(model, make_batch(step, task.batch, task.size, device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # on the device: nothing waits for it
    return torch.stack(losses).tolist()


def smooth(losses: Sequence[float]) -> Tensor:
    window = min(SMOOTH, len(losses))
    return torch.tensor(losses, dtype=torch.float64).unfold(0, window, 1).mean(1)


@dataclass(frozen=True)
class Distance:
    """Of two smoothed curves, but for the first steps, as they are."""

    first: float
    greatest: float
    last: float

    @classmethod
    def between(cls, a: Sequence[float], b: Sequence[float]) -> Distance:
        first = max(abs(x - y) for x, y in zip(a[:FIRST], b[:FIRST], strict=True))
        apart = (smooth(a) - smooth(b)).abs()
        return cls(first, apart.max().item(), apart[-1].item())

    def is_within(self, others: Sequence[Distance]) -> bool:
        """Of the others, by each of the three. A NaN is not."""
        return (
            self.first <= min(d.first for d in others)
            and self.greatest <= max(d.greatest for d in others)
            and self.last <= max(d.last for d in others)
        )


def judge(
    pytorch: dict[int, list[float]], haloconv: dict[str, list[float]]
) -> tuple[dict[str, Distance], bool]:
    """`pytorch` by seed, `haloconv` by implementation; its seed is the first of PyTorch's."""
    noise = {
        f"PyTorch, seed {a}, and PyTorch, seed {b}": Distance.between(pytorch[a], pytorch[b])
        for a, b in itertools.combinations(pytorch, 2)
    }
    seed = next(iter(pytorch))
    ours = {
        f"haloconv ({name}), seed {seed}, and PyTorch, seed {seed}": Distance.between(
            losses, pytorch[seed]
        )
        for name, losses in haloconv.items()
    }
    return noise | ours, all(d.is_within(list(noise.values())) for d in ours.values())


def report(
    curves: dict[str, list[float]],
    counts: dict[str, dict[str, dict[str, int]]],
    distances: dict[str, Distance],
    passed: bool,
) -> str:
    lines = []
    for name, directions in counts.items():
        for direction, taken in directions.items():
            text = ", ".join(f"{count} {implementation}" for implementation, count in taken.items())
            lines.append(f"- haloconv ({name}), convolutions in {direction}: {text}")
    smoothed = {name: smooth(losses) for name, losses in curves.items()}
    points = [round(i * (len(next(iter(smoothed.values()))) - 1) / 4) for i in range(5)]
    values = [[name, *(f"{curve[i]:.5f}" for i in points)] for name, curve in smoothed.items()]
    lines += [
        "",
        tables.table([f"mean loss of {SMOOTH} steps", *(f"from {i}" for i in points)], values),
    ]
    rows = [
        [name, *(f"{value:.2e}" for value in asdict(distance).values())]
        for name, distance in distances.items()
    ]
    header = ["distance of the curves of", f"first {FIRST} steps", "greatest", "last"]
    lines += ["", tables.table(header, rows)]
    within = "within" if passed else "NOT within"
    lines += ["", f"haloconv's distances are {within} those between PyTorch's seeds."]
    return "\n".join(lines)


def draw(curves: dict[str, list[float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, losses in curves.items():
        dashes = "--" if name.startswith("haloconv") else "-"
        axes.plot(smooth(losses).tolist(), dashes, label=name, linewidth=1)
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel(f"loss, mean of {SMOOTH} steps")
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    tables.add_options(parser, "loss_curve")
    tables.add_device(parser)
    add = parser.add_argument
    add("--network", choices=list(TASKS), default="unet")
    add("--steps", type=int, default=300)
    add("--seeds", type=int, nargs="+", default=[*range(6)], help="PyTorch's (default: 0 to 5)")
    add(
        "--implementation",
        nargs="+",
        default=["auto"],
        metavar="NAME",
        help="haloconv's, a run each: auto (default), or one to force wherever it takes a layer",
    )
    add("--batch", type=int, help="pictures in a step (default: U-Net 8, ResNet-50 32)")
    add("--size", type=int, help="their height and width (default: U-Net 256, ResNet-50 128)")
    options = parser.parse_args(arguments)
    if len(set(options.seeds)) < 2:
        parser.error("the noise takes two seeds")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    device = find_device(options.device)
    if device is None:
        return 0
    load_haloconv()
    import haloconv

    torch.backends.cudnn.benchmark = True
    given = {key: getattr(options, key) for key in ("batch", "size") if getattr(options, key)}
    task = replace(TASKS[options.network], **given)

    def start(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return task.make().to(device)

    def run(name: str, model: nn.Module) -> list[float]:
        began = time.perf_counter()
        curves[name] = train(task, model, options.steps, device)
        print(f"{name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        return curves[name]

    curves: dict[str, list[float]] = {}
    theirs = {seed: run(f"PyTorch, seed {seed}", start(seed)) for seed in options.seeds}
    ours, counts = {}, {}
    for name in options.implementation:
        model = start(options.seeds[0])
        haloconv.replace(model)
        convolutions = Convolutions(model, name)
        ours[name] = run(f"haloconv ({name}), seed {options.seeds[0]}", model)
        counts[name] = convolutions.counts()

    distances, passed = judge(theirs, ours)
    text = report(curves, counts, distances, passed)
    print(text)
    record = {
        "settings": {key: getattr(task, key) for key in ("batch", "size", "rate")}
        | {"network": options.network, "steps": options.steps},
        "implementations": counts,
        "distances": {name: asdict(distance) for name, distance in distances.items()},
        "passed": passed,
        "curves": curves,
    }
    stem = tables.save(options, describe(device, options.commit), record, text)
    if stem is not None:
        draw(curves, stem.with_name(stem.name + ".png"))
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
