"""haloconv's forward operators by torch's own, for tools that know only these."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from haloconv._activations import ACTIVATIONS
from haloconv._forward_ops import FORWARD_OPS, ForwardOp
from haloconv._torch_compat import OpOverload


def _convolution(op: ForwardOp, input, weight, bias=None, *arguments, **named) -> Tensor:
    function = getattr(F, op.name)
    given = op.parameters | dict(zip(op.parameters, arguments, strict=False)) | named
    padding = given["padding"]
    if not isinstance(padding, (list, tuple)) or len(padding) != 2 * op.pixel_dims:
        return function(input, weight, bias, **given)
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # slow to import

    before, after = list(padding[::2]), list(padding[1::2])
    # Else the program would hold for those sizes alone where they are.
    if all(statically_known_true(a == b) for a, b in zip(before, after, strict=True)):
        return function(input, weight, bias, **given | {"padding": before})
    sides = [side for d in reversed(range(op.pixel_dims)) for side in (before[d], after[d])]
    given["padding"] = 0
    if op.transposed:  # whose padding is what its result loses
        return F.pad(function(input, weight, bias, **given), [-side for side in sides])
    return function(F.pad(input, sides), weight, bias, **given)


def _fused(
    op: ForwardOp,
    *args,
    scale=None,
    shift=None,
    residual=None,
    activation="none",
    activation_arguments=(),
    **more,
) -> Tensor:
    result = _convolution(op, *args, **more)

    def along_channels(vector: Tensor) -> Tensor:
        return vector.view([-1] + [1] * op.pixel_dims)

    if scale is not None:
        result = result * along_channels(scale)
    if shift is not None:
        result = result + along_channels(shift)
    if residual is not None:
        result = result + residual
    return ACTIVATIONS[activation](result, *activation_arguments)


def decompositions() -> dict[OpOverload, Callable[..., Tensor]]:
    """haloconv's forward operators, and their fused forms, as functions of torch's operators.

    They are for ``exported.run_decompositions()``, and so for tools that take exported programs and
    know only torch's operators. If the padding of opposite sides differs, the input is padded in
    a copy, or a part of a transposed convolution's result is taken. Fused operators become several
    steps, after each of which 16-bit types are rounded.
    """
    found = {}
    for op in FORWARD_OPS:
        for overload in op.overloads:
            found[op.ours(overload)] = partial(_convolution, op)
            found[op.fused(overload)] = partial(_fused, op)
    return found
