"""Captured graphs on haloconv's operators: those of torch.compile, torch.export and torch.fx.

>>> compiled = torch.compile(model, backend=haloconv.fx.backend("inductor"))
>>> haloconv.fx.replace_convolutions(exported.graph_module)
"""

import itertools
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from haloconv import _torch_compat
from haloconv._forward_ops import FORWARD_OPS, ForwardOp
from haloconv.fx import batch_norm, fusion, linear, timing
from haloconv.fx.decomposition_table import decompositions as decompositions
from haloconv.fx.layout import lay_out
from haloconv.models import LAYERS, Replaced

_aten = torch.ops.aten

# Torch's convolutions that haloconv has too.
_FOUND = {
    target: op
    for op in FORWARD_OPS
    for target in (getattr(torch, op.name), *map(op.aten, op.overloads))
}
# haloconv's, and what they are as torch's.
_OURS = {op.ours(o): op.aten(o) for op in FORWARD_OPS for o in op.overloads}
_OP_OF_OURS = {op.ours(o): op for op in FORWARD_OPS for o in op.overloads}


def _left() -> dict[Callable, str]:
    left = {_aten.convolution_backward.default: "it is a gradient"}
    for name in ("conv3d", "conv_transpose3d"):
        operator = getattr(_aten, name)
        for target in (getattr(torch, name), *(getattr(operator, o) for o in operator.overloads())):
            left[target] = "it is 3-D"
    return left


_LEFT = _left()


@dataclass(frozen=True)
class _Convolution:
    """A call of torch's or haloconv's operator, with the arguments of haloconv's."""

    op: ForwardOp
    operands: tuple  # input, weight, bias
    parameters: tuple  # lists, also where torch takes a number, but groups and a padding by name

    @property
    def arguments(self) -> tuple:
        return (*self.operands, *self.parameters)

    @property
    def target(self) -> Callable:
        by_name = any(isinstance(parameter, str) for parameter in self.parameters)
        return self.op.ours("padding" if by_name else "default")


def _bound(op: ForwardOp, input, weight, bias=None, *arguments, **named) -> _Convolution | str:
    """The call of an operator, or why it is left."""

    def values(argument):
        value = argument
        if isinstance(argument, Node):  # a number or a list of them
            value = argument.meta.get("val", argument.meta.get("example_value"))
        return [argument] if isinstance(value, (int, torch.SymInt)) else argument

    given = op.parameters | dict(zip(op.parameters, arguments, strict=False)) | named
    lists = {name: values(value) for name, value in given.items() if name != "groups"}
    for name, value in lists.items():
        if isinstance(value, Node):
            return f"whether its {name} is a number is not known"
    return _Convolution(op, (input, weight, bias), tuple((given | lists).values()))


def _general(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
) -> _Convolution | str:
    """The call of aten.convolution, or why it is left."""
    filter = fusion.value_of(weight)
    # A list may hold one value for all dimensions.
    longest = max(len(values) for values in (stride, padding, dilation, output_padding))
    pixel_dims = longest if filter is None else filter.dim() - 2
    for op in FORWARD_OPS:
        if op.pixel_dims == pixel_dims and op.transposed == transposed:
            more = {"output_padding": output_padding} if transposed else {}
            parameters = {"padding": padding, "dilation": dilation, "groups": groups} | more
            return _bound(op, input, weight, bias, stride, **parameters)
    return f"it is {pixel_dims}-D"


def _is_layer(node: Node) -> bool:
    """Whether the module that the node calls is one that haloconv.replace() replaces."""
    owner = node.graph.owning_module
    return owner is not None and type(owner.get_submodule(node.target)) in LAYERS


def _convolution(node: Node) -> _Convolution | str | None:
    """The node's convolution, or why it is left; None if the node is no convolution."""
    if node.op == "call_module" and _is_layer(node):
        return "it is a module, which haloconv.replace() takes"
    if node.op != "call_function":
        return None
    if node.target in _FOUND:
        return _bound(_FOUND[node.target], *node.args, **node.kwargs)
    if node.target is _aten.convolution.default:
        return _general(*node.args, **node.kwargs)
    return _LEFT.get(node.target)


def _operand(argument: Node | None, result: Tensor | None) -> timing.Operand | None:
    """The operand for a timing; None if it cannot be made."""
    value = fusion.value_of(argument)
    return timing.Operand.of(value, result) if value is not None and result is not None else None


