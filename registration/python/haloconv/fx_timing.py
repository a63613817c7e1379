"""How long the convolutions of a captured graph take as torch's and as haloconv's.

A compiler may lay out all tensors of a graph with channels innermost, as cuDNN computes, and
torch's convolutions then transpose nothing. haloconv's Hopper kernels compute on rows. Where both
are in one graph, tensors are copied between them: so all convolutions are compared together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_REPEATS = 5  # calls of a replay
_REPLAYS = 3  # of which the quickest counts


@dataclass(frozen=True)
class Operand:
    """A tensor of the graph, as far as time depends on it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    @classmethod
    def of(cls, value: object) -> "Operand | None":
        """None where it cannot be made: unknown, of symbolic sizes, or on no GPU."""
        if not isinstance(value, Tensor) or value.device.type != "cuda":
            return None
        if not all(isinstance(size, int) for size in value.shape):
            return None
        wants_grad = value.requires_grad and torch.is_grad_enabled()
        return cls(tuple(value.shape), value.dtype, value.device, wants_grad)

    def make(self, memory_format: torch.memory_format) -> Tensor:
        # A generator of its own: the program's random numbers stay as they were.
        generator = torch.Generator(self.device).manual_seed(0)
        values = torch.randn(self.shape, device=self.device, generator=generator).to(self.dtype)
        if len(self.shape) == 4:
            values = values.contiguous(memory_format=memory_format)
        return values.requires_grad_(self.requires_grad)


@dataclass(frozen=True)
class Call:
    """A convolution: input, weight and bias; stride, padding, dilation and groups."""

    operands: tuple[Operand | None, ...]
    arguments: tuple

    def milliseconds(self, operator: Callable[..., Tensor], layout: torch.memory_format) -> float:
        """Of the device, with the gradients that are wanted: calls are captured and replayed."""
        tensors = [operand and operand.make(layout) for operand in self.operands]
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
            with torch.cuda.graph(graph, stream=stream):
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


def compare(calls: Sequence[Call]) -> tuple[float, float]:
    """Milliseconds of all calls as torch's, in the better of two layouts, and as haloconv's."""
    layouts = (torch.contiguous_format, torch.channels_last)

    def total(operator: Callable[..., Tensor], layout: torch.memory_format) -> float:
        times = {call: call.milliseconds(operator, layout) for call in set(calls)}
        return sum(times[call] for call in calls)

    theirs = min(total(torch.conv2d, layout) for layout in layouts)
    return theirs, total(torch.ops.haloconv.conv2d, torch.contiguous_format)
