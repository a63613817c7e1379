"""What follows a convolution in a captured graph becomes part of it, as in conv2d_fused."""

import functools
import math
import operator
from collections.abc import Container
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Graph, Node

from haloconv._activations import ACTIVATIONS
from haloconv._forward_ops import FORWARD_OPS
from haloconv._torch_compat import (
    INFERENCE_MODE_CALLS,
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    schema_of,
)

_aten = torch.ops.aten

_FUSED = {op.ours(o): op.fused(o) for op in FORWARD_OPS for o in op.overloads}
_PIXEL_DIMS = {op.ours(o): op.pixel_dims for op in FORWARD_OPS for o in op.overloads}


def _targets(name: str) -> set:
    """A function of one tensor as graphs call it: torch's, tensors' methods, aten's operators."""
    names = (name, name + "_")
    found = {getattr(space, n, None) for space in (torch, F) for n in names}
    found |= {getattr(getattr(_aten, n, None), "default", None) for n in names}
    return (found | set(names)) - {None}


_ACTIVATIONS = {
    target: [a for a in ACTIVATIONS.values() if a.aten == aten]
    for aten in {a.aten for a in ACTIVATIONS.values() if a.aten}
    for target in _targets(aten)
}
_ADDITIONS = {_aten.add.Tensor, torch.add, operator.add, "add"}
_ADDITIONS_IN_PLACE = {_aten.add_.Tensor, operator.iadd, "add_"}
_PRODUCTS = {_aten.mul.Tensor, torch.mul, operator.mul, "mul"}
_PRODUCTS_IN_PLACE = {_aten.mul_.Tensor, operator.imul, "mul_"}
_BATCH_NORMS = {  # and the order of their arguments
    _aten.batch_norm.default: "input weight bias mean var training momentum eps enabled",
    torch.batch_norm: "input weight bias mean var training momentum eps enabled",
    _aten._native_batch_norm_legit_no_training.default: "input weight bias mean var momentum eps",
    F.batch_norm: "input mean var weight bias training momentum eps",
}
_LONG_NAMES = {"running_mean": "mean", "running_var": "var"}


def is_activation(node: Node) -> bool:
    """Whether the node is an activation of its first argument, whose others are known."""
    if node.op not in ("call_function", "call_method") or node.target not in _ACTIVATIONS:
        return False
    others = (*node.args[1:], *node.kwargs.values())
    return bool(node.args) and not any(isinstance(argument, Node) for argument in others)


def _activation_of(node: Node) -> tuple[str, list[float]] | None:
    for activation in _ACTIVATIONS[node.target]:
        arguments = activation.arguments_of(node.target, node.args, node.kwargs)
        if arguments is not None:
            return activation.name, arguments
    return None


def value_of(node) -> Tensor | None:
    """A description of the node's result, if the capture recorded one."""
    if not isinstance(node, Node):
        return None
    value = node.meta.get("val", node.meta.get("example_value"))
    return value if isinstance(value, Tensor) else None


def batch_norm_of(node: Node) -> dict | None:
    """The arguments of a batch norm by name; None if the node is none."""
    if node.op not in ("call_function", "call_method") or node.target not in _BATCH_NORMS:
        return None
    given = dict(zip(_BATCH_NORMS[node.target].split(), node.args, strict=False))
    given |= {_LONG_NAMES.get(name, name): value for name, value in node.kwargs.items()}
    return {"training": False, "momentum": 0.1, "eps": 1e-5} | given


