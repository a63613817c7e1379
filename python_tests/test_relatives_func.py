"""torch.func over conv_transpose2d, conv1d and conv_transpose1d; vmap never takes its slow loop."""

from itertools import product

import pytest
import torch
from torch.func import grad, jvp, vmap

from relatives import EDGES, RELATIVES, random_calls
from support import assert_equal, integers

pytestmark = pytest.mark.usefixtures("no_slow_loop")

BATCH = 3


def batched(call, chosen):
    """The call's tensors, those that are chosen with a batch in front."""
    tensors = []
    for seed, (tensor, is_batched) in enumerate(zip(call.tensors(), chosen, strict=True)):
        shape = (BATCH, *tensor.shape) if is_batched else tensor.shape
        tensors.append(integers(shape, seed))
    return tensors


CHOICES = [chosen for chosen in product((True, False), repeat=3) if any(chosen)]


@pytest.mark.parametrize("chosen", CHOICES, ids=str)
@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_vmap(relative, chosen):
    calls = [call for call in EDGES if call.relative == relative] + random_calls(relative, 10)
    in_dims = tuple(0 if is_batched else None for is_batched in chosen)
    for call in calls:
        tensors = batched(call, chosen)
        expected = [
            call.pytorch(*(t[i] if c else t for t, c in zip(tensors, chosen, strict=True)))
            for i in range(BATCH)
        ]
        assert_equal(vmap(call.run, in_dims)(*tensors), torch.stack(expected))


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_vmap_fused(relative):
    (call,) = random_calls(relative, 1)
    tensors = batched(call, (True, True, False))
    fused = lambda *t: relative.fused(*t, *call.parameters, activation="relu")  # noqa: E731
    expected = vmap(call.run, (0, 0, None))(*tensors).relu()
    assert_equal(vmap(fused, (0, 0, None))(*tensors), expected)


@pytest.mark.parametrize("relative", RELATIVES, ids=str)
def test_per_sample_gradients(relative):
    for call in random_calls(relative, 5):
        x, w, b = call.tensors()
        mine = vmap(grad(lambda x, w: call.run(x, w, b).square().sum(), 1), (0, None))(x, w)
        theirs = [
            torch.autograd.grad(call.pytorch(x[i], leaf := w.clone().requires_grad_(), b)
                                .square().sum(), leaf)[0]
            for i in range(len(x))
        ]  # fmt: skip
        assert_equal(mine, torch.stack(theirs))


@pytest.mark.parametrize("call", EDGES, ids=str)
def test_jvp(call):
    tensors = call.tensors()
    tangents = tuple(integers(t.shape, 9 + i) for i, t in enumerate(tensors))
    _, actual = jvp(call.run, tensors, tangents)
    (x, w, _), (dx, dw, db) = tensors, tangents
    assert_equal(actual, call.pytorch(dx, w, db) + call.pytorch(x, dw))
