"""The operators as functions that take a number where the operators take a list.

Shapes: input (n, c, h, w) or (c, h, w); weight (k, c / groups, r, s); bias (k); result
(n, k, p, q) or (k, p, q). ``padding`` is one value for all sides, two (height, width), or four
(top, bottom, left, right); ``stride`` and ``dilation`` are one value or two.

The tensors of a call are on one device and have one dtype, any that torch's convolution takes
there. A wrong argument raises TypeError if it is no tensor or no number, and otherwise
RuntimeError; the message names the argument, what it was, and what was expected.
"""

import operator
import reprlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from haloconv import _torch_compat
from haloconv._torch_compat import OpOverload, OpOverloadPacket

Ints = int | Sequence[int]

_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_ops = torch.ops.haloconv


_is_compiling = torch.compiler.is_dynamo_compiling
_quick_conv2d = _torch_compat.callable_of(_ops.conv2d.default)
_quick_conv2d_padding = _torch_compat.callable_of(_ops.conv2d.padding)
_quick_conv2d_square = _torch_compat.callable_of(torch.ops.haloconv._conv2d_square.default)
_quick_conv2d_sides = _torch_compat.callable_of(torch.ops.haloconv._conv2d_sides.default)
_quick_conv2d_fused = _torch_compat.callable_of(_ops.conv2d_fused.default)
_quick_conv2d_fused_padding = _torch_compat.callable_of(_ops.conv2d_fused.padding)
_is_unseen = _torch_compat.is_unseen


def _require_tensors(**tensors: object) -> None:
    for name, value in tensors.items():
        if isinstance(value, Tensor):
            if value.is_nested:
                raise NotImplementedError(f"haloconv: expected {name} to be no nested tensor")
        # Whatever has __torch_function__ may stand for a tensor: torch.fx's proxies do.
        elif not hasattr(value, "__torch_function__"):
            got = reprlib.repr(value)  # a NumPy array's own text may have many lines
            raise TypeError(f"haloconv: expected {name} to be a Tensor, but got {got}")


def _is_int(value: object) -> bool:
    if isinstance(value, bool):  # torch's functions refuse it
        return False
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.dtype in _INTEGERS
    if isinstance(value, (int, torch.SymInt)) or hasattr(value, "__torch_function__"):
        return True  # the last may stand for a number in a trace
    try:
        operator.index(value)
    except TypeError:
        return False
    return getattr(value, "ndim", 0) == 0  # torch refuses arrays, even of one number


# For a small problem these checks are a noticeable part of a call, so they first look for what
# nearly all calls have.


def _ints(name: str, value: Ints) -> Sequence[int]:
    if type(value) is int:
        return [value]
    values = value if isinstance(value, (tuple, list)) else [value]
    for item in values:
        if type(item) is not int and not _is_int(item):
            raise TypeError(f"haloconv: expected {name} to be one or more ints, but got {value!r}")
    return values


def _int(name: str, value: int) -> int:
    if type(value) is not int and not _is_int(value):
        raise TypeError(f"haloconv: expected {name} to be an int, but got {value!r}")
    return value


def _overload(packet: OpOverloadPacket, padding: Ints | str) -> OpOverload:
    return packet.padding if isinstance(padding, str) else packet.default


