"""Times inference of whole networks on haloconv, by every path that leads a model there.

Each is timed beside the unmodified model through the same path, in turns: compiled beside compiled,
scripted beside scripted. Prints a table and, with --output, writes it as NAME.json and NAME.md
after each cell. The networks are torchvision's, with random weights, and a U-Net. Exits with 1
where haloconv fails and PyTorch does not, or where an error is larger than rounding explains.
"""

from __future__ import annotations

import argparse
import copy
import gc
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import models
import tables
from environment import describe, find_device
from run import is_usable, load_haloconv
from timing import Candidate, Timer, time_in_turns, timer_for

PYTORCH, HALOCONV = "PyTorch", "haloconv"
# Enough for cuDNN's search, haloconv's timing and TorchScript's profiling to be over.
_WARM_UP = 5
# Of one operand by TF32; of float32's sums of thousands of products.
_ROUNDING = {"cuda": 2.0**-11, "cpu": 2.0**-18}

NOTES = """\
ms: medians of inference, in turns with the unmodified model through the same path; ratio: its time
over haloconv's. error: |result - float64| / |float64|, of the unmodified model in float64.
difference: the largest between both results, over the largest of PyTorch's. error and difference
are in units of u √n, where n convolutions round their operands by u (TF32: 2^-11; on a CPU, sums of
float32's: 2^-18); above 2 units rounding does not explain an error. calls: of haloconv's operators
in one run, beside the model's convolutions; with only_if_faster (aoti, compile_fx) 0 where all were
left. prepared: seconds until both had warmed up."""


# Models and the sizes of their batches.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int, int]]] = {
    "resnet50": (models.from_torchvision("resnet50"), (16, 3, 224, 224)),
    "mobilenet_v3_large": (models.from_torchvision("mobilenet_v3_large"), (16, 3, 224, 224)),
    "convnext_tiny": (models.from_torchvision("convnext_tiny"), (16, 3, 224, 224)),
    "deeplabv3_resnet50": (
        models.from_torchvision("deeplabv3_resnet50", weights_backbone=None),
        (4, 3, 512, 512),
    ),
    "unet": (models.UNet, (4, 3, 512, 512)),
}


class Network:
    """In evaluation mode on a device, with a batch and what float64 makes of it."""

    def __init__(self, name: str, shape: Sequence[int], device: torch.device) -> None:
        torch.manual_seed(0)
        self.name = name
        self.file_name = "_".join([name, *map(str, shape), device.type])
        self.model = NETWORKS[name][0]().to(device)
        self.x = torch.randn(*shape, device=device)
        # Batch norm has seen images, more than one, so that folding it changes the weights.
        self.model(torch.cat([self.x, self.x.flip(-1)]))
        self.model.eval()
        self.layers = sum(isinstance(module, nn.Conv2d) for module in self.model.modules())
        self.unit = _ROUNDING[device.type] * math.sqrt(self.layers)
        benchmark, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
        self.exact = flat(copy.deepcopy(self.model).double()(self.x.double()))
        torch.backends.cudnn.benchmark = benchmark

    def error(self, result: Tensor) -> float:
        return ((result - self.exact).norm() / self.exact.norm()).item() / self.unit

    def difference(self, result: Tensor, other: Tensor) -> float:
        return ((result - other).abs().max() / other.abs().max()).item() / self.unit


def flat(output: Tensor | Sequence[Tensor] | dict[str, Tensor]) -> Tensor:
    """All of a network's results, in float64."""
    if isinstance(output, Tensor):
        return output.double().flatten()
    tensors = output.values() if isinstance(output, dict) else output
    return torch.cat([tensor.double().flatten() for tensor in tensors])


Runnable = Callable[[Tensor], Any]
# From a network, and a folder for what it writes.
Prepare = Callable[[Network, Path], Runnable]


def as_it_is(network: Network, _: Path) -> nn.Module:
    return network.model


def replaced(network: Network, _: Path) -> nn.Module:
    import haloconv

    model = copy.deepcopy(network.model)
    haloconv.replace(model)
    return model


def routed(prepare: Prepare) -> Prepare:
    def prepare_routed(network: Network, folder: Path) -> Runnable:
        import haloconv

        model = prepare(network, folder)

        def run(x: Tensor) -> Any:
            with haloconv.route():
                return model(x)

        return run

    return prepare_routed


def scripted(prepare: Prepare) -> Prepare:
    return lambda network, folder: torch.jit.script(prepare(network, folder))


