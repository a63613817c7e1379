"""A sharded convolution of plain tensors, for programs that do not use DTensor."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from haloconv._torch_compat import distributed as torch_compat
from haloconv.distributed import agreement
from haloconv.distributed.axis import Axis
from haloconv.distributed.backward import Backward
from haloconv.distributed.forward import Forward
from haloconv.distributed.intervals import consecutive
from haloconv.distributed.parts import Operators
from haloconv.distributed.sweep import ALONE, Line, run

Ints = int | Sequence[int]


def _check_sizes(
    name: str, sizes: Sequence[int], own: int, group: dist.ProcessGroup | None, rank: int
) -> None:
    if len(sizes) != (1 if group is None else dist.get_world_size(group)) or sizes[rank] != own:
        raise ValueError(
            f"haloconv: expected {name} to have a value for each rank, and for this one, "
            f"number {rank}, {own}, but got {list(sizes)}"
        )


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    *,
    rows: dist.ProcessGroup | None = None,
    columns: dist.ProcessGroup | None = None,
    row_sizes: Sequence[int] | None = None,
    column_sizes: Sequence[int] | None = None,
) -> Tensor:
    """haloconv.conv2d of an input whose rows or columns are spread over the ranks of a group.

    ``input`` (n, c, h, w) is this rank's part. ``weight`` and ``bias`` are whole, and the same on
    all ranks. The result is this rank's part of the output; ``output_sizes`` gives its size.
    ``rows`` is the group along which rows are cut, ``columns`` the one along which columns are;
    with both, the ranks form a grid. ``row_sizes`` says how many rows each rank of ``rows`` has,
    and ``column_sizes`` how many columns; if one is not given, the sizes are gathered, which waits
    for the GPU.

    Differentiable once. The gradients of weight and bias are summed over the groups, so that they
    are those of one device. Raises ValueError for tensors that are not 4-D, and RuntimeError on all
    ranks if their arguments differ.
    """
    if input.dim() != 4 or weight.dim() != 4:
        raise ValueError(
            "haloconv: expected input and weight to be 4-D, but got sizes "
            f"{list(input.shape)} and {list(weight.shape)}"
        )
    stride, dilation = _pair("stride", stride), _pair("dilation", dilation)
    sides = _sides(padding)
    lines = [_line(rows), _line(columns)]
    groups_of_ranks = [group for group in (rows, columns) if group is not None]
    if row_sizes is None or column_sizes is None:
        parts = (input.dtype, *input.shape[:2], weight.shape, stride, sides, dilation, groups)
        agreement.compare(groups_of_ranks, input.device.type, f"haloconv.distributed.conv2d{parts}")
    given = {"row_sizes": row_sizes, "column_sizes": column_sizes}
    axes = []
    for i, (group, line, name) in enumerate(zip((rows, columns), lines, given, strict=True)):
        sizes = given[name]
        if sizes is None:
            sizes = _gathered(input.size(2 + i), group, input.device)
        else:
            _check_sizes(name, sizes, input.size(2 + i), group, line.rank)
        before_and_after = sides[2 * i : 2 * i + 2]
        kernel = weight.size(2 + i)
        outputs = output_sizes(sizes, kernel, stride[i], before_and_after, dilation[i])
        inputs, outputs = tuple(consecutive(sizes)), tuple(consecutive(outputs))
        axes.append(Axis(stride[i], dilation[i], kernel, sides[2 * i], inputs, outputs))
    _check(input, weight, bias, axes, (stride, sides, dilation, groups))
    last = torch.channels_last
    operators = Operators(
        stride,
        dilation,
        groups,
        weight.size(1) * groups,
        weight.size(0),
        tuple(weight.shape[2:]),
        weight_format=last if weight.is_contiguous(memory_format=last) else None,
    )
    return _Convolution.apply(axes, lines, groups_of_ranks, operators, input, weight, bias)


def output_sizes(
    sizes: Sequence[int], kernel_size: int, stride: int = 1, padding: Ints = 0, dilation: int = 1
) -> list[int]:
    """How many rows of conv2d's output each rank has if the ranks' inputs have so many rows.

    A rank has the output rows whose filter's middle is on its input rows; the first and the last
    rank also have those whose middle is on padding. ``padding`` is one value, or those before
    and after. The same is true of columns.
    """
    before, after = (padding, padding) if isinstance(padding, int) else padding
    span = dilation * (kernel_size - 1) + 1
    output = (sum(sizes) + before + after - span) // stride + 1
    # The first output row whose middle is on this input row or after it.
    bounds = [
        min(max(-(-(part.lo + before - (span - 1) // 2) // stride), 0), output) if part.lo else 0
        for part in consecutive(sizes)
    ]
    return [high - low for low, high in zip(bounds, [*bounds[1:], output], strict=True)]


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, axes, lines, groups, operators, input, weight, bias):
        ctx.axes, ctx.lines, ctx.groups, ctx.operators = axes, lines, groups, operators
        ctx.save_for_backward(input, weight)
        tensors = [input, weight, bias, None, None, None]
        (output,) = run(Forward(*axes, operators), lines, tensors)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        wants = ctx.needs_input_grad[4:]
        sweep = Backward(*ctx.axes, ctx.operators, wants)
        input, weight, bias = run(sweep, ctx.lines, [grad_output, *ctx.saved_tensors])
        for group in ctx.groups:
            weight, bias = (
                g if g is None else torch_compat.all_reduce(g, group) for g in (weight, bias)
            )
        weight, bias = (g if g is None else torch_compat.waited(g) for g in (weight, bias))
        return None, None, None, None, input, weight, bias


def _pair(name: str, values: Ints) -> tuple[int, int]:
    pair = (values,) if isinstance(values, int) else tuple(values)
    if len(pair) not in (1, 2):
        raise ValueError(f"haloconv: expected {name} to be one or two ints, but got {values!r}")
    return pair[0], pair[-1]


def _sides(padding: Ints) -> tuple[int, int, int, int]:
    if not isinstance(padding, int) and len(padding) == 4:
        return tuple(padding)
    rows, columns = _pair("padding", padding)
    return rows, rows, columns, columns


def _line(group: dist.ProcessGroup | None) -> Line:
    return ALONE if group is None else Line(group, dist.get_rank(group))


def _gathered(size: int, group: dist.ProcessGroup | None, device: torch.device) -> list[int]:
    if group is None:
        return [size]
    sizes = torch.empty(dist.get_world_size(group), dtype=torch.int64, device=device)
    dist.all_gather_into_tensor(sizes, sizes.new_tensor([size]), group=group)
    return sizes.tolist()


def _check(input: Tensor, weight: Tensor, bias: Tensor | None, axes, parameters) -> None:
    """Raises what haloconv.conv2d raises for the whole input."""
    size = (*input.shape[:2], *(axis.input_size for axis in axes))
    whole = torch.empty(size, dtype=input.dtype, device="meta")
    others = [t if t is None else t.to("meta") for t in (weight, bias)]
    torch.ops.haloconv.conv2d(whole, *others, *parameters)
