"""Ranks that call with different arguments raise on all of them, before they wait for each other.

A description of the call is compared on all ranks of its mesh.
"""

import hashlib
import weakref
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from haloconv.distributed.bounded import BoundedDict

_MODES = ("auto", "always", "first", "never")
_mode = "auto"
_seen: "weakref.WeakKeyDictionary[DeviceMesh, BoundedDict]" = weakref.WeakKeyDictionary()


def check_agreement(when: str) -> str:
    """Sets when sharded calls compare their arguments among ranks; returns the previous setting.

    "always": at each call; "first": at the first call of each problem on a mesh; "never"; "auto",
    the default: "always" on a mesh of CPUs, and "first" on others, where a comparison waits
    for the GPU. A comparison is one collective of 16 bytes for each dimension of the mesh. All
    ranks must set the same. Raises ValueError for any other name.
    """
    global _mode
    if when not in _MODES:
        raise ValueError(f"haloconv: expected when to be one of {_MODES}, but got {when!r}")
    previous, _mode = _mode, when
    return previous


def require(mesh: DeviceMesh, key: object, describe: Callable[[], str]) -> None:
    """Raises on all ranks of the mesh if they came here with different descriptions."""
    if _mode == "never":
        return
    seen = _seen.setdefault(mesh, BoundedDict())
    first_only = _mode == "first" or (_mode == "auto" and mesh.device_type != "cpu")
    if first_only and key in seen:
        return
    groups = [mesh.get_group(dim) for dim in range(mesh.ndim) if mesh.size(dim) > 1]
    compare(groups, mesh.device_type, describe())
    seen[key] = True


def compare(groups: list, device_type: str, description: str) -> None:
    digest = hashlib.blake2b(description.encode(), digest_size=7).digest()
    number = int.from_bytes(digest, "little")
    # The least and, negated, the largest of all ranks.
    device = torch.device(device_type)
    bounds = torch.tensor([number, -number], dtype=torch.int64, device=device)
    for group in groups:
        dist.all_reduce(bounds, dist.ReduceOp.MIN, group)
    least, most = bounds.tolist()
    if least == -most:
        return
    texts = [description]
    for group in groups:
        gathered: list[list[str]] = [[] for _ in range(dist.get_world_size(group))]
        dist.all_gather_object(gathered, texts, group)
        texts = [text for some in gathered for text in some]
    different = "".join(f"\n  {text}" for text in dict.fromkeys(texts))
    raise RuntimeError(
        "haloconv: expected all ranks of a mesh to call with the same arguments, but they called "
        f"with{different}"
    )
