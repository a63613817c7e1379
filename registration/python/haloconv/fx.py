"""Captured graphs on haloconv's operators: those of torch.compile, torch.export and torch.fx.

>>> compiled = torch.compile(model, backend=haloconv.fx.backend("inductor"))
>>> haloconv.fx.replace_convolutions(exported.graph_module)
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

from haloconv import _torch_compat, fx_fusion, fx_layout, fx_timing
from haloconv._forward_ops import FORWARD_OPS, ForwardOp
from haloconv.fx_decompositions import decompositions as decompositions
from haloconv.models import Replaced

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
    """A call of torch's or haloconv's as haloconv's operator takes it."""

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
    """The call of an operator; why it is left where what it would be is not known."""

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
    """The call of aten.convolution; why it is left."""
    filter = fx_fusion.value_of(weight)
    # A list may hold one value for all dimensions.
    longest = max(len(values) for values in (stride, padding, dilation, output_padding))
    pixel_dims = longest if filter is None else filter.dim() - 2
    for op in FORWARD_OPS:
        if op.pixel_dims == pixel_dims and op.transposed == transposed:
            more = {"output_padding": output_padding} if transposed else {}
            parameters = {"padding": padding, "dilation": dilation, "groups": groups} | more
            return _bound(op, input, weight, bias, stride, **parameters)
    return f"it is {pixel_dims}-D"


def _convolution(node: Node) -> _Convolution | str | None:
    """As haloconv's operator takes it, or why the node is left; None where it is none."""
    if node.op != "call_function":
        return None
    if node.target in _FOUND:
        return _bound(_FOUND[node.target], *node.args, **node.kwargs)
    if node.target is _aten.convolution.default:
        return _general(*node.args, **node.kwargs)
    return _LEFT.get(node.target)


def _call(node: Node, convolution: _Convolution | str) -> fx_timing.Call | None:
    """None where it cannot be timed."""
    if isinstance(convolution, str):
        return None
    result = fx_fusion.value_of(node)
    operands = []
    for argument in convolution.operands:
        value = fx_fusion.value_of(argument)
        known = value is not None and result is not None and fx_timing.Operand.of(value, result)
        if argument is not None and not known:
            return None
        operands.append(known or None)
    parameters = [tuple(p) if isinstance(p, (list, tuple)) else p for p in convolution.parameters]
    numbers = itertools.chain.from_iterable(p if isinstance(p, tuple) else (p,) for p in parameters)
    if any(isinstance(number, Node) for number in numbers):  # from sizes, in the graph
        return None
    return fx_timing.Call(convolution.op.name, tuple(operands), tuple(parameters))


def _torch_s(graphs: list[Graph]) -> dict[Node, _Convolution]:
    """torch's convolutions that haloconv can compute."""
    found = {node: _convolution(node) for graph in graphs for node in graph.nodes}
    return {node: what for node, what in found.items() if isinstance(what, _Convolution)}


def _ours(graphs: list[Graph]) -> dict[Node, _Convolution | str]:
    """haloconv's convolutions."""
    nodes = (node for graph in graphs for node in graph.nodes if node.target in _OURS)
    return {node: _bound(_OP_OF_OURS[node.target], *node.args, **node.kwargs) for node in nodes}


def _time(convolutions: dict[Node, _Convolution | str], layouts: tuple) -> fx_timing.Times | None:
    """None where they are not timed."""
    if torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic:
        return None  # as for the operator's own choice: what runs may not depend on a timing
    calls = [_call(*found) for found in convolutions.items()]
    return fx_timing.compare(calls, layouts) if calls and None not in calls else None


def _why_slower(times: fx_timing.Times, ours: float) -> str:
    """Why all convolutions are left; "" where haloconv's are faster."""
    if ours < times.torch:
        return ""
    return f"all take {times.torch:.2f} ms as torch's and {ours:.2f} ms as haloconv's"


def _lay_out_by_time(module: GraphModule) -> str:
    """Lays out the graph as haloconv is fastest; why all convolutions are left, "" if it wins."""
    graphs = _graphs(module)
    layouts = (None, torch.contiguous_format, torch.channels_last)
    times = _time(_torch_s(graphs) | _ours(graphs), layouts)
    if times is None:
        return ""
    convolutions = [*_torch_s([module.graph]), *_ours([module.graph])]
    for layout, ours in sorted(times.haloconv.items(), key=lambda item: item[1]):
        why_left = _why_slower(times, ours)
        if why_left or layout is None or fx_layout.lay_out(module, convolutions, layout):
            break
    return why_left


def _give_back(graphs: list[Graph]) -> None:
    for node in _ours(graphs):
        node.target = _OURS[node.target]


