"""Parts of torch that are not its public interface, or that not every supported version has.

Each difference between versions is here, with the version that made it; the C++ half of this is
registration/torch_compat. What a version lacks does nothing here, so that the rest loads with it.
distributed.py has what the sharded convolutions use, because its import takes long.
"""

import inspect
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor
from torch._compile import _disable_dynamo as disable_dynamo
from torch._library.simple_registry import GenericTorchDispatchRuleHolder, singleton
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode
from torch.fx import Graph
from torch.nn.modules.conv import _ConvNd as AnyConvolution
from torch.utils._python_dispatch import TorchDispatchMode

from haloconv._after_import import after_import

__all__ = [
    "AnyConvolution",
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "INFERENCE_MODE_CALLS",
    "OpOverload",
    "OpOverloadPacket",
    "TorchDispatchMode",
    "as_scripted_operator",
    "ask_for_rules",
    "backend_of",
    "callable_of",
    "disable_dynamo",
    "dynamo_rules",
    "hint_of",
    "in_backward_pass",
    "inductor",
    "is_unseen",
    "lower_in_inductor",
    "name_of",
    "overrides_torch",
    "schema_of",
]

try:  # TorchScript is deprecated: 2.15 still has it
    from torch.jit._builtins import _register_builtin
except ImportError:
    _register_builtin = None

#: What captured graphs call when a program enters and leaves torch.inference_mode.
INFERENCE_MODE_CALLS = {_enter_inference_mode, _exit_inference_mode}


def schema_of(operator: OpOverload) -> torch.FunctionSchema:
    return operator._schema


def name_of(operator: OpOverload | OpOverloadPacket) -> str:
    """The operator's name with its namespace and without its overload, such as "aten::conv2d"."""
    return getattr(operator, "overloadpacket", operator)._qualified_op_name


def callable_of(operator: OpOverload) -> Callable:
    """The operator without OpOverload.__call__, which only passes its arguments on.

    Dynamo traces only the overloads.
    """
    return operator._op


_PLAIN = {Tensor, torch.nn.Parameter, type(None)}
_is_tracing = torch._C._is_tracing
_has_function_mode = torch._C._is_torch_function_mode_enabled
_count_dispatch_modes = torch._C._len_torch_dispatch_stack


def is_unseen(input: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether no mode, trace or type of these tensors sees which operator takes them."""
    return (
        type(input) in _PLAIN
        and type(weight) in _PLAIN
        and type(bias) in _PLAIN
        and not _is_tracing()
        and not _has_function_mode()
        and not _count_dispatch_modes()
    )


class _Rules(GenericTorchDispatchRuleHolder):
    def __init__(self, name: str, rule_for: Callable[[type], Callable | None]) -> None:
        super().__init__(name)
        self._rule_for = rule_for

    def find(self, torch_dispatch_class: type) -> Callable | None:
        return super().find(torch_dispatch_class) or self._rule_for(torch_dispatch_class)


def ask_for_rules(operator: OpOverload, rule_for: Callable[[type], Callable | None]) -> None:
    """Makes torch ask for the operator's rule when it meets a class that dispatches in Python.

    What torch.library.register_torch_dispatch registered comes first. That function needs the
    class; ``rule_for`` gets it when there is a tensor or a mode of it.
    """
    name = operator.__qualname__
    singleton.find(name).torch_dispatch_rules = _Rules(name, rule_for)


def overrides_torch(kind: type) -> bool:
    """Whether the type has its own versions of torch's functions, as DTensor does.

    The types with which compilers trace, such as FakeTensor, take any operator.
    """
    not_handled = torch._C._disabled_torch_function_impl
    for base in kind.__mro__:
        if base is Tensor or base.__module__.startswith(("torch._subclasses.", "torch.fx.")):
            return False
        if "__torch_dispatch__" in vars(base):
            return True
        if vars(base).get("__torch_function__", not_handled) is not not_handled:
            return True
    return False


overrides_torch._dynamo_marked_constant = True  # called while Dynamo traces, not traced


def as_scripted_operator(function: Callable, operator: str) -> None:
    """Makes a scripted function that calls ``function`` hold the operator, not its Python code."""
    if _register_builtin is not None:
        _register_builtin(function, operator)


def dynamo_rules() -> dict:
    """What torch.compile does with torch's functions. It looks each up by name, once."""
    from torch._dynamo import trace_rules  # takes a second

    return trace_rules.get_torch_obj_rule_map()


def in_backward_pass() -> bool:
    """Whether this thread runs a backward pass."""
    return torch._C._current_graph_task_id() != -1


def hint_of(size: torch.SymInt) -> int | None:
    """The symbol's value for the tensors with which it was captured, if there is one."""
    return size.node.hint if size.node.has_hint() else None


def backend_of(name: str | Callable) -> Callable:
    """torch.compile's backend of that name, or the backend itself."""
    return torch._dynamo.lookup_backend(name)


def lower_in_inductor(operator: OpOverload, call_of: Callable[..., tuple | None]) -> None:
    """Lets the Python code that Inductor generates call another operator.

    ``call_of`` gives that operator and its arguments for the arguments of a call, or None, which
    leaves the call as it is. In a package for C++, which outlives this version of haloconv, all
    calls are left.
    """

    def register(lowering: ModuleType) -> None:
        itself = lowering.fallback_handler(operator)

        def lower(*arguments, **named):
            other = None if lowering.V.graph.cpp_wrapper else call_of(*arguments, **named)
            if other is None:
                return itself(*arguments, **named)
            target, of_target = other
            return lowering.fallback_handler(target, add_to_fallback_set=False)(*of_target)

        lowering.add_needs_realized_inputs(operator)
        lowering.register_lowering(operator, type_promotion_kind=None)(lower)

    after_import("torch._inductor.lowering", register)


def inductor(
    mode: str | None, options: dict | None, graph_pass: Callable[[Graph], object]
) -> Callable:
    """Inductor as torch.compile calls it with these, and with a pass over its graphs of aten's
    operators, unless there is another one."""
    from torch._inductor import config, custom_graph_pass  # takes a second

    class Pass(custom_graph_pass.CustomGraphPass):
        def __call__(self, graph: Graph) -> None:
            graph_pass(graph)

        def uuid(self) -> object:  # by which Inductor keeps what it compiled
            file = inspect.getfile(graph_pass)
            return custom_graph_pass.get_hash_for_files((file,), graph_pass.__qualname__)

    compiler = torch._TorchCompileInductorWrapper(mode, options, None)
    if compiler.config.get("post_grad_custom_pre_pass", config.post_grad_custom_pre_pass) is None:
        compiler.config["post_grad_custom_pre_pass"] = Pass()
    return compiler
