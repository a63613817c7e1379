"""conv2d_fused under compilers, torch.func, autocast and scripting."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.func import vmap

import haloconv
from fused_calls import ACTIVATIONS, WANTED, Activation, composed, fused, small
from support import assert_equal, gradients, integers, normals

ops = torch.ops.haloconv


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("wanted", ["all", "no residual"])
def test_opcheck(activation, wanted):
    x, w, b, scale, shift, residual = small(WANTED[wanted]).values()
    extras = {"scale": scale, "shift": shift, "residual": residual}
    named = {**activation.named, "activation_arguments": list(map(float, activation.arguments))}
    torch.library.opcheck(
        ops.conv2d_fused.default, (x, w, b, [1, 1], [0, 0], [1, 1], 2), {**extras, **named}
    )
    torch.library.opcheck(
        ops.conv2d_fused.padding, (x, w, b, [1, 1], "valid", [1, 1], 2), {**extras, **named}
    )


def test_compiles_once_for_all_sizes():
    def function(x, w, b, residual):
        return haloconv.conv2d_fused(x, w, b, padding=1, residual=residual, activation="gelu")

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    w, b = integers((4, 3, 3, 3), 1), integers((4,), 2)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n, h, width in ((5, 9, 8), (3, 12, 7), (2, 20, 31)):
            tensors = (integers((n, 3, h, width)), w, b, integers((n, 4, h, width), 3))
            g = normals((n, 4, h, width), 4)
            expected = gradients(function, tensors, g)
            for mine, theirs in zip(gradients(compiled, tensors, g), expected, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-11)


def test_fake_and_meta_strides():
    for format in (torch.contiguous_format, torch.channels_last):
        x = integers((2, 3, 6, 5)).contiguous(memory_format=format)
        w, residual = integers((4, 3, 3, 3)), integers((2, 4, 4, 3))
        y = haloconv.conv2d_fused(x, w, residual=residual)
        meta = haloconv.conv2d_fused(x.to("meta"), w.to("meta"), residual=residual.to("meta"))
        assert (meta.shape, meta.stride(), meta.dtype) == (y.shape, y.stride(), y.dtype)


@pytest.mark.parametrize("batched", range(1, 64))
def test_vmap(batched):
    """Every choice of batched operands."""
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    try:
        tensors = list(small(WANTED["all"]).values())
        in_dims = tuple(0 if batched >> i & 1 else None for i in range(6))
        tensors = [
            t if d is None else torch.stack((t, t + 1, 2 * t))
            for t, d in zip((t.detach() for t in tensors), in_dims, strict=True)
        ]

        def call(*t):
            return fused(*t, activation="silu")

        expected = [
            call(*(t if d is None else t[i] for t, d in zip(tensors, in_dims, strict=True)))
            for i in range(3)
        ]
        actual = vmap(call, in_dims)(*tensors)
        torch.testing.assert_close(actual, torch.stack(expected), rtol=1e-12, atol=1e-11)
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(before)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_per_sample_gradients_and_hessian(activation):
    tensors = [t.detach() for t in small(WANTED["all"]).values()]
    x, w, b, scale, shift, residual = tensors

    def loss(w, x, residual, call):
        return call(x, w, b, scale, shift, residual).square().sum()

    def ours(*t):
        return fused(*t, **activation.named)

    def separate(x, w, b, scale, shift, residual):
        plain = haloconv.conv2d(x, w, b, 1, 0, 1, 2)
        return composed(activation, plain, scale, shift, residual)

    per_sample = vmap(torch.func.grad(loss), in_dims=(None, 0, 0, None))
    torch.testing.assert_close(
        per_sample(w, x, residual, ours), per_sample(w, x, residual, separate)
    )
    hessian = torch.func.hessian(loss)
    # Second derivatives are sums of some thousand products of order 1 to 100, in another order.
    torch.testing.assert_close(
        hessian(w, x, residual, ours), hessian(w, x, residual, separate), rtol=1e-9, atol=1e-9
    )


def test_forward_mode_under_no_grad():
    tensors = {n: t.detach() for n, t in small(WANTED["all"]).items()}
    with forward_ad.dual_level(), torch.no_grad():
        duals = {n: forward_ad.make_dual(t, torch.ones_like(t)) for n, t in tensors.items()}
        y = fused(**duals, activation="tanh")
        plain = haloconv.conv2d(duals["x"], duals["w"], duals["b"], groups=2)
        tanh = Activation("tanh", (), torch.tanh, False)
        expected = composed(tanh, plain, duals["scale"], duals["shift"], duals["residual"])
        torch.testing.assert_close(
            forward_ad.unpack_dual(y).tangent, forward_ad.unpack_dual(expected).tangent
        )


def test_autocast_casts_every_operand(device):
    tensors = {
        n: t.detach().to(device).float().requires_grad_() for n, t in small(WANTED["all"]).items()
    }
    with torch.autocast(device, torch.bfloat16):
        y = fused(**tensors, activation="relu")
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert all(t.grad.dtype == torch.float32 for t in tensors.values())
    cast = {n: t.detach().bfloat16() for n, t in tensors.items()}
    assert_equal(y.detach(), fused(**cast, activation="relu"))


def test_scripted_functions_hold_the_operator(tmp_path):
    @torch.jit.script
    def scripted(x, w, b, residual):
        return haloconv.conv2d_fused(
            x,
            w,
            b,
            padding=1,
            residual=residual,
            activation="leaky_relu",
            activation_arguments=[0.25],
        )

    assert "haloconv::conv2d_fused" in str(scripted.graph)
    x, w, b = integers((1, 2, 5, 5)), integers((3, 2, 3, 3), 1), integers((3,), 2)
    residual = integers((1, 3, 5, 5), 3)
    scripted.save(str(tmp_path / "scripted.pt"))
    expected = F.leaky_relu(F.conv2d(x, w, b, padding=1) + residual, 0.25)
    assert_equal(torch.jit.load(tmp_path / "scripted.pt")(x, w, b, residual), expected)


def test_flops_are_the_convolution_s():
    from torch.utils.flop_counter import FlopCounterMode

    x, w = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3)
    with FlopCounterMode(display=False) as counter:
        haloconv.conv2d_fused(x, w, activation="relu")
    assert counter.get_total_flops() == 2 * 2 * 4 * 6 * 6 * 3 * 3 * 3
