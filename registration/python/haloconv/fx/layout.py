"""One memory format for all convolutions of a captured graph.

The operands of the convolutions are brought into it. That costs a copy only if they have another:
batch norms, activations, additions and poolings keep the format of what they are given.
Tensors that leave the graph have the format that they had.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from haloconv._torch_compat import (
    FakeTensor,
    FakeTensorMode,
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    name_of,
)

# What sees strides, and may have been captured with those of another format.
_STRIDED = {"as_strided", "as_strided_", "stride", "storage_offset", "set_", "untyped_storage"}
# Modules of functions, beside torch's, that know no strides.
_PLAIN_MODULES = ("operator", "_operator", "builtins", "math")


def lay_out(module: GraphModule, convolutions: Sequence[Node], format: torch.memory_format) -> bool:
    """Gives the graph that format if it computes the same in it, and returns whether it does.

    Otherwise the graph stays as it was. The meta of its nodes must have "example_value", as in
    graphs of torch.compile.
    """
    if any(_may_depend_on_strides(node) for node in module.graph.nodes):
        return False
    added = []
    for node in convolutions:
        for operand in dict.fromkeys(node.all_input_nodes):
            if _value(operand).dim() == 4:
                with module.graph.inserting_before(node):
                    added.append(_contiguous(operand, format))
                node.replace_input_with(operand, added[-1])
    output = module.graph.output_node()
    for result in dict.fromkeys(output.all_input_nodes):
        kept = _format_of(_value(result))
        if kept is not None:
            with module.graph.inserting_before(output):
                added.append(_contiguous(result, kept))
            output.replace_input_with(result, added[-1])
    if _runs(module):
        return True
    for node in reversed(added):
        node.replace_all_uses_with(node.args[0])
        module.graph.erase_node(node)
    return False


def _contiguous(node: Node, format: torch.memory_format) -> Node:
    result = node.graph.call_method("contiguous", (node,), {"memory_format": format})
    result.meta["example_value"] = _value(node).contiguous(memory_format=format)
    return result


def _value(node: Node) -> object:
    return node.meta.get("example_value")


def _format_of(value: object) -> torch.memory_format | None:
    """The format of a tensor with four dimensions; None if it has neither of the two, or both."""
    formats = (torch.contiguous_format, torch.channels_last)
    if not isinstance(value, Tensor) or value.dim() != 4:
        return None
    which = [format for format in formats if value.is_contiguous(memory_format=format)]
    return which[0] if len(which) == 1 else None


def _may_depend_on_strides(node: Node) -> bool:
    """Whether the node's result may depend on strides; it may if the operator is not torch's."""
    if node.op == "call_method":
        return node.target in _STRIDED
    if node.op == "call_module":
        return not type(node.graph.owning_module.get_submodule(node.target)).__module__.startswith(
            "torch.nn.modules."
        )
    if node.op != "call_function":
        return False
    if isinstance(node.target, (OpOverload, OpOverloadPacket)):
        namespace, _, name = name_of(node.target).partition("::")
        return namespace not in ("aten", "haloconv") or name in _STRIDED
    if isinstance(node.target, HigherOrderOperator):
        return True
    origin = getattr(node.target, "__module__", None)
    is_known = origin is None or origin.startswith("torch") or origin in _PLAIN_MODULES
    return not is_known or node.target.__name__ in _STRIDED


class _Propagation(Interpreter):
    """Runs a graph on tensors without values."""

    def __init__(self, module: GraphModule, mode: FakeTensorMode) -> None:
        super().__init__(module)
        self._mode = mode

    def get_attr(self, *arguments):
        value = super().get_attr(*arguments)
        return self._mode.from_tensor(value) if isinstance(value, Tensor) else value


def _runs(module: GraphModule) -> bool:
    """Whether the graph can be traced: a view may be impossible for a tensor in another format."""
    values = [_value(node) for node in module.graph.nodes if node.op == "placeholder"]
    modes = [value.fake_mode for value in values if isinstance(value, FakeTensor)]
    if not modes or any(value is None for value in values):
        return False
    mode = modes[0]
    with mode, torch.no_grad():
        # Copies, for the graph may change what it is given.
        given = [value.clone() if isinstance(value, Tensor) else value for value in values]
        try:
            _Propagation(module, mode).run(*given)
        except (RuntimeError, ValueError):
            return False
    return True
