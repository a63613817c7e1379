"""``python -m haloconv``: what a bug report needs to say of the installation."""

import platform

import torch

import haloconv
from haloconv import _library


def _devices() -> list[str]:
    lines = [f"CPU: {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"]
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        capability = f"compute capability {device.major}.{device.minor}"
        lines.append(f"cuda:{index}: {device.name}, {capability}")
    return lines


def _choice(device: str) -> str:
    """What runs a small convolution there, and why nothing else does."""
    x, w = torch.zeros(1, 8, 16, 16, device=device), torch.zeros(16, 8, 3, 3, device=device)
    return haloconv.explain(x, w, padding=1)


def report() -> str:
    kernels = "with CUDA kernels" if haloconv.has_cuda else "without CUDA kernels"
    cudnn = torch.backends.cudnn.version()
    lines = [
        f"haloconv: {haloconv.__version__}, {kernels}",
        f"library: {haloconv.library_path} ({_library.found_in()})",
        f"torch: {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn}",
        f"Python: {platform.python_version()}, {platform.platform()}",
        *_devices(),
    ]
    for device in ("cpu", *["cuda"] * (haloconv.has_cuda and torch.cuda.is_available())):
        lines.append(f"a convolution of 3x3 on {device}:")
        lines += [f"  {line}" for line in _choice(device).splitlines()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
