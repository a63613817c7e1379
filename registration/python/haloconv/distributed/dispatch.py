"""haloconv's operators on DTensors.

torch's own sharding rules know no halo, and the keys of its cache lack stride and padding. So each
operator has its own rule for the class DTensor: operands are placed as a cut of the problem needs
them, each rank computes its part, and the parts are a DTensor again. The rule runs below autograd,
whose nodes call the operators, so that all derivatives come here too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Placement

from haloconv._torch_compat import OpOverload, name_of, schema_of
from haloconv._torch_compat import distributed as torch_compat
from haloconv.distributed import agreement, rules
from haloconv.distributed.axis import Axis
from haloconv.distributed.backward import Backward
from haloconv.distributed.bounded import BoundedDict
from haloconv.distributed.forward import Forward
from haloconv.distributed.intervals import chunks
from haloconv.distributed.parts import Operators
from haloconv.distributed.rules import BIAS, INPUT, OUTPUT, WEIGHT
from haloconv.distributed.sweep import ALONE, Line, run

# The roles of tensors by the names of arguments, and those of results.
_ROLES = {
    "input": INPUT,
    "weight": WEIGHT,
    "grad_output": OUTPUT,
    "residual": OUTPUT,
    "bias": BIAS,
    "scale": BIAS,
    "shift": BIAS,
}
_RESULTS = {
    "conv2d": (OUTPUT,),
    "conv2d_fused": (OUTPUT,),
    "conv2d_dgrad": (INPUT,),
    "conv2d_wgrad": (WEIGHT,),
    "conv2d_wgrad_bias": (WEIGHT, BIAS),
    "conv2d_backward": (INPUT, WEIGHT, BIAS),
}
OPERATORS = tuple(_RESULTS)


class Call:
    """One call of an operator: its arguments by name, and what follows from them."""

    def __init__(self, operator: OpOverload, args: Sequence, kwargs: Mapping) -> None:
        self.operator = operator
        self.name = name_of(operator).split("::")[1]
        arguments = schema_of(operator).arguments
        self.values = {a.name: a.default_value for a in arguments if a.has_default_value()}
        names = [a.name for a in arguments]
        self.values |= dict(zip(names, args, strict=False)) | kwargs
        self.tensors = {
            name: self.values.pop(name)
            for name in _ROLES
            if isinstance(self.values.get(name), Tensor)
        }
        self.mesh = self._mesh()

    def _mesh(self) -> DeviceMesh:
        first_name, first = next(
            (name, t) for name, t in self.tensors.items() if isinstance(t, DTensor)
        )
        for name, tensor in self.tensors.items():
            if not isinstance(tensor, DTensor):
                raise RuntimeError(
                    f"haloconv::{self.name}: expected {name} to be a DTensor, as {first_name} is, "
                    f"but got a {type(tensor).__name__} of size {list(tensor.shape)}; "
                    "torch.distributed.tensor.distribute_tensor makes one of it"
                )
            if tensor.device_mesh != first.device_mesh:
                raise RuntimeError(
                    f"haloconv::{self.name}: expected {name} to be on the mesh of {first_name}, "
                    f"{first.device_mesh}, but it is on {tensor.device_mesh}"
                )
        return first.device_mesh

    def describe(self) -> str:
        tensors = ", ".join(
            f"{name}={str(t.dtype).removeprefix('torch.')}{list(t.shape)} {t.placements}"
            for name, t in self.tensors.items()
        )
        rest = ", ".join(f"{name}={value}" for name, value in self.values.items())
        return f"haloconv::{self.name}({tensors}, {rest})"

    def key(self) -> tuple:
        tensors = tuple(
            (name, t.dtype, t.shape, t.stride(), t.placements) for name, t in self.tensors.items()
        )
        return self.name, tensors, repr(self.values)

    def on_meta(self) -> list[Tensor | None]:
        """The whole results without elements. Raises what the operator raises for its arguments."""
        tensors = {
            name: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
            for name, t in self.tensors.items()
        }
        results = self.operator(**tensors, **self.values)
        return list(results) if isinstance(results, tuple) else [results]


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return int(values[0]), int(values[-1])


def _sides(values: Sequence[int]) -> tuple[int, int, int, int]:
    if len(values) == 4:
        return tuple(int(value) for value in values)
    rows, columns = _pair(values)
    return rows, rows, columns, columns


def _format(tensor: Tensor | None) -> torch.memory_format:
    last = torch.channels_last
    if tensor is not None and tensor.dim() == 4 and not tensor.is_contiguous():
        return last if tensor.is_contiguous(memory_format=last) else torch.contiguous_format
    return torch.contiguous_format


class Sizes:
    """The sizes of the whole problem: of input, weight and output, operands or results."""

    def __init__(self, call: Call, results: Mapping[str, Tensor]) -> None:
        tensors = call.tensors
        input = tensors.get("input", results.get(INPUT))
        weight = tensors.get("weight", results.get(WEIGHT))
        output = tensors.get("grad_output", results.get(OUTPUT))
        self.is_batched = input.dim() == 4
        self.groups = int(call.values["groups"])
        self.filters, _, *kernel = (int(size) for size in weight.shape)
        self.kernel = kernel
        self.channels, *self.input = (int(size) for size in input.shape[-3:])
        self.output = [int(size) for size in output.shape[-2:]]


def rule(_class, operator, types, args=(), kwargs=None):
    """What torch calls when an operator has a DTensor among its arguments."""
    with torch.no_grad():
        return _run(Call(operator, args, kwargs or {}))


def _run(call: Call):
    mesh = call.mesh
    if any(torch_compat.is_traced(t.to_local()) for t in call.tensors.values()):
        division = divide(call)
    else:
        key = call.key()
        agreement.require(mesh, key, call.describe)
        division = _kept((mesh.shape, *key), call)
    locals = {name: _placed(t, _ROLES[name], division) for name, t in call.tensors.items()}
    parts = _compute(call, division, locals)
    results = tuple(
        _wrapped(part, mesh, role, division)
        for role, part in zip(_RESULTS[call.name], parts, strict=True)
    )
    return results[0] if len(results) == 1 else results


@dataclass(frozen=True)
class Division:
    """How a problem is divided among the ranks of a mesh: the same on all of them."""

    cuts: Sequence[str]  # what each dimension of the mesh cuts
    sizes: Sizes
    whole: Mapping[str, Tensor | None]  # the whole results, without elements
    axes: Sequence[Axis]  # rows and columns
    operators: Mapping[str, object]  # the members of Operators


_divisions: BoundedDict[tuple, Division] = BoundedDict()


def _kept(key: tuple, call: Call) -> Division:
    """A network divides the same problems at each step."""
    division = _divisions.get(key)  # one look: another thread may make it forget
    if division is None:
        division = _divisions[key] = divide(call)
    return division


def divide(call: Call) -> Division:
    whole = dict(zip(_RESULTS[call.name], call.on_meta(), strict=True))
    sizes = Sizes(call, whole)
    operands = [
        rules.Operand(_ROLES[name], t.placements, t.numel() * t.element_size())
        for name, t in call.tensors.items()
    ]
    problem = rules.Problem(
        sizes.is_batched,
        sizes.channels,
        sizes.filters,
        sizes.groups,
        call.values.get("activation", "none") == "none",
    )
    cuts = rules.choose(operands, call.mesh.shape, problem)
    return Division(cuts, sizes, whole, _axes(call, cuts, sizes), _common(call, sizes, whole))


def _placed(tensor: DTensor, role: str, division: Division) -> Tensor:
    is_batched = division.sizes.is_batched
    wanted = tuple(rules.placement(cut, role, is_batched) for cut in division.cuts)
    return torch_compat.local_part(tensor, wanted)


def _wrapped(
    part: Tensor | None, mesh: DeviceMesh, role: str, division: Division
) -> DTensor | None:
    if part is None:
        return None
    whole = division.whole[role]
    placements: list[Placement] = [
        rules.result_placement(cut, role, division.sizes.is_batched) for cut in division.cuts
    ]
    return DTensor.from_local(
        part, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )


def _compute(call: Call, division: Division, tensors: dict[str, Tensor]) -> list[Tensor | None]:
    """The results' parts on this rank."""
    mesh, values = call.mesh, call.values
    cuts, sizes, whole, axes = division.cuts, division.sizes, division.whole, division.axes
    operators = Operators(**division.operators)
    padding = _sides(values["padding"])
    operands = [tensors.get(name) for name in ("grad_output", "input", "weight")]
    wants = (
        INPUT in whole,
        WEIGHT in whole,
        call.name == "conv2d_wgrad_bias" or values.get("with_bias", False),
    )
    if OUTPUT in whole:
        names = ("input", "weight", "bias", "scale", "shift", "residual")
        operands = [tensors.get(name) for name in names]
    channel_lines = [_line(mesh, dim) for dim, cut in enumerate(cuts) if cut == "in_channels"]
    if not any(cut in rules.SPATIAL for cut in cuts):
        ranks = [line.rank for line in channel_lines]
        return torch_compat.per_rank(
            _uncut, operators, operands, padding, wants, sizes.input, ranks
        )
    operands = [_batched(t, sizes.is_batched) for t in operands]
    lines = [_line(mesh, cuts.index(n)) if n in cuts else ALONE for n in rules.SPATIAL]
    if OUTPUT in whole:
        (output,) = run(Forward(*axes, operators), [*lines, *channel_lines], operands)
        output = output.contiguous(memory_format=_format(whole[OUTPUT]))
        return [output if sizes.is_batched else output.squeeze(0)]
    gradients = run(Backward(*axes, operators, wants), lines, operands)
    if wants[0] and not sizes.is_batched:
        gradients[0] = gradients[0].squeeze(0)
    roles = (INPUT, WEIGHT, BIAS)
    return [g for role, g in zip(roles, gradients, strict=True) if role in whole]