def _alike(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return False
    return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device


_IN_PLACE = {operator.setitem} | {
    getattr(operator, f"i{name}")
    for name in "add sub mul matmul truediv floordiv mod pow and or xor lshift rshift".split()
}


def _may_change_what_a_call_does(node: Node) -> bool:
    """Whether the node may change a tensor, or a mode in which calls run."""
    target = node.target
    if node.op == "call_method":
        return target.endswith("_")
    if isinstance(target, OpOverload):
        return schema_of(target).is_mutable
    if isinstance(target, OpOverloadPacket):
        return any(schema_of(getattr(target, n)).is_mutable for n in target.overloads())
    # torch.fx itself takes autocast's calls and set_grad_enabled to be impure.
    if isinstance(target, HigherOrderOperator) or target in INFERENCE_MODE_CALLS:
        return True
    if node.op == "call_module" or target in _IN_PLACE or "out" in node.kwargs:
        return True
    if node.is_impure(impure_random=False):
        return True
    in_place = node.kwargs.get("inplace", any(argument is True for argument in node.args))
    return in_place or getattr(target, "__name__", "").endswith("_")


@dataclass
class Chain:
    """A convolution and the nodes after it that become part of it."""

    nodes: list[Node]
    pixel_dims: int
    factor: Node | None = None  # of each channel
    residual: Node | None = None
    activation: tuple[str, list[float]] = ("none", [])  # as a fused operator takes it
    batch_norm: dict = field(default_factory=dict)

    def extend(self, but: Container[Node]) -> None:
        """Takes the next node as long as only that uses the result and it can be taken."""
        while self.activation[0] == "none" and len(self.nodes[-1].users) == 1:
            following = next(iter(self.nodes[-1].users))
            if following in but:
                return
            if not (self._take(following) and self._nothing_changes_before(following)):
                return

    def _take(self, node: Node) -> bool:
        if node.op not in ("call_function", "call_method"):
            return False
        if node.target in _BATCH_NORMS:
            return self._take_batch_norm(node)
        if node.target in _PRODUCTS or node.target in _PRODUCTS_IN_PLACE:
            return self._take_product(node)
        if node.target in _ADDITIONS or node.target in _ADDITIONS_IN_PLACE:
            return self._take_addition(node)
        if not is_activation(node) or node.args[0] is not self.nodes[-1]:
            return False
        activation = _activation_of(node)
        # AOTInductor cannot load a graph with an infinite number.
        if activation is None or not all(map(math.isfinite, activation[1])):
            return False
        self.activation = activation
        self.nodes.append(node)
        return True

    def _take_batch_norm(self, node: Node) -> bool:
        if self.batch_norm or self.factor is not None or self.residual is not None:
            return False
        given = batch_norm_of(node)
        result = value_of(self.nodes[0])
        statistics = [given.get(name) for name in ("mean", "var", "weight", "bias")]
        vectors = [value_of(node) for node in statistics if node is not None]
        if given["training"] or given.get("input") is not self.nodes[-1]:
            return False
        if isinstance(given["eps"], Node):
            return False
        if result is None or statistics[0] is None or statistics[1] is None:
            return False
        # A batch norm's channels come second, an unbatched result's first.
        if result.dim() != 2 + self.pixel_dims:
            return False
        if any(vector is None or vector.dtype != result.dtype for vector in vectors):
            return False
        taken = [node]
        if node.target is _aten._native_batch_norm_legit_no_training.default:
            results = list(node.users)  # the first is the normalized tensor
            if len(results) != 1 or results[0].args[1:] != (0,):
                return False
            taken = [node, results[0]]
        self.batch_norm = given
        self.nodes += taken
        return True

    def _take_product(self, node: Node) -> bool:
        """Takes a product with a factor of each channel, such as a layer scale."""
        if self.batch_norm or self.factor is not None or self.residual is not None:
            return False
        other = self._other_operand(node, _PRODUCTS_IN_PLACE)
        result, factor = value_of(self.nodes[0]), value_of(other)
        if node.kwargs or result is None or factor is None:  # out=
            return False
        if factor.dtype != result.dtype or factor.device != result.device:
            return False
        if result.dim() != 2 + self.pixel_dims:  # an unbatched result's channels come first
            return False
        channels = (result.shape[1], *[1] * self.pixel_dims)
        if tuple(factor.shape) not in (channels, (1, *channels)):
            return False
        self.factor = other
        self.nodes.append(node)
        return True

    def _take_addition(self, node: Node) -> bool:
        if self.residual is not None or {"alpha": 1} | node.kwargs != {"alpha": 1}:
            return False  # a second one, a multiple, or out=
        other = self._other_operand(node, _ADDITIONS_IN_PLACE)
        if not _alike(value_of(self.nodes[0]), value_of(other)):
            return False
        self.residual = other
        self.nodes.append(node)
        return True

    def _other_operand(self, node: Node, in_place: Container) -> Node | None:
        """What a node takes beside the chain's result; None if it cannot become part of it."""
        mine, operands = self.nodes[-1], node.args
        if len(operands) != 2 or (operands[0] is not mine and node.target in in_place):
            return None
        other = operands[1] if operands[0] is mine else operands[0]
        return None if other is mine else other

    def _nothing_changes_before(self, last: Node) -> bool:
        """Whether no tensor and no mode changes before `last`; otherwise it leaves the chain."""
        node = self.nodes[0].next
        while node is not last:
            if node not in self.nodes and self.may_change(node):
                self._drop(last)
                return False
            node = node.next
        return True

    def may_change(self, node: Node) -> bool:
        """Whether a node between those of the chain may change what they compute."""
        return _may_change_what_a_call_does(node)

    def _drop(self, last: Node) -> None:
        while last in self.nodes:
            self.nodes.pop()
        if last.target in _ACTIVATIONS:
            self.activation = ("none", [])
        elif last.target in _BATCH_NORMS:
            self.batch_norm = {}
        elif last.target in _PRODUCTS or last.target in _PRODUCTS_IN_PLACE:
            self.factor = None
        else:
            self.residual = None

    def replace(self, graph: Graph) -> str:
        """Replaces the convolution, and returns what became part of it."""
        *taken, last = self.nodes
        name, arguments = self.activation
        scale = shift = None
        if self.batch_norm:
            with graph.inserting_before(last):
                scale, shift = _scale_and_shift(graph, self.batch_norm, _origin(self.nodes[1]))
        elif self.factor is not None:
            with graph.inserting_before(last):
                scale = _call(graph, _origin(self.nodes[1]), _aten.view.default, self.factor, [-1])
        # In place: the node keeps its name, which may be that of a program's result.
        last.op, last.target, last.args = "call_function", _FUSED[taken[0].target], taken[0].args
        last.kwargs = {
            "scale": scale,
            "shift": shift,
            "residual": self.residual,
            "activation": name,
            "activation_arguments": [float(argument) for argument in arguments],
        }
        for node in reversed(taken):
            graph.erase_node(node)
        parts = [
            ("batch norm", self.batch_norm),
            ("scale", self.factor is not None),
            ("residual", self.residual is not None),
        ]
        return ", ".join([part for part, has in parts if has] + [name] * (name != "none"))


def _origin(node: Node) -> dict:
    """What a node's meta says about its origin, by which torch.export sorts nodes."""
    of_its_value = ("val", "example_value", "tensor_meta")
    return {name: value for name, value in node.meta.items() if name not in of_its_value}


def _call(graph: Graph, origin: dict, target, *arguments, **options) -> Node:
    node = graph.call_function(target, arguments, options)
    values = [value_of(a) if isinstance(a, Node) else a for a in arguments]
    node.meta = {**origin, "val": target(*values, **options)}
    return node


def _scale_and_shift(graph: Graph, batch_norm: dict, origin: dict) -> tuple[Node, Node]:
    """A batch norm's scale and shift, from its kept statistics, rounded only at the end."""

    call = functools.partial(_call, graph, origin)

    def converted(node: Node | None, dtype: torch.dtype) -> Node | None:
        if node is None or value_of(node).dtype == dtype:
            return node
        return call(_aten._to_copy.default, node, dtype=dtype)

    dtype = value_of(batch_norm["mean"]).dtype
    wide = torch.promote_types(dtype, torch.float32)
    names = ("mean", "var", "weight", "bias")
    mean, var, weight, bias = (converted(batch_norm.get(name), wide) for name in names)
    scale = call(_aten.rsqrt.default, call(_aten.add.Scalar, var, batch_norm["eps"]))
    if weight is not None:
        scale = call(_aten.mul.Tensor, scale, weight)
    shift = call(_aten.neg.default, call(_aten.mul.Tensor, mean, scale))
    if bias is not None:
        shift = call(_aten.add.Tensor, shift, bias)
    return converted(scale, dtype), converted(shift, dtype)


def chain_of(node: Node, operand: Node, pixel_dims: int, but: Container[Node] = ()) -> Chain | None:
    """A convolution and what can become part of it; None if nothing can.

    ``but`` are nodes that are part of others.
    """
    given, result = value_of(operand), value_of(node)
    if given is None or result is None or given.dtype != result.dtype:  # autocast
        return None
    if not result.is_floating_point():  # an activation may give another type
        return None
    chain = Chain([node], pixel_dims)
    chain.extend(but)
    return chain if len(chain.nodes) > 1 else None


def fuse(graph: Graph) -> dict[str, str]:
    """Makes what follows each of haloconv's convolutions part of it, if that is possible.

    Returns the convolutions' names, and what became part of each.
    """
    fused = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in _FUSED:
            continue
        chain = chain_of(node, node.args[0], _PIXEL_DIMS[node.target])
        if chain is not None:
            fused[node.name] = chain.replace(graph)
    return fused
