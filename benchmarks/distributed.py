"""Times convolutions and networks cut among several GPUs, a process for each.

    distributed.py --processes 2 [layers] [network] [training]

Single layers are cut by rows, columns, both and images: "strong" is the problem that one device
has, and "weak" one that is larger by the number of devices. Beside them are the same problem on one
device, torch's own convolution of DTensors, DistributedDataParallel, and what haloconv.distributed
expects. "network" does so with a U-Net, "training" times training steps in DistributedDataParallel
and FSDP2. What fails is named with its reason. Prints a table and, with --output, writes it as
NAME_layers.json and NAME_layers.md, and so on, after each case.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

import torch
from torch.distributed.device_mesh import DeviceMesh

import cuts
import sharded_layers
import sharded_networks
import tables
from cuts import STRONG, WEAK, Cut, cuts_of
from environment import describe, find_device
from limits import DTYPES
from problems import SHAPES, Problem
from ranks import Failed, Ranks, spawn
from run import choose_problems, load_haloconv
from scaling import Case, expected_efficiency, known_chip, report, training_report
from sharded_layers import PASSES, Candidate, Settings

# Of the reference problems, and of networks those whose pictures are large.
LAYERS = ("square_3x3", "asym_5x7", "dilated_5x9", "vgg16_2", "unet_512_b", "unet_128_b")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if find_device(options.device) is None:
        return 0
    if options.device == "cuda" and torch.cuda.device_count() < options.processes:
        print(f"{torch.cuda.device_count()} CUDA devices: nothing was measured.")
        return 0
    load_haloconv()
    spawn(options.processes, options.device, measure, options)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tables.add_options(parser, "distributed")
    tables.add_device(parser)
    add = parser.add_argument
    add("--processes", type=int, default=torch.cuda.device_count() or 2, metavar="N")
    add("modes", nargs="*", default=["layers"], metavar="MODE", help="layers, network, training")
    add("--only", nargs="+", default=LAYERS, metavar="NAME", help="layers, of any shape file")
    add("--cuts", nargs="+", default=cuts.CUTS, choices=cuts.CUTS)
    add("--scaling", nargs="+", default=(STRONG, WEAK), choices=(STRONG, WEAK))
    add("--passes", nargs="+", default=PASSES, choices=PASSES)
    add("--candidates", nargs="+", metavar="NAME", help="of the table's (default: all)")
    add("--dtype", choices=list(DTYPES), default="bfloat16")
    add("--channels-last", action="store_true", help="instead of NCHW")
    add("--network-shape", nargs=4, type=int, default=(1, 3, 2048, 2048), metavar="SIZE")
    add("--network-width", type=int, default=64)
    add("--network-depth", type=int, default=4)
    add("--training-shape", nargs=4, type=int, default=(8, 3, 512, 512), metavar="SIZE",
        help="of each rank's batch")  # fmt: skip
    add("--seconds-per-case", type=float, default=0.5, metavar="N")
    add("--time-limit", type=float, metavar="N", help="seconds after which a mode begins no case")
    add("--cudnn-benchmark", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args(arguments)
    unknown = set(options.modes) - MODES.keys()
    if unknown:
        parser.error(f"unknown mode: {', '.join(sorted(unknown))}")
    return options


class Run:
    """Of one rank; each of them has all ranks' results."""

    def __init__(self, ranks: Ranks, options: argparse.Namespace, mode: str) -> None:
        format = torch.channels_last if options.channels_last else torch.contiguous_format
        self.ranks, self.mode = ranks, mode
        self.options = argparse.Namespace(**vars(options) | {"name": f"{options.name}_{mode}"})
        self.settings = Settings(ranks.device, DTYPES[options.dtype], format)
        self.environment = _environment(ranks, options)
        self.chip = known_chip(self.environment["device"])
        self.began = time.monotonic()
        self.cases: list[Case] = []
        self.alone: dict[tuple, Case] = {}
        self.meshes: dict[tuple, DeviceMesh] = {}

    def mesh(self, *shape: int) -> DeviceMesh:
        if shape not in self.meshes:
            self.meshes[shape] = self.ranks.mesh(*shape)
        return self.meshes[shape]

    def add(self, case: Case, candidates: Sequence[Candidate]) -> None:
        """Times the candidates. What fails is recorded with its reason, on all ranks."""
        for candidate in candidates:
            if self.options.candidates and candidate.name not in self.options.candidates:
                continue
            step = None
            try:
                with candidate.context():
                    step = self.ranks.attempt(candidate.make)
                    case.seconds[candidate.name] = self.ranks.seconds(
                        step, self.options.seconds_per_case
                    )
            except Failed as failed:
                case.failed[candidate.name] = str(failed)
            del step
            if self.ranks.device.type == "cuda":
                torch.cuda.empty_cache()

    def add_alone(self, case: Case, candidates: Sequence[Candidate]) -> None:
        """The same for all cuts and scalings, and so timed once."""
        first = self.alone.get((case.name, case.direction))
        if first is None:
            first = replace(case, seconds={}, failed={})
            self.alone[case.name, case.direction] = first
            self.add(first, candidates)
        case.seconds |= first.seconds
        case.failed |= first.failed

    def is_over(self) -> bool:
        limit = self.options.time_limit
        is_over = limit is not None and time.monotonic() - self.began > limit
        return self.ranks.gathered(is_over)[0]

    def save(self, case: Case) -> None:
        # After each case, so that a run that is cut off leaves what it measured.
        self.cases.append(case)
        if self.ranks.rank == 0:
            print(case.line(), file=sys.stderr, flush=True)
            record = {"mode": self.mode, "cases": [asdict(case) for case in self.cases]}
            tables.save(self.options, self.environment, record, self.report())

    def report(self) -> str:
        return (training_report if self.mode == "training" else report)(self.cases)