def _modules(graph: GraphModule | Graph) -> dict[str, GraphModule]:
    """With those of conditions and loops."""
    if not isinstance(graph, GraphModule):
        return {}
    return {name: m for name, m in graph.named_modules() if isinstance(m, GraphModule)}


def _graphs(graph: GraphModule | Graph) -> list[Graph]:
    return [module.graph for module in _modules(graph).values()] or [graph]


def _replace_in(graph: Graph, prefix: str, result: Replaced, fuse: bool, why_left: str) -> None:
    for node in graph.nodes:
        convolution = _convolution(node)
        if isinstance(convolution, str):
            result.left[prefix + node.name] = convolution
        elif convolution is not None and why_left:
            result.left[prefix + node.name] = why_left
        elif convolution is not None:
            # In place: the node keeps its name and what is known of its result.
            node.target, node.args, node.kwargs = convolution.target, convolution.arguments, {}
            result.replaced.append(prefix + node.name)
    if fuse:
        fused = fx_fusion.fuse(graph)
        result.fused |= {prefix + name: what for name, what in fused.items()}


def replace_convolutions(
    graph: GraphModule | Graph, fuse: bool = False, only_if_faster: bool = False
) -> Replaced:
    """Makes the convolutions of a captured graph haloconv's, in place.

    They are torch's and aten's conv2d, conv1d, conv_transpose2d and conv_transpose1d, and
    aten.convolution unless it is 3-D, in the graphs of conditions and loops too. The result names
    the nodes, and those that were left, with the reason. A graph that holds gradients already keeps
    torch's for these: replace before autograd, as backend() does.

    With ``fuse``, what follows a convolution becomes part of it, as haloconv::conv2d_fused and its
    like: batch norm by the statistics that it keeps, the addition of a tensor of the result's
    shape, and an activation, in this order, each if nothing else uses what it takes, and nothing
    changes a tensor in place between. The graph must hold what its values are like, as
    torch.export's does and torch.compile's; results differ by the rounding of the batch norm.

    With ``only_if_faster``, the convolutions are timed, on random tensors and with the gradients
    that are wanted: each as torch's, with channels innermost too, as a compiler may lay out the
    whole graph, and as haloconv's. All are left unless haloconv's take less time together. Nothing
    is timed and all are replaced on a CPU, where sizes are not known or memory is short, and where
    torch is to be deterministic.

    It takes what torch.fx.symbolic_trace, torch.export (``exported.graph_module``) and a backend of
    torch.compile have; the modules that symbolic_trace calls whole are haloconv.replace()'s. For
    inference it can be Inductor's own pass: torch._inductor.config.post_grad_custom_pre_pass.
    """
    if not isinstance(graph, (GraphModule, Graph)):
        kind = type(graph).__name__
        raise TypeError(f"expected graph to be a torch.fx.GraphModule or Graph, but got {kind}")
    times = _time(_torch_s(_graphs(graph)), (None,)) if only_if_faster else None
    return _replace(graph, fuse, _why_slower(times, times.haloconv[None]) if times else "")


def _replace(graph: GraphModule | Graph, fuse: bool, why_left: str) -> Replaced:
    modules = _modules(graph)
    result = Replaced()
    for name, inside in zip(modules or [""], _graphs(graph), strict=True):
        _replace_in(inside, name and name + ".", result, fuse, why_left)
    for module in modules.values():
        module.recompile()
    return result


def backend(
    inner: str | Callable = "inductor", fuse: bool = False, only_if_faster: bool = True
) -> Callable:
    """A backend for torch.compile: replaces the graph's convolutions, then calls ``inner``.

    ``inner`` is a backend by name or itself, ``fuse`` and ``only_if_faster`` are
    replace_convolutions()'s. Gradients are haloconv's too, for the graph is replaced before it is
    differentiated. With ``only_if_faster``, haloconv's are timed in three layouts: as the graph has
    them, with rows and with channels innermost. The graph is laid out as they are fastest, if it
    computes the same in that layout; what it returns has the strides that it had. A model that uses
    haloconv's convolutions already, as a routed one, is laid out in the same way, and gets torch's
    where these are faster.
    """
    compile_graph = torch._dynamo.lookup_backend(inner)

    def replace_and_compile(graph_module: GraphModule, inputs, mode=None, options=None, **more):
        why_left = _lay_out_by_time(graph_module) if only_if_faster else ""
        if why_left:
            _give_back(_graphs(graph_module))
        _replace(graph_module, fuse, why_left)
        if inner == "inductor":  # as torch.compile calls it
            inductor = _torch_compat.inductor(mode, options)
            replace_and_compile.reset = inductor.reset  # torch._dynamo.reset() looks for it
            return inductor(graph_module, inputs)
        given = {"mode": mode, "options": options}
        more |= {name: value for name, value in given.items() if value is not None}
        return compile_graph(graph_module, inputs, **more)

    return replace_and_compile
