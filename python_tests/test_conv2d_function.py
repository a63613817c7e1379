"""haloconv.conv2d gives the operator's results, whatever the call is part of.

It has shorter ways for parameters that are numbers, or pairs of one number, as layers have.
"""

from contextlib import nullcontext
from itertools import count

import numpy as np
import pytest
import torch
from torch.func import functionalize, grad, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import haloconv
from support import assert_equal, gradients, integers

operator = torch.ops.haloconv.conv2d.default
SIDES = (1, 2, 0, 3)


class Seen(TorchDispatchMode):
    """The names of the operators that are called within it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.fixture
def tensors(device):
    """input (n, c, h, w), weight (k, c / 2, r, s), bias (k)."""
    shapes = ((2, 4, 9, 8), (6, 2, 3, 2), (6,))
    return [integers(shape, seed).to(device) for seed, shape in enumerate(shapes)]


def by_operator(x, w, b=None, padding=SIDES, stride=(2, 1), dilation=(1, 2)):
    lists = (list(v) if isinstance(v, tuple) else [v] for v in (stride, padding, dilation))
    return operator(x, w, b, *lists, 2)


def by_haloconv(x, w, b=None, padding=SIDES, stride=(2, 1), dilation=(1, 2)):
    return haloconv.conv2d(x, w, b, stride, padding, dilation, 2)


def as_layers_do(x, w, b=None, padding=SIDES, stride=(2, 1), dilation=(1, 2)):
    return haloconv.functional.conv2d_of_layer(x, w, b, stride, padding, dilation, 2)


# Each is padding, stride, dilation.
PARAMETERS = {
    "sides": (by_haloconv, (SIDES,)),
    "pair": (by_haloconv, ((1, 2),)),
    "padding alone": (by_haloconv, (1,)),
    "numbers": (by_haloconv, (1, 2, 1)),
    "pairs of numbers": (by_haloconv, ((1, 1), (2, 2), (2, 2))),
    "sides and numbers": (by_haloconv, (SIDES, 2, 1)),
    "pair and numbers": (by_haloconv, ((1, 2), 2, 1)),
    "pair of numbers and a number": (by_haloconv, ((1, 1), 2, (1, 1))),
    "a layer": (as_layers_do, (SIDES,)),
    "a layer of a square step": (as_layers_do, (SIDES, (2, 2), (1, 1))),
    "a square layer": (as_layers_do, ((1, 1), (2, 2), (1, 1))),
}


# Each is a way of calling conv(x, w, b), and gives a tensor or a tuple of them.


def of_inference_tensors(conv, x, w, b):
    with torch.inference_mode():
        x, w, b = x.clone(), w.clone(), b.clone()
    return conv(x, w, b)


_numbers = count()


def in_a_custom_operator(conv, *tensors):
    @torch.library.custom_op(f"haloconv_test::call_{next(_numbers)}", mutates_args=())
    def call(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return conv(x, w, b)

    return call(*tensors)


def in_a_dispatch_mode(conv, *tensors):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return conv(*tensors)

    with Mode():
        return tensors[0] + 1


def within(context):
    def call(conv, *tensors):
        with context():
            return conv(*tensors)

    return call


def traced(conv, *tensors):
    module = torch.jit.trace(conv, tuple(tensors), check_trace=False)
    kinds = [node.kind() for node in module.inlined_graph.nodes()]
    assert [k for k in kinds if not k.startswith("prim::")] == ["haloconv::conv2d"]
    return module(*(t + 1 for t in tensors))


def compiled(conv, *tensors):
    torch._dynamo.reset()
    return torch.compile(conv, backend="aot_eager", fullgraph=True)(*tensors)


def of_gradients_in_a_batch(conv, x, w, b):
    """vmap as torch.autograd.grad has it, over a backward pass that calls conv."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g * conv(g, w, b).sum()

    x = x.clone().requires_grad_()
    y, batch = Function.apply(x), torch.stack((x, 2 * x)).detach()
    return torch.autograd.grad(y, x, batch, is_grads_batched=True)


