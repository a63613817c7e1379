"""What only a GPU can show: streams, graphs, memory, repeatability, the choice of kernel."""

import re

import pytest
import torch
import torch.nn.functional as F

import haloconv
from shapes import EDGES, name_of
from support import LAYOUTS, assert_equal, gradients, integers, needs_gpu, normals, operands

pytestmark = needs_gpu

ops = torch.ops.haloconv
IMPLEMENTATIONS = ["generic", "aten"]


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request):
    with haloconv.implementation(request.param):
        yield request.param


@pytest.fixture
def generic():
    with haloconv.implementation("generic"):
        yield


def cuda(shape, seed=0, dtype=torch.float32):
    return integers(shape, seed, dtype).cuda()


def all_directions(x, w, b, g, arguments):
    """The results of the four operators."""
    size, kernel = list(x.shape[2:]), list(w.shape[2:])
    return [
        ops.conv2d(x, w, b, **arguments),
        ops.conv2d_dgrad(g, w, size, **arguments),
        ops.conv2d_wgrad(g, x, kernel, **arguments),
        *ops.conv2d_wgrad_bias(g, x, kernel, **arguments),
    ]


def test_runs_on_the_current_stream(implementation):
    """The input is written on a side stream behind a long wait, and never synchronised."""
    w = cuda((4, 3, 3, 3), 1)
    source = cuda((2, 3, 32, 32))
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


def test_backward_on_a_side_stream(implementation):
    """grad_output is written on a side stream behind a long wait, and never synchronised."""
    x, w, source = cuda((2, 3, 16, 16)), cuda((4, 3, 3, 3), 1), cuda((2, 4, 14, 14), 2)
    expected = gradients(haloconv.conv2d, (x, w), source)
    g = torch.zeros_like(source)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        g.copy_(source)
        actual = gradients(haloconv.conv2d, (x, w), g)
    stream.synchronize()
    for mine, theirs in zip(actual, expected, strict=True):
        assert_equal(mine, theirs)


def test_graph_capture_and_replay(implementation):
    x, w, b, g = cuda((2, 6, 20, 18)), cuda((8, 3, 3, 3), 1), cuda((8,), 2), cuda((2, 8, 20, 18), 3)
    arguments = {"padding": [1, 1, 1, 1], "groups": 2}
    warm_up = torch.cuda.Stream()
    with torch.cuda.stream(warm_up):
        all_directions(x, w, b, g, arguments)
    warm_up.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = all_directions(x, w, b, g, arguments)
    x.add_(1)
    g.sub_(1)
    graph.replay()
    for mine, theirs in zip(captured, all_directions(x, w, b, g, arguments), strict=True):
        assert_equal(mine, theirs)


@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="needs a second GPU")
def test_second_device(implementation):
    tensors = [integers(s, i) for i, s in enumerate([(2, 3, 9, 9), (4, 3, 3, 3)])]
    g = integers((2, 4, 7, 7), 2)
    assert torch.cuda.current_device() == 0
    actual = gradients(haloconv.conv2d, [t.to("cuda:1") for t in tensors], g.to("cuda:1"))
    for mine, theirs in zip(actual, gradients(F.conv2d, tensors, g), strict=True):
        assert mine.device == torch.device("cuda:1")
        assert_equal(mine.cpu(), theirs)
    assert torch.cuda.current_device() == 0


def poison():
    """Leaves NaN in the memory that the caching allocator gives out next."""
    blocks = [torch.full((size,), float("nan"), device="cuda") for size in (128, 4096, 1 << 20)]
    blocks += [torch.full((size,), float("nan"), device="cuda") for size in (1 << 22, 1 << 24)]
    del blocks


@pytest.mark.parametrize("problem", EDGES, ids=name_of)
def test_poisoned_memory_and_repeatability(problem, generic):
    """Every element is written, and all directions repeat bit for bit."""
    x, w, b, g = (t.float().cuda() for t in operands(problem, normals))
    expected = all_directions(x, w, b, g, problem.arguments)
    for _ in range(3):
        poison()
        actual = all_directions(x, w, b, g, problem.arguments)
        for mine, theirs in zip(actual, expected, strict=True):
            assert torch.equal(mine, theirs)
        del actual, mine


