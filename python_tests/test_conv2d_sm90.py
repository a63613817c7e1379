"""The Hopper implementation through the operators. cpp_tests has every plan of its planner."""

import re
import threading
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import haloconv
from hopper import TYPES, cuda_operands, declined, explain, needs_hopper
from problems import SHAPES, load
from shapes import EDGES, REFERENCE, name_of
from support import (
    LAYOUTS,
    assert_equal,
    dtype_name,
    exact_gradients,
    exact_result,
    gradients,
    integers,
    normals,
    operands,
    pytorch_conv2d,
)

pytestmark = needs_hopper

ops = torch.ops.haloconv


@TYPES
@pytest.mark.parametrize("problem", EDGES, ids=name_of)
def test_small_integers_are_exact(problem, dtype):
    x, w, b, g = cuda_operands(problem, dtype=dtype)
    if not declined(problem, dtype=dtype):
        with haloconv.implementation("sm90"):
            y = ops.conv2d(x, w, b, **problem.arguments)
        assert_equal(y.cpu(), exact_result(problem).to(dtype))
    if not declined(problem, "dgrad", dtype):
        with haloconv.implementation("sm90"):
            dx = ops.conv2d_dgrad(g, w, list(x.shape[2:]), **problem.arguments)
        assert_equal(dx.cpu(), exact_gradients(problem)[0].to(dtype))
    if not declined(problem, "wgrad", dtype):
        kernel = list(w.shape[2:])
        with haloconv.implementation("sm90"):
            dw, db = ops.conv2d_wgrad_bias(g, x, kernel, **problem.arguments)
            alone = ops.conv2d_wgrad(g, x, kernel, **problem.arguments)
        assert_equal(dw.cpu(), exact_gradients(problem)[1].to(dtype))
        assert_equal(db.cpu(), exact_gradients(problem)[2].to(dtype))
        assert_equal(alone, dw)


def relative_error(actual, exact) -> float:
    return ((actual.double() - exact).norm() / exact.norm()).item()


ACCURACY = REFERENCE + [p for p in load(SHAPES / "layers.txt") if p.name.startswith("resnet_")]


IN_BOTH_LAYOUTS = pytest.mark.parametrize("layout", ["contiguous", "channels_last"])


def operands_of_one_image(problem, layout):
    x, w, b, g = (t.float().cuda() for t in operands(replace(problem, n=1), normals))
    lay = LAYOUTS[layout]
    return lay(x), lay(w), b, lay(g)


@IN_BOTH_LAYOUTS
@pytest.mark.parametrize("problem", ACCURACY, ids=name_of)
def test_error_is_that_of_cudnn_s_tf32(problem, layout, sm90):
    """At most 1.1 times: both round the operands to nearest; sums differ in their order."""
    x, w, b, g = operands_of_one_image(problem, layout)
    problem = replace(problem, n=1)

    def convolution(x, w, b):
        return pytorch_conv2d(x, w, b, problem)

    doubles = x.double(), w.double(), b.double()
    exact = convolution(*doubles), gradients(convolution, doubles, g.double())[0]
    theirs = convolution(x, w, b), gradients(convolution, (x, w, b), g)[0]
    y = ops.conv2d(x, w, b, **problem.arguments)
    dx = ops.conv2d_dgrad(g, w, list(x.shape[2:]), **problem.arguments)
    for mine, their, right in zip((y, dx), theirs, exact, strict=True):
        # cuDNN may keep to float32 on a small problem; operands rounded to TF32 alone give 3e-4.
        assert relative_error(mine, right) <= max(1.1 * relative_error(their, right), 3.3e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=dtype_name)
@pytest.mark.parametrize("problem", ACCURACY, ids=name_of)
def test_error_of_16_bits_is_the_result_s_rounding(problem, dtype, sm90):
    """Sums are kept in float32, so that a result's error is at most half of its last bit."""
    problem = replace(problem, n=1)
    x, w, b, g = (t.to("cuda", dtype) for t in operands(problem, normals))
    half = torch.finfo(dtype).eps / 2

    def convolution(x, w, b):
        return pytorch_conv2d(x, w, b, problem)

    doubles = x.double(), w.double(), b.double()
    exact = convolution(*doubles)
    assert relative_error(ops.conv2d(x, w, b, **problem.arguments), exact) <= half
    exact_dx, exact_dw, exact_db = gradients(convolution, doubles, g.double())
    dx = ops.conv2d_dgrad(g, w, list(x.shape[2:]), **problem.arguments)
    assert relative_error(dx, exact_dx) <= half
    dw, db = ops.conv2d_wgrad_bias(g, x, list(w.shape[2:]), **problem.arguments)
    assert relative_error(dw, exact_dw) <= half
    assert relative_error(db, exact_db) <= half


