"""Makes haloconv's operators take DTensors, once there are any.

torch asks each operator for its rule where it meets a class of tensors that dispatches in Python.
torch.library.register_torch_dispatch needs the class, whose import takes as long as haloconv's own;
so haloconv's operators answer this question themselves, and import the rules when it is asked.
"""

import torch
from torch._library.simple_registry import GenericTorchDispatchRuleHolder, singleton

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


class _Rules(GenericTorchDispatchRuleHolder):
    def find(self, torch_dispatch_class: type):
        found = super().find(torch_dispatch_class)
        if found is None and _is_dtensor(torch_dispatch_class):
            name = self.qualname.split("::")[-1].split(".")[0]
            if name in _RELATIVES:
                from haloconv.distributed.relatives import rule
            elif name == "explain":
                from haloconv.distributed.explain import rule
            else:
                from haloconv.distributed.dispatch import rule
            return rule
        return found


def _is_dtensor(found: type) -> bool:
    return found.__name__ == "DTensor" and found.__module__.startswith("torch.distributed.tensor")


def register() -> None:
    for name in (*_OPERATORS, *_RELATIVES, "explain"):
        operator = getattr(torch.ops.haloconv, name).default
        entry = singleton.find(operator.__qualname__)
        entry.torch_dispatch_rules = _Rules(operator.__qualname__)
