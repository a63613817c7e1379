"""Which of a graph's convolutions are faster as torch's, and in which layout, by timing them."""

import itertools
from collections.abc import Container, Iterable

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from haloconv.fx import fusion, linear, timing
from haloconv.fx.convolutions import (
    Convolution,
    graphs_of,
    haloconv_convolutions,
    torch_convolutions,
)
from haloconv.fx.layout import lay_out


def _operand(argument: Node | None, result: Tensor | None) -> timing.Operand | None:
    """The operand for a timing; None if it cannot be made."""
    value = fusion.value_of(argument)
    return timing.Operand.of(value, result) if value is not None and result is not None else None


def _call(
    node: Node, convolution: Convolution | str, chain: fusion.Chain | None, is_linear: bool
) -> timing.Call | None:
    """The call for a timing; None if it cannot be timed."""
    if isinstance(convolution, str):
        return None
    result = fusion.value_of(node)
    operands = tuple(_operand(argument, result) for argument in convolution.operands)
    if any((o is None) != (a is None) for o, a in zip(operands, convolution.operands, strict=True)):
        return None
    parameters = [tuple(p) if isinstance(p, (list, tuple)) else p for p in convolution.parameters]
    numbers = itertools.chain.from_iterable(p if isinstance(p, tuple) else (p,) for p in parameters)
    if any(isinstance(number, Node) for number in numbers):  # from sizes, in the graph
        return None
    following = None
    if chain is not None:
        residual = _operand(chain.residual, result)
        name, arguments = chain.activation
        has_shift = bool(chain.batch_norm)
        has_scale = has_shift or chain.factor is not None
        following = timing.Following(has_scale, has_shift, residual, name, tuple(arguments))
    return timing.Call(convolution.op.name, operands, tuple(parameters), following, is_linear)


def times_of(
    convolutions: dict[Node, Convolution | str],
    layouts: tuple,
    fuse: bool,
    were_linear: Container[Node] = (),
) -> timing.Times | None:
    """The times of these convolutions; None if they are not timed."""
    if torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic:
        return None  # as for the operator's own choice: what runs may not depend on a timing
    calls, taken = [], set()
    for node, convolution in convolutions.items():
        chain = None
        if fuse and isinstance(convolution, Convolution):
            op = convolution.op
            chain = fusion.chain_of(node, convolution.operands[0], op.pixel_dims, taken)
            taken.update(chain.nodes if chain else ())
        calls.append(_call(node, convolution, chain, node in were_linear))
    return timing.compare(calls, layouts) if calls and None not in calls else None


# The convolutions that stay torch's because these are faster, and the words that say so.
Left = dict[Node, str]


def slower(nodes: Iterable[Node], times: timing.Times, layout: timing.Layout) -> Left:
    """The slower convolutions: all, if the graph in that layout is slower than torch's."""
    ours = times.of_both(layout)
    if ours >= times.torch_s:
        why = f"all take {times.torch_s:.2f} ms as torch's and {ours:.2f} ms as haloconv's"
        return dict.fromkeys(nodes, why)
    left = {}
    for i, (node, is_slower) in enumerate(zip(nodes, times.faster_as_torch_s(layout), strict=True)):
        if is_slower:
            its, ours = times.torch[torch.channels_last][i], times.haloconv[layout][i]
            left[node] = f"it takes {its:.3f} ms as torch's and {ours:.3f} ms as haloconv's"
    return left


def lay_out_by_time(module: GraphModule, fuse: bool) -> Left:
    """Gives the graph the layout in which its convolutions are fastest.

    With ``fuse``, linear layers of images become convolutions where these are faster.
    """
    graphs = graphs_of(module)
    layouts = (None, torch.contiguous_format, torch.channels_last)
    were_linear = {n for graph in graphs for n in linear.as_convolutions(graph)} if fuse else set()
    convolutions = torch_convolutions(graphs) | haloconv_convolutions(graphs)
    times = times_of(convolutions, layouts, fuse, were_linear)
    left = _choose_layout(module, convolutions, were_linear, times) if times else {}
    for node in were_linear:
        if times is None or node in left:
            linear.give_back(node)
    return left


def _choose_layout(
    module: GraphModule,
    convolutions: dict[Node, Convolution | str],
    were_linear: Container[Node],
    times: timing.Times,
) -> Left:
    in_module = [n for n in convolutions if n.graph is module.graph and n not in were_linear]
    for layout in times.by_preference():
        left = slower(convolutions, times, layout)
        stays_as_it_is = len(left) == len(convolutions) or layout is None
        if stays_as_it_is or lay_out(module, in_module, layout):
            break
    return left