def traced(prepare: Prepare) -> Prepare:
    def trace(network: Network, folder: Path) -> Runnable:
        model = prepare(network, folder)
        return torch.jit.trace(model, network.x, strict=False, check_trace=False)

    return trace


def loaded(freeze: bool) -> Prepare:
    def load(network: Network, folder: Path) -> Runnable:
        model = torch.jit.load(_saved(network, folder))
        return torch.jit.freeze(model) if freeze else model

    return load


def rewritten(freeze: bool) -> Prepare:
    def rewrite(network: Network, folder: Path) -> Runnable:
        import haloconv

        return haloconv.rewrite(_saved(network, folder), freeze=freeze)[0]

    return rewrite


def _saved(network: Network, folder: Path) -> str:
    path = folder / f"{network.file_name}.pt"
    if not path.exists():
        torch.jit.script(network.model).save(path)
    return str(path)


def compiled(network: Network, _: Path) -> Runnable:
    return torch.compile(network.model)


def compiled_fx(network: Network, _: Path) -> Runnable:
    import haloconv

    return torch.compile(network.model, backend=haloconv.fx.backend("inductor"))


def _export(
    network: Network, ours: bool, only_if_faster: bool = False
) -> torch.export.ExportedProgram:
    import haloconv

    program = torch.export.export(network.model, (network.x,))
    if ours:
        haloconv.fx.replace_convolutions(program.graph_module, only_if_faster=only_if_faster)
    return program


def exported(ours: bool) -> Prepare:
    return lambda network, _: _export(network, ours).module()


def packaged(ours: bool) -> Prepare:
    def package(network: Network, folder: Path) -> Runnable:
        side = f"{HALOCONV}_if_faster" if ours else PYTORCH
        path = folder / f"{network.file_name}_{side}.pt2"
        if not path.exists():
            program = _export(network, ours, only_if_faster=True)
            torch._inductor.aoti_compile_and_package(program, package_path=str(path))
        return torch._inductor.aoti_load_package(str(path))

    return package


# How PyTorch's side and haloconv's are prepared, the quickest first.
PATHS: dict[str, tuple[Prepare, Prepare]] = {
    "replace": (as_it_is, replaced),
    "route": (as_it_is, routed(as_it_is)),
    "script": (scripted(as_it_is), scripted(replaced)),
    "trace": (traced(as_it_is), traced(replaced)),
    "rewrite": (loaded(freeze=False), rewritten(freeze=False)),
    "rewrite_freeze": (loaded(freeze=True), rewritten(freeze=True)),
    "export": (exported(ours=False), exported(ours=True)),
    "compile": (compiled, routed(compiled)),
    "aoti": (packaged(ours=False), packaged(ours=True)),
    "compile_fx": (compiled, compiled_fx),
}
# That leave a graph's convolutions to torch where haloconv's are no faster, on a GPU.
_IF_FASTER = ("aoti", "compile_fx")


@dataclass
class Cell:
    """One network by one path."""

    network: str
    path: str
    layers: int
    may_leave: bool = False  # all convolutions to torch
    calls: int = 0
    prepared: float = 0.0  # seconds
    seconds: dict[str, float] = field(default_factory=dict)  # by side, as the next two
    errors: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    difference: float | None = None

    @property
    def ratio(self) -> float | None:
        if len(self.seconds) < 2:
            return None
        return self.seconds[PYTORCH] / self.seconds[HALOCONV]

    @property
    def is_good(self) -> bool:
        """Whether haloconv ran, where it has to, as exactly as rounding allows, or neither did."""
        if HALOCONV in self.reasons:
            return PYTORCH in self.reasons
        return (self.calls > 0 or self.may_leave) and self.errors[HALOCONV] <= 2


def measure(network: Network, path: str, folder: Path, timer: Timer, seconds: float) -> Cell:
    cell = Cell(network.name, path, network.layers, path in _IF_FASTER and network.x.is_cuda)
    started = time.perf_counter()
    candidates, results = [], {}
    for side, prepare in zip((PYTORCH, HALOCONV), PATHS[path], strict=True):
        try:
            run = prepare(network, folder)
            for _ in range(_WARM_UP):
                results[side] = flat(run(network.x))
            candidates.append(Candidate(side, lambda _, run=run: run(network.x)))
            if side == HALOCONV:
                cell.calls = count_calls(run, network.x)
        except Exception as error:  # whatever it is, the other cells are still wanted
            results.pop(side, None)
            cell.reasons[side] = _reason(error)
    cell.errors = {side: network.error(result) for side, result in results.items()}
    if len(results) == 2:
        cell.difference = network.difference(results[HALOCONV], results[PYTORCH])
    cell.prepared = time.perf_counter() - started
    try:
        timings = time_in_turns(candidates, timer, seconds) if candidates else {}
        cell.seconds = {side: timing.median for side, timing in timings.items()}
    except RuntimeError as error:
        cell.reasons |= dict.fromkeys(results, _reason(error))
    return cell


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".split("\n")[0]


