"""haloconv: 2-D convolution operators for PyTorch, from one C++ library.

>>> y = haloconv.conv2d(x, weight, padding=(0, 1, 2, 1))
>>> layer = haloconv.nn.Conv2d(3, 32, 3, padding="same")

Importing the package loads ``libhaloconv.so.0``; the operators are then ``torch.ops.haloconv.*``.
"""

import importlib
from types import ModuleType

import torch

from haloconv import _dtensor, _inductor, _library

_library.load()  # what follows names the operators
_dtensor.register()
_inductor.register()

from haloconv import flops as flops  # noqa: E402
from haloconv import fx as fx  # noqa: E402
from haloconv import nn as nn  # noqa: E402
from haloconv import ops as ops  # noqa: E402
from haloconv import tuning as tuning  # noqa: E402
from haloconv.functional import (  # noqa: E402
    conv2d,
    conv2d_backward,
    conv2d_dgrad,
    conv2d_fused,
    conv2d_wgrad,
    conv2d_wgrad_bias,
    explain,
    implementation,
)
from haloconv.models import Replaced, replace, rewrite, route  # noqa: E402
from haloconv.relatives import (  # noqa: E402
    conv1d,
    conv1d_fused,
    conv_transpose1d,
    conv_transpose1d_fused,
    conv_transpose2d,
    conv_transpose2d_fused,
)

__all__ = [
    "Replaced",
    "cmake_prefix_path",
    "conv1d",
    "conv1d_fused",
    "conv2d",
    "conv2d_backward",
    "conv2d_dgrad",
    "conv2d_fused",
    "conv2d_wgrad",
    "conv2d_wgrad_bias",
    "conv_transpose1d",
    "conv_transpose1d_fused",
    "conv_transpose2d",
    "conv_transpose2d_fused",
    "explain",
    "has_cuda",
    "implementation",
    "library_path",
    "nn",
    "ops",
    "replace",
    "rewrite",
    "route",
    "tuning",
]

__version__ = "0.1.0"

#: The library's file, for dlopen in a C++ program or for torch.ops.load_library.
library_path = str(_library.find())

#: Whether the library was built with its CUDA kernels. Without them it takes only CPU tensors.
has_cuda: bool = torch.ops.haloconv.has_cuda()

#: What a C++ project's CMAKE_PREFIX_PATH needs, beside torch's, for find_package(haloconv); None
#: if the library was built but not installed.
cmake_prefix_path = _library.cmake_prefix_path()


def __getattr__(name: str) -> ModuleType:
    if name == "distributed":  # its import takes as long as all else, so only its users pay for it
        return importlib.import_module("haloconv.distributed")
    raise AttributeError(f"module 'haloconv' has no attribute {name!r}")
