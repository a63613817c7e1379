"""Denoises a photograph that is too large for one device, by rows on several processes.

    torchrun --nproc-per-node 2 denoise_sharded.py [--limit MEGABYTES] [--steps N] [--output FILE]

A small network is trained on crops, each process on its own, with the gradients averaged by
DistributedDataParallel. Then the whole photograph is denoised, its rows cut among the processes.
The limit stands for a device's memory: the example says how much the largest activation needs on
one process and on each of several, and refuses to compute a part that is over the limit. At the end
the parts are compared with the whole, which the first process computes without a limit.
"""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel

import haloconv

CHANNELS = 24


def network() -> torch.nn.Module:
    torch.manual_seed(0)  # alike on all processes
    conv = haloconv.nn.Conv2d
    return torch.nn.Sequential(
        conv(3, CHANNELS, 5, padding="same"),
        torch.nn.ReLU(),
        conv(CHANNELS, CHANNELS, 3, padding="same", dilation=2),
        torch.nn.ReLU(),
        conv(CHANNELS, 3, 3, padding="same"),
    )


def photograph() -> torch.Tensor:
    """The flower of scikit-learn, in tiles: (1, 3, 854, 1280) of values in [0, 1]."""
    from sklearn.datasets import load_sample_image

    image = torch.from_numpy(load_sample_image("flower.jpg").copy()).permute(2, 0, 1)[None] / 255
    return image.tile(1, 1, 2, 2)


def noisy(image: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return image + 0.1 * torch.randn(image.shape, generator=generator)


def train(model: torch.nn.Module, image: torch.Tensor, steps: int) -> None:
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(steps):
        top, left = (int(torch.randint(n - 64, (), generator=generator)) for n in image.shape[2:])
        crop = image[..., top : top + 64, left : left + 64]
        given = noisy(crop, step * dist.get_world_size() + dist.get_rank())
        loss = torch.nn.functional.mse_loss(given + parallel(given), crop)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def megabytes(image: torch.Tensor, parts: int) -> float:
    """Of the largest activation of one part."""
    rows = -(-image.size(2) // parts)
    return CHANNELS * rows * image.size(3) * image.element_size() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=64, help="of an activation, in MiB")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--output", help="a PNG of the result")
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    image = photograph()
    given = noisy(image, -1 % 2**31)
    whole, part = megabytes(image, 1), megabytes(image, ranks)
    if part > arguments.limit:
        raise SystemExit(
            f"an activation of {part:.0f} MiB is over the limit of {arguments.limit:.0f} MiB: "
            "more processes are needed"
        )
    model = network()
    train(model, image, arguments.steps)
    with torch.no_grad():
        reference = given + model(given) if rank == 0 else None
        mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
        parallelize_module(model, mesh, haloconv.distributed.plan(model, "rows"))
        result = given + model(given)
    if rank == 0:
        print(f"whole: {whole:.0f} MiB, limit: {arguments.limit:.0f} MiB, part: {part:.0f} MiB")
        difference = (result - reference).abs().max().item()
        print(f"largest difference between parts and whole: {difference:.1e}")
        errors = [(x - image).square().mean().item() for x in (given, result)]
        print(f"mean square error: noisy {errors[0]:.5f}, denoised {errors[1]:.5f}")
        if arguments.output:
            from torchvision.utils import save_image

            save_image(result.clamp(0, 1), arguments.output)
        if difference > 1e-5:  # of values in [0, 1], whose sums are added in another order
            raise SystemExit("the parts are not the whole")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
