"""Microseconds of the host for one small convolution, haloconv's operator beside PyTorch's.

On a CUDA device a call only enqueues, so this is what a call costs a program that the device does
not hold up; on a CPU it is the convolution too. Median of loops of 200 calls, all kinds of calls
in turns. Prints a table and, with --output, writes it as NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Parameter

import tables
from cases import failure
from environment import describe, find_device
from run import load_haloconv
from timing import Candidate, HostTimer, Timing, summarize

CALLS = 200
# Filters of 3x3 and 1x1: forward alone, with the graph for gradients recorded, and with the
# gradients computed.
CASES = {
    f"{size}x{size}{', ' * bool(part)}{part}": (size, part)
    for part in ("", "gradients", "backward")
    for size in (3, 1)
}


def candidates(size: int, part: str, device: torch.device) -> list[Candidate]:
    """The first is what the others are compared with."""
    import haloconv

    x = torch.randn(1, 8, 8, 8, device=device, requires_grad=part != "")
    w = Parameter(torch.randn(8, 8, size, size, device=device), requires_grad=part != "")
    g = torch.ones(1, 8, 8, 8, device=device)
    pad = size // 2
    one, pads, zero = [1, 1], [pad, pad], [0, 0]
    aten, ours = torch.ops.aten, torch.ops.haloconv.conv2d.default
    layers = [c(8, 8, size, padding=pad, bias=False) for c in (nn.Conv2d, haloconv.nn.Conv2d)]
    for layer in layers:
        layer.weight = w

    def haloconv_conv2d(_: int) -> Tensor:
        return haloconv.conv2d(x, w, padding=pad)

    def with_backward(candidate: Candidate) -> Candidate:
        return replace(candidate, call=lambda i: torch.autograd.grad(candidate.call(i), (x, w), g))

    forward = [
        Candidate("F.conv2d", lambda _: F.conv2d(x, w, padding=pad)),
        Candidate(
            "torch.ops.aten.conv2d.default",
            lambda _: aten.conv2d.default(x, w, None, one, pads, one, 1),
        ),
        Candidate(
            "torch.ops.aten.convolution.default",
            lambda _: aten.convolution.default(x, w, None, one, pads, one, False, zero, 1),
        ),
        Candidate(
            "torch.ops.haloconv.conv2d.default",
            lambda _: ours(x, w, None, one, pads, one, 1),
        ),
        Candidate("haloconv.conv2d", haloconv_conv2d),
        Candidate(
            "haloconv.conv2d, padding of four values",
            lambda _: haloconv.conv2d(x, w, padding=(pad, pad, pad, pad)),
        ),
        Candidate("torch.nn.Conv2d", lambda _: layers[0](x)),
        Candidate("haloconv.nn.Conv2d", lambda _: layers[1](x)),
        *(
            Candidate(
                f"haloconv.conv2d, {name}",
                haloconv_conv2d,
                lambda name=name: haloconv.implementation(name),
            )
            for name in ("aten", "generic", "sm90")
        ),
    ]
    return [with_backward(c) for c in forward] if part == "backward" else forward


def measure(size: int, part: str, device: torch.device, loops: int) -> dict[str, Timing | str]:
    """Seconds of a call, or why it cannot be made."""
    timer = HostTimer(device)
    results: dict[str, Timing | str] = {}
    able = []
    for candidate in candidates(size, part, device):
        try:
            with candidate.context():
                timer.seconds(candidate.call, CALLS, False)
            able.append(candidate)
        except RuntimeError as error:
            results[candidate.name] = failure(error).status
    samples: dict[str, list[float]] = {c.name: [] for c in able}
    for _ in range(loops):
        for c in able:
            with c.context():
                samples[c.name].append(timer.seconds(c.call, CALLS, False))
    return results | {name: summarize(seconds, CALLS) for name, seconds in samples.items()}


def report(results: dict[str, dict[str, Timing | str]], names: Sequence[str]) -> str:
    """`results` by case, then by name; each cell is microseconds and the ratio to the first."""

    def cell(case: str, name: str) -> str:
        timing, first = results[case][name], results[case][names[0]]
        if isinstance(timing, str):
            return timing
        return f"{1e6 * timing.median:.2f} ({timing.median / first.median:.2f})"

    header = ["us of the host for a call (ratio to the first)", *results]
    return tables.table(header, [[name, *(cell(case, name) for case in results)] for name in names])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    tables.add_options(parser, "host_overhead")
    tables.add_device(parser)
    parser.add_argument("--loops", type=int, default=60, help=f"of {CALLS} calls each")
    options = parser.parse_args(arguments)
    device = find_device(options.device)
    if device is None:
        return 0
    load_haloconv()
    torch.backends.cudnn.benchmark = True
    names = [candidate.name for candidate in candidates(1, "", device)]
    results = {name: measure(*case, device, options.loops) for name, case in CASES.items()}
    text = report(results, names)
    print(text)
    record = {
        "seconds": {
            case: {
                name: timing if isinstance(timing, str) else asdict(timing)
                for name, timing in timings.items()
            }
            for case, timings in results.items()
        }
    }
    tables.save(options, describe(device, options.commit), record, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