def _environment(ranks: Ranks, options: argparse.Namespace) -> dict[str, str]:
    environment = describe(ranks.device, options.commit) | {
        "processes": str(ranks.size),
        "dtype": options.dtype,
        "layout": "channels last" if options.channels_last else "NCHW",
        "cudnn.benchmark": str(options.cudnn_benchmark),
    }
    if ranks.device.type == "cuda":
        environment["NCCL"] = ".".join(map(str, torch.cuda.nccl.version()))
    return environment | {k: v for k, v in os.environ.items() if "NCCL_" in k}


def measure(ranks: Ranks, options: argparse.Namespace) -> None:
    """What each process runs."""
    load_haloconv()
    torch.backends.cudnn.benchmark = options.cudnn_benchmark
    torch.manual_seed(ranks.rank)
    for mode in options.modes:
        run = Run(ranks, options, mode)
        MODES[mode](run)
        if ranks.rank == 0:
            print(run.report(), flush=True)


def _layers(run: Run) -> None:
    files = [file.stem for file in SHAPES.glob("*.txt")]
    for problem in choose_problems(files, run.options.only):
        for cut, scaling, direction in _choices(run):
            whole = cut.scaled(problem, scaling)
            if not cut.divides(whole.input_shape):
                continue
            if run.is_over():
                return
            layers = [[_layer(p, run.settings.dtype)] for p in (problem, whole)]
            case = _case(run, problem.name, cut, scaling, direction, *layers)
            alone = sharded_layers.alone(problem, direction, run.settings)
            run.add_alone(case, alone)
            mesh = run.mesh(*cut.mesh_shape)
            among = sharded_layers.cut_among(whole, direction, cut, mesh, run.settings)
            run.add(case, among)
            run.save(case)


def _network(run: Run) -> None:
    import haloconv

    options, settings = run.options, run.settings

    def make() -> torch.nn.Module:
        return sharded_networks.unet(settings, options.network_width, options.network_depth)

    def layers(shape: Sequence[int]) -> list:
        x = torch.empty(shape, dtype=settings.dtype, device="meta")
        return haloconv.distributed.layers_of(make(), x)

    shape = tuple(options.network_shape)
    for cut, scaling, direction in _choices(run):
        whole = cut.enlarged(shape) if scaling == WEAK else shape
        if not cut.divides(whole):
            continue
        if run.is_over():
            return
        name = f"U-Net of {' x '.join(map(str, shape))}"
        case = _case(run, name, cut, scaling, direction, layers(shape), layers(whole))
        run.add_alone(case, sharded_networks.alone(make, shape, direction, settings))
        mesh = run.mesh(*cut.mesh_shape)
        among = sharded_networks.cut_among(make, whole, direction, cut, mesh, settings)
        run.add(case, among)
        run.save(case)


def _training(run: Run) -> None:
    options, settings = run.options, run.settings

    def make() -> torch.nn.Module:
        return sharded_networks.unet(settings, options.network_width, options.network_depth)

    name = f"U-Net, {' x '.join(map(str, options.training_shape))} on each device"
    for wrapper in sharded_networks.WRAPPERS:
        if run.is_over():
            return
        devices = 1 if wrapper == sharded_networks.NONE else run.ranks.size
        case = Case(name, WEAK, wrapper, "step", devices)
        mesh = run.mesh(run.ranks.size)
        shape = options.training_shape
        run.add(case, sharded_networks.training(make, wrapper, shape, mesh, settings))
        run.save(case)


MODES = {"layers": _layers, "network": _network, "training": _training}


def _choices(run: Run) -> list[tuple[Cut, str, str]]:
    options = run.options
    found = cuts_of(run.ranks.size, options.cuts)
    return [(c, s, d) for c in found for s in options.scaling for d in options.passes]


def _case(
    run: Run, name: str, cut: Cut, scaling: str, direction: str, layers: list, enlarged: list
) -> Case:
    size = run.ranks.size
    expected = expected_efficiency(layers, enlarged, cut, size, scaling, direction, run.chip)
    return Case(name, scaling, cut.name, direction, size, expected)


def _layer(problem: Problem, dtype: torch.dtype):
    """The problem as haloconv's model takes it."""
    import haloconv

    return haloconv.distributed.Layer(
        problem.input_shape,
        problem.weight_shape,
        problem.output_shape,
        problem.stride,
        problem.padding,
        problem.dilation,
        problem.groups,
        dtype,
    )


if __name__ == "__main__":
    sys.exit(main())
