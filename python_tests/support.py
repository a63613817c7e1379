"""What the tests share: data whose sums are exact, and PyTorch's own answers."""

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from haloconv import _library
from problems import Problem

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

BUILD = Path(__file__).resolve().parents[1] / "build"
# What lies in build/ is linked with one torch; a wheel is tested beside others.
_OF_BUILD = _library.find().resolve().parent in (BUILD / "registration", BUILD / "install" / "lib")
needs_library_of_build = pytest.mark.skipif(
    not _OF_BUILD, reason="the library that is tested is not the one in build/"
)
DLOPEN_PROGRAM = BUILD / "cpp_tests" / "dlopen_program"
needs_dlopen_program = pytest.mark.skipif(
    not (_OF_BUILD and DLOPEN_PROGRAM.is_file()),
    reason="build/cpp_tests/dlopen_program is not built, or for another library",
)

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@dataclass(frozen=True)
class Target:
    """A device and the implementation that runs there."""

    device: str
    implementation: str

    def __str__(self) -> str:
        return f"{self.device}-{self.implementation}"


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def integers(shape, seed: int = 0, dtype: torch.dtype = torch.float64, bound: int = 4) -> Tensor:
    """Integers in [-bound, bound]: their products and sums are exact in float32 and TF32."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-bound, bound + 1, tuple(shape), generator=generator).to(dtype)


def normals(shape, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)


def fill_with_positives(model: nn.Module) -> None:
    """Numbers from 0.5 to 2 for all weights, and for a norm's averages: variances are positive."""
    generator = torch.Generator().manual_seed(0)
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 2, generator=generator)


def operands(problem: Problem, data=integers) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """input (n, c, h, w), weight (k, c / groups, r, s), bias (k), grad_output (n, k, p, q)."""
    shapes = (problem.input_shape, problem.weight_shape, (problem.k,), problem.output_shape)
    return tuple(data(shape, seed) for seed, shape in enumerate(shapes))


def pytorch_conv2d(input: Tensor, weight: Tensor, bias: Tensor | None, problem: Problem) -> Tensor:
    """F.conv2d, after F.pad where the padding is not symmetric."""
    top, bottom, left, right = problem.padding
    padding = (top, left)
    if top != bottom or left != right:
        input = F.pad(input, (left, right, top, bottom))
        padding = (0, 0)
    return F.conv2d(input, weight, bias, problem.stride, padding, problem.dilation, problem.groups)


def gradients(conv, tensors, grad_output: Tensor) -> tuple[Tensor, ...]:
    """The gradients of conv(*tensors) for all of them, whose layouts are kept."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    return torch.autograd.grad(conv(*leaves), leaves, grad_output)


@cache
def exact_result(problem: Problem, data=integers) -> Tensor:
    """PyTorch's result in float64 on the CPU."""
    x, w, b, _ = operands(problem, data)
    return pytorch_conv2d(x, w, b, problem)


@cache
def exact_gradients(problem: Problem, data=integers) -> tuple[Tensor, ...]:
    """PyTorch's gradients of input, weight and bias in float64 on the CPU."""
    x, w, b, g = operands(problem, data)
    return gradients(lambda *t: pytorch_conv2d(*t, problem), (x, w, b), g)


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def assert_equal_sums(actual, expected) -> None:
    """For float64 values and sums of order 1 to 100, which may be added in another order.

    That changes a few of the last bits, some 1e-14; a wrong term changes it by far more than 1e-11.
    """
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-11)


def assert_as_accurate(actual: Tensor, pytorch: Tensor, exact: Tensor) -> None:
    """actual's error is at most twice PyTorch's own, or one rounding of the largest result.

    Both round each product or partial sum, in other orders: their largest errors differ by chance,
    where a wrong index or a lost rounding step makes one many times the other. In float64 exact
    is rounded like any other, and only the sums are compared.
    """

    def error(t: Tensor) -> float:
        return (t.double().cpu() - exact).abs().max().item()

    assert actual.dtype == pytorch.dtype and actual.shape == exact.shape
    if actual.dtype == torch.float64:
        assert_equal_sums(actual.cpu(), exact)
    elif exact.numel():
        rounding = torch.finfo(actual.dtype).eps * exact.abs().max().item()
        assert error(actual) <= max(2 * error(pytorch), rounding)


def _strided(t: Tensor, order: tuple[int, ...]) -> Tensor:
    """A copy of t whose memory holds the dimensions in this order."""
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return t.permute(order).contiguous().permute(inverse)


def _sliced(t: Tensor) -> Tensor:
    n, c, h, w = t.shape
    view = t.new_zeros(n, c + 2, h + 1, 2 * w)[:, 1:-1, 1:, ::2]
    return view.copy_(t)


def _misaligned(t: Tensor) -> Tensor:
    return t.new_zeros(t.numel() + 1)[1:].view(t.shape).copy_(t)


# Each gives a tensor of the same shape with other strides (the expanded ones, other values too).
LAYOUTS = {
    "contiguous": lambda t: t.contiguous(),
    "channels_last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "transposed": lambda t: _strided(t, (0, 1, 3, 2)),
    "permuted": lambda t: _strided(t, (1, 3, 0, 2)),
    "sliced": _sliced,
    "misaligned": _misaligned,
    "expanded_n": lambda t: t[:1].expand(t.shape),
    "expanded_c": lambda t: t[:, :1].expand(t.shape),
}


def run_in_cpp(model: Path, input: Tensor, folder: Path, library: Path | None = None):
    """What a saved model makes of an input in a C++ program that loads the library as it runs."""
    torch.save(input, folder / "input.pt")
    files = [library or _library.find(), model, folder / "input.pt", folder / "output.pt"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run([DLOPEN_PROGRAM, *files], capture_output=True, text=True, env=one_thread)
    if done.returncode:
        raise RuntimeError(done.stderr)
    # A dictionary from C++ is more than weights_only takes.
    return torch.load(folder / "output.pt", weights_only=False)


def kernels_library() -> Path:
    """libhaloconv_kernels.so, where the run path of libhaloconv.so has it first."""
    library = _library.find().resolve()
    entries = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True)
    (run_path,) = re.findall(r"\(RUNPATH\).*\[(.*)\]", entries.stdout)
    (name,) = re.findall(r"\[(libhaloconv_kernels\S*)\]", entries.stdout)
    return Path(run_path.split(":")[0].replace("$ORIGIN", str(library.parent))) / name
