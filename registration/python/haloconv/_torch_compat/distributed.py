"""The private parts of torch that the sharded convolutions use; a new torch touches this file."""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as functional
from torch.distributed._local_tensor import maybe_run_for_local_tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._redistribute import redistribute_local_tensor
from torch.distributed.tensor.placement_types import Placement


def per_rank(function: Callable, *arguments: object) -> object:
    """function(*arguments), for each rank if a LocalTensorMode holds all of them."""
    return maybe_run_for_local_tensor(function)(*arguments)


def all_to_all(
    packed: Tensor, received: Sequence[int], sent: Sequence[int], group
) -> Callable[[], Tensor]:
    """Sends rows of `packed`, so many to each rank. The returned function waits for others' rows.

    On a GPU its queue waits, and not the host.
    """
    if is_traced(packed):  # torch.compile traces this form alone, which takes the host longer
        traced = functional.all_to_all_single(packed, list(received), list(sent), group)
        return lambda: traced  # it waits where it is first used
    result = packed.new_empty(sum(received), *packed.shape[1:])
    work = dist.all_to_all_single(
        result, packed, list(received), list(sent), group=group, async_op=True
    )

    def wait() -> Tensor:
        work.wait()
        return result

    return wait


def all_reduce(tensor: Tensor, group) -> Tensor:
    """The sum over the group, as a tensor that waits when it is first used."""
    return functional.all_reduce(tensor, "sum", group)


def waited(tensor: Tensor) -> Tensor:
    """The tensor, after its device's queue has begun to wait for it; the host does not wait.

    A tensor that still waits has no data of its own, so nobody may ask for its pointer.
    """
    if isinstance(tensor, functional.AsyncCollectiveTensor):
        return tensor.trigger_wait()
    return tensor


def local_part(tensor: DTensor, placements: tuple[Placement, ...]) -> Tensor:
    """The rank's part of the tensor if it were placed like this. All ranks call it.

    DTensor.redistribute is an autograd function, and fails below autograd.
    """
    if tensor.placements == placements:
        return tensor.to_local()
    wanted = DTensorSpec(tensor.device_mesh, placements, tensor_meta=tensor._spec.tensor_meta)
    return redistribute_local_tensor(tensor.to_local(), tensor._spec, wanted)


def is_traced(tensor: Tensor) -> bool:
    """Whether it only stands for other tensors: in a trace, or for ranks of a LocalTensorMode."""
    plain = (Tensor, torch.nn.Parameter, functional.AsyncCollectiveTensor)
    return type(tensor) not in plain