WAYS = {
    "eager": lambda conv, *t: conv(*t),
    "no_grad": within(torch.no_grad),
    "inference_mode": within(torch.inference_mode),
    "inference tensors": of_inference_tensors,
    "custom operator": in_a_custom_operator,
    "dispatch mode": in_a_dispatch_mode,
    "default device": within(lambda: torch.device("meta")),
    "function mode": within(BaseTorchFunctionMode),
    "gradients": lambda conv, *t: gradients(conv, t, torch.ones_like(conv(*t))),
    "vmap of all": lambda conv, *t: vmap(conv)(*(torch.stack((a, a + 1)) for a in t)),
    "vmap of input": lambda conv, x, w, b: vmap(conv, (0, None, None))(torch.stack((x, -x)), w, b),
    "vmap of bias": lambda conv, x, w, b: vmap(conv, (None, None, 0))(x, w, torch.stack((b, -b))),
    "vmap of none": lambda conv, *t: vmap(lambda a: conv(*t) + a)(torch.arange(2.0).to(t[0])),
    "vmap of gradients": of_gradients_in_a_batch,
    "grad": lambda conv, *t: grad(lambda *t: conv(*t).square().sum(), (0, 1, 2))(*t),
    "vmap of grad": lambda conv, x, w, b: vmap(
        grad(lambda w, x: conv(x, w, b).square().sum()), (None, 0)
    )(w, x),
    "jvp": lambda conv, *t: jvp(conv, t, tuple(a + 1 for a in t)),
    "functionalize": lambda conv, *t: functionalize(conv)(*t),
    "trace": traced,
    "compile": compiled,
    "conjugated view": lambda conv, x, w, b: conv(
        torch.complex(x, x + 1).conj(), torch.complex(w, w), torch.complex(b, b)
    ),
}


every_kind_of_parameters = pytest.mark.parametrize(
    "function, parameters", PARAMETERS.values(), ids=PARAMETERS
)


@every_kind_of_parameters
@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_operator_s_result(tensors, way, function, parameters):
    def mine(x, w, b):
        return function(x, w, b, *parameters)

    def theirs(x, w, b):
        return by_operator(x, w, b, *parameters)

    actual, expected = (WAYS[way](conv, *tensors) for conv in (mine, theirs))
    if isinstance(expected, torch.Tensor):
        actual, expected = (actual,), (expected,)
    for a, b in zip(actual, expected, strict=True):
        assert_equal(a, b)


@every_kind_of_parameters
@pytest.mark.parametrize("context", [nullcontext, torch.no_grad, torch.inference_mode])
def test_one_operator_is_called(tensors, context, function, parameters):
    with context(), Seen() as seen:
        function(*tensors, *parameters)
    assert seen.names == ["haloconv::conv2d"]


@every_kind_of_parameters
def test_captures_hold_the_operator_alone(tensors, function, parameters):
    def conv(x, w, b):
        return function(x, w, b, *parameters)

    for before_autograd in (False, True):
        module = make_fx(conv, pre_dispatch=before_autograd)(*tensors)
        called = [node.target for node in module.graph.nodes if node.op == "call_function"]
        assert called == [operator]


@every_kind_of_parameters
def test_function_modes_see_the_operator_alone(tensors, function, parameters):
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        function(*tensors, *parameters)
    assert seen == [operator]


@every_kind_of_parameters
@pytest.mark.parametrize("position", [0, 1, 2])
def test_subclasses_see_the_operator(tensors, position, function, parameters):
    seen = []

    class Subclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    tensors[position] = tensors[position].as_subclass(Subclass)
    assert type(function(*tensors, *parameters)) is Subclass
    assert {func for func in seen if "conv2d" in str(func)} == {operator}


def nested(layout):
    return lambda t: torch.nested.nested_tensor([t, t], layout=layout)


KINDS = {
    "meta": lambda t: t.to("meta"),
    "sparse": torch.Tensor.to_sparse,
    "mkldnn": lambda t: t.float().cpu().to_mkldnn(),
    "quantized": lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.quint8),
    "nested": nested(torch.strided),
    "jagged": nested(torch.jagged),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_of_tensors_are_met_as_by_the_operator(tensors, kind, position):
    tensors[position] = KINDS[kind](tensors[position])

    def outcome(conv):
        try:
            result = conv(*tensors)
        except Exception as error:
            return type(error)
        return result.device, result.shape

    assert outcome(by_haloconv) == outcome(by_operator)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
