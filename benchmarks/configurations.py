"""The ways to run a whole network: by whose convolutions, in which layout, compiled or not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

PYTORCH, HALOCONV = "PyTorch", "haloconv"
LAYOUTS = {"rows": torch.contiguous_format, "channels last": torch.channels_last}

# Runs the network once and returns what a caller would look at.
Step = Callable[[], object]
# From a model, its batch.
MakeStep = Callable[[nn.Module, Tensor], Step]

_WARM_UP = 3  # calls before a capture: cuDNN's search and haloconv's timing are over then


@dataclass(frozen=True)
class Configuration:
    """One way of one side."""

    side: str
    way: str  # of WAYS
    layout: str  # of LAYOUTS

    @property
    def name(self) -> str:
        return f"{self.way}, {self.layout}"

    def prepare(self, model: nn.Module, batch: Tensor, make_step: MakeStep) -> Step:
        """The step of a copy of the model."""
        format = LAYOUTS[self.layout]
        model = copy.deepcopy(model).to(memory_format=format)
        return WAYS[self.way](self.side, model, batch.contiguous(memory_format=format), make_step)


def configurations(training: bool, ways: list[str], layouts: list[str]) -> list[Configuration]:
    """All that make sense: freezing a network that trains does not."""
    return [
        Configuration(side, way, layout)
        for way in ways
        for layout in layouts
        for side in (PYTORCH, HALOCONV)
        if not (training and way in _INFERENCE_ONLY)
    ]


def _eager(side: str, model: nn.Module, batch: Tensor, make_step: MakeStep) -> Step:
    if side == HALOCONV:
        import haloconv

        haloconv.replace(model)
    return make_step(model, batch)


def _captured(side: str, model: nn.Module, batch: Tensor, make_step: MakeStep) -> Step:
    """The eager step in one CUDA graph, so that the device waits for nothing of the host's."""
    step = _eager(side, model, batch, make_step)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = step()

    def replay(_kept: Step = step) -> object:  # the graph uses its model's and batch's memory
        graph.replay()
        return result

    return replay


def _compiled(**options: bool) -> Callable[[str, nn.Module, Tensor, MakeStep], Step]:
    def compile(side: str, model: nn.Module, batch: Tensor, make_step: MakeStep) -> Step:
        backend = "inductor"
        if side == HALOCONV:
            import haloconv

            backend = haloconv.fx.backend("inductor", fuse=True)
        return make_step(torch.compile(model, backend=backend, options=options), batch)

    return compile


def _frozen(side: str, model: nn.Module, batch: Tensor, make_step: MakeStep) -> Step:
    """In CUDA graphs, with constants for parameters.

    Dynamo keeps parameters for constants only while Inductor's own configuration says so. The
    option of torch.compile comes too late: they are inputs of the graph then, and stay so.
    """
    from torch._inductor import config  # takes a second

    step = WAYS["compiled with CUDA graphs"](side, model, batch, make_step)
    with config.patch(freezing=True):
        step()
    return step


def _frozen_script(side: str, model: nn.Module, batch: Tensor, make_step: MakeStep) -> Step:
    scripted = torch.jit.script(model)
    if side == HALOCONV:
        import haloconv

        return make_step(haloconv.rewrite(scripted, freeze=True)[0], batch)
    return make_step(torch.jit.freeze(scripted), batch)


WAYS: dict[str, Callable[[str, nn.Module, Tensor, MakeStep], Step]] = {
    "eager": _eager,
    "captured": _captured,
    "scripted": _frozen_script,
    "compiled": _compiled(),
    "compiled with CUDA graphs": _compiled(**{"triton.cudagraphs": True}),
    "frozen": _frozen,
}
_INFERENCE_ONLY = ("scripted", "frozen")
