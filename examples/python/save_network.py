"""Saves one of torchvision's networks as TorchScript, as a program without haloconv would.

haloconv-rewrite moves the file to haloconv's operator; examples/cpp/compare.cpp runs both.
"""

import argparse
from pathlib import Path

import torch
import torchvision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for what is written")
    parser.add_argument("--name", default="deeplabv3_resnet50", help="one of torchvision's models")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    unused = {"weights_backbone": None} if "_resnet" in arguments.name else {}  # no download
    model = torchvision.models.get_model(arguments.name, weights=None, **unused)
    torch.jit.script(model.eval()).save(arguments.out / "network.pt")
    print(f"Wrote {arguments.out}/network.pt, {arguments.name} with random weights")


if __name__ == "__main__":
    main()
