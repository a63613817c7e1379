"""A call with a batch is checked in one pass, one without step by step: they agree."""

import random

import pytest
import torch

operator = torch.ops.haloconv.conv2d.default


def draw(rng):
    """Arguments that are right or nearly so, of an input with n = 1."""

    def mostly(right, *wrong):
        return rng.choice(wrong) if rng.random() < 0.06 else right

    def values(counts, least, most):
        return [rng.randint(least, most) for _ in range(rng.choice(counts))]

    groups = mostly(rng.randint(1, 3), 0, -1)
    each = rng.randint(0, 3)
    c, k = groups * each, groups * rng.randint(1, 3)
    c, k = mostly(abs(c), abs(c) + 1), mostly(abs(k), 0, 1)
    x = torch.empty(1, c, mostly(rng.randint(1, 6), 0), rng.randint(1, 6), device="meta")
    size = (k, mostly(each, each + 1), mostly(rng.randint(1, 4), 0), rng.randint(1, 4))
    w = torch.empty(size, device="meta")
    w = w.to(memory_format=rng.choice([torch.contiguous_format, torch.channels_last]))
    b = rng.choice([None, torch.empty(mostly(k, k + 1), device="meta")])
    stride = values(mostly([1, 2], [0, 3]), mostly(1, 0), 3)
    padding = values(mostly([1, 2, 4], [0, 3, 5]), mostly(0, -1), 3)
    dilation = values(mostly([1, 2], [0, 3]), mostly(1, 0), 2)
    return x, w, b, stride, padding, dilation, groups


def outcome(call):
    """The result's sizes and strides, or the class of the error."""
    try:
        y = call()
    except (RuntimeError, IndexError) as error:
        return type(error)
    return y.size(), y.stride()


@pytest.mark.parametrize("seed", range(8))
def test_one_pass_and_single_steps_agree(seed):
    rng = random.Random(seed)
    outcomes = []
    for _ in range(400):
        x, *others = draw(rng)
        with_batch = outcome(lambda x=x, others=others: operator(x, *others).squeeze(0))
        without = outcome(lambda x=x, others=others: operator(x.squeeze(0), *others))
        assert with_batch == without, (x.shape, others)
        outcomes.append(isinstance(with_batch, tuple))
    assert 80 < sum(outcomes) < 320
