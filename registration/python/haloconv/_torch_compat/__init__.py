"""Parts of torch that are not its public interface, or that not every supported version has.

What differs between versions is said here, with the version that made it; the C++ half of this is
registration/torch_compat. What a version lacks does nothing, so that the rest loads with it.
"""

from collections.abc import Callable

import torch
from torch._compile import _disable_dynamo as disable_dynamo

__all__ = [
    "as_scripted_operator",
    "disable_dynamo",
    "dynamo_rules",
    "in_backward_pass",
    "inductor",
]

try:  # TorchScript is deprecated: 2.15 still has it
    from torch.jit._builtins import _register_builtin
except ImportError:
    _register_builtin = None


def as_scripted_operator(function: Callable, operator: str) -> None:
    """Makes a scripted function that calls ``function`` hold the operator, not its Python code."""
    if _register_builtin is not None:
        _register_builtin(function, operator)


def dynamo_rules() -> dict:
    """What torch.compile does with torch's functions, each of which it looks up by name, once."""
    from torch._dynamo import trace_rules  # takes a second

    return trace_rules.get_torch_obj_rule_map()


def in_backward_pass() -> bool:
    """Whether this thread runs a backward pass."""
    return torch._C._current_graph_task_id() != -1


def inductor(mode: str | None, options: dict | None) -> Callable:
    """Inductor as torch.compile calls it with these."""
    return torch._TorchCompileInductorWrapper(mode, options, None)
