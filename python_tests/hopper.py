"""What the tests of Hopper's kernels share, beside the fixture sm90."""

import re

import pytest
import torch

import haloconv
from support import dtype_name, integers, operands

needs_hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
    reason="needs a GPU of compute capability 9.0",
)


def explain(problem, direction="fprop", dtype=torch.float32) -> str:
    x = torch.empty(problem.input_shape, device="cuda", dtype=dtype)
    w = torch.empty(problem.weight_shape, device="cuda", dtype=dtype)
    return haloconv.explain(x, w, direction=direction, **problem.arguments)


def declined(problem, direction="fprop", dtype=torch.float32) -> bool:
    return not re.search("sm90, [a-z_]+: expected", explain(problem, direction, dtype))


def cuda_operands(problem, data=integers, dtype=torch.float32):
    return tuple(t.to("cuda", dtype) for t in operands(problem, data))


TYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16], ids=dtype_name
)