def peak_bytes(function) -> int:
    """The most memory that the caching allocator gave out at once while function ran."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    result = function()
    torch.cuda.synchronize()
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    del result
    return peak


def workspace_bytes(*tensors, **arguments) -> int:
    """What explain says of the generic kernels' plan."""
    return int(re.search(r"workspace=(\d+)", haloconv.explain(*tensors, **arguments)).group(1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_allocated_but_results_and_the_plan_s_workspace(layout, generic):
    """Strided inputs and four-sided padding are read in place."""
    x = LAYOUTS[layout](cuda((4, 8, 33, 31)))
    w, b = cuda((16, 8, 3, 3), 1), cuda((16,), 2)
    arguments = {"padding": [0, 2, 1, 1]}
    g = LAYOUTS[layout](cuda((4, 16, 33, 31), 3))
    calls = {
        "fprop": lambda: ops.conv2d(x, w, b, **arguments),
        "dgrad": lambda: ops.conv2d_dgrad(g, w, [33, 31], **arguments),
        "wgrad": lambda: ops.conv2d_wgrad(g, x, [3, 3], **arguments),
    }
    results = {"fprop": g, "dgrad": x, "wgrad": w}
    for direction, call in calls.items():
        bias = b if direction == "fprop" else None
        workspace = workspace_bytes(x, w, bias, **arguments, direction=direction)
        assert peak_bytes(call) == results[direction].numel() * 4 + workspace


def test_out_of_memory_raises_and_the_next_call_works(implementation):
    free, _ = torch.cuda.mem_get_info()
    side, k = 8192, 8
    x = cuda((1, 1, 1, 1)).expand(free // (side * side * k * 4) + 1, 1, side, side)
    w = cuda((k, 1, 1, 1), 1)
    with pytest.raises(torch.OutOfMemoryError):
        haloconv.conv2d(x, w)
    # Filters of one pixel, which no algorithm of cuDNN transforms: every sum is exact.
    small, weight = integers((1, 2, 5, 5)), integers((3, 2, 1, 1), 1)
    y = haloconv.conv2d(small.float().cuda(), weight.float().cuda())
    assert_equal(y.cpu().double(), F.conv2d(small, weight))


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.mem_get_info()[1] < 40e9, reason="needs 40 GB"
)
@pytest.mark.parametrize("channels_last", [False, True], ids=["nchw", "channels_last"])
def test_more_than_2_to_31_elements(channels_last, generic):
    """The last images lie beyond 32-bit offsets, in the input and in the result."""
    format = torch.channels_last if channels_last else torch.contiguous_format
    n, c, k, side = 3, 8, 8, 10240  # 2.5e9 elements each
    x = torch.empty(n, c, side, side, dtype=torch.float16, device="cuda", memory_format=format)
    x.random_(-2, 3)
    w = cuda((k, c, 3, 3), 1, torch.float16)
    assert x.numel() > 2**31
    y = haloconv.conv2d(x, w, padding=1).clamp_(-2, 2)
    dx = haloconv.conv2d_dgrad(y, w, (side, side), padding=1)
    # Each piece of 32 rows is computed from 34, the image's own edge on one side.
    first, last = slice(None, 32), slice(-32, None)
    exact = F.conv2d(x[:1, :, :34].double(), w.double(), padding=1).clamp(-2, 2)
    assert_equal(y[:1, :, first], exact[:, :, first].half())
    exact = F.conv2d(x[-1:, :, -34:].double(), w.double(), padding=1).clamp(-2, 2)
    assert_equal(y[-1:, :, last], exact[:, :, last].half())
    turned = w.double().transpose(0, 1).flip(2, 3)
    exact = F.conv2d(y[-1:, :, -34:].double(), turned, padding=1)
    assert_equal(dx[-1:, :, last], exact[:, :, last].half())

    # A weight gradient that only the last rows of the last image contribute to.
    tail = y[-1:, :, -4:].clone()
    g = y.zero_()
    g[-1:, :, -4:] = tail
    dw = haloconv.conv2d_wgrad(g, x, 3, padding=1)
    rows, g = x[-1:, :, -8:].double(), g[-1:, :, -8:].double()
    (exact,) = gradients(lambda w: F.conv2d(rows, w, padding=1), (w.double(),), g)
    assert_equal(dw, exact.half())


def test_forced_implementation_that_declines_gives_its_reason(generic):
    x = torch.ones(1, 2, 5, 5, dtype=torch.complex64, device="cuda")
    w = torch.ones(3, 2, 3, 3, dtype=torch.complex64, device="cuda")
    with pytest.raises(
        RuntimeError, match="generic, declines fprop .*: the element type is none of float32"
    ):
        haloconv.conv2d(x, w)


@pytest.mark.parametrize("direction", ["fprop", "dgrad", "wgrad"])
def test_explain_names_both_implementations(direction):
    x, w = cuda((2, 8, 16, 16)), cuda((16, 8, 3, 3))
    text = haloconv.explain(x, w, direction=direction)
    assert "generic" in text and "aten" in text
    assert text.splitlines()[1].startswith(
        f"chip: {torch.cuda.get_device_name()}: compute capability"
    )
    for name in IMPLEMENTATIONS:
        with haloconv.implementation(name):
            forced = haloconv.explain(x, w, direction=direction)
        assert f"implementation: {name}\n" in forced


def test_tf32_setting_is_obeyed(monkeypatch):
    """Values with 12 significant bits lose one in TF32, whose fraction has ten."""
    x = torch.full((4, 64, 32, 32), 1 + 2.0**-11, device="cuda")
    w = torch.ones(64, 64, 3, 3, device="cuda")
    for implementation in IMPLEMENTATIONS:
        with haloconv.implementation(implementation):
            monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
            full = haloconv.conv2d(x, w)
            monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
            reduced = haloconv.conv2d(x, w)
        # cuDNN may transform the operands and round by some 2^-23; TF32 is wrong by 2^-11.
        exact = torch.full_like(full, 576 * (1 + 2.0**-11))
        torch.testing.assert_close(full, exact, rtol=2.0**-16, atol=0)
        if implementation == "aten":
            assert torch.equal(reduced, F.conv2d(x, w))
        else:
            assert torch.equal(reduced, full)


def test_automatic_choice_computes_what_both_compute():
    for problem in EDGES[:8]:
        x, w, b, g = (t.double().cuda() for t in operands(problem))
        automatic = all_directions(x, w, b, g, problem.arguments)
        for name in IMPLEMENTATIONS:
            with haloconv.implementation(name):
                forced = all_directions(x, w, b, g, problem.arguments)
            for mine, theirs in zip(automatic, forced, strict=True):
                # cuDNN may transform the operands, which rounds; a wrong term is wrong by 1.
                torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("offset", [0, 1])
def test_channels_last_tensors_at_any_address(offset):
    """Of 16-bit types too, whose kernels copy 16 bytes at a time where the address allows it."""
    shape, device = (2, 16, 9, 11), "cuda"
    memory = torch.zeros(2 * 16 * 9 * 11 + 8, dtype=torch.bfloat16, device=device)
    strides = (16 * 9 * 11, 1, 16 * 11, 16)
    x = memory.as_strided(shape, strides, offset)
    x.copy_(torch.randint(-3, 4, shape, device=device))
    w = torch.randint(-3, 4, (24, 16, 3, 3), device=device).to(x, memory_format=torch.channels_last)
    expected = F.conv2d(x.double().cpu(), w.double().cpu(), padding=1)
    assert torch.equal(haloconv.conv2d(x, w, padding=1).double().cpu(), expected)
    g = torch.randint(-3, 4, expected.shape, device=device).to(x, memory_format=torch.channels_last)
    grad = torch.ops.haloconv.conv2d_wgrad(g, x, [3, 3], [1, 1], [1, 1])
    reference = torch.ops.aten.convolution_backward(
        g.double().cpu(), x.double().cpu(), w.double().cpu(), None, [1, 1], [1, 1], [1, 1], False,
        [0, 0], 1, [False, True, False],
    )[1]  # fmt: skip
    assert torch.equal(grad.double().cpu(), reference.bfloat16().double())
