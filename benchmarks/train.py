"""Times training steps (forward, loss, backward, SGD) of models as they are and with haloconv.

Each model is copied, the copy's convolutions go to haloconv (haloconv.replace), and both train on
the same batch in turns. Prints a table and, with --output, writes it as NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

import models
import tables
from environment import describe
from problems import SHAPES, load
from run import load_haloconv

Step = Callable[[], None]


# Models and the sizes of their batches.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "ResNet-50": (models.resnet50, (64, 3, 224, 224)),
    "VGG-16": (models.vgg16, (64, 3, 224, 224)),
    "U-Net": (models.UNet, (8, 3, 512, 512)),
    "ConvNeXt-T": (models.from_torchvision("convnext_tiny"), (64, 3, 224, 224)),
    "EfficientNet-B0": (models.from_torchvision("efficientnet_b0"), (64, 3, 224, 224)),
}


def training_step(model: nn.Module, batch: Tensor, target: Tensor, autocast: bool = False) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=autocast):
            loss = nn.functional.mse_loss(model(batch), target)
        loss.backward()
        optimizer.step()

    return step


def milliseconds(step: Step) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def peak_bytes(step: Step) -> int:
    """Of device memory, above what lies there before the step."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def compare(
    make: Callable[[], nn.Module], batch: Tensor, steps: int, autocast: bool = False
) -> dict[str, float]:
    """Medians of `steps` steps each, in turns, after two that warm up."""
    import haloconv

    torch.manual_seed(0)
    in_channels = batch.is_contiguous(memory_format=torch.channels_last)
    format = torch.channels_last if in_channels else torch.contiguous_format
    theirs = make().to(batch.device, memory_format=format)
    with torch.no_grad():
        target = torch.randn_like(theirs(batch))
    ours = copy.deepcopy(theirs)
    haloconv.replace(ours)
    pair = [training_step(model, batch, target, autocast) for model in (theirs, ours)]
    for step in pair * 2:
        step()
    peaks = [peak_bytes(step) for step in pair]
    times: list[list[float]] = [[], []]
    for _ in range(steps):
        for step, its_times in zip(pair, times, strict=True):
            its_times.append(milliseconds(step))
    medians = [statistics.median(its_times) for its_times in times]
    return {
        "pytorch_ms": medians[0],
        "haloconv_ms": medians[1],
        "ratio": medians[0] / medians[1],
        "pytorch_peak_gib": peaks[0] / 2**30,
        "haloconv_peak_gib": peaks[1] / 2**30,
    }


def table(rows: dict[str, dict[str, float]]) -> str:
    columns = {
        "PyTorch, ms": "pytorch_ms",
        "haloconv, ms": "haloconv_ms",
        "ratio": "ratio",
        "its peak, GiB": "pytorch_peak_gib",
        "peak, GiB": "haloconv_peak_gib",
    }
    cells = [[name, *(f"{row[key]:.2f}" for key in columns.values())] for name, row in rows.items()]
    return tables.table(["training step", *columns], cells)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    tables.add_options(parser, "training")
    parser.add_argument("--steps", type=int, default=10, help="steps of each model")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="models to take (default: all)")
    parser.add_argument("--channels-last", action="store_true", help="models and batches")
    parser.add_argument("--autocast", action="store_true", help="to bfloat16")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("No CUDA device: the benchmark measures GPUs only, nothing was measured.")
        return 0
    load_haloconv()
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    cases = {
        problem.name: (lambda p=problem: models.OneLayer(p), problem.input_shape)
        for problem in load(SHAPES / "reference.txt")
    } | NETWORKS
    format = torch.channels_last if options.channels_last else torch.contiguous_format
    environment = describe(device, options.commit)
    environment |= {"channels_last": options.channels_last, "autocast": options.autocast}
    rows = {}
    for name, (make, shape) in cases.items():
        if options.only and name not in options.only:
            continue
        time.sleep(0.2)
        batch = torch.randn(shape, device=device).contiguous(memory_format=format)
        rows[name] = compare(make, batch, options.steps, options.autocast)
        torch.cuda.empty_cache()
        print(table({name: rows[name]}).split("\n")[-1], file=sys.stderr, flush=True)
        # After each model, so that a run that is cut off leaves what it measured.
        tables.save(options, environment, {"rows": rows}, table(rows))
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