def _parameters(
    stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> tuple[Sequence[int], Sequence[int], Sequence[int], int]:
    return (
        _ints("stride", stride),
        _ints("padding", padding),
        _ints("dilation", dilation),
        _int("groups", groups),
    )


def _forward_parameters(
    stride: Ints, padding: Ints | str, dilation: Ints, groups: int
) -> tuple[Sequence[int], Sequence[int] | str, Sequence[int], int]:
    if not isinstance(padding, str):
        return _parameters(stride, padding, dilation, groups)
    return _ints("stride", stride), padding, _ints("dilation", dilation), _int("groups", groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv2d, whose ``padding`` may also have four values.

    As a string, padding is "valid" (none) or "same" (p = h and q = w; needs stride 1; if the total
    is odd, the larger half goes to the bottom and right). The result, (n, k, p, q), is
    channels_last if input or weight is. Differentiable to any order. Raises what torch's function
    raises.
    """
    try:
        if type(stride) is type(padding) is type(dilation) is type(groups) is int:
            if not _is_compiling():
                if padding == 0 and stride == dilation == groups == 1:
                    return _quick_conv2d(input, weight, bias)
                if _is_unseen(input, weight, bias):
                    if dilation == groups == 1:  # defaults, which torch.ops need not read
                        return _quick_conv2d_square(input, weight, bias, stride, padding)
                    return _quick_conv2d_square(
                        input, weight, bias, stride, padding, dilation, groups
                    )
        elif not _is_compiling():
            result = _by_numbers(
                input,
                weight,
                bias,
                (stride, stride) if type(stride) is int else stride,
                (padding, padding) if type(padding) is int else padding,
                (dilation, dilation) if type(dilation) is int else dilation,
                groups,
            )
            if result is not None:
                return result
        parameters = _forward_parameters(stride, padding, dilation, groups)
        if _is_compiling():
            call = _overload(_ops.conv2d, padding)
        else:
            call = _quick_conv2d_padding if isinstance(padding, str) else _quick_conv2d
        return call(input, weight, bias, *parameters)
    except RuntimeError:  # the operator raises it too if an argument is no tensor, but says less
        _require_tensors(input=input, weight=weight)
        if bias is not None:
            _require_tensors(bias=bias)
        raise


def conv2d_of_layer(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
) -> Tensor:
    """conv2d for a layer, whose parameters are tuples."""
    if not _is_compiling():
        try:
            result = _by_numbers(input, weight, bias, stride, padding, dilation, groups)
            if result is not None:
                return result
        except RuntimeError:
            pass  # conv2d raises it again, or an error that says more
    return conv2d(input, weight, bias, stride, padding, dilation, groups)


_LISTS = {tuple, list}


def _by_numbers(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
) -> Tensor | None:
    """conv2d by an operator that takes numbers; None if none takes these parameters.

    torch.ops reads three lists in 2 us, and these operators' numbers in less than half of that.
    Other types than int are left to the operator of lists: comparing a symbol would fix its value.
    """
    if not (type(stride) in _LISTS and type(padding) in _LISTS and type(dilation) in _LISTS):
        return None
    if not (len(stride) == len(dilation) == 2 and _is_unseen(input, weight, bias)):
        return None
    (down, across), (rows, columns) = stride, dilation
    if not (down is across and rows is columns and type(down) is type(rows) is type(groups) is int):
        return None
    if len(padding) == 2:
        top, left = padding
        if top is left and type(top) is int:
            if rows == groups == 1:
                if top == 0 and down == 1:
                    return _quick_conv2d(input, weight, bias)
                return _quick_conv2d_square(input, weight, bias, down, top)
            return _quick_conv2d_square(input, weight, bias, down, top, rows, groups)
        bottom, right = padding
    elif len(padding) == 4:
        top, bottom, left, right = padding
    else:
        return None
    if not type(top) is type(bottom) is type(left) is type(right) is int:
        return None
    return _quick_conv2d_sides(input, weight, bias, down, top, bottom, left, right, rows, groups)


def conv2d_fused(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
    *,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    residual: Tensor | None = None,
    activation: str = "none",
    activation_arguments: Sequence[float] = (),
) -> Tensor:
    """activation(conv2d(...) * scale + shift + residual).

    One kernel computes all of it, if haloconv has one that can; otherwise the steps after the
    convolution run separately.

    scale and shift are (k), residual has the result's shape, and all tensors input's dtype and
    device. ``activation`` is "none", "relu", "leaky_relu" (negative_slope=0.01), "clamp" (min,
    max), "hardtanh" (min_val=-1, max_val=1), "relu6", "sigmoid", "tanh", "silu", "gelu",
    "gelu_tanh", "hardswish", "hardsigmoid", "mish" or "elu" (alpha=1); ``activation_arguments`` are
    all of those in parentheses, or none. "hardtanh" and "relu6" differ from "clamp" in the gradient
    at a bound, which is 0. Differentiable to any order.
    """
    parameters = _forward_parameters(stride, padding, dilation, groups)
    fused = {"scale": scale, "shift": shift, "residual": residual}
    given = {name: value for name, value in fused.items() if value is not None}
    if activation != "none":
        given["activation"] = activation
    if type(activation_arguments) is not tuple or activation_arguments:
        given["activation_arguments"] = activation_arguments
    if _is_compiling():
        call = _overload(_ops.conv2d_fused, padding)
    else:
        call = _quick_conv2d_fused_padding if isinstance(padding, str) else _quick_conv2d_fused
    try:
        return call(input, weight, bias, *parameters, **given)
    except RuntimeError:  # as of conv2d
        _require_tensors(input=input, weight=weight)
        optional = {"bias": bias, **fused}
        _require_tensors(**{name: value for name, value in optional.items() if value is not None})
        raise


def conv2d_dgrad(
    grad_output: Tensor,
    weight: Tensor,
    input_size: Ints,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    *,
    memory_format: torch.memory_format | None = None,
) -> Tensor:
    """The gradient of conv2d's input, (n, c, h, w), where ``input_size`` is (h, w).

    grad_output is (n, k, p, q). Without ``memory_format``, the result is channels_last if
    grad_output or weight is.
    """
    _require_tensors(grad_output=grad_output, weight=weight)
    return _ops.conv2d_dgrad.default(
        grad_output,
        weight,
        _ints("input_size", input_size),
        *_parameters(stride, padding, dilation, groups),
        memory_format=memory_format,
    )


def conv2d_wgrad(
    grad_output: Tensor,
    input: Tensor,
    kernel_size: Ints,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    *,
    memory_format: torch.memory_format | None = None,
) -> Tensor:
    """The gradient of conv2d's weight, (k, c / groups, r, s), where ``kernel_size`` is (r, s).

    grad_output is (n, k, p, q), input (n, c, h, w). Without ``memory_format``, the result is
    channels_last if grad_output or input is.
    """
    _require_tensors(grad_output=grad_output, input=input)
    return _ops.conv2d_wgrad.default(
        grad_output,
        input,
        _ints("kernel_size", kernel_size),
        *_parameters(stride, padding, dilation, groups),
        memory_format=memory_format,
    )


def conv2d_wgrad_bias(
    grad_output: Tensor,
    input: Tensor,
    kernel_size: Ints,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    *,
    memory_format: torch.memory_format | None = None,
) -> tuple[Tensor, Tensor]:
    """conv2d_wgrad's result and the gradient of the bias, (k)."""
    _require_tensors(grad_output=grad_output, input=input)
    return _ops.conv2d_wgrad_bias.default(
        grad_output,
        input,
        _ints("kernel_size", kernel_size),
        *_parameters(stride, padding, dilation, groups),
        memory_format=memory_format,
    )


def conv2d_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    *,
    with_bias: bool = False,
    input_format: torch.memory_format | None = None,
    weight_format: torch.memory_format | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The gradients of conv2d's input, weight and bias; without ``with_bias`` the last is None.

    They are the results of conv2d_dgrad and conv2d_wgrad_bias with these memory formats. If "aten"
    runs, one call is quicker than those two.
    """
    _require_tensors(grad_output=grad_output, input=input, weight=weight)
    return _ops.conv2d_backward.default(
        grad_output,
        input,
        weight,
        *_parameters(stride, padding, dilation, groups),
        with_bias=with_bias,
        input_format=input_format,
        weight_format=weight_format,
    )


def explain(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
    direction: str = "fprop",
) -> str:
    """Which implementation and plan this conv2d would run, and why each other one declined.

    ``direction`` is "fprop", "dgrad" or "wgrad". Nothing is computed.
    """
    _require_tensors(input=input, weight=weight)
    return _overload(_ops.explain, padding)(
        input, weight, bias, *_forward_parameters(stride, padding, dilation, groups), direction
    )


# A scripted function that calls one of these holds the operator itself, not this file's code.
for _function in (
    conv2d,
    conv2d_fused,
    conv2d_dgrad,
    conv2d_wgrad,
    conv2d_wgrad_bias,
    conv2d_backward,
    explain,
):
    _torch_compat.as_scripted_operator(_function, f"haloconv::{_function.__name__}")


# Dynamo would run the operator while it traces, and again when the function runs.
@_torch_compat.disable_dynamo
def _force(name: str) -> str:
    return _ops.force_implementation(name)


@contextmanager
def implementation(name: str) -> Iterator[None]:
    """Within this context, every convolution of this thread runs ``name``.

    That is "sm90", "sm80", "generic", "aten", "auto" or the name of a kernel family. Any other name
    raises RuntimeError, and so does a convolution that the implementation declines, with the
    reason.

    The backward passes of these convolutions run it too, even after the context has ended, and
    those of earlier convolutions do not. Two things run what is forced in the thread that computes
    them: a backward pass that torch.compile has made, which on a CUDA device is computed in one of
    torch's threads, and a forward pass that a checkpoint computes again. For the latter, the
    ``context_fn`` of ``torch.utils.checkpoint`` may enter another context.

    Contexts of one thread may end in any order, as those of generators do. Of those that remain,
    the one that was entered last holds.
    """
    before = _force(name)
    entries = _forced.entries
    if not entries:
        entries.append([before])
    entry = [name]
    entries.append(entry)
    try:
        yield
    finally:
        entries[:] = [other for other in entries if other is not entry]
        if entries is _forced.entries:  # a generator may end in another thread than its first
            _force(entries[-1][0])
        if len(entries) == 1:
            entries.clear()


class _Forced(threading.local):
    """The contexts of a thread, in the order of their beginning, after what was forced before."""

    def __init__(self) -> None:
        self.entries: list[list[str]] = []


_forced = _Forced()
