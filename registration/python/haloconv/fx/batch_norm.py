"""Batch norms in training, with what follows them, become one operator.

    y = activation(batch_norm(x) + residual)

haloconv::batch_norm_act has one kernel for this and one for its gradients. It takes 16-bit tensors
with channels innermost, as networks have them under autocast.
"""

import operator
from dataclasses import dataclass, field

import torch
from torch.fx import Graph, Node, map_arg

from haloconv._torch_compat import schema_of
from haloconv.fx.fusion import Chain, batch_norm_of, value_of

_aten = torch.ops.aten
_BATCH_NORM_ACT = torch.ops.haloconv.batch_norm_act.default
_BACKWARD = torch.ops.haloconv.batch_norm_act_backward.default
_SECOND_GRADIENT = 7  # the argument's index
_AS_CALLED = "eager_input_vals"  # a node's arguments, whose strides Inductor gives to the operator

_DEVICES = ("cuda",)
_ACTIVATIONS = ("none", "relu", "silu")  # that have kernels
_UNIT = 8  # channels that a kernel reads at once
# The fewest elements. All blocks wait for each other once, which takes a small layer as long as all
# else. Forward and backward took on an H200, beside Inductor's kernels, us:
#   12544 x 112        1.3 Mi  26 for 21        3136 x 672, SiLU   2.0 Mi  30 for 39
#   3136 x 512, ReLU   1.5 Mi  23 for 23        12544 x 192, SiLU  2.3 Mi  36 for 35
#   50176 x 40         1.9 Mi  28 for 26        12544 x 256, ReLU  3.1 Mi  30 for 34
# It is a size, and not a timing as for convolutions, because Inductor's kernels exist only once
# they are compiled, which takes more than a second for each shape.
_FEWEST = 1 << 21

_COUNTERS = {_aten.add_.Tensor, operator.iadd, "add_"}  # nn.BatchNorm2d counts its batches


@dataclass
class _TrainingChain(Chain):
    """A batch norm in training and the nodes after it that become part of it."""

    given: dict = field(default_factory=dict)  # the arguments of the batch norm

    @classmethod
    def of(cls, node: Node) -> "_TrainingChain | None":
        given = batch_norm_of(node)
        if given is None or not _is_taken(given):
            return None
        # As if it had taken a batch norm already: neither another one nor a factor can follow.
        chain = cls([node], pixel_dims=2, batch_norm=given, given=given)
        chain.extend(())
        if chain.activation[0] not in _ACTIVATIONS:
            chain.nodes.pop()
            chain.activation = ("none", [])
        return chain

    def may_change(self, node: Node) -> bool:
        others = _statistics_of(node)
        if others is not None:  # it changes its own statistics, and no image
            return not others.isdisjoint(_statistics(self.given))
        if node.target in _COUNTERS:
            counter = value_of(node.args[0])
            if counter is not None and counter.dim() == 0 and not counter.is_floating_point():
                return False
        return super().may_change(node)

    def replace(self, graph: Graph) -> str:
        """Replaces the batch norm, and returns what it is now."""
        *taken, last = self.nodes
        name, _ = self.activation
        vectors = (self.given.get(name) for name in ("weight", "bias", "mean", "var"))
        numbers = (self.given["momentum"], self.given["eps"])
        with graph.inserting_before(last):
            call = graph.call_function(
                _BATCH_NORM_ACT, (self.given["input"], *vectors, self.residual, *numbers, name)
            )
        # In place: the node keeps its name and what is known of its result.
        last.op, last.target, last.args, last.kwargs = (
            "call_function",
            operator.getitem,
            (call, 0),
            {},
        )
        for node in reversed(taken):
            graph.erase_node(node)
        parts = ["batch norm"] + ["residual"] * (self.residual is not None)
        return ", ".join(parts + [name] * (name != "none"))


def _statistics(given: dict) -> set[Node]:
    return {given.get("mean"), given.get("var")} - {None}


def _statistics_of(node: Node) -> set[Node] | None:
    """The running statistics that a batch norm may change; None if the node is none."""
    if node.op == "call_function" and node.target is _BATCH_NORM_ACT:
        return set(node.args[3:5]) - {None}
    given = batch_norm_of(node)
    return None if given is None else _statistics(given)


def _is_taken(given: dict) -> bool:
    """Whether the operator has kernels for a batch norm, and they are faster."""
    image = value_of(given["input"])
    if image is None or image.dim() != 4 or image.device.type not in _DEVICES:
        return False
    if image.dtype not in (torch.float16, torch.bfloat16):
        return False
    if not all(type(size) is int for size in image.shape):
        return False
    if image.numel() < _FEWEST or image.shape[1] % _UNIT:
        return False
    if not image.is_contiguous(memory_format=torch.channels_last):
        return False
    if given["training"] is not True:
        return False
    if not all(type(given[name]) in (int, float) for name in ("momentum", "eps")):
        return False
    nodes = [given.get(name) for name in ("weight", "bias", "mean", "var")]
    vectors = [value_of(node) for node in nodes if node is not None]
    return all(vector is not None and vector.dtype == torch.float32 for vector in vectors)


def fuse(graph: Graph) -> dict[str, str]:
    """Makes batch norms in training one operator with the addition and the activation after them.

    Returns the names of the nodes that are now their results, and what became part of each. The
    nodes' meta must describe their values, as in graphs of torch.compile.
    """
    fused = {}
    for node in list(graph.nodes):
        chain = _TrainingChain.of(node)
        if chain is not None:
            name = chain.nodes[-1].name
            fused[name] = chain.replace(graph)
    return fused


def take_second_gradients(graph: Graph) -> int:
    """Lets the gradient of a result that is used twice be added up by batch norm's own kernel.

    ``graph`` is a backward graph of aten's operators. Returns how many additions it has taken.
    """
    taken = 0
    for node in graph.find_nodes(op="call_function", target=_BACKWARD):
        arguments = _all_arguments(node)
        sum = arguments[0]
        if arguments[_SECOND_GRADIENT] is not None:
            continue
        if sum.target is not _aten.add.Tensor or len(sum.users) > 1 or sum.kwargs:
            continue
        values = [value_of(operand) for operand in (sum, *sum.args)]
        if any(v is None or v.shape != values[0].shape for v in values):
            continue
        if any(v.dtype != values[0].dtype or v.stride() != values[0].stride() for v in values):
            continue
        arguments[0], arguments[_SECOND_GRADIENT] = sum.args
        node.args, node.kwargs = tuple(arguments), {}
        if _AS_CALLED in node.meta:
            node.meta[_AS_CALLED] = (map_arg(node.args, value_of), {})
        graph.erase_node(sum)
        taken += 1
    return taken


def _all_arguments(node: Node) -> list:
    """A call's arguments in the order of its schema, with defaults, which graphs leave out."""
    expected = schema_of(node.target).arguments
    rest = expected[len(node.args) :]
    return [*node.args, *(node.kwargs.get(a.name, a.default_value) for a in rest)]
