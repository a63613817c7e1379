"""Exports a network and has AOTInductor compile it into a package, which C++ runs with no Python.

The network is plain torch's; haloconv.fx moves the exported graph's convolutions to haloconv. The
package goes to digits.pt2, digits and what Python makes of them to digits.pt: examples/cpp reads
both. Needs a C++ compiler, and for a GPU the CUDA toolkit.
"""

import argparse
from pathlib import Path

import digits
import torch
from torch.export import Dim

import haloconv

TRAINED_ON = 1500  # the other 297 digits are the test
SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for what is written")
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    parser.add_argument("--device", default="cpu", help="what the package is for: cpu or cuda")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(SEED)
    images, labels = digits.load(torch.device(arguments.device))
    model = digits.network().to(arguments.device)
    digits.train(model, images[:TRAINED_ON], labels[:TRAINED_ON], arguments.steps)
    images, labels = images[TRAINED_ON:], labels[TRAINED_ON:]
    accuracy = digits.accuracy(model, images, labels)
    print(f"Python, as trained  {accuracy:.2%} of {len(labels)} digits")

    with torch.no_grad():
        scores = model(images)
        any_count = ({0: Dim("n", max=1024)},)
        exported = torch.export.export(model.eval(), (images,), dynamic_shapes=any_count)
    print(haloconv.fx.replace_convolutions(exported.graph_module))
    package = str(arguments.out / "digits.pt2")
    torch._inductor.aoti_compile_and_package(exported, package_path=package)
    saved = {"images": images, "labels": labels, "scores": scores}
    saved = {name: tensor.cpu() for name, tensor in saved.items()} | {"device": arguments.device}
    torch.save(saved, arguments.out / "digits.pt")
    print(f"Wrote {arguments.out}/digits.pt2 and digits.pt")


if __name__ == "__main__":
    main()
