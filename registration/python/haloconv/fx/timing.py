"""How long the convolutions of a captured graph take as torch's and as haloconv's.

A compiler may give all tensors of a graph the layout in which cuDNN computes, with channels
innermost, so that torch's convolutions transpose nothing. haloconv has kernels for both layouts,
and which is faster depends on dtype and sizes. Several layouts in one graph would need copies
between them, so one layout is chosen for all convolutions together.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from haloconv import _torch_compat
from haloconv.fx import linear

_ops = torch.ops.haloconv
_ROWS, _CHANNELS = torch.contiguous_format, torch.channels_last
_REPEATS = 5  # calls of a replay
_REPLAYS = 3  # of which the quickest counts


@dataclass(frozen=True)
class Operand:
    """What is needed of a tensor of the graph for a timing."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    layout: torch.memory_format
    requires_grad: bool

    @classmethod
    def of(cls, value: Tensor, result: Tensor) -> "Operand | None":
        """An operand of the convolution with that result; None if it cannot be made.

        It has the result's dtype, because autocast casts what it is given. It wants a gradient only
        if the result has one.
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
    """(n, c, w) as an image of one row, as haloconv treats it, whose channels may be innermost."""
    return value if value.dim() == 4 else value.unsqueeze(-2)


def _is_timed(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_available()


def _size(size: int | torch.SymInt) -> int | None:
    """The size, for a symbol that of the tensors with which it was captured, if there is one."""
    return size if isinstance(size, int) else _torch_compat.hint_of(size)


@dataclass(frozen=True)
class Following:
    """What a fused operator does to a convolution's result, in this order."""

    has_scale: bool = False  # of each channel
    has_shift: bool = False
    residual: Operand | None = None
    activation: str = "none"
    activation_arguments: tuple[float, ...] = ()


@dataclass(frozen=True)
class Call:
    """A convolution: input, weight and bias, what follows them in the operator's order, and what
    becomes part of haloconv's."""

    name: str  # of the operator, torch's and haloconv's
    operands: tuple[Operand | None, ...]
    arguments: tuple
    following: Following | None = None
    is_linear: bool = False  # torch's is a linear layer of the image's pixels

    @property
    def all_operands(self) -> tuple[Operand | None, ...]:
        """The operands with the residual, and a scale and a shift."""
        if self.following is None:
            return self.operands
        image, filter, _ = self.operands
        in_first = self.name.startswith("conv_transpose")
        channels = filter.shape[1] * self.arguments[-2] if in_first else filter.shape[0]
        vector = replace(image, shape=(channels,), requires_grad=False)
        scale = vector if self.following.has_scale else None
        shift = vector if self.following.has_shift else None
        return (*self.operands, self.following.residual, scale, shift)

    def torch_s(self, *tensors: Tensor | None) -> Tensor:
        """The call as torch's. What follows is one pass over the result, as a compiler makes it."""
        if self.is_linear:
            result = linear.of_image(*tensors[:3])
        else:
            result = getattr(torch, self.name)(*tensors[:3], *self.arguments)
        if self.following is None:
            return result
        return torch.relu(result) if tensors[3] is None else result + tensors[3]

    def haloconv_s(self, *tensors: Tensor | None) -> Tensor:
        following = self.following
        if following is None:
            return getattr(_ops, self.name)(*tensors, *self.arguments)
        *operands, residual, scale, shift = tensors
        return getattr(_ops, f"{self.name}_fused")(
            *operands,
            *self.arguments,
            scale=scale,
            shift=shift,
            residual=residual,
            activation=following.activation,
            activation_arguments=list(following.activation_arguments),
        )

    def milliseconds(
        self, compute: Callable[..., Tensor], layout: torch.memory_format | None = None
    ) -> float:
        """The device's time, with the gradients that are wanted: calls are captured and replayed.

        ``compute`` takes all operands, in the given layout, or as they are in the graph.
        """
        operands = self.all_operands
        tensors = [operand and operand.make(layout or operand.layout) for operand in operands]
        wanted = [tensor for tensor in tensors if tensor is not None and tensor.requires_grad]

        def run() -> None:
            result = compute(*tensors)
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
    """The call without its bias, unless that has a gradient, which a compiler computes too."""
    bias = call.operands[2]
    if bias is None or bias.requires_grad:
        return call
    return replace(call, operands=(*call.operands[:2], None))


Layout = torch.memory_format | None  # None: as the graph has it


