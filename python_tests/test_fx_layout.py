"""The layout of a compiled graph: chosen by time, kept outside, and only where the graph allows."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import haloconv
from haloconv.fx import timing as fx_timing
from support import integers

ROWS, CHANNELS = torch.contiguous_format, torch.channels_last
ops = torch.ops.haloconv


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


@pytest.fixture
def times(monkeypatch):
    """What the timing of all convolutions is said to have found; the graph's layout is None."""
    found = {"torch": 3.0, None: 2.0, CHANNELS: 1.0}
    monkeypatch.setattr(fx_timing, "_is_timed", lambda device: True)

    def compare(calls, layouts):
        def each(time):  # a list of their own, or the time of all together
            return time if isinstance(time, tuple) else (time / len(calls),) * len(calls)

        ours = {layout: each(found[layout]) for layout in layouts if layout in found}
        return fx_timing.Times({CHANNELS: each(found["torch"])}, ours)

    monkeypatch.setattr(fx_timing, "compare", compare)
    return found


class Block(nn.Module):
    """Convolutions with what lies between them in networks; what is between the last two varies."""

    def __init__(self, between=None):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.third = nn.Conv2d(4, 6, 1)
        self.between = between or (lambda x: x)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.max_pool2d(x + self.second(x), 2)
        return self.third(self.between(x)), x


def strides_seen(model, x):
    """Of the operands of haloconv's convolutions when the compiled model runs; and its results."""
    seen = []

    class Record(torch.fx.Interpreter):
        def call_function(self, target, arguments, given):
            if getattr(target, "namespace", None) == "haloconv":
                seen.append([a.stride() for a in arguments[:2]])
            return super().call_function(target, arguments, given)

    def inner(module, inputs):
        return Record(module).run

    backend = haloconv.fx.backend(inner)
    results = torch.compile(model, backend=backend, fullgraph=True)(x)
    return seen, results


def are_channels_innermost(strides) -> bool:
    return all(operand[1] == 1 for operand in strides)


def test_a_graph_is_laid_out_as_it_is_fastest(times):
    x = torch.randn(2, 3, 8, 8)
    for format in (CHANNELS, ROWS):
        times[CHANNELS] = 1.0 if format is CHANNELS else 2.5
        torch._dynamo.reset()
        model = Block().eval()
        expected = model(x)
        seen, results = strides_seen(model, x)
        assert len(seen) == 3
        assert all(are_channels_innermost(strides) == (format is CHANNELS) for strides in seen)
        for result, eager in zip(results, expected, strict=True):
            torch.testing.assert_close(result, eager)
            assert result.stride() == eager.stride()


def test_rows_for_a_model_with_channels_innermost(times):
    del times[CHANNELS]
    times[ROWS] = 1.0
    x = torch.randn(2, 3, 8, 8).to(memory_format=CHANNELS)
    model = Block().eval().to(memory_format=CHANNELS)
    expected = model(x)
    seen, results = strides_seen(model, x)
    assert len(seen) == 3 and not any(are_channels_innermost(strides) for strides in seen)
    assert [r.stride() for r in results] == [e.stride() for e in expected]


def test_a_layout_is_kept_where_another_gains_little(times):
    """What lies between the convolutions may want it."""
    for rows, is_kept in ((0.95, True), (0.85, False)):
        times |= {CHANNELS: 1.0, None: 1.0, ROWS: rows}
        torch._dynamo.reset()
        model = Block().eval().to(memory_format=CHANNELS)
        seen, _ = strides_seen(model, torch.randn(2, 3, 8, 8).to(memory_format=CHANNELS))
        assert [are_channels_innermost(strides) for strides in seen] == [is_kept] * 3


def test_nothing_is_laid_out_where_torch_is_fastest(times):
    times["torch"] = 0.5
    seen, _ = strides_seen(Block().eval(), torch.randn(2, 3, 8, 8))
    assert seen == []