@pytest.mark.parametrize("problem", ACCURACY, ids=name_of)
def test_error_without_tf32_is_at_most_twice_cudnn_s(problem, sm90, monkeypatch):
    """Products of two parts of TF32 each, whose sums leave the tensor cores every few steps."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    problem = replace(problem, n=1)
    x, w, b, g = (t.float().cuda() for t in operands(problem, normals))

    def convolution(x, w, b):
        return pytorch_conv2d(x, w, b, problem)

    def ours():
        y = ops.conv2d(x, w, b, **problem.arguments)
        dx = ops.conv2d_dgrad(g, w, list(x.shape[2:]), **problem.arguments)
        return y, dx, *ops.conv2d_wgrad_bias(g, x, list(w.shape[2:]), **problem.arguments)

    doubles = x.double(), w.double(), b.double()
    exact = convolution(*doubles), *gradients(convolution, doubles, g.double())
    theirs = convolution(x, w, b), *gradients(convolution, (x, w, b), g)
    mine = ours()
    for i, name in enumerate(["y", "dx", "dw"]):
        error, their_error = relative_error(mine[i], exact[i]), relative_error(theirs[i], exact[i])
        assert error <= 2 * their_error, name
    assert relative_error(mine[3], exact[3]) <= 1e-5  # plain float32 sums
    for first, again in zip(mine, ours(), strict=True):
        assert torch.equal(first, again)


def test_a_fusion_without_tf32_follows_the_kernel(sm90, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    x, w = torch.randn(2, 16, 20, 20, device="cuda"), torch.randn(16, 16, 3, 3, device="cuda")
    y = haloconv.conv2d(x, w)
    residual = torch.randn_like(y)
    fused = haloconv.conv2d_fused(x, w, residual=residual, activation="relu")
    assert torch.equal(fused, torch.relu(y + residual))


@IN_BOTH_LAYOUTS
@pytest.mark.parametrize("problem", ACCURACY, ids=name_of)
def test_error_of_the_weight_gradient_is_that_of_cudnn_s_tf32(problem, layout, sm90):
    """Sums over all pixels: partial ones leave the tensor cores, whose own are truncated."""
    x, w, b, g = operands_of_one_image(problem, layout)
    problem = replace(problem, n=1)

    def convolution(x, w, b):
        return pytorch_conv2d(x, w, b, problem)

    _, exact, exact_bias = gradients(convolution, (x.double(), w.double(), b.double()), g.double())
    theirs = gradients(convolution, (x, w, b), g)[1]
    mine, bias = ops.conv2d_wgrad_bias(g, x, list(w.shape[2:]), **problem.arguments)
    assert relative_error(mine, exact) <= max(1.1 * relative_error(theirs, exact), 3.3e-4)
    assert relative_error(bias, exact_bias) <= 1e-5  # plain float32 sums


@TYPES
@pytest.mark.parametrize("filters", [24, 40])
def test_nan_and_infinity_propagate_as_in_aten(filters, dtype, sm90):
    """With few filters the plan may have a fold: a row's weights for its neighbour are zeros."""
    x = integers((2, 16, 12, 12), 0, dtype).cuda()
    w = integers((filters, 16, 3, 3), 1, dtype).cuda()
    x[0, 3, 4, 5] = float("nan")
    x[1, 7, 0, 11] = float("inf")
    x[1, 9, 11, 0] = -float("inf")
    w[5, 2, 1, 1] = float("inf")
    y = ops.conv2d(x, w, None, padding=[1, 1, 1, 1])
    # On the CPU: cuDNN's kernels of 16-bit types spread them further.
    expected = F.conv2d(x.cpu().double(), w.cpu().double(), padding=1).to(dtype)
    torch.testing.assert_close(y.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_nan_and_infinity_propagate_where_few_channels_are_scattered_to(dtype, sm90):
    x = integers((4, 64, 128, 256)).to("cuda", dtype)
    w = integers((4, 64, 3, 3), 1).to("cuda", dtype)
    assert "few_channels taps=" in haloconv.explain(x, w, padding=1)
    x[0, 3, 4, 5] = float("nan")
    x[1, 40, 0, 255] = float("inf")
    x[1, 9, 127, 0] = x[2, 9, 64, 128] = -float("inf")
    w[1, 7, 0, 0] = float("inf")
    w[2, 60, 2, 2] = -float("inf")
    y = ops.conv2d(x, w, None, padding=[1, 1, 1, 1])
    expected = F.conv2d(x.cpu().double(), w.cpu().double(), padding=1).to(dtype)
    torch.testing.assert_close(y.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("channels", [4, 24, 64])  # few_channels; with a fold; without
def test_taps_beyond_the_output_are_zeros_to_infinite_weights(channels, sm90):
    """The input's gradient is the same by every kernel: zero times infinity is NaN."""
    g = integers((4, 64, 128, 256)).float().cuda()
    w = integers((64, channels, 3, 3), 1).float().cuda()
    explained = haloconv.explain(g.new_empty(4, channels, 128, 256), w, None, 1, 1, 1, 1, "dgrad")
    assert ("few_channels taps=" in explained) == (channels == 4)
    w[7, 1, 1, 0] = w[9, 2, 1, 2] = float("inf")
    w[60, 3, 0, 1] = -float("inf")
    dx = ops.conv2d_dgrad(g, w, [128, 256], padding=[1, 1, 1, 1])
    flipped = w.cpu().double().flip(2, 3).transpose(0, 1)
    expected = F.conv2d(F.pad(g.cpu().double(), (1, 1, 1, 1)), flipped)
    torch.testing.assert_close(dx.cpu().double(), expected, rtol=0, atol=0, equal_nan=True)
    assert dx[:, 1, :, -1].isnan().all() and dx[:, 2, :, 0].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_beyond_the_output_are_zeros_to_infinite_weights(dtype, sm90):
    """row_strips leaves these rows out unless a weight is not finite."""
    g = integers((2, 64, 128, 256)).to("cuda", dtype)
    w = integers((64, 32, 5, 9), 1).to("cuda", dtype)
    w[7, 1, 4, 4] = w[9, 2, 0, 4] = float("inf")
    w[60, 3, 2, 8] = -float("inf")
    with haloconv.implementation("row_strips"):
        dx = ops.conv2d_dgrad(g, w, [128, 256], padding=[2, 2, 4, 4])
    flipped = w.cpu().double().flip(2, 3).transpose(0, 1)
    expected = F.conv2d(F.pad(g.cpu().double(), (4, 4, 2, 2)), flipped).to(dtype)
    torch.testing.assert_close(dx.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    assert dx[:, 1, :2].isnan().all() and dx[:, 2, -2:].isnan().all()


# CUDA's own NaN has all bits set: rounding it as an integer would give a zero.
@pytest.mark.parametrize("bits", [0x7FFFFFFF, -1, 0x7FC00000])
def test_every_nan_stays_nan(bits, sm90):
    x = torch.zeros(1, 8, 4, 4, device="cuda")
    x.view(torch.int32)[0, 0, 2, 2] = bits
    w = torch.ones(8, 8, 1, 1, device="cuda")
    y = ops.conv2d(x, w)
    assert y[0, :, 2, 2].isnan().all() and y.isnan().sum() == 8


def test_nan_and_infinity_reach_the_weights_that_meet_them(sm90):
    """Those of other channels and taps stay as they are, up to the image's edge."""
    x, g = integers((2, 16, 12, 30)).float(), integers((2, 24, 12, 30), 1).float()
    x[0, 3, 4, 5] = float("nan")
    x[1, 7, 0, 29] = float("inf")
    x[0, 9, 11, 0] = -float("inf")
    g[1, 20, 6, 9] = float("nan")
    (expected,) = gradients(
        lambda w: F.conv2d(x.double(), w, padding=1),
        (torch.zeros(24, 16, 3, 3).double(),),
        g.double(),
    )
    dw, db = ops.conv2d_wgrad_bias(g.cuda(), x.cuda(), [3, 3], padding=[1, 1, 1, 1])
    torch.testing.assert_close(dw.cpu().double(), expected, rtol=0, atol=0, equal_nan=True)
    assert db[20].isnan() and db.isnan().sum() == 1


def test_a_gradient_of_nan_alone_makes_nan_of_all_weights(sm90):
    x, g = (
        integers((2, 16, 12, 30)).float().cuda(),
        torch.full((2, 24, 12, 30), float("nan")).cuda(),
    )
    dw, db = ops.conv2d_wgrad_bias(g, x, [3, 3], padding=[1, 1, 1, 1])
    assert dw.isnan().all() and db.isnan().all()


def results_of(problem, x, w, b, g) -> list:
    """Those of the directions that sm90 takes."""
    results = []
    if not declined(problem, "fprop", x.dtype):
        results.append(ops.conv2d(x, w, b, **problem.arguments))
    if not declined(problem, "wgrad", x.dtype):
        results += ops.conv2d_wgrad_bias(g, x, list(w.shape[2:]), **problem.arguments)
    return results


@TYPES
@pytest.mark.parametrize("problem", EDGES, ids=name_of)
def test_poisoned_memory_and_repeatability(problem, dtype):
    if declined(problem, "fprop", dtype) and declined(problem, "wgrad", dtype):
        pytest.skip(explain(problem, dtype=dtype).split("sm90, halo: ")[1].splitlines()[0])
    tensors = cuda_operands(problem, normals, dtype)
    with haloconv.implementation("sm90"):
        expected = results_of(problem, *tensors)
        for _ in range(3):
            del_me = [torch.full((n,), float("nan"), device="cuda") for n in (128, 1 << 20)]
            del del_me
            for mine, theirs in zip(results_of(problem, *tensors), expected, strict=True):
                assert torch.equal(mine, theirs)


@TYPES
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("padding", [0, 1])
def test_slices_of_even_rows_at_odd_columns(first, padding, dtype, sm90):
    x = integers((2, 20, 29, 152), 0, dtype).cuda()[..., first : first + 150]
    w = integers((70, 20, 3, 4), 1, dtype).cuda()
    y = ops.conv2d(x, w, padding=[padding, padding])
    exact = F.conv2d(x.cpu().double(), w.cpu().double(), padding=padding)
    assert_equal(y.cpu(), exact.to(dtype))


@TYPES
@pytest.mark.parametrize("layout", ["sliced_rows", "misaligned", "expanded_n", "expanded_c"])
def test_strided_inputs_take_no_memory_but_the_plan_s(layout, dtype, sm90):
    dense = integers((4, 16, 33, 31), 0, dtype).cuda()
    if layout == "sliced_rows":
        x = dense.new_full((5, 20, 40, 50), float("nan"))[1:, 3:19, 2:35, 7:38].copy_(dense)
    else:
        x = LAYOUTS[layout](dense)
    w, b = integers((24, 16, 3, 3), 1, dtype).cuda(), integers((24,), 2, dtype).cuda()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    y = ops.conv2d(x, w, b, padding=[1, 1, 1, 1])
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    plan = haloconv.explain(x, w, b, padding=1)
    family = plan.split("implementation: ")[1].splitlines()[0]
    line = next(line for line in plan.splitlines() if line.startswith(f"  {family}: expected"))
    workspace = int(line.split("workspace=")[-1].split()[0])  # of a plan within a plan the first
    assert peak == y.nbytes + workspace
    source = x
    x, w, b = (t.cpu().double() for t in (x, w, b))
    assert_equal(y.cpu(), F.conv2d(x, w, b, padding=1).to(dtype))
    shape = (4, 24, 33, 31)
    g = LAYOUTS.get(layout, LAYOUTS["misaligned"])(integers(shape, 3, dtype).cuda())
    dw = ops.conv2d_wgrad(g, source, [3, 3], padding=[1, 1, 1, 1])
    (exact,) = gradients(lambda w: F.conv2d(x, w, padding=1), (w,), g.cpu().double())
    assert_equal(dw.cpu(), exact.to(dtype))


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.mem_get_info()[1] < 60e9, reason="needs 60 GB"
)
def test_more_than_2_to_31_elements(sm90):
    """The last images lie beyond 32-bit offsets, in the input and in the result."""
    n, c, k, side = 3, 8, 8, 10240
    x = torch.empty(n, c, side, side, device="cuda").random_(-2, 3)
    w = integers((k, c, 3, 3), 1, torch.float32).cuda()
    y = ops.conv2d(x, w, None, padding=[1, 1, 1, 1])
    exact = F.conv2d(x[-1:, :, -34:].double(), w.double(), padding=1)
    assert_equal(y[-1:, :, -32:], exact[:, :, -32:].float())
    exact = F.conv2d(x[:1, :, :34].double(), w.double(), padding=1)
    assert_equal(y[:1, :, :32], exact[:, :, :32].float())
    # A weight gradient that only the last rows of the last image contribute to.
    g = torch.zeros_like(y)
    g[-1:, :, -4:] = y[-1:, :, -4:].clamp(-2, 2)
    del y
    dw, db = ops.conv2d_wgrad_bias(g, x, [3, 3], padding=[1, 1, 1, 1])
    rows, last = x[-1:, :, -8:].double(), g[-1:, :, -8:].double()
    (exact,) = gradients(lambda w: F.conv2d(rows, w, padding=1), (w.double(),), last)
    assert_equal(dw, exact.float())
    assert_equal(db, last.sum((0, 2, 3)).float())


def test_a_side_stream_and_graph_capture(sm90):
    w = integers((24, 16, 3, 3), 1).float().cuda()
    source = integers((2, 16, 32, 32)).float().cuda()
    expected = haloconv.conv2d(source, w)
    x = torch.zeros_like(source)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.copy_(source)
        y = haloconv.conv2d(x, w)
    stream.synchronize()
    assert_equal(y, expected)
    g = integers((2, 24, 30, 30), 2).float().cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = haloconv.conv2d(x, w)
        captured_gradient = haloconv.conv2d_wgrad(g, x, 3)
    x.add_(1)
    graph.replay()
    assert_equal(captured, haloconv.conv2d(x, w))
    assert_equal(captured_gradient, haloconv.conv2d_wgrad(g, x, 3))


def test_several_threads(sm90):
    w = integers((24, 16, 3, 3), 1).float().cuda()
    inputs = [integers((2, 16, 20 + i, 30), i).float().cuda() for i in range(8)]
    expected = [haloconv.conv2d(x, w) for x in inputs]
    torch.cuda.synchronize()
    results = [None] * len(inputs)

    @haloconv.implementation("sm90")
    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                results[i] = haloconv.conv2d(inputs[i], w)
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mine, theirs in zip(results, expected, strict=True):
        assert_equal(mine, theirs)


def test_what_it_declines_runs_elsewhere():
    x, w = integers((2, 16, 9, 9)), integers((8, 16, 3, 3), 1)
    explanation = haloconv.explain(x.cuda(), w.cuda())
    assert "sm90, halo: declined, the element type is not float32" in explanation
    y = haloconv.conv2d(x.cuda(), w.cuda())
    # cuDNN may transform the operands, which rounds; a wrong term is wrong by 1.
    torch.testing.assert_close(y.cpu(), F.conv2d(x, w), rtol=0, atol=1e-9)
    with (
        haloconv.implementation("sm90"),
        pytest.raises(
            RuntimeError, match="sm90, declines fprop .*halo: the element type is not float32"
        ),
    ):
        haloconv.conv2d(x.cuda(), w.cuda())


@pytest.mark.parametrize("direction", ["fprop", "dgrad", "wgrad"])
def test_tf32_setting_is_obeyed(direction, monkeypatch):
    x, w = torch.randn(2, 16, 20, 20, device="cuda"), torch.randn(16, 16, 3, 3, device="cuda")
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert f"{direction} precise" in sm90_line(haloconv.explain(x, w, direction=direction))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert "precise" not in sm90_line(haloconv.explain(x, w, direction=direction))


def sm90_line(explanation: str) -> str:
    return next(
        line
        for line in explanation.splitlines()
        if re.match("  sm90, (halo|wgrad): expected", line)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=dtype_name)
def test_autocast_trains_by_the_kernels_of_16_bits(dtype):
    x = integers((8, 64, 64, 64), 0, torch.float32).cuda().requires_grad_()
    layer = haloconv.nn.Conv2d(64, 64, 3, padding=1, bias=False).cuda()
    w = integers((64, 64, 3, 3), 1, torch.float32)
    with torch.no_grad():
        layer.weight.copy_(w)
    half = x.detach().to(dtype), layer.weight.detach().to(dtype)
    for direction in ("fprop", "dgrad", "wgrad"):
        text = haloconv.explain(*half, padding=1, direction=direction)
        assert "implementation: sm90" in text, text
    with torch.autocast("cuda", dtype):
        y = layer(x)
    assert y.dtype == dtype
    g = integers(y.shape, 2, dtype)
    y.backward(g.cuda())
    dx, dw = gradients(
        lambda x, w: F.conv2d(x, w, padding=1), (x.detach().cpu().double(), w.double()), g.double()
    )
    assert_equal(x.grad.cpu(), dx.to(dtype).float())
    assert_equal(layer.weight.grad.cpu(), dw.to(dtype).float())
