"""Existing models on haloconv's operators."""

import itertools
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from haloconv import _torch_compat, nn
from haloconv.functional import conv2d
from haloconv.relatives import conv1d, conv_transpose1d, conv_transpose2d

# What replace() replaces, by what.
LAYERS = {
    torch.nn.Conv1d: nn.Conv1d,
    torch.nn.Conv2d: nn.Conv2d,
    torch.nn.ConvTranspose1d: nn.ConvTranspose1d,
    torch.nn.ConvTranspose2d: nn.ConvTranspose2d,
}
_OURS = tuple(LAYERS.values())


@dataclass
class Replaced:
    """What became haloconv's: names of modules, "" for the model itself, or of a graph's nodes."""

    replaced: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)  # convolutions, and why each was left
    fused: dict[str, str] = field(default_factory=dict)  # and what became part of each

    def __str__(self) -> str:
        count = len(self.replaced)
        lines = [f"replaced {count} of {count + len(self.left)} convolutions"]
        lines += [f"  left {name or '(the model)'}: {why}" for name, why in self.left.items()]
        lines += [f"  fused {name}: {what}" for name, what in self.fused.items()]
        return "\n".join(lines)


def replace(model: torch.nn.Module) -> Replaced:
    """Makes the convolutions in ``model``, itself included, haloconv.nn's, in place.

    They are torch.nn.Conv2d, Conv1d, ConvTranspose2d and ConvTranspose1d. The modules remain the
    same objects: parameters, buffers, hooks, requires_grad, training mode, state_dict keys and
    other references to them are kept. Classes derived from torch's may compute something
    else and are left, as are 3-D convolutions and scripted modules; the result says which. What
    torch.compile has already compiled does not change, so replace before compiling.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"expected model to be a torch.nn.Module, but got {type(model).__name__}")
    result = Replaced()
    for name, module in model.named_modules():
        kind = type(module)
        if kind in LAYERS:
            module.__class__ = LAYERS[kind]
            result.replaced.append(name)
        elif isinstance(module, torch.jit.ScriptModule):
            if re.fullmatch(r"Conv(Transpose)?[123]d", module.original_name):
                result.left[name] = f"a scripted {module.original_name}"
        elif isinstance(module, _torch_compat.AnyConvolution) and not issubclass(kind, _OURS):
            result.left[name] = f"a {kind.__module__}.{kind.__qualname__}"
    return result


def rewrite(
    module: torch.jit.ScriptModule | str | os.PathLike, freeze: bool = False, fuse: bool = True
) -> tuple[torch.jit.ScriptModule, str]:
    """A copy of a scripted or traced module, or of one in a file, on haloconv's operators.

    Its 2-D and 1-D convolutions, also transposed ones, become haloconv::conv2d and its relatives.
    With ``freeze`` the module is frozen for inference first, which folds batch norm. With ``fuse``,
    additions and activations that follow a convolution in the same method, as they all do in a
    frozen module, become part of it. Also returns what was replaced and fused, and what was left
    and why. Raises RuntimeError if there is nothing to replace, or the file is no TorchScript
    model. Loading a model runs code that is in it: rewrite only models that you trust.
    """
    with tempfile.TemporaryDirectory() as folder:
        saved = module
        if isinstance(module, torch.jit.ScriptModule):
            saved = os.path.join(folder, "in.pt")
            module.save(saved)
        elif not isinstance(module, (str, os.PathLike)):
            kind = type(module).__name__
            raise TypeError(f"expected module to be a scripted module or a path, but got {kind}")
        rewritten = os.path.join(folder, "out.pt")
        report = torch.ops.haloconv.rewrite_file(os.fspath(saved), rewritten, freeze, fuse)
        return torch.jit.load(rewritten), report


_lock = threading.Lock()
_always = False  # route(True)
_contexts = 0  # active `with route():`
_active = False  # either; one truth for compilers, which compile anew where it changes
_before: dict[tuple[ModuleType, str], Callable] = {}  # while routing: what it replaced
_PLAIN = (Tensor, torch.nn.Parameter, type(None))


def _is_torch_s(input: object, weight: object, bias: object) -> bool:
    """Whether torch's function takes these arguments and the operator does not."""
    if isinstance(input, Tensor) and (input.is_mkldnn or input.is_nested or input.is_quantized):
        return True
    if type(input) in _PLAIN and type(weight) in _PLAIN and type(bias) in _PLAIN:
        return False
    return any(_torch_compat.overrides_torch(type(value)) for value in (input, weight, bias))


_FUNCTIONS = {f.__name__: f for f in (conv1d, conv2d, conv_transpose1d, conv_transpose2d)}
_torch_functions = {name: getattr(torch, name) for name in _FUNCTIONS}


def _routed(name: str, ours: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def routed(input, weight, bias=None, *arguments, **named) -> Tensor:
        # A name that was bound to this function while it replaced torch's may be called later.
        if not _active or _is_torch_s(input, weight, bias):
            return _torch_functions[name](input, weight, bias, *arguments, **named)
        return ours(input, weight, bias, *arguments, **named)

    # For functions that are scripted while it replaces torch's.
    _torch_compat.as_scripted_operator(routed, f"haloconv::{name}")
    return routed


_routed_functions = {name: _routed(name, ours) for name, ours in _FUNCTIONS.items()}


def _update() -> None:
    """Begins and ends routing. A patch from before it comes back, and one made within it stays."""
    global _active
    if _active == (_always or _contexts > 0):
        return
    # torch.compile looks up torch's functions once, by name. If it did so while they are routed, it
    # would take ours for torch's from then on.
    rules = _torch_compat.dynamo_rules()
    _active = not _active
    for module, (name, routed) in itertools.product((torch, F), _routed_functions.items()):
        function = getattr(module, name)
        is_routed = function is routed  # left by a patch that outlived an earlier routing
        if _active:
            _before[module, name] = _torch_functions[name] if is_routed else function
            setattr(module, name, routed)
        elif is_routed:
            setattr(module, name, _before[module, name])
    for name, routed in _routed_functions.items():
        if routed in rules:  # looked up again meanwhile, after init_process_group
            rules[_torch_functions[name]] = rules.pop(routed)


@contextmanager
def _routing() -> Iterator[None]:
    global _contexts
    with _lock:
        _contexts += 1
        _update()
    try:
        yield
    finally:
        with _lock:
            _contexts -= 1
            _update()


def route(enabled: bool | None = None):
    """Sends torch's convolutions through haloconv, in the whole process.

    They are conv2d, conv1d, conv_transpose2d and conv_transpose1d, of torch and of
    torch.nn.functional.

    >>> with haloconv.route():
    ...     y = model(x)
    >>> haloconv.route(True)  # until haloconv.route(False)

    Calls that look up the function when they run are routed: those of torch.nn.Conv2d, and of code
    that writes ``F.conv2d(...)``. Names that were bound before (``from torch.nn.functional import
    conv2d``), modules that were scripted before, calls from C++, and calls with a tensor whose type
    has its own versions of torch's functions are not. What is scripted meanwhile keeps the
    operator. The first call imports Dynamo, which takes a second, so that torch.compile knows
    torch's functions before they are routed.
    """
    global _always
    if enabled is None:
        return _routing()
    if not isinstance(enabled, bool):
        raise TypeError(f"expected enabled to be True or False, but got {enabled!r}")
    with _lock:
        _always = enabled
        _update()
    return None
