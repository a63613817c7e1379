"""The fixtures of all test files."""

import os

# Where the processor computes in float16, oneDNN of torch 2.11 never ends making a kernel for some
# depthwise convolutions of 31 taps, also for PyTorch's own. It reads this when torch is loaded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest  # noqa: E402
import torch  # noqa: E402

import haloconv  # noqa: E402
from support import Target, needs_gpu  # noqa: E402

# The problems are too small to share: more threads would spend their time waiting.
torch.set_num_threads(1)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=needs_gpu)])
def device(request) -> str:
    return request.param


@pytest.fixture(
    params=[
        Target("cpu", "auto"),
        pytest.param(Target("cuda", "generic"), marks=needs_gpu),
        pytest.param(Target("cuda", "aten"), marks=needs_gpu),
    ],
    ids=str,
)
def target(request):
    """Forces each implementation in turn for the length of a test."""
    with haloconv.implementation(request.param.implementation):
        yield request.param


@pytest.fixture
def no_slow_loop():
    """An operator without a batching rule raises, instead of looping with a warning."""
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(before)
