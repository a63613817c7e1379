"""Random problems, on one process and on a mesh, with data whose sums are exact."""

import random
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import haloconv
from support import integers

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
# torch 2.10 has no rule for the gradient of leaky ReLU.
ACTIVATIONS = ["none", "relu"] if TORCH < (2, 11) else ["none", "relu", "leaky_relu"]
# From 2.13 on torch does not take a dimension of one element out of a shape while it is sharded,
# which the gradients of scales need.
SHARDS_ONE_ELEMENT = TORCH < (2, 13)


@dataclass
class Problem:
    tensors: dict[str, Tensor]  # by the names of the operator's arguments; None is not there
    parameters: dict
    function: object
    grad_output: Tensor

    def __str__(self) -> str:
        shapes = {name: list(tensor.shape) for name, tensor in self.tensors.items()}
        return f"{self.function.__name__} of {shapes} with {self.parameters}"

    def call(self, tensors: dict[str, Tensor]) -> Tensor:
        return self.function(**tensors, **self.parameters)

    def on_one(self) -> tuple[Tensor, ...]:
        """The result and the gradients of all tensors, on one process."""
        leaves = {name: t.clone().requires_grad_() for name, t in self.tensors.items()}
        result = self.call(leaves)
        return result, *torch.autograd.grad(result, leaves.values(), self.grad_output)

    def on_mesh(self, mesh, placements: dict[str, list], of_gradient: list) -> tuple:
        """The same as DTensors."""
        leaves = {
            name: distribute_tensor(t.clone(), mesh, placements[name]).requires_grad_()
            for name, t in self.tensors.items()
        }
        result = self.call(leaves)
        gradient = distribute_tensor(self.grad_output.clone(), mesh, of_gradient)
        return result, *torch.autograd.grad(result, leaves.values(), gradient)


def random_problem(rng: random.Random) -> Problem:
    groups = rng.choice([1, 1, 2, 3, 4])
    channels, filters = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    kernel, stride, dilation = ([rng.randint(1, most) for _ in range(2)] for most in (4, 3, 3))
    padding = [rng.randint(0, 4) for _ in range(4)]
    spans = [dilation[i] * (kernel[i] - 1) + 1 for i in range(2)]
    least = [max(1, spans[i] - padding[2 * i] - padding[2 * i + 1]) for i in range(2)]
    size = [max(rng.randint(1, 14), smallest) for smallest in least]
    batch = [rng.randint(1, 4)] if rng.random() < 0.85 else []
    seed = rng.randrange(1000)
    tensors = {
        "input": integers((*batch, channels, *size), seed),
        "weight": integers((filters, channels // groups, *kernel), seed + 1),
    }
    parameters = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    output = haloconv.conv2d(**tensors, **parameters)
    if batch and rng.random() < 0.3:
        tensors["input"] = tensors["input"].contiguous(memory_format=torch.channels_last)
    function = haloconv.conv2d
    if rng.random() < 0.6:
        tensors["bias"] = integers((filters,), seed + 2)
    if rng.random() < 0.4:
        function = haloconv.conv2d_fused
        parameters["activation"] = rng.choice(ACTIVATIONS)
        if parameters["activation"] == "leaky_relu":
            parameters["activation_arguments"] = [0.5]  # a power of two is exact
        tensors["scale"] = integers((filters,), seed + 3)
        tensors["shift"] = integers((filters,), seed + 4)
        tensors["residual"] = integers(output.shape, seed + 5)
    return Problem(tensors, parameters, function, integers(output.shape, seed + 6))


def random_placements(rng: random.Random, tensor: Tensor, mesh_dims: int) -> list:
    dims = [d for d, size in enumerate(tensor.shape) if SHARDS_ONE_ELEMENT or size > 1]
    choices = [Replicate(), *(Shard(dim) for dim in dims)]
    return [rng.choice(choices) for _ in range(mesh_dims)]
