"""What each way of cutting a network computes and sends: figures for a choice before renting.

All of it is computed from sizes and from rates in data sheets; nothing is measured here. A
convolution takes as long as its multiplications or its bytes need, whichever is more. Halos travel
while the interior is computed; sums over ranks begin when their terms are computed.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from haloconv._torch_compat import TorchDispatchMode, schema_of
from haloconv.distributed.axis import Axis, Flow
from haloconv.distributed.intervals import chunks

CUTS = ("batch", "out_channels", "in_channels", "groups", "rows", "columns")
_ops = torch.ops


@dataclass(frozen=True)
class Link:
    """Between devices: bytes per second that each sends, and seconds before the first arrives."""

    rate: float
    latency: float


NVLINK = Link(450e9, 5e-6)  # the fourth generation's 900 GB/s are both directions together
INFINIBAND = Link(50e9, 10e-6)  # NDR, 400 Gbit/s for each device


@dataclass(frozen=True)
class Layer:
    """A convolution of a network, as it was called."""

    input: tuple[int, ...]  # (n, c, h, w)
    weight: tuple[int, ...]  # (k, c / groups, r, s)
    output: tuple[int, ...]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    dtype: torch.dtype

    def axis(self, i: int, ranks: int) -> Axis:
        inputs, outputs = chunks(self.input[2 + i], ranks), chunks(self.output[2 + i], ranks)
        return Axis(
            self.stride[i],
            self.dilation[i],
            self.weight[2 + i],
            self.padding[2 * i],
            tuple(inputs),
            tuple(outputs),
        )


@dataclass(frozen=True)
class Cost:
    """Expected for a training step or an inference: of each figure the most that a rank has."""

    cut: str
    devices: int
    flop: float
    bytes_sent: float
    compute_seconds: float
    link_seconds: float
    seconds: float
    obstacle: str | None = None  # why some layer cannot be cut so, and is computed whole instead


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.layers: list[Layer] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function in _RECORDED and result.dim() == 4:
            names = [argument.name for argument in schema_of(function).arguments]
            defaults = {"stride": [1], "padding": [0], "dilation": [1], "groups": 1}
            given = defaults | dict(zip(names, args, strict=False)) | (kwargs or {})
            if not given.get("transposed", False):
                self.layers.append(
                    Layer(
                        tuple(given["input"].shape),
                        tuple(given["weight"].shape),
                        tuple(result.shape),
                        _pair(given["stride"]),
                        _sides(given["padding"]),
                        _pair(given["dilation"]),
                        given["groups"],
                        result.dtype,
                    )
                )
        return result


_RECORDED = {
    _ops.aten.convolution.default,
    _ops.haloconv.conv2d.default,
    _ops.haloconv.conv2d_fused.default,
}


def _pair(values) -> tuple[int, int]:
    values = [values] if isinstance(values, int) else list(values)
    return values[0], values[-1]


def _sides(padding) -> tuple[int, int, int, int]:
    if not isinstance(padding, int) and len(padding) == 4:
        return tuple(padding)
    rows, columns = _pair(padding)
    return rows, rows, columns, columns


def layers_of(model: nn.Module, *inputs: Tensor) -> list[Layer]:
    """The convolutions that the model runs on inputs like these, without computing them."""
    recorder = _Recorder()
    with torch.no_grad(), recorder:
        copy.deepcopy(model).to("meta")(*(input.to("meta") for input in inputs))
    return recorder.layers


def estimate(
    layers: Sequence[Layer],
    devices: int,
    cut: str,
    chip: str = "NVIDIA H200",
    link: Link = NVLINK,
    training: bool = True,
) -> Cost:
    """What a network's convolutions cost, cut like this among so many devices.

    ``chip`` is a name that haloconv knows; a wrong one raises an error that lists them. float32 has
    TF32's rate if the chip has one. Convolutions that cannot be cut so are counted whole.
    """
    if cut not in CUTS:
        raise ValueError(f"haloconv: expected cut to be one of {CUTS}, but got {cut!r}")
    if devices < 1:
        raise ValueError(f"haloconv: expected devices to be at least 1, but got {devices}")
    rates = torch.ops.haloconv.chip(chip)
    parts = [_layer_cost(layer, devices, cut, rates, link, training) for layer in layers]
    obstacles = [part.obstacle for part in parts if part.obstacle]
    totals = [
        sum(getattr(part, name) for part in parts)
        for name in ("flop", "bytes_sent", "compute_seconds", "link_seconds", "seconds")
    ]
    return Cost(cut, devices, *totals, obstacle=obstacles[0] if obstacles else None)


def _obstacle(layer: Layer, devices: int, cut: str) -> str | None:
    """Why the layer cannot be cut so; None if it can."""
    if devices > 1 and cut in ("out_channels", "in_channels") and layer.groups > 1:
        return f"groups={layer.groups}, so only whole groups can be cut"
    if devices > 1 and cut == "groups" and layer.groups % devices:
        return f"{devices} devices do not divide groups={layer.groups}"
    return None


def _summed_bytes(cut: str, training: bool, x: int, w: int, y: int) -> int:
    """Of what is summed over the devices, by the bytes of input, weight and output."""
    if cut == "in_channels":
        return y
    if not training:
        return 0
    return {"out_channels": x, "batch": w, "rows": w, "columns": w}.get(cut, 0)


def _layer_cost(
    layer: Layer, devices: int, cut: str, rates: dict[str, float], link: Link, training: bool
) -> Cost:
    sizes = {"batch": layer.input[0], "rows": layer.output[2], "columns": layer.output[3]}
    sizes |= {"out_channels": layer.weight[0], "in_channels": layer.weight[1]}
    size = sizes.get(cut, layer.groups)
    obstacle = _obstacle(layer, devices, cut)
    # The largest part, of all that the layer is.
    share = 1.0 if obstacle else -(-size // devices) / size
    passes = 3 if training else 1  # forward, and the gradients of input and weight
    macs = math.prod(layer.output) * math.prod(layer.weight[1:])
    flop = passes * 2 * macs * share
    width = torch.empty(0, dtype=layer.dtype).element_size()
    x, w, y = (math.prod(s) * width for s in (layer.input, layer.weight, layer.output))
    of_input = share if cut != "out_channels" else 1
    of_output = share if cut != "in_channels" else 1
    of_weight = share if cut in ("out_channels", "in_channels", "groups") else 1
    memory = passes * (x * of_input + y * of_output + w * of_weight)
    compute = max(flop / _flop_rate(layer.dtype, rates), memory / rates["memory"])
    overlapped, after = 0.0, 0.0  # bytes that are sent beside the computation, and after it
    messages_overlapped = messages_after = 0
    if devices > 1 and not obstacle:
        if cut in ("rows", "columns"):
            overlapped, messages_overlapped = _halo_bytes(layer, cut, devices, width, training)
        summed = _summed_bytes(cut, training, x, w, y)
        if summed:
            after = 2 * (devices - 1) / devices * summed  # an all-reduce sends each about twice
            messages_after = 2 * math.ceil(math.log2(devices))
    hidden = overlapped / link.rate + messages_overlapped * link.latency
    exposed = after / link.rate + messages_after * link.latency
    return Cost(
        cut,
        devices,
        flop,
        overlapped + after,
        compute,
        hidden + exposed,
        max(compute, hidden) + exposed,
        obstacle,
    )


def _halo_bytes(
    layer: Layer, cut: str, devices: int, width: int, training: bool
) -> tuple[float, int]:
    """The largest halos that a rank sends, in bytes and in messages."""
    i = ("rows", "columns").index(cut)
    axis = layer.axis(i, devices)
    total, messages = 0, 0
    for forward, shape in ((True, layer.input), (False, layer.output))[: 1 + training]:
        flow = Flow(axis, forward)
        across = math.prod(shape) // shape[2 + i] * width
        # Ranks in the middle send most; the first ones stand for all where there are many.
        sending = [flow.sent(rank) for rank in range(min(devices, 4))]
        total += across * max(sum(part.length for part in parts) for parts in sending)
        messages += max(sum(bool(part) for part in parts) for parts in sending)
    return total, messages


def _flop_rate(dtype: torch.dtype, rates: dict[str, float]) -> float:
    if dtype == torch.float32:
        return rates["tf32"] or rates["float32"]
    name = str(dtype).removeprefix("torch.")
    if not rates.get(name):
        raise ValueError(f"haloconv: the chip has no rate for {dtype}")
    return rates[name]


def table(
    model: nn.Module,
    inputs: Tensor | Sequence[Tensor],
    devices: Sequence[int] = (1, 2, 4, 8),
    cuts: Sequence[str] = CUTS,
    chip: str = "NVIDIA H200",
    link: Link = NVLINK,
    training: bool = True,
) -> list[Cost]:
    """``estimate`` of each cut on each number of devices, in that order."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
    layers = layers_of(model, *inputs)
    return [estimate(layers, n, cut, chip, link, training) for cut in cuts for n in devices]
