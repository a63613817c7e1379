"""What torch.profiler shows of the operators: their names, and the shapes of their operands."""

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import haloconv
from support import needs_gpu

X, W, B, G = [2, 4, 9, 8], [6, 2, 3, 3], [6], [2, 6, 9, 8]


def shapes_by_operator(call) -> dict[str, list[list[int]]]:
    """For each of haloconv's operators that ran, the shapes of its operands, of those that have."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        call()
    return {
        event.name: [shape for shape in event.input_shapes if shape]
        for event in profiler.events()
        if event.name.startswith("haloconv::")
    }


@pytest.fixture
def operands(device):
    return tuple(torch.ones(shape, device=device, requires_grad=True) for shape in (X, W, B))


def test_forward_and_backward(operands):
    x, w, b = operands

    def step():
        haloconv.conv2d(x, w, b, padding=1, groups=2).sum().backward()

    shown = shapes_by_operator(step)
    assert shown["haloconv::conv2d"][:3] == [X, W, B]
    assert shown["haloconv::conv2d_backward"][:3] == [G, X, W]


def test_routed_layers_and_string_padding(operands):
    x, w, _ = operands
    with haloconv.route():
        shown = shapes_by_operator(
            lambda: torch.conv2d(x, w, None, 1, "same", 1, 2).sum().backward()
        )
    assert shown["haloconv::conv2d"][:2] == [X, W]
    assert shown["haloconv::conv2d_backward"][:3] == [G, X, W]


def test_fused(operands):
    x, w, b = operands
    residual = torch.ones(G, device=x.device)
    shown = shapes_by_operator(
        lambda: haloconv.conv2d_fused(
            x, w, b, padding=1, groups=2, residual=residual, activation="relu"
        )
    )
    assert shown["haloconv::conv2d_fused"] == [X, W, B, G]


def test_gradients_are_shown_under_their_node(operands):
    """As autograd's own: what a trace shows of the backward pass begins with the node's name."""
    x, w, b = operands
    y = haloconv.conv2d(x, w, b, padding=1, groups=2)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        y.sum().backward()
    names = {event.name for event in profiler.events()}
    assert "autograd::engine::evaluate_function: " + y.grad_fn.name() in names


@needs_gpu
def test_kernels_are_shown_by_name():
    x, w = torch.ones(X, device="cuda"), torch.ones(W, device="cuda")
    with (
        haloconv.implementation("generic"),
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler,
    ):
        haloconv.conv2d(x, w, groups=2) + 1
        torch.cuda.synchronize()
    kernels = [e.name for e in profiler.events() if e.device_type == DeviceType.CUDA]
    if not [name for name in kernels if "elementwise" in name]:
        pytest.skip("needs a profiler that shows kernels: torch's addition has none either")
    assert [name for name in kernels if "haloconv::generic::gather" in name], kernels