@dataclass(frozen=True)
class Times:
    """Milliseconds of each call."""

    torch: dict[torch.memory_format, tuple[float, ...]]
    haloconv: dict[Layout, tuple[float, ...]]
    found: Layout = None  # what all images of the graph have, if it is the same

    @property
    def torch_s(self) -> float:
        """The time of all calls in the better layout, which a compiler may give the whole graph."""
        return min(map(sum, self.torch.values()))

    def faster_as_torch_s(self, layout: Layout) -> list[bool]:
        """Which calls are faster as torch's in a graph of that layout, beside haloconv's.

        There are none unless channels are innermost: in a graph with rows innermost, a compiler may
        bring the images of torch's convolutions into the other layout, and back.
        """
        ours = self.haloconv[layout]
        if (layout or self.found) is not _CHANNELS:
            return [False] * len(ours)
        return [its <= mine for its, mine in zip(self.torch[_CHANNELS], ours, strict=True)]

    def of_both(self, layout: Layout) -> float:
        """The time of all calls, as haloconv's except those that are faster as torch's."""
        torch_s = self.torch.get(_CHANNELS, ())
        ours, left = self.haloconv[layout], self.faster_as_torch_s(layout)
        return sum(torch_s[i] if left[i] else ours[i] for i in range(len(ours)))

    def by_preference(self) -> list[Layout]:
        """Layouts for the graph, the best first.

        What is between convolutions may be faster in the layout that the graph has, so another must
        be faster by a tenth.
        """
        return sorted(
            self.haloconv, key=lambda layout: self.of_both(layout) * (1 if layout is None else 1.1)
        )

    def text(self) -> str:
        """As the tuner keeps it."""
        sides = ({str(k): ms for k, ms in side.items()} for side in (self.torch, self.haloconv))
        return json.dumps([*sides, str(self.found)])

    @classmethod
    def parse(cls, text: str) -> "Times":
        layouts = {str(layout): layout for layout in (None, _ROWS, _CHANNELS)}
        *sides, found = json.loads(text)
        torch_s, ours = ({layouts[k]: tuple(ms) for k, ms in side.items()} for side in sides)
        return cls(torch_s, ours, layouts[found])


def _problem(calls: Sequence[Call], layouts: Sequence[Layout]) -> str:
    """All on which the times depend beside device and versions, as one line of bounded length."""

    def anywhere(operand: Operand | None) -> Operand | None:
        return operand and replace(operand, device=torch.device(operand.device.type))

    settings = (torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32)
    operands = [[anywhere(operand) for operand in call.all_operands] for call in calls]
    others = [
        (c.name, c.arguments, c.following and replace(c.following, residual=None), c.is_linear)
        for c in calls
    ]
    known = repr((operands, others, list(layouts), settings))
    return (
        f"graph of {len(calls)} convolutions, each, "
        f"sha256 {hashlib.sha256(known.encode()).hexdigest()}"
    )


def _compare(calls: Sequence[Call], layouts: Sequence[Layout], found: Layout) -> Times:
    @functools.cache
    def time(call: Call, compute: Callable, layout: Layout) -> float:
        return call.milliseconds(functools.partial(compute, call), layout)

    def each(calls: Sequence[Call], compute: Callable, layout: Layout) -> tuple[float, ...]:
        # A linear layer's operands keep the layout that they have in the graph.
        return tuple(time(c, compute, None if c.is_linear else layout) for c in calls)

    bare = [_without_bias(call) for call in calls]
    # A compiler brings rows into channels innermost for torch's, but never back.
    torch_s = (_CHANNELS,) if found is _CHANNELS else (_ROWS, _CHANNELS)
    return Times(
        {layout: each(bare, Call.torch_s, layout) for layout in torch_s},
        {layout: each(calls, Call.haloconv_s, layout) for layout in layouts},
        found,
    )


def compare(calls: Sequence[Call], layouts: Sequence[Layout] = (None,)) -> Times | None:
    """How long each call takes as torch's, in the layouts that a compiler may give it, and as
    haloconv's in the layouts given.

    They are timed once: the result is kept with those of single problems (haloconv.tuning).
    Returns None if they cannot be timed: mostly for want of memory, but also while a CUDA graph
    is captured, and within a backward pass, because the gradients would wait for that thread.
    Torch's convolutions are timed without their bias unless it has a gradient, because a compiler
    adds it in the next kernel at no cost.
    """
    if _torch_compat.in_backward_pass():
        return None
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return None
    inputs = [call.operands[0] for call in calls]
    images = {operand.layout for operand in inputs if len(operand.shape) == 4}
    # A layout that all images have is not timed twice.
    different = [layout for layout in layouts if layout is None or images - {layout}]
    found = images.pop() if len(images) == 1 else None
    problem, device = _problem(calls, different), inputs[0].device
    if known := _ops.tuning_find(problem, device):
        return Times.parse(known)
    # A new thread has none of the modes, hooks and autocast of the caller, which captures a graph.
    with ThreadPoolExecutor(1) as pool:
        try:
            times = pool.submit(_compare, calls, different, found).result()
        except RuntimeError:
            return None
    fastest = min(times.torch_s, *map(times.of_both, different))
    return Times.parse(_ops.tuning_add(problem, device, times.text(), fastest))
