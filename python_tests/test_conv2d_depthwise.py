"""The depthwise kernels for rows innermost, of tensors that lie in others, wherever they begin."""

import pytest
import torch
import torch.nn.functional as F

import haloconv
from haloconv import ops
from support import assert_equal, dtype_name, gradients, integers, needs_gpu

pytestmark = needs_gpu


@pytest.fixture
def generic():
    with haloconv.implementation("generic"):
        yield


def placed(dense, where):
    """The same values on the device, among NaN that no result may meet."""
    if dense.dim() == 3:
        return placed(dense.unsqueeze(2), where).squeeze(2)
    n, c, h, w = dense.shape
    if where == "dense":
        return dense.cuda()
    if where == "misaligned":  # dense, from the third element of its memory on
        memory = torch.full((dense.numel() + 16,), float("nan"), dtype=dense.dtype, device="cuda")
        return memory[3 : 3 + dense.numel()].view(dense.shape).copy_(dense)
    shape = {"channels": (n, c + 3, h, w), "sliced": (n + 1, c + 2, h + 3, w + 5)}[where]
    memory = torch.full(shape, float("nan"), dtype=dense.dtype, device="cuda")
    view = memory[:n, 2 : 2 + c] if where == "channels" else memory[1:, 1:-1, 2:-1, 3:-2]
    return view.copy_(dense)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=dtype_name)
@pytest.mark.parametrize("where", ["dense", "misaligned", "channels", "sliced"])
@pytest.mark.parametrize("width", [1, 7, 14, 27, 28, 57, 150, 300])
@pytest.mark.parametrize("taps, stride", [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2)])
def test_reads_nothing_beside_its_planes(taps, stride, width, where, dtype, generic):
    n, c, h, pad = 3, 5, width % 40 + 2, taps // 2
    x = integers((n, c, h, width), 0, dtype)
    w = integers((c, 1, taps, taps), 1, dtype)
    b = integers((c,), 2, dtype)

    def conv(x, w, b):
        return F.conv2d(x, w, b, stride, pad, groups=c)

    exact = conv(x.double(), w.double(), b.double())
    g = integers(exact.shape, 3, dtype, bound=1)
    mine = [placed(x, where).detach(), w.cuda(), b.cuda()]
    for direction in ("fprop", "dgrad"):  # of wgrad the direct kernel may be the better one
        plan = haloconv.explain(*mine, stride=stride, padding=pad, groups=c, direction=direction)
        assert "kernel=depthwise" in plan
    mine = [t.requires_grad_() for t in mine]
    y = haloconv.conv2d(*mine, stride=stride, padding=pad, groups=c)
    y.backward(placed(g, where))
    assert_equal(y.detach().cpu(), exact.to(dtype))
    expected = gradients(conv, (x.double(), w.double(), b.double()), g.double())
    for tensor, gradient in zip(mine, expected, strict=True):
        assert_equal(tensor.grad.cpu(), gradient.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=dtype_name)
@pytest.mark.parametrize("where", ["dense", "misaligned", "channels", "sliced"])
@pytest.mark.parametrize("width", [1, 2, 3, 8, 61, 64, 1025])
@pytest.mark.parametrize("taps, dilation", [(2, 1), (4, 1), (7, 1), (31, 1), (40, 1), (3, 5)])
def test_reads_nothing_beside_its_lines(taps, dilation, width, where, dtype, generic):
    n, c, reach = 3, 5, dilation * (taps - 1)
    x = integers((n, c, width), 0, dtype)
    w = integers((c, 1, taps), 1, dtype)
    b = integers((c,), 2, dtype)

    def causal(x, w, b):
        return F.conv1d(F.pad(x, (reach, 0)), w, b, dilation=dilation, groups=c)

    exact = causal(x.double(), w.double(), b.double())
    g = integers(exact.shape, 3, dtype, bound=1)
    mine = [placed(x, where).detach(), w.cuda(), b.cuda()]
    for direction in ("fprop", "dgrad"):  # of wgrad the direct kernel may be the better one
        plan = ops.conv1d_explain(*mine, [1], [reach, 0], [dilation], c, direction)
        assert "kernel=depthwise_lines" in plan
    mine = [t.requires_grad_() for t in mine]
    y = haloconv.conv1d(*mine, padding=(reach, 0), dilation=dilation, groups=c)
    y.backward(placed(g, where))
    assert_equal(y.detach().cpu(), exact.to(dtype))
    expected = gradients(causal, (x.double(), w.double(), b.double()), g.double())
    for tensor, gradient in zip(mine, expected, strict=True):
        assert_equal(tensor.grad.cpu(), gradient.to(dtype))
