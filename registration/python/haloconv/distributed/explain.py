"""What haloconv::explain says about DTensors: how the problem is cut, and what runs on this rank.

Nothing is sent, so that one rank may ask alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

from haloconv._torch_compat import schema_of
from haloconv.distributed import rules
from haloconv.distributed.backward import Backward
from haloconv.distributed.dispatch import Call, divide
from haloconv.distributed.forward import Forward
from haloconv.distributed.halo import Block
from haloconv.distributed.intervals import chunks
from haloconv.distributed.parts import Operators
from haloconv.distributed.rules import BIAS, INPUT, OUTPUT, WEIGHT

_ops = torch.ops.haloconv


def rule(_class, operator, types, args=(), kwargs=None) -> str:
    """What torch calls when explain has a DTensor among its arguments."""
    names = [argument.name for argument in schema_of(operator).arguments]
    given = dict(zip(names, args, strict=False)) | (kwargs or {})
    direction = given.pop("direction", "fprop")
    with torch.no_grad():
        call = Call(_ops.conv2d.default, (), given)
        division = divide(call)
        cuts, is_batched, whole = division.cuts, division.sizes.is_batched, division.whole
        tensors = {
            role: _part(call, role, cuts, is_batched, _batched(tensor))
            for role, tensor in ((r, call.tensors.get(r, whole.get(r))) for r in _ROLES)
            if tensor is not None
        }
        operators = _Saying(**division.operators, direction=direction, device=_device(call))
        _run(operators, division.axes, call, cuts, direction, tensors)
    mesh = " x ".join(map(str, call.mesh.shape))
    what = ", ".join(
        f"{name.replace('_', ' ')} among {ranks}"
        for name, ranks in zip(cuts, call.mesh.shape, strict=True)
        if name != rules.NO_CUT
    )
    head = f"mesh of {mesh} ranks: " + (f"cut are {what}" if what else "all on each rank")
    return "\n".join([head, *(operators.said or ["this rank: nothing"])])


_ROLES = (INPUT, WEIGHT, BIAS, OUTPUT)


def _device(call: Call) -> torch.device:
    return call.tensors["input"].device


def _batched(tensor: Tensor) -> Tensor:
    """On meta, without a batch as with one."""
    if isinstance(tensor, DTensor):
        tensor = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )
    return tensor.unsqueeze(0) if tensor.dim() == 3 else tensor


def _part(call: Call, role: str, cuts: Sequence[str], is_batched: bool, tensor: Tensor) -> Tensor:
    """This rank's part of a tensor without elements, laid out as the whole is."""
    for dim, name in enumerate(cuts):
        place = rules.placement(name, role, True) if name != rules.NO_CUT else Replicate()
        if isinstance(place, Replicate):
            continue
        size, ranks = tensor.size(place.dim), call.mesh.size(dim)
        mine = chunks(size, ranks)[call.mesh.get_local_rank(dim)]
        tensor = tensor.narrow(place.dim, mine.lo, mine.length)
    return torch.empty_like(tensor)


@dataclass(frozen=True)
class _Saying(Operators):
    """Says what would run, and computes nothing: its tensors have no elements."""

    direction: str = "fprop"
    device: torch.device = torch.device("cpu")
    said: list[str] = field(default_factory=list)

    def forward(self, tensors, padding, channel_ranks):
        input, weight, bias, *_ = tensors
        self._say(input, weight, bias, padding)
        return super().forward(tensors, padding, channel_ranks)

    def input_gradient(self, grad_output, weight, size, padding):
        gradient = super().input_gradient(grad_output, weight, size, padding)
        self._say(gradient, weight, None, padding)
        return gradient

    def weight_gradient(self, grad_output, input, padding, with_bias=False):
        gradients = super().weight_gradient(grad_output, input, padding, with_bias)
        self._say(input, *gradients, padding)
        return gradients

    def _say(self, input: Tensor, weight: Tensor, bias: Tensor | None, padding) -> None:
        self.said.append(
            f"this rank: input {list(input.shape)}, weight {list(weight.shape)}, "
            f"padding {list(padding)}"
        )
        if not input.numel() or not weight.numel():
            return
        tensors = [t if t is None else torch.empty_like(t, device=self.device)
                   for t in (input, weight, bias)]  # fmt: skip
        groups = self.groups_of(weight.size(0))
        text = _ops.explain(*tensors, self.stride, padding, self.dilation, groups, self.direction)
        self.said.append(text)


def _run(operators: _Saying, axes, call: Call, cuts, direction: str, tensors) -> None:
    """What a rank computes while the halos travel, or with them if it waits for them first."""
    mesh = call.mesh
    at = {name: mesh.get_local_rank(dim) for dim, name in enumerate(cuts)}
    ranks = [at.get(name, 0) for name in rules.SPATIAL]
    ranks += [mesh.get_local_rank(d) for d, name in enumerate(cuts) if name == "in_channels"]
    input, weight, output = (tensors[role] for role in (INPUT, WEIGHT, OUTPUT))
    if direction == "fprop":
        sweep = Forward(*axes, operators)
        operands = [input, weight, tensors.get(BIAS), None, None, None]
    else:
        wants = (direction == "dgrad", direction != "dgrad", False)
        sweep, operands = Backward(*axes, operators, wants), [output, input, weight]
    if sweep.is_split(ranks):
        sweep.own(ranks, operands)
        return
    windows = [flow.window(rank) for flow, rank in zip(sweep.flows, ranks, strict=False)]
    source = operands[0]
    whole = source.new_empty(*source.shape[:2], *(window.length for window in windows))
    sweep.whole(Block(whole, *windows), ranks, operands)