@pytest.mark.parametrize("how", ["torch's", "routed", "replaced"])
def test_each_is_the_faster_with_channels_innermost(how, times):
    """Of the three the second is faster as torch's; all are laid out together."""
    times["torch"], times[CHANNELS] = (1.0, 0.5, 1.0), (0.5, 0.75, 0.5)
    x = torch.randn(2, 3, 8, 8)
    model = Block().eval()
    expected = model(x)
    if how == "replaced":
        haloconv.replace(model)
    haloconv.route(how == "routed")
    try:
        seen, results = strides_seen(model, x)
    finally:
        haloconv.route(False)
    assert [filter[0] for _, filter in seen] == [27, 4]  # the second's would be 36
    assert all(are_channels_innermost(strides) for strides in seen)
    for result, eager in zip(results, expected, strict=True):
        torch.testing.assert_close(result, eager)
        assert result.stride() == eager.stride()


@pytest.mark.parametrize("how", ["routed", "replaced"])
def test_haloconv_s_own_convolutions_are_chosen_for_too(how, times):
    """They are laid out, or become torch's where these are faster."""
    x = torch.randn(2, 3, 8, 8)
    model = Block().eval()
    expected = model(x)
    if how == "replaced":
        haloconv.replace(model)
    for fastest in (1.0, 4.0):
        times[None], times[CHANNELS] = 4.0, fastest
        torch._dynamo.reset()
        haloconv.route(how == "routed")
        try:
            seen, results = strides_seen(model, x)
        finally:
            haloconv.route(False)
        assert len(seen) == (3 if fastest < times["torch"] else 0)
        assert all(are_channels_innermost(strides) for strides in seen)
        for result, eager in zip(results, expected, strict=True):
            torch.testing.assert_close(result, eager)
            assert result.stride() == eager.stride()


@pytest.mark.parametrize(
    "between",
    [
        lambda x: x.view(2, -1, 4, 4) + x.view(2, 64).view(2, 4, 4, 4),  # no view of channels last
        lambda x: x.as_strided((2, 4, 4, 4), (64, 16, 1, 4)),
    ],
)
def test_a_graph_that_reads_strides_keeps_its_layout(between, times):
    """It computes what it did, by torch's convolutions where its own layout is slower."""
    x = torch.randn(2, 3, 8, 8)
    model = Block(between).eval()
    expected = model(x)
    seen, results = strides_seen(model, x)
    assert len(seen) == 3 and not any(are_channels_innermost(strides) for strides in seen)
    for result, eager in zip(results, expected, strict=True):
        torch.testing.assert_close(result, eager)
    times[None] = 4.0
    torch._dynamo.reset()
    assert strides_seen(model, x)[0] == []


@pytest.mark.parametrize("called_by", ["function", "packet"])
def test_unknown_operators_keep_the_layout(called_by, times):
    @torch.library.custom_op("haloconv_layout_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x.clone()

    twice.register_fake(lambda x: torch.empty_like(x))
    between = twice if called_by == "function" else torch.ops.haloconv_layout_test.twice
    seen, _ = strides_seen(Block(between).eval(), torch.randn(2, 3, 8, 8))
    assert len(seen) == 3 and not any(are_channels_innermost(strides) for strides in seen)


def test_gradients_and_dynamic_sizes(times):
    """Exact on integers, and each gradient has its tensor's layout."""

    def function(x, w, v):
        return F.conv2d(F.relu(F.conv2d(x, w, padding=1)), v, stride=2)

    w, v = (integers((4, 4, 3, 3), seed, dtype=torch.float32) for seed in (1, 2))
    compiled = torch.compile(function, backend=haloconv.fx.backend("aot_eager"), dynamic=True)
    for size in ((2, 4, 8, 9), (3, 4, 11, 6)):
        x = integers(size, dtype=torch.float32)
        leaves = [
            (tensor.requires_grad_(), tensor.clone().detach().requires_grad_())
            for tensor in (x, w, v)
        ]
        ours, theirs = zip(*leaves, strict=True)
        compiled(*ours).square().sum().backward()
        function(*theirs).square().sum().backward()
        for mine, plain in leaves:
            assert torch.equal(mine.grad, plain.grad)
            assert mine.grad.stride() == plain.grad.stride()
        for tensor in ours:
            tensor.grad = None


def test_a_fused_graph_is_laid_out_too(times):
    x = torch.randn(2, 3, 8, 8)
    model = Block().eval()
    compiled = torch.compile(model, backend=haloconv.fx.backend("aot_eager", fuse=True))
    with torch.no_grad():
        for result, eager in zip(compiled(x), model(x), strict=True):
            torch.testing.assert_close(result, eager)
            assert result.stride() == eager.stride()
