"""The timed choice on Hopper, and what explain() says of it."""

import pytest
import torch
import torch.nn.functional as F

import haloconv
from hopper import needs_hopper
from support import assert_equal, integers

pytestmark = needs_hopper


@pytest.fixture
def benchmark_mode(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)


def kernels_of(call) -> tuple[int, torch.Tensor]:
    """How many kernels a call starts, and what it gives."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        result = call()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages()), result


def test_candidates_are_timed_once(benchmark_mode):
    x = integers((2, 16, 61, 47), 0, torch.float32)
    w = integers((24, 16, 3, 3), 1, torch.float32)
    expected, x, w = F.conv2d(x, w), x.cuda(), w.cuda()
    timed, first = kernels_of(lambda: haloconv.conv2d(x, w))
    again, second = kernels_of(lambda: haloconv.conv2d(x, w))
    assert timed > 3 * again
    assert_equal(first.cpu(), expected)
    assert_equal(second.cpu(), expected)


def test_explain_says_what_was_timed_while_it_counts(benchmark_mode, monkeypatch):
    x, w = torch.randn(2, 16, 57, 47, device="cuda"), torch.randn(24, 16, 3, 3, device="cuda")
    haloconv.conv2d(x, w)
    assert "timed:" in haloconv.explain(x, w)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    assert "timed:" not in haloconv.explain(x, w)


@pytest.mark.parametrize("taps", [1, 3])
def test_explain_says_what_was_timed_of_weight_gradients(benchmark_mode, taps):
    """However the weight lies: strides of a single tap differ between equal layouts."""
    sizes = (2, 16, 53, 47), (24, 16, taps, taps), (2, 24, 54 - taps, 48 - taps)
    x, w, grad_output = (
        torch.randn(size, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
        for size in sizes
    )
    torch.ops.haloconv.conv2d_wgrad(grad_output, x, w.shape[2:], [1], [0], [1], 1)
    assert "timed:" in haloconv.explain(x, w, direction="wgrad")
    rows = torch.empty_like(w, memory_format=torch.contiguous_format)
    assert "timed:" in haloconv.explain(x, rows, direction="wgrad")


def test_a_fusion_is_timed_by_itself(benchmark_mode):
    """Its best plan need not be that of the convolution alone."""
    x, w = torch.randn(2, 16, 59, 47, device="cuda"), torch.randn(24, 16, 3, 3, device="cuda")
    haloconv.conv2d_fused(x, w, activation="relu")
    assert "timed:" not in haloconv.explain(x, w)
    haloconv.conv2d(x, w)
    assert "timed:" in haloconv.explain(x, w)


def test_nothing_is_timed_where_the_model_decides(benchmark_mode):
    x, w = torch.randn(16, 64, 61, 47, device="cuda"), torch.randn(64, 64, 3, 3, device="cuda")
    assert "implementation: sm90" in haloconv.explain(x, w)
    torch.use_deterministic_algorithms(True)
    try:
        haloconv.conv2d(x, w)
    finally:
        torch.use_deterministic_algorithms(False)
    assert "timed:" not in haloconv.explain(x, w)
    w = w[:24, :16].contiguous()
    x = torch.randn(2, 16, 63, 47, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # waiting for a timing would end the capture with an error
        captured = haloconv.conv2d(x, w)
    graph.replay()
    assert captured.isfinite().all()
