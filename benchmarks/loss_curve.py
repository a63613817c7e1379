"""Trains a network with PyTorch and with haloconv, from several seeds each.

All see the same pictures, made up as they are needed, in the same order. A seed is that of the
initial weights, and haloconv's networks start from PyTorch's. Curves are smoothed (the mean of 20
steps) and compared with PyTorch's of the same seed; what these differences are judged by is how
PyTorch's own differ from seed to seed. In the first steps, before rounding has grown, each of
haloconv's losses has to be nearer to PyTorch's than any two seeds' are, and the curves' greatest
distance within the greatest between two seeds.

A hundred steps on, rounding moves a curve as far as another seed does. So the last values are
compared as two groups: if names were given to them at random, their means would have to be as far
apart as they are in at least one of a hundred cases. And after a third of the steps no curve may be
three times as far from PyTorch's as two seeds ever are there. Exits with 1 where anything of this
does not hold.

Prints which implementations took haloconv's convolutions, then the distances; with --output, writes
them as NAME.json, NAME.md and NAME.png.
"""

from __future__ import annotations

import argparse
import itertools
import math
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
LEAST_CHANCE = 0.01
MOST_LATE = 3.0  # times the greatest distance between two seeds


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
    """Of two curves: of the first steps as they are, then smoothed, of all and of later steps."""

    first: float
    greatest: float
    late: float  # the greatest after a third of the steps

    @classmethod
    def between(cls, a: Sequence[float], b: Sequence[float]) -> Distance:
        first = max(abs(x - y) for x, y in zip(a[:FIRST], b[:FIRST], strict=True))
        apart = (smooth(a) - smooth(b)).abs()
        return cls(first, apart.max().item(), apart[len(apart) // 3 :].max().item())

    def is_within(self, others: Sequence[Distance]) -> bool:
        """Of the others, as the program's description says. A NaN is not."""
        return (
            self.first <= min(d.first for d in others)
            and self.greatest <= max(d.greatest for d in others)
            and self.late <= MOST_LATE * max(d.late for d in others)
        )


def chance(a: Sequence[float], b: Sequence[float]) -> float:
    """That groups made at random of all these values have means as far apart; of a NaN 0."""
    values, total = [*a, *b], sum(a) + sum(b)

    def apart(chosen: Sequence[float]) -> float:
        return abs(sum(chosen) / len(a) - (total - sum(chosen)) / len(b))

    least = apart(a) * (1 - 1e-9)  # sums of the same values in another order
    groups = itertools.combinations(values, len(a))
    return sum(apart(group) >= least for group in groups) / math.comb(len(values), len(a))


Curves = dict[int, list[float]]  # by seed


@dataclass(frozen=True)
class Verdict:
    distances: dict[str, Distance]  # by the names of the curves
    chances: dict[str, float]  # of the last values, by implementation
    passed: bool


def judge(pytorch: Curves, haloconv: dict[str, Curves]) -> Verdict:
    """`haloconv` by implementation."""
    noise = {
        f"PyTorch, seed {a}, and PyTorch, seed {b}": Distance.between(pytorch[a], pytorch[b])
        for a, b in itertools.combinations(pytorch, 2)
    }
    ours = {
        f"haloconv ({name}) and PyTorch, seed {seed}": Distance.between(losses, pytorch[seed])
        for name, curves in haloconv.items()
        for seed, losses in curves.items()
    }
    chances = {name: chance(_lasts(curves), _lasts(pytorch)) for name, curves in haloconv.items()}
    within = all(distance.is_within(list(noise.values())) for distance in ours.values())
    likely = all(value >= LEAST_CHANCE for value in chances.values())
    return Verdict(noise | ours, chances, within and likely)


def _lasts(curves: Curves) -> list[float]:
    return [smooth(losses)[-1].item() for losses in curves.values()]


def report(
    curves: dict[str, list[float]],
    counts: dict[str, dict[str, dict[str, int]]],
    verdict: Verdict,
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
        for name, distance in verdict.distances.items()
    ]
    header = ["distance of the curves of", f"first {FIRST} steps", "greatest", "late"]
    lines += ["", tables.table(header, rows), ""]
    lines += [
        f"- haloconv ({name}): by chance the means of the last values are as far from PyTorch's in "
        f"{value:.0%} of all cases"
        for name, value in verdict.chances.items()
    ]
    within = "within" if verdict.passed else "NOT within"
    lines += ["", f"haloconv's curves are {within} the noise of PyTorch's seeds."]
    return "\n".join(lines)


def draw(curves: dict[str, list[float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, losses in curves.items():
        dashes = "--" if name.startswith("haloconv") else "-"
        color = f"C{int(name.rsplit(' ', 1)[1]) % 10}"  # the seed's
        axes.plot(smooth(losses).tolist(), dashes, label=name, linewidth=1, color=color)
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
    add("--seeds", type=int, nargs="+", default=[*range(6)], help="of both (default: 0 to 5)")
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
    seeds = len(set(options.seeds))
    if seeds < len(options.seeds) or 2 / math.comb(2 * seeds, seeds) > LEAST_CHANCE:
        parser.error("--seeds takes five different ones or more: of fewer all may differ by chance")
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
    ours: dict[str, Curves] = {}
    counts = {}
    for name in options.implementation:
        ours[name] = {}
        for seed in options.seeds:
            model = start(seed)
            haloconv.replace(model)
            convolutions = Convolutions(model, name)
            ours[name][seed] = run(f"haloconv ({name}), seed {seed}", model)
        counts[name] = convolutions.counts()

    verdict = judge(theirs, ours)
    text = report(curves, counts, verdict)
    print(text)
    record = {
        "settings": {key: getattr(task, key) for key in ("batch", "size", "rate")}
        | {"network": options.network, "steps": options.steps},
        "implementations": counts,
        **asdict(verdict),
        "curves": curves,
    }
    stem = tables.save(options, describe(device, options.commit), record, text)
    if stem is not None:
        draw(curves, stem.with_name(stem.name + ".png"))
    return int(not verdict.passed)


if __name__ == "__main__":
    sys.exit(main())