def count_calls(run: Runnable, x: Tensor) -> int:
    """Of haloconv's operators, whoever makes them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run(x)
    names = ("haloconv::conv2d", "haloconv::conv2d_fused")
    return sum(event.count for event in profile.key_averages() if event.key in names)


def report(cells: Sequence[Cell]) -> str:
    """All figures, and last a table of the ratios."""
    header = ["network", "path", "PyTorch, ms", "haloconv, ms", "ratio", "its error", "error"]
    header += ["difference", "calls", "prepared"]
    rows = [
        [
            cell.network,
            cell.path,
            *(_number(cell.seconds.get(side), 1e3) for side in (PYTORCH, HALOCONV)),
            _number(cell.ratio),
            *(_number(cell.errors.get(side)) for side in (PYTORCH, HALOCONV)),
            _number(cell.difference),
            f"{cell.calls} of {cell.layers}",
            f"{cell.prepared:.0f}",
        ]
        for cell in cells
    ]
    reasons = [
        f"- {cell.network}, {cell.path}, {side}: {why[:300]}"
        for cell in cells
        for side, why in cell.reasons.items()
    ]
    return "\n".join(
        [tables.table(header, rows, texts=2), "", NOTES, *reasons, "", overview(cells)]
    )


def overview(cells: Sequence[Cell]) -> str:
    """haloconv's ms and the ratio, a row for each path."""
    networks = list(dict.fromkeys(cell.network for cell in cells))
    paths = list(dict.fromkeys(cell.path for cell in cells))
    texts = {(cell.network, cell.path): _summary(cell) for cell in cells}
    rows = [[path, *(texts.get((name, path), "") for name in networks)] for path in paths]
    return tables.table(["haloconv, ms (ratio)", *networks], rows)


def _summary(cell: Cell) -> str:
    if HALOCONV not in cell.seconds:
        return "fails"
    text = _number(cell.seconds[HALOCONV], 1e3)
    if cell.ratio is not None:
        text += f" ({cell.ratio:.2f})"
    return text if cell.is_good else f"{text}, WRONG"


def _number(value: float | None, scale: float = 1.0) -> str:
    return "" if value is None else f"{scale * value:.2f}"


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    tables.add_options(parser, "paths")
    tables.add_device(parser)
    add = parser.add_argument
    add("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME")
    add(
        "--paths",
        nargs="+",
        choices=list(PATHS),
        default=list(PATHS),
        metavar="PATH",
        help=f"of {', '.join(PATHS)} (default: all, in this order)",
    )
    add("--batch", type=int, help="images (default: 16, of DeepLabV3 and the U-Net 4)")
    add("--size", type=int, help="their height and width (default: 224, of these two 512)")
    add("--seconds-per-cell", type=float, default=1.0, metavar="N", help="for timing (default: 1)")
    add("--packages", type=Path, metavar="DIR", help="where AOTInductor's packages stay for reuse")
    return parser.parse_args(arguments)


@torch.no_grad()
def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    device = find_device(options.device)
    if device is None:
        return 0
    load_haloconv()
    torch.backends.cudnn.benchmark = True
    timer = timer_for(device)
    environment = describe(device, options.commit)
    cells: list[Cell] = []
    networks: dict[str, Network] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.packages or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for path in options.paths:
            for name in options.networks:
                if name not in networks:
                    n, c, h, w = NETWORKS[name][1]
                    shape = (options.batch or n, c, options.size or h, options.size or w)
                    networks[name] = Network(name, shape, device)
                cell = measure(networks[name], path, folder, timer, options.seconds_per_cell)
                cells.append(cell)
                print(f"{path}, {name}: {_summary(cell)}", file=sys.stderr, flush=True)
                # After each cell, so that a run that is cut off leaves what it measured.
                record = {"notes": NOTES.replace("\n", " "), "cells": [asdict(c) for c in cells]}
                tables.save(options, environment, record, report(cells))
                torch._dynamo.reset()
                gc.collect()
                if device.type == "cuda":
                    if not is_usable(device):
                        print("The device does not answer any more.", file=sys.stderr)
                        return 1
                    torch.cuda.empty_cache()
    print(report(cells))
    return int(not all(cell.is_good for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