def _call(
    node: Node, convolution: _Convolution | str, chain: fusion.Chain | None, is_linear: bool
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


def _torch_s(graphs: list[Graph]) -> dict[Node, _Convolution]:
    """torch's convolutions that haloconv can compute."""
    found = {node: _convolution(node) for graph in graphs for node in graph.nodes}
    return {node: what for node, what in found.items() if isinstance(what, _Convolution)}


def _ours(graphs: list[Graph]) -> dict[Node, _Convolution | str]:
    """haloconv's convolutions."""
    nodes = (node for graph in graphs for node in graph.nodes if node.target in _OURS)
    return {node: _bound(_OP_OF_OURS[node.target], *node.args, **node.kwargs) for node in nodes}


def _time(
    convolutions: dict[Node, _Convolution | str],
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
        if fuse and isinstance(convolution, _Convolution):
            op = convolution.op
            chain = fusion.chain_of(node, convolution.operands[0], op.pixel_dims, taken)
            taken.update(chain.nodes if chain else ())
        calls.append(_call(node, convolution, chain, node in were_linear))
    return timing.compare(calls, layouts) if calls and None not in calls else None


# The convolutions that stay torch's because these are faster, and the words that say so.
_Left = dict[Node, str]


def _slower(nodes: Iterable[Node], times: timing.Times, layout: timing.Layout) -> _Left:
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


def _lay_out_by_time(module: GraphModule, fuse: bool) -> _Left:
    """Gives the graph the layout in which its convolutions are fastest.

    With ``fuse``, linear layers of images become convolutions where these are faster.
    """
    graphs = _graphs(module)
    layouts = (None, torch.contiguous_format, torch.channels_last)
    were_linear = {n for graph in graphs for n in linear.as_convolutions(graph)} if fuse else set()
    convolutions = _torch_s(graphs) | _ours(graphs)
    times = _time(convolutions, layouts, fuse, were_linear)
    left = _choose_layout(module, convolutions, were_linear, times) if times else {}
    for node in were_linear:
        if times is None or node in left:
            linear.give_back(node)
    return left


def _choose_layout(
    module: GraphModule,
    convolutions: dict[Node, _Convolution | str],
    were_linear: Container[Node],
    times: timing.Times,
) -> _Left:
    in_module = [n for n in convolutions if n.graph is module.graph and n not in were_linear]
    for layout in times.by_preference():
        left = _slower(convolutions, times, layout)
        stays_as_it_is = len(left) == len(convolutions) or layout is None
        if stays_as_it_is or lay_out(module, in_module, layout):
            break
    return left


def _give_back(nodes: Iterable[Node]) -> None:
    for node in nodes:
        node.target = _OURS.get(node.target, node.target)


def _modules(graph: GraphModule | Graph) -> dict[str, GraphModule]:
    """The graph's modules, with those of conditions and loops."""
    if not isinstance(graph, GraphModule):
        return {}
    return {name: m for name, m in graph.named_modules() if isinstance(m, GraphModule)}


def _graphs(graph: GraphModule | Graph) -> list[Graph]:
    return [module.graph for module in _modules(graph).values()] or [graph]


def _replace_in(graph: Graph, prefix: str, result: Replaced, fuse: bool, left: _Left) -> None:
    for node in graph.nodes:
        convolution = _convolution(node)
        if isinstance(convolution, str):
            result.left[prefix + node.name] = convolution
        elif node in left:
            result.left[prefix + node.name] = left[node]
        elif convolution is not None:
            # In place: the node keeps its name and what is known of its result.
            node.target, node.args, node.kwargs = convolution.target, convolution.arguments, {}
            result.replaced.append(prefix + node.name)
    if fuse:
        fused = fusion.fuse(graph)
        result.fused |= {prefix + name: what for name, what in fused.items()}


def replace_convolutions(
    graph: GraphModule | Graph, fuse: bool = False, only_if_faster: bool = False
) -> Replaced:
    """Makes the convolutions of a captured graph haloconv's, in place.

    These are torch's and aten's conv2d, conv1d, conv_transpose2d and conv_transpose1d, and
    aten.convolution unless it is 3-D, also in the graphs of conditions and loops. The result names
    the nodes that were replaced, and those that were left with the reason. Gradients that the graph
    holds already stay torch's: replace before autograd, as backend() does.

    With ``fuse``, what follows a convolution becomes part of it, in haloconv::conv2d_fused and its
    relatives: a batch norm in inference or a factor of each channel, the addition of a tensor of
    the result's shape, and an activation, in this order. Each does so only if nothing else uses the
    value that it takes, and nothing in between changes a tensor in place. The nodes' meta must
    describe their values, as in graphs of torch.export and torch.compile. Results differ by the
    rounding of the batch norm.

    With ``only_if_faster``, the convolutions are timed on random tensors, with the gradients that
    are wanted. Torch's are timed in the graph's layout and with channels innermost, because a
    compiler may lay out the whole graph so. haloconv's are timed with what becomes part of them,
    and torch's with one more pass over the result for it. All are left unless haloconv's take less
    time together. If all images have channels innermost, each convolution that is slower is left.
    Nothing is timed and all are replaced on a CPU, where sizes are not known or memory is short,
    and under torch.use_deterministic_algorithms(True).

    ``graph`` may come from torch.fx.symbolic_trace, torch.export (``exported.graph_module``) or a
    backend of torch.compile. Modules that symbolic_trace does not trace into, such as
    torch.nn.Conv2d, are left: haloconv.replace() takes these, before or after. For inference this
    function can be Inductor's ``post_grad_custom_pre_pass``. Raises TypeError if ``graph`` is no
    graph.
    """
    if not isinstance(graph, (GraphModule, Graph)):
        kind = type(graph).__name__
        raise TypeError(f"expected graph to be a torch.fx.GraphModule or Graph, but got {kind}")
    convolutions = _torch_s(_graphs(graph)) if only_if_faster else {}
    times = _time(convolutions, (None,), fuse) if only_if_faster else None
    return _replace(graph, fuse, _slower(convolutions, times, None) if times else {})


def _replace(graph: GraphModule | Graph, fuse: bool, left: _Left) -> Replaced:
    modules = _modules(graph)
    result = Replaced()
    for name, inside in zip(modules or [""], _graphs(graph), strict=True):
        _replace_in(inside, name and name + ".", result, fuse, left)
    for module in modules.values():
        module.recompile()
    return result


def backend(
    inner: str | Callable = "inductor", fuse: bool = False, only_if_faster: bool = True
) -> Callable:
    """A backend for torch.compile: replaces the graph's convolutions, then calls ``inner``.

    ``inner`` is the name of a backend or a backend itself; ``fuse`` and ``only_if_faster`` are as
    in replace_convolutions(). Convolutions are replaced before the graph is differentiated, so that
    the gradients are haloconv's too.

    With ``only_if_faster``, haloconv's convolutions are timed in three layouts: the graph's own,
    rows innermost, and channels innermost. The graph gets the fastest layout if it computes the
    same in it and gains at least 10 %. With channels innermost, convolutions that torch computes
    faster stay torch's. Results keep their strides. In a model that uses haloconv's convolutions
    already, such as a routed one, those that torch computes faster become torch's.

    With ``fuse``, batch norms in training become one operator with the addition and the activation
    that follow them, if they are large, of a 16-bit type, and have channels innermost.

    With ``fuse`` and ``only_if_faster``, linear layers of contiguous tensors (n, h, w, c) in 16-bit
    types are timed as 1x1 convolutions with what becomes part of these, and become haloconv's where
    that is faster.
    """
    compile_graph = _torch_compat.backend_of(inner)

    def replace_and_compile(graph_module: GraphModule, inputs, mode=None, options=None, **more):
        left = _lay_out_by_time(graph_module, fuse) if only_if_faster else {}
        _give_back(left)
        _replace(graph_module, fuse, left)
        if fuse:
            batch_norm.fuse(graph_module.graph)
            graph_module.recompile()
        if inner == "inductor":  # as torch.compile calls it
            second = batch_norm.take_second_gradients
            inductor = _torch_compat.inductor(mode, options, second)
            replace_and_compile.reset = inductor.reset  # torch.compiler.reset() looks for it
            return inductor(graph_module, inputs)
        given = {"mode": mode, "options": options}
        more |= {name: value for name, value in given.items() if value is not None}
        return compile_graph(graph_module, inputs, **more)

    return replace_and_compile
