"""Times whole networks in bfloat16: PyTorch's best configuration beside haloconv's best.

Inference (the model in bfloat16) and training steps (forward, loss, backward, SGD, under autocast)
are run eagerly, captured in a CUDA graph, compiled by Inductor with and without CUDA graphs, and,
for inference, scripted and frozen, each with rows and with channels innermost. The fastest of each
side are then timed again in turns. Prints a table and, with --output, writes it as NAME.json and
NAME.md after each network. Exits with 1 where haloconv fails and PyTorch does not, or is less
exact than rounding explains.
"""

from __future__ import annotations

import argparse
import copy
import gc
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import torch
import torchvision
from torch import Tensor, nn

import kernels
import tables
from configurations import HALOCONV, LAYOUTS, PYTORCH, WAYS, Configuration, Step, configurations
from environment import describe, find_device
from run import load_haloconv
from timing import Candidate, Timer, time_in_turns, timer_for
from train import NETWORKS, training_step

NOTES = """\
ms: medians, of the fastest configuration of each side, both timed in turns; ratio: PyTorch's over
haloconv's. error: |result - exact| / |exact|, of inference beside the same model in float64, of
training, for the gradients of all parameters after one step, beside float32 without autocast.
Dropout and stochastic depth are off, so that each step computes the same."""

# Of bfloat16. An error is explained by rounding where n convolutions make less than twice √n such,
# or where it is less than twice PyTorch's, which rounds at other places.
_ROUNDING = 2.0**-9
_WARM_UP = 3


@dataclass
class Row:
    """One network in one mode."""

    network: str
    mode: str
    convolutions: int
    milliseconds: dict[str, dict[str, float]] = field(default_factory=dict)  # by side, by name
    best: dict[str, str] = field(default_factory=dict)  # by side, as those that follow
    in_turns: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, dict[str, float]] = field(default_factory=dict)  # ms by kind
    failed: dict[str, str] = field(default_factory=dict)  # by side and name: the reason

    @property
    def ratio(self) -> float | None:
        if len(self.in_turns) < 2:
            return None
        return self.in_turns[PYTORCH] / self.in_turns[HALOCONV]

    @property
    def is_good(self) -> bool:
        if HALOCONV not in self.errors:
            return PYTORCH not in self.errors
        explained = max(_ROUNDING * math.sqrt(self.convolutions), self.errors.get(PYTORCH, 0.0))
        return self.errors[HALOCONV] <= 2 * explained


class Inference:
    """Of a model in bfloat16, in evaluation mode."""

    name = "inference"
    training = False

    def __init__(self, model: nn.Module, batch: Tensor) -> None:
        # Batch norm has seen images, so that its statistics are none that it began with.
        model.train()
        with torch.no_grad():
            model(batch)
        self.model = copy.deepcopy(model).eval().bfloat16()
        self.batch = batch.bfloat16()
        with torch.no_grad():
            self.exact = copy.deepcopy(self.model).double()(self.batch.double())

    @staticmethod
    def make_step(model: nn.Module, batch: Tensor) -> Step:
        @torch.no_grad()
        def step() -> Tensor:
            return model(batch)

        return step

    def begin(self, configuration: Configuration) -> tuple[Step, float]:
        """The step, and the error of its first result."""
        step = configuration.prepare(self.model, self.batch, self.make_step)
        return step, _distance([step()], [self.exact])


class Training:
    """A step under autocast to bfloat16, of a model in float32."""

    name = "training"
    training = True

    def __init__(self, model: nn.Module, batch: Tensor) -> None:
        for module in model.modules():
            if isinstance(module, (nn.Dropout, torchvision.ops.StochasticDepth)):
                module.p = 0.0
        self.model, self.batch = model.train(), batch
        with torch.no_grad():
            self.target = torch.randn_like(copy.deepcopy(model)(batch))
        exact = copy.deepcopy(model)
        training_step(exact, batch, self.target)()
        self.exact = _gradients(exact)

    def make_step(self, model: nn.Module, batch: Tensor) -> Step:
        return training_step(model, batch, self.target, autocast=True)

    def begin(self, configuration: Configuration) -> tuple[Step, float]:
        """The step, and the error of its first gradients."""
        made: list[nn.Module] = []

        def make_step(model: nn.Module, batch: Tensor) -> Step:
            made.append(model)
            return self.make_step(model, batch)

        if configuration.way == "captured":  # it has run several times: the same, eagerly
            eager = Configuration(configuration.side, "eager", configuration.layout)
            eager.prepare(self.model, self.batch, make_step)()
            return configuration.prepare(self.model, self.batch, self.make_step), self._error(made)
        step = configuration.prepare(self.model, self.batch, make_step)
        step()
        return step, self._error(made)

    def _error(self, made: list[nn.Module]) -> float:
        return _distance(_gradients(made[0]), self.exact)


