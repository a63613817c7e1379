"""Networks of haloconv's layers in torch's own ways of training on several devices."""

import copy
import warnings

import pytest
import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import haloconv
from support import integers


class _Network(torch.nn.Module):
    def __init__(self, is_checkpointed: bool) -> None:
        super().__init__()
        layer = haloconv.nn.Conv2d
        self.first = layer(3, 8, (3, 4), padding=(1, 1, 1, 2))
        self.middle = torch.nn.Sequential(
            torch.nn.ReLU(), layer(8, 8, 3, groups=8), torch.nn.ReLU()
        )
        self.last = layer(8, 4, 3, stride=2)
        self.is_checkpointed = is_checkpointed

    def forward(self, x):
        x = self.first(x)
        x = (
            checkpoint(self.middle, x, use_reentrant=False)
            if self.is_checkpointed
            else self.middle(x)
        )
        return self.last(x)


def _network(is_checkpointed: bool, layout: torch.memory_format) -> _Network:
    network = _Network(is_checkpointed).double().to(memory_format=layout)
    for seed, parameter in enumerate(network.parameters()):
        parameter.data.copy_(integers(parameter.shape, seed, bound=2))
    return network


def _pictures(layout: torch.memory_format):
    return integers((4, 3, 13, 10)).contiguous(memory_format=layout)


def _whole_gradients(network, x) -> list:
    """Of the mean over the ranks of each rank's sum, which is what data parallelism computes."""
    (network(x).sum() / 2).backward()
    return [parameter.grad for parameter in network.parameters()]


def _check_ddp(rank, is_checkpointed: bool, layout) -> None:
    network, x = _network(is_checkpointed, layout), _pictures(layout)
    expected = _whole_gradients(copy.deepcopy(network), x)
    group = rank.mesh.get_group()
    parallel = DistributedDataParallel(
        network, process_group=group, gradient_as_bucket_view=True, static_graph=is_checkpointed
    )
    with warnings.catch_warnings():  # the one of a gradient that lies otherwise than its bucket
        warnings.simplefilter("error", UserWarning)
        parallel(x.chunk(2)[rank.rank]).sum().backward()
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, gradient)
        assert parameter.grad.stride() == parameter.stride()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_ddp(gang, is_checkpointed, layout) -> None:
    gang.run("2", _check_ddp, is_checkpointed, layout)


def _check_layout_taken(rank) -> None:
    """The engine steals the gradient: no copy in another layout is made on the way."""
    network, x = _network(False, torch.channels_last), _pictures(torch.channels_last)
    seen = {}

    def strides(tensor) -> list[int]:  # dimensions of one element have any
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        return [stride for size, stride in pairs if size > 1]

    for name, parameter in network.named_parameters():
        # Not the gradient itself: one that is kept elsewhere is not taken.
        parameter.register_hook(
            lambda grad, name=name: seen.update({name: (strides(grad), grad.data_ptr())})
        )
    network(x).sum().backward()
    for name, parameter in network.named_parameters():
        assert seen[name] == (strides(parameter), parameter.grad.data_ptr()), name


def test_gradients_come_as_weights_lie(gang) -> None:
    gang.run("2", _check_layout_taken)


def _check_fsdp(rank, is_checkpointed: bool, dtype: torch.dtype) -> None:
    layout = torch.contiguous_format
    network, x = _network(is_checkpointed, layout), _pictures(layout)
    reference = copy.deepcopy(network).to(dtype)
    expected = _whole_gradients(reference, x.to(dtype))
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float64)
    for module in (network.first, network.middle, network.last, network):
        fully_shard(module, mesh=rank.mesh, mp_policy=policy)
    network(x.chunk(2)[rank.rank]).sum().backward()
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        actual = parameter.grad.full_tensor()
        if dtype == torch.float64:
            assert torch.equal(actual, gradient)
        else:  # sums of the whole batch are rounded where sums of each half are
            largest = gradient.abs().max().item()
            torch.testing.assert_close(
                actual, gradient.double(), rtol=0, atol=4 * torch.finfo(dtype).eps * largest
            )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_fsdp(gang, is_checkpointed, dtype) -> None:
    gang.run("2", _check_fsdp, is_checkpointed, dtype)
