"""Makes haloconv's operators take DTensors, as soon as there are any.

When an operator meets a class of tensors that dispatches in Python, torch asks it for its rule.
torch.library.register_torch_dispatch needs the class, whose import takes as long as haloconv's own.
So haloconv's operators answer this question themselves, and import the rules when it is asked.
"""

from collections.abc import Callable
from functools import partial

import torch

from haloconv import _torch_compat

_OPERATORS = (
    "conv2d",
    "conv2d_fused",
    "conv2d_dgrad",
    "conv2d_wgrad",
    "conv2d_wgrad_bias",
    "conv2d_backward",
)
_RELATIVES = (
    "conv_transpose2d",
    "conv_transpose2d_fused",
    "conv1d",
    "conv1d_fused",
    "conv_transpose1d",
    "conv_transpose1d_fused",
)


def _is_dtensor(found: type) -> bool:
    return found.__name__ == "DTensor" and found.__module__.startswith("torch.distributed.tensor")


def _rule(name: str, found: type) -> Callable | None:
    """What torch calls when the operator of that name meets the class; None if it has no rule."""
    if not _is_dtensor(found):
        return None
    if name in _RELATIVES:
        from haloconv.distributed.relatives import rule
    elif name == "explain":
        from haloconv.distributed.explain import rule
    else:
        from haloconv.distributed.dispatch import rule
    return rule


def register() -> None:
    for name in (*_OPERATORS, *_RELATIVES, "explain"):
        operator = getattr(torch.ops.haloconv, name).default
        _torch_compat.ask_for_rules(operator, partial(_rule, name))