def _common(call: Call, sizes: Sizes, whole: Mapping[str, Tensor | None]) -> dict:
    """What the operators of all ranks have in common: the members of Operators."""
    values = call.values
    return {
        "stride": _pair(values["stride"]),
        "dilation": _pair(values["dilation"]),
        "groups": sizes.groups,
        "channels": sizes.channels,
        "filters": sizes.filters,
        "kernel_size": sizes.kernel,
        "is_fused": call.name == "conv2d_fused",
        "activation": values.get("activation", "none"),
        "activation_arguments": values.get("activation_arguments", ()),
        "input_format": _format(whole.get(INPUT)),
        "weight_format": _format(whole.get(WEIGHT)),
    }


def _axes(call: Call, cuts: Sequence[str], sizes: Sizes) -> list[Axis]:
    """How rows and columns are cut."""
    values = call.values
    stride, dilation = _pair(values["stride"]), _pair(values["dilation"])
    padding = _sides(values["padding"])
    axes = []
    for i, name in enumerate(rules.SPATIAL):
        ranks = call.mesh.size(cuts.index(name)) if name in cuts else 1
        inputs, outputs = (tuple(chunks(size[i], ranks)) for size in (sizes.input, sizes.output))
        axes.append(Axis(stride[i], dilation[i], sizes.kernel[i], padding[2 * i], inputs, outputs))
    return axes


def _batched(tensor: Tensor | None, is_batched: bool) -> Tensor | None:
    return (
        tensor.unsqueeze(0)
        if tensor is not None and not is_batched and tensor.dim() == 3
        else tensor
    )


def _line(mesh: DeviceMesh, dim: int) -> Line:
    return Line(mesh.get_group(dim), mesh.get_local_rank(dim))


def _uncut(
    operators: Operators, operands, padding, wants, input_size, channel_ranks
) -> list[Tensor | None]:
    """The results' parts if no rank needs what another one has."""
    if len(operands) == 6:
        return [operators.forward(operands, padding, channel_ranks)]
    grad_output, input, weight = operands
    wants_input, wants_weight, wants_bias = wants
    if wants_input and wants_weight:
        return list(operators.gradients(grad_output, input, weight, padding, wants_bias))
    if wants_input:
        return [operators.input_gradient(grad_output, weight, input_size, padding)]
    gradients = operators.weight_gradient(grad_output, input, padding, wants_bias)
    return list(gradients[: 1 + wants_bias])