def _gradients(model: nn.Module) -> list[Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def _distance(results: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    pairs = list(zip(results, exact, strict=True))
    apart = sum((a.double() - b.double()).square().sum().item() for a, b in pairs)
    return math.sqrt(apart / sum(b.double().square().sum().item() for _, b in pairs))


def measure(
    network: str,
    mode: Inference | Training,
    candidates: Sequence[Configuration],
    timer: Timer,
    seconds: float,
) -> Row:
    convolutions = sum(isinstance(module, nn.Conv2d) for module in mode.model.modules())
    row = Row(network, mode.name, convolutions)
    errors = {}
    for configuration in candidates:
        try:
            step, errors[configuration] = mode.begin(configuration)
            took = _milliseconds({configuration.name: step}, timer, seconds / 2)
            row.milliseconds.setdefault(configuration.side, {}).update(took)
        except Exception as error:  # whatever it is, the others are still wanted
            reason = f"{type(error).__name__}: {str(error).strip()}".split("\n")[0]
            row.failed[f"{configuration.side}, {configuration.name}"] = reason
        step = None
        forget()
    by_side = {(c.side, c.name): c for c in candidates}
    best = {}
    for side, times in row.milliseconds.items():
        row.best[side] = min(times, key=times.get)
        best[side] = by_side[side, row.best[side]]
    row.errors = {side: errors[configuration] for side, configuration in best.items()}
    steps = {side: c.prepare(mode.model, mode.batch, mode.make_step) for side, c in best.items()}
    row.in_turns = _milliseconds(steps, timer, seconds)
    if mode.batch.is_cuda:
        row.kernels = {side: kernels.milliseconds(step) for side, step in steps.items()}
    return row


def _milliseconds(steps: dict[str, Step], timer: Timer, seconds: float) -> dict[str, float]:
    for step in steps.values():
        for _ in range(_WARM_UP):
            step()
    candidates = [Candidate(name, lambda _, step=step: step()) for name, step in steps.items()]
    timings = time_in_turns(candidates, timer, seconds)
    return {name: 1e3 * timing.median for name, timing in timings.items()}


def forget() -> None:
    """Compiled code and graphs, whose memory the next ones need."""
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def report(rows: Sequence[Row]) -> str:
    header = ["network", "mode", "PyTorch's best", "haloconv's best"]
    header += ["PyTorch, ms", "haloconv, ms", "ratio", "its error", "error"]
    cells = [
        [
            row.network,
            row.mode,
            *(row.best.get(side, "fails") for side in (PYTORCH, HALOCONV)),
            *(_number(row.in_turns.get(side), ".2f") for side in (PYTORCH, HALOCONV)),
            _number(row.ratio, ".2f") + ("" if row.is_good else ", WRONG"),
            *(_number(row.errors.get(side), ".1e") for side in (PYTORCH, HALOCONV)),
        ]
        for row in rows
    ]
    means = [
        f"{mode}: {statistics.geometric_mean(ratios):.2f} in the geometric mean, "
        f"least {min(ratios):.2f}"
        for mode in dict.fromkeys(row.mode for row in rows)
        if (ratios := [row.ratio for row in rows if row.mode == mode and row.ratio])
    ]
    spent = [
        f"- {row.network}, {row.mode}, {side}: "
        + ", ".join(f"{kind} {ms:.2f}" for kind, ms in times.items())
        for row in rows
        for side, times in row.kernels.items()
    ]
    if spent:
        spent = ["", "Milliseconds of the device, by kind of kernel:", *spent]
    failed = [
        f"- {row.network}, {row.mode}, {name}: {why[:300]}"
        for row in rows
        for name, why in row.failed.items()
    ]
    table = tables.table(header, cells, texts=4)
    return "\n".join([table, "", *means, "", NOTES, *spent, *failed])


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    tables.add_options(parser, "networks")
    tables.add_device(parser)
    add = parser.add_argument
    names = list(NETWORKS)
    add("--networks", nargs="+", choices=names, default=names, metavar="NAME", help=str(names))
    modes = [Inference.name, Training.name]
    add("--modes", nargs="+", choices=modes, default=modes)
    add("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    add("--layouts", nargs="+", choices=list(LAYOUTS), default=list(LAYOUTS))
    add("--batch", type=int, help="images (default: 64, of the U-Net 8)")
    add("--size", type=int, help="their height and width (default: 224, of the U-Net 512)")
    add("--seconds", type=float, default=1.0, metavar="N", help="for a timing (default: 1)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    device = find_device(options.device)
    if device is None:
        return 0
    load_haloconv()
    torch.backends.cudnn.benchmark = True
    timer = timer_for(device)
    environment = describe(device, options.commit)
    rows: list[Row] = []
    for network in options.networks:
        make, (n, c, h, w) = NETWORKS[network]
        shape = (options.batch or n, c, options.size or h, options.size or w)
        for kind in (Inference, Training):
            if kind.name not in options.modes:
                continue
            torch.manual_seed(0)
            mode = kind(make().to(device), torch.randn(shape, device=device))
            candidates = configurations(kind.training, options.ways, options.layouts)
            rows.append(measure(network, mode, candidates, timer, options.seconds))
            print(report(rows[-1:]), file=sys.stderr, flush=True)
            # After each network, so that a run that is cut off leaves what it measured.
            tables.save(options, environment, {"rows": [asdict(r) for r in rows]}, report(rows))
            mode = None
            forget()
    print(report(rows))
    return int(not all(row.is_good for row in rows))


if __name__ == "__main__":
    sys.exit(main())