@pytest.mark.parametrize("conv", [haloconv.conv2d, haloconv.conv_transpose2d])
def test_nested_tensors_are_refused_in_words(tensors, conv, layout):
    x, w, _ = tensors
    with pytest.raises(NotImplementedError, match="expected input to be no nested tensor"):
        conv(nested(layout)(x), w)


WRONG = {
    "stride of 4 values": {"stride": (1, 1, 1, 1)},
    "stride as text": {"stride": "1"},
    "no stride": {"stride": None},
    "padding of 3 values in a list": {"padding": [1, 1, 1]},
    "padding of no value": {"padding": ()},
    "padding that begins with a bool": {"padding": (True, 1, 1, 1)},
    "padding with a fraction": {"padding": (1, 1, 0.5, 1)},
    "padding with text": {"padding": ("same", "same")},
    "padding as bytes": {"padding": b"same"},
    "no padding": {"padding": None},
    "negative padding of one side": {"padding": (0, 0, -1, 0)},
    "no dilation": {"dilation": None},
    "dilation of no value": {"dilation": []},
    "no groups": {"groups": None},
    "groups in a list": {"groups": [1]},
    "groups as text": {"groups": "1"},
    "fraction of numpy's": {"stride": np.float64(2)},
    "array of numpy's": {"padding": np.array([1, 1])},
    "bias in a list": {"bias": [1.0]},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(device, name):
    x, w = torch.ones(2, 4, 9, 8, device=device), torch.ones(6, 4, 3, 2, device=device)
    (argument,) = WRONG[name]
    with pytest.raises((TypeError, RuntimeError), match=f"haloconv.*: expected .*{argument}"):
        haloconv.conv2d(x, w, **WRONG[name])


def of_one_element(value):
    return torch.tensor([value])


@pytest.mark.parametrize("context", [nullcontext, torch.inference_mode])
@pytest.mark.parametrize("number", [np.int64, np.int32, torch.tensor, of_one_element])
def test_numbers_that_are_no_int_but_have_its_value(tensors, number, context):
    x, w, b = tensors
    one, two, sides = number(1), number(2), tuple(map(number, SIDES))
    with context():
        for padding, plain in ((one, 1), ((two, one), (2, 1)), (sides, SIDES)):
            actual = haloconv.conv2d(x, w, b, (two, one), padding, [one, two], two)
            assert_equal(actual, by_operator(x, w, b, plain))


@pytest.mark.parametrize("step", [1, [1], (1, 1)], ids=str)
@pytest.mark.parametrize("padding", [0, [0], (0, 0), (0, 0, 0, 0)], ids=str)
def test_defaults_that_are_given(step, padding):
    x, w, b = integers((2, 4, 5, 6)), integers((3, 4, 1, 1), 1), integers((3,), 2)
    assert_equal(haloconv.conv2d(x, w, b, step, padding, step, 1), operator(x, w, b))


@pytest.mark.parametrize("wrong", [{"padding": (0, 0, 0)}, {"stride": ()}, {"dilation": (1, 1, 1)}])
def test_too_many_or_too_few_defaults(wrong):
    (name,) = wrong
    with pytest.raises(RuntimeError, match=f"{name} to "):
        haloconv.conv2d(integers((2, 4, 5, 6)), integers((3, 4, 1, 1), 1), **wrong)


@pytest.mark.parametrize("alike", [False, True])
def test_a_computed_padding_is_not_compared(alike):
    """A traced function must not hold for one value alone."""

    def function(x, w):
        rows = x.shape[2] - 5
        return haloconv.conv2d(x, w, None, (1, 1), (rows, rows if alike else 0), (1, 1))

    w = integers((3, 4, 1, 1), 1)
    traced = make_fx(function, tracing_mode="symbolic")(integers((2, 4, 8, 6)), w)
    for rows in (5, 8, 9):
        x = integers((2, 4, rows, 6))
        assert_equal(traced(x, w), function(x, w))
