"""How long the convolutions of a captured graph take as torch's and as haloconv's.

A compiler may lay out all tensors of a graph with channels innermost, as cuDNN computes, and
torch's convolutions then transpose nothing. haloconv has kernels for both layouts, and which is
faster depends on dtype and sizes. Where several are in one graph, tensors are copied between them:
so all convolutions are compared together.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from haloconv import _torch_compat

_ops = torch.ops.haloconv
_ROWS, _CHANNELS = torch.contiguous_format, torch.channels_last
_REPEATS = 5  # calls of a replay
_REPLAYS = 3  # of which the quickest counts


@dataclass(frozen=True)
class Operand:
    """A tensor of the graph, as far as time depends on it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    layout: torch.memory_format
    requires_grad: bool

    @classmethod
    def of(cls, value: Tensor, result: Tensor) -> "Operand | None":
        """An operand of the convolution with that result; None where it cannot be made.

        It has the result's dtype, for autocast casts what it is given, and wants a gradient only
        where the result has one.
        """
        shape = tuple(_size(size) for size in value.shape)
        if not _is_timed(value.device) or None in shape:
            return None
        in_channels = value.dim() > 2 and _image(value).is_contiguous(memory_format=_CHANNELS)
        layout = _CHANNELS if in_channels and not value.is_contiguous() else _ROWS
        wants_grad = value.requires_grad and result.requires_grad
        return cls(shape, result.dtype, value.device, layout, wants_grad)

    def make(self, layout: torch.memory_format) -> Tensor:
        # A generator of its own: the program's random numbers stay as they were.
        generator = torch.Generator(self.device).manual_seed(0)
        values = torch.randn(self.shape, device=self.device, generator=generator).to(self.dtype)
        if len(self.shape) == 4:
            values = values.contiguous(memory_format=layout)
        elif len(self.shape) == 3:  # a compiler keeps the layout of what is no image
            values = _image(values).contiguous(memory_format=self.layout).squeeze(-2)
        return values.requires_grad_(self.requires_grad)


def _image(value: Tensor) -> Tensor:
    """(n, c, w) as an image of one row, as haloconv sees it, whose channels may be innermost."""
    return value if value.dim() == 4 else value.unsqueeze(-2)


def _is_timed(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_available()


def _size(size: int | torch.SymInt) -> int | None:
    """Of a symbol that of the tensors it was captured with, if any."""
    if isinstance(size, int):
        return size
    return size.node.hint if size.node.has_hint() else None


@dataclass(frozen=True)
class Call:
    """A convolution: input, weight and bias, and what follows them in the operator's order."""

    name: str  # of the operator, torch's and haloconv's
    operands: tuple[Operand | None, ...]
    arguments: tuple

    def milliseconds(
        self, operator: Callable[..., Tensor], layout: torch.memory_format | None = None
    ) -> float:
        """Of the device, with the gradients that are wanted: calls are captured and replayed.

        The operands are laid out as said, or as they are in the graph.
        """
        tensors = [operand and operand.make(layout or operand.layout) for operand in self.operands]
        wanted = [tensor for tensor in tensors if tensor is not None and tensor.requires_grad]

        def run() -> None:
            result = operator(*tensors, *self.arguments)
            if wanted:
                torch.autograd.grad(result, wanted, torch.empty_like(result).fill_(1))

        with torch.cuda.device(tensors[0].device), torch.set_grad_enabled(bool(wanted)):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(2):  # both libraries choose in the first
                    run()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                for _ in range(_REPEATS):
                    run()
            graph.replay()
            return min(_replay(graph) for _ in range(_REPLAYS)) / _REPEATS


def _replay(graph: torch.cuda.CUDAGraph) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def _without_bias(call: Call) -> Call:
    """Unless it has a gradient, which a compiler has to compute as well."""
    bias = call.operands[2]
    if bias is None or bias.requires_grad:
        return call
    return replace(call, operands=(*call.operands[:2], None))


@dataclass(frozen=True)
class Times:
    """Milliseconds of all calls together."""

    torch: float  # in the better of two layouts
    haloconv: dict[torch.memory_format | None, float]  # by layout, None as in the graph

    def text(self) -> str:
        """As the tuner keeps it."""
        ours = {str(layout): ms for layout, ms in self.haloconv.items()}
        return json.dumps({"torch": self.torch, "haloconv": ours})

    @classmethod
    def parse(cls, text: str) -> "Times":
        known = json.loads(text)
        layouts = {str(layout): layout for layout in (None, _ROWS, _CHANNELS)}
        return cls(known["torch"], {layouts[k]: ms for k, ms in known["haloconv"].items()})


def _problem(calls: Sequence[Call], layouts: Sequence[torch.memory_format | None]) -> str:
    """All that the times depend on beside device and versions, as one line of bounded length."""
    operands = [
        [o and replace(o, device=torch.device(o.device.type)) for o in c.operands] for c in calls
    ]
    settings = (torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32)
    others = [(call.name, call.arguments) for call in calls]
    known = repr((operands, others, list(layouts), settings))
    return (
        f"graph of {len(calls)} convolutions, sha256 {hashlib.sha256(known.encode()).hexdigest()}"
    )


def _compare(calls: Sequence[Call], layouts: Sequence[torch.memory_format | None]) -> Times:
    def total(calls: Sequence[Call], library: object, *layout) -> float:
        times = {c: c.milliseconds(getattr(library, c.name), *layout) for c in set(calls)}
        return sum(times[call] for call in calls)

    bare = [_without_bias(call) for call in calls]
    theirs = min(total(bare, torch, layout) for layout in (_ROWS, _CHANNELS))
    return Times(theirs, {layout: total(calls, _ops, layout) for layout in layouts})


def compare(
    calls: Sequence[Call], layouts: Sequence[torch.memory_format | None] = (None,)
) -> Times | None:
    """How long all calls take as torch's, in the better of two layouts, and as haloconv's in each.

    They are timed once: the result is kept with those of single problems (haloconv.tuning).
    None where they cannot be timed: for want of memory above all, while a CUDA graph is captured,
    and within a backward pass, whose thread the gradients would wait for. Torch's have no bias,
    unless it has a gradient: a compiler adds it in what comes next, where it costs nothing.
    """
    if _torch_compat.in_backward_pass():
        return None
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return None
    # A layout that all images have is not timed twice.
    inputs = [call.operands[0] for call in calls]
    images = {operand.layout for operand in inputs if len(operand.shape) == 4}
    different = [layout for layout in layouts if layout is None or images - {layout}]
    problem, device = _problem(calls, different), calls[0].operands[0].device
    if known := _ops.tuning_find(problem, device):
        return Times.parse(known)
    # A thread has no modes, hooks or autocast of the caller's, which is capturing a graph.
    with ThreadPoolExecutor(1) as pool:
        try:
            times = pool.submit(_compare, calls, different).result()
        except RuntimeError:
            return None
    fastest = min(times.torch, *times.haloconv.values())
    return Times.parse(_ops.tuning_add(problem, device, times.text(), fastest))
