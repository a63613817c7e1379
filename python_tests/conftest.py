"""The fixtures of all test files."""

import os

# Where the processor computes in float16, oneDNN of torch 2.11 never ends making a kernel for some
# depthwise convolutions of 31 taps, also for PyTorch's own. It reads this when torch is loaded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest  # noqa: E402
import torch  # noqa: E402
from torch._subclasses import FakeTensor  # noqa: E402

import haloconv  # noqa: E402
from haloconv.fx import timing as fx_timing  # noqa: E402
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
def sm90():
    with haloconv.implementation("sm90"):
        yield


@pytest.fixture
def no_slow_loop():
    """An operator without a batching rule raises, instead of looping with a warning."""
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(before)


@pytest.fixture
def timed(monkeypatch):
    """On a CPU: the calls that are compared, whose verdict and way of running can be set."""

    class Timed(list):
        verdict = (1.0, 2.0)
        in_layout = {}  # of haloconv's, where they take another time in a layout

        def milliseconds(self, call, compute, layout=None):
            self.append(call)
            tensors = [operand and operand.make(operand.layout) for operand in call.all_operands]
            assert not [t for t in tensors if isinstance(t, FakeTensor)]
            wanted = [t for t in tensors if t is not None and t.requires_grad]
            result = compute(*tensors)
            assert result.dtype == tensors[0].dtype
            if wanted:
                torch.autograd.grad(result.sum(), wanted)
            is_ours = compute.func is fx_timing.Call.haloconv_s
            if is_ours and layout in self.in_layout:
                return self.in_layout[layout]
            return self.verdict[is_ours]

    timed = Timed()
    monkeypatch.setattr(fx_timing, "_is_timed", lambda device: True)
    monkeypatch.setattr(
        fx_timing.Call, "milliseconds", lambda *arguments: timed.milliseconds(*arguments)
    )
    return timed
