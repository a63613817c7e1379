"""The convolutions of captured graphs: which calls are torch's or haloconv's, and with what."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

from haloconv._forward_ops import FORWARD_OPS, ForwardOp
from haloconv.fx import fusion
from haloconv.models import LAYERS

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
class Convolution:
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


def _bound(op: ForwardOp, input, weight, bias=None, *arguments, **named) -> Convolution | str:
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
    return Convolution(op, (input, weight, bias), tuple((given | lists).values()))


def _general(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
) -> Convolution | str:
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


def convolution_of(node: Node) -> Convolution | str | None:
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


def torch_convolutions(graphs: list[Graph]) -> dict[Node, Convolution]:
    """torch's convolutions that haloconv can compute."""
    found = {node: convolution_of(node) for graph in graphs for node in graph.nodes}
    return {node: what for node, what in found.items() if isinstance(what, Convolution)}


def haloconv_convolutions(graphs: list[Graph]) -> dict[Node, Convolution | str]:
    """haloconv's convolutions."""
    nodes = (node for graph in graphs for node in graph.nodes if node.target in _OURS)
    return {node: _bound(_OP_OF_OURS[node.target], *node.args, **node.kwargs) for node in nodes}


def give_back(nodes: Iterable[Node]) -> None:
    """Makes haloconv's convolutions among these torch's."""
    for node in nodes:
        node.target = _OURS.get(node.target, node.target)


def modules_of(graph: GraphModule | Graph) -> dict[str, GraphModule]:
    """The graph's modules, with those of conditions and loops."""
    if not isinstance(graph, GraphModule):
        return {}
    return {name: m for name, m in graph.named_modules() if isinstance(m, GraphModule)}


def graphs_of(graph: GraphModule | Graph) -> list[Graph]:
    """The graph with those of conditions and loops."""
    return [module.graph for module in modules_of(graph).values()] or [graph]
