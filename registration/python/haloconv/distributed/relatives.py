"""The transposed and one-dimensional operators on DTensors, by conv2d's operators on DTensors.

A transposed convolution is the gradient of an input, and a 1-D tensor is an image with a single
row, so these have rules already. torch's own operators compute what follows a transposed
convolution, on its result.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from haloconv._activations import ACTIVATIONS
from haloconv._torch_compat import OpOverload, name_of, schema_of

_ops = torch.ops.haloconv


def rule(_class, operator, types, args=(), kwargs=None) -> Tensor:
    """What torch calls when an operator has a DTensor among its arguments."""
    arguments = schema_of(operator).arguments
    values = {a.name: a.default_value for a in arguments if a.has_default_value()}
    values |= dict(zip([a.name for a in arguments], args, strict=False)) | (kwargs or {})
    name = name_of(operator).split("::")[1]
    with torch.no_grad():
        if not name.startswith("conv_transpose"):
            return _one_dimensional(name, values)
        if name.startswith("conv_transpose1d"):
            size = [1, _output_size(operator, values)[-1]]
            result = _transposed(name, _as_images(values), size).squeeze(-2)
        else:
            result = _transposed(name, values, list(_output_size(operator, values)[-2:]))
        return _followed(result, values, 1 if "1d" in name else 2)


def _with_row(tensor: Tensor | None, dims: int) -> Tensor | None:
    """(…, c, w) as an image of one row; vectors stay as they are."""
    return tensor.unsqueeze(-2) if tensor is not None and tensor.dim() >= dims else tensor


def _as_images(values: Mapping) -> dict:
    padding = list(values["padding"])
    changed = {
        "stride": [1, *values["stride"]],
        "dilation": [1, *values["dilation"]],
        "padding": [0, 0, padding[0], padding[-1]],
        "input": _with_row(values["input"], 2),
        "weight": _with_row(values["weight"], 2),
    }
    if "output_padding" in values:
        changed["output_padding"] = [0, *values["output_padding"]]
    if values.get("residual") is not None:
        changed["residual"] = _with_row(values["residual"], 2)
    return {**values, **changed}


def _one_dimensional(name: str, values: Mapping) -> Tensor:
    operator = getattr(_ops, name.replace("1d", "2d"))
    return operator(**_as_images(values)).squeeze(-2)


def _output_size(operator: OpOverload, values: Mapping) -> torch.Size:
    """The result's size. Raises what the operator raises for its arguments."""

    def without_elements(value: object) -> object:
        if not isinstance(value, Tensor):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")

    return operator(**{name: without_elements(value) for name, value in values.items()}).shape


def _transposed(name: str, values: Mapping, size: Sequence[int]) -> Tensor:
    """The transposed convolution without what follows it."""
    stride, output_padding = ([v[0], v[-1]] for v in (values["stride"], values["output_padding"]))
    padding = list(values["padding"])
    if len(padding) != 4:
        padding = [padding[0], padding[0], padding[-1], padding[-1]]
    for i in range(2):  # more rows below are less padding there, as far as there is any
        taken = min(padding[2 * i + 1], output_padding[i])
        padding[2 * i + 1] -= taken
        if output_padding[i] - taken >= stride[i]:
            raise NotImplementedError(
                f"haloconv::{name}: expected output_padding to be smaller than the stride for "
                f"DTensors, or made up for by padding, but got {values['output_padding']}"
            )
    return _ops.conv2d_dgrad(
        values["input"],
        values["weight"],
        size,
        stride,
        padding,
        values["dilation"],
        values["groups"],
    )


def _followed(result: Tensor, values: Mapping, pixel_dims: int) -> Tensor:
    """The result with those of bias, scale, shift, residual and activation that there are."""

    def along_channels(vector: Tensor) -> Tensor:
        return vector.view([-1] + [1] * pixel_dims)

    if values["bias"] is not None:
        result = result + along_channels(values["bias"])
    if values.get("scale") is not None:
        result = result * along_channels(values["scale"])
    if values.get("shift") is not None:
        result = result + along_channels(values["shift"])
    if values.get("residual") is not None:
        result = result + values["residual"]
    activation = ACTIVATIONS[values.get("activation", "none")]
    return activation(result, *values.get("activation_arguments", ()))
