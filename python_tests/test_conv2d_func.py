"""torch.func over every operator, and that vmap never falls back to its slow loop."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import haloconv
from samples import SAMPLES
from support import assert_equal, assert_equal_sums, integers, normals

pytestmark = pytest.mark.usefixtures("no_slow_loop")

ops = torch.ops.haloconv
BATCH = 3


def loop(function, tensors, in_dims):
    """What vmap(function, in_dims) means."""
    results = []
    for i in range(BATCH):
        picked = [t if d is None else t.select(d, i) for t, d in zip(tensors, in_dims, strict=True)]
        results.append(function(*picked))
    if isinstance(results[0], tuple):
        return tuple(torch.stack(r) for r in zip(*results, strict=True))
    return torch.stack(results)


def batched(shapes, in_dims):
    tensors = []
    for seed, (shape, d) in enumerate(zip(shapes, in_dims, strict=True)):
        shape = list(shape)
        if d is not None:
            shape.insert(d % (len(shape) + 1), BATCH)
        tensors.append(integers(shape, seed))
    return tensors


def assert_same(actual, expected):
    if isinstance(expected, (tuple, list)):
        for mine, theirs in zip(actual, expected, strict=True):
            assert_same(mine, theirs)
    else:
        assert_equal(actual, expected)


def combinations(count):
    """Every choice of the batched tensors but none; first with the batch in front."""
    for chosen in product((True, False), repeat=count):
        if any(chosen):
            yield tuple(0 if c else None for c in chosen)
            yield tuple(i + 1 if c else None for i, c in enumerate(chosen))
    yield (-1,) * count


SHAPES = {
    1: ((2, 4, 6, 5), (6, 4, 3, 2), (6,), (2, 6, 3, 5)),
    2: ((2, 4, 6, 5), (6, 2, 3, 2), (6,), (2, 6, 3, 5)),
    4: ((2, 4, 6, 5), (8, 1, 3, 2), (8,), (2, 8, 3, 5)),
}
PARAMETERS = ([2, 1], [1, 0, 1, 0], [1, 1])


@pytest.mark.parametrize("groups", SHAPES)
@pytest.mark.parametrize("x_dim, w_dim, b_dim", [d for d in combinations(3) if d[2] in (0, None)])
def test_vmap_conv2d(x_dim, w_dim, b_dim, groups):
    in_dims = (x_dim, w_dim, b_dim)

    def conv(x, w, b):
        return ops.conv2d(x, w, b, *PARAMETERS, groups)

    tensors = batched(SHAPES[groups][:3], in_dims)
    assert_equal(vmap(conv, in_dims)(*tensors), loop(conv, tensors, in_dims))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)], ids=str)
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_vmap_string_padding(padding, in_dims, groups):
    def conv(x, w):
        return ops.conv2d.padding(x, w, None, [1, 1], padding, [2, 1], groups)

    x, w, _, _ = SHAPES[groups]
    tensors = batched((x, (*w[:2], 3, 3)), in_dims)
    assert_equal(vmap(conv, in_dims)(*tensors), loop(conv, tensors, in_dims))


@pytest.mark.parametrize("groups", SHAPES)
@pytest.mark.parametrize("in_dims", list(combinations(2)), ids=str)
@pytest.mark.parametrize("name", ["conv2d_dgrad", "conv2d_wgrad", "conv2d_wgrad_bias"])
def test_vmap_gradient_operators(name, in_dims, groups):
    x, w, _, g = SHAPES[groups]
    second, size = (w, x[-2:]) if name == "conv2d_dgrad" else (x, w[-2:])

    def gradient(g, other):
        return getattr(ops, name)(g, other, list(size), *PARAMETERS, groups)

    tensors = batched((g, second), in_dims)
    assert_same(vmap(gradient, in_dims)(*tensors), loop(gradient, tensors, in_dims))


@pytest.mark.parametrize("groups", SHAPES)
@pytest.mark.parametrize("in_dims", list(combinations(2)), ids=str)
def test_vmap_unbatched_images(in_dims, groups):
    def conv(x, w):
        return ops.conv2d(x, w, None, *PARAMETERS, groups)

    x, w, _, _ = SHAPES[groups]
    tensors = batched((x[1:], w), in_dims)
    assert_equal(vmap(conv, in_dims)(*tensors), loop(conv, tensors, in_dims))


@pytest.mark.parametrize("outer", [(0, 0), (0, None), (None, 0)], ids=str)
@pytest.mark.parametrize("inner", [(0, 0), (0, None), (None, 0)], ids=str)
def test_nested_vmap(inner, outer):
    def conv(x, w):
        return ops.conv2d(x, w, None, *PARAMETERS, 2)

    x, w = integers((BATCH, BATCH, 2, 4, 6, 5)), integers((BATCH, BATCH, 6, 2, 3, 2), 1)
    tensors = [t if d is not None else t[0] for t, d in zip((x, w), outer, strict=True)]
    tensors = [
        (t[:, 0] if o is not None else t[0]) if i is None else t
        for t, i, o in zip(tensors, inner, outer, strict=True)
    ]

    def inner_vmap(x, w):
        return vmap(conv, inner)(x, w)

    def inner_loop(x, w):
        return loop(conv, (x, w), inner)

    assert_equal(vmap(inner_vmap, outer)(*tensors), loop(inner_loop, tensors, outer))


def test_out_dims_and_channels_last():
    x = integers((BATCH * 2, 4, 6, 5)).contiguous(memory_format=torch.channels_last)
    x, w = x.view(BATCH, 2, 4, 6, 5), integers((6, 4, 3, 2), 1)
    actual = vmap(haloconv.conv2d, (0, None), out_dims=2)(x, w)
    assert_equal(actual.movedim(2, 0), loop(F.conv2d, (x, w), (0, None)))


@pytest.mark.parametrize("groups", [1, 2])
def test_per_sample_gradients(groups):
    x, w, b = (integers(s, i) for i, s in enumerate(SHAPES[groups][:3]))
    x = torch.cat((x, x + 1))

    def loss(weight, bias, image, conv):
        return conv(image, weight, bias, 2, 1, 1, groups).square().sum()

    per_sample = vmap(grad(loss, argnums=(0, 1)), in_dims=(None, None, 0, None))
    actual = per_sample(w, b, x, haloconv.conv2d)
    expected = [grad(loss, argnums=(0, 1))(w, b, image, F.conv2d) for image in x]
    for mine, theirs in zip(actual, zip(*expected, strict=True), strict=True):
        assert_equal(mine, torch.stack(theirs))


def small():
    return normals((1, 2, 4, 3)), normals((2, 2, 2, 2), 1), normals((2,), 2)


def loss_of(conv):
    return lambda x, w, b: conv(x, w, b, 1, 1).sin().sum()


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian])
def test_transforms_of_a_loss(transform):
    tensors = small()
    actual = transform(loss_of(haloconv.conv2d), argnums=(0, 1, 2))(*tensors)
    expected = transform(loss_of(F.conv2d), argnums=(0, 1, 2))(*tensors)
    assert_equal_sums(actual, expected)


@pytest.mark.parametrize("argument", [0, 1, 2])
def test_jacobians(argument):
    tensors = small()
    reverse = jacrev(haloconv.conv2d, argnums=argument)(*tensors)
    forward = jacfwd(haloconv.conv2d, argnums=argument)(*tensors)
    expected = jacrev(F.conv2d, argnums=argument)(*tensors)
    assert_equal_sums(reverse, expected)
    assert_equal_sums(forward, expected)


def test_vjp_and_jvp():
    tensors = tuple(integers(s, i) for i, s in enumerate(SHAPES[1][:3]))
    tangents = tuple(integers(t.shape, 9 + i) for i, t in enumerate(tensors))
    y, tangent = jvp(haloconv.conv2d, tensors, tangents)
    expected_y, expected_tangent = jvp(F.conv2d, tensors, tangents)
    assert_equal(y, expected_y)
    assert_equal(tangent, expected_tangent)
    _, pull = vjp(haloconv.conv2d, *tensors)
    _, expected_pull = vjp(F.conv2d, *tensors)
    assert_same(pull(y), expected_pull(y))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_vmap_of_every_sample(sample):
    """All tensors batched, and then the vjp of that."""
    tensors = [torch.stack((t, 2 * t, t + 1)).detach() for t in sample.tensors()]
    in_dims = (0,) * len(tensors)
    actual = vmap(sample.call)(*tensors)
    assert_equal_sums(actual, loop(sample.call, tensors, in_dims))

    def pulled(*inputs):
        return vjp(sample.call, *inputs)[1](sample.call(*inputs))

    assert_equal_sums(vmap(pulled)(*tensors), loop(pulled, tensors, in_dims))
