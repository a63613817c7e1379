"""Existing eager models on haloconv's operator: replace(), route(), and the flop counter."""

import threading
from contextlib import ExitStack
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.flop_counter import FlopCounterMode

import haloconv
from support import assert_equal
from test_loading import python


class Net(torch.nn.Module):
    """Two convolutions by module, one by function; a layer shared by two names."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.block = torch.nn.Sequential(
            torch.nn.Conv2d(8, 8, 3, padding="same", dilation=2, groups=2, bias=False),
            torch.nn.ReLU(),
        )
        self.again = self.block[0]
        self.weight = torch.nn.Parameter(torch.randn(4, 8, 2, 3))

    def forward(self, x):
        x = self.again(self.block(self.first(x)))
        return F.conv2d(x, self.weight, stride=(2, 1), padding=(0, 1))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().double()


@pytest.fixture
def x():
    return torch.randn(2, 3, 9, 11, dtype=torch.float64)


class Derived(haloconv.nn.Conv2d):
    pass


class Calls:
    """How often the operator ran while this was active."""

    def __enter__(self):
        self._profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self._profile.__enter__()
        return self

    def __exit__(self, *error):
        self._profile.__exit__(*error)
        events = self._profile.key_averages()
        self.count = sum(e.count for e in events if e.key == "haloconv::conv2d")


def test_replace_keeps_what_a_module_is(net, x):
    expected = net(x)
    parameters, state = dict(net.named_parameters()), net.state_dict()
    net.first.weight.requires_grad_(False)
    net.eval()
    seen = []
    net.first.register_forward_hook(lambda *_: seen.append("hook"))
    result = haloconv.replace(net)
    assert result.replaced == ["first", "block.0"] and not result.left
    assert type(net.first) is haloconv.nn.Conv2d and net.again is net.block[0]
    assert all(p is parameters[name] for name, p in net.named_parameters())
    assert list(net.state_dict()) == list(state)
    assert not net.first.weight.requires_grad and not net.first.training
    with Calls() as calls:
        assert_equal(net(x), expected)
    assert calls.count == 3 and seen == ["hook"]
    assert haloconv.replace(net).replaced == []


def test_replace_the_model_itself_and_padding_modes():
    for mode in ("zeros", "reflect", "replicate", "circular"):
        layer = torch.nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode).double()
        x = torch.randn(1, 2, 6, 7, dtype=torch.float64)
        expected = layer(x)
        assert haloconv.replace(layer).replaced == [""]
        assert_equal(layer(x), expected)


def test_replace_leaves_what_it_does_not_know():
    class Doubled(torch.nn.Conv2d):
        def forward(self, x):
            return 2 * super().forward(x)

    model = torch.nn.ModuleDict(
        {
            "three": torch.nn.Conv3d(1, 1, 3),
            "up": torch.nn.ConvTranspose3d(1, 1, 3),
            "lazy": torch.nn.LazyConv2d(1, 3),
            "own": Doubled(1, 1, 3),
            "scripted": torch.jit.script(torch.nn.Conv2d(1, 1, 3)),
            "two": torch.nn.Conv2d(1, 1, 3),
        }
    )
    result = haloconv.replace(model)
    assert result.replaced == ["two"]
    assert set(result.left) == {"three", "up", "lazy", "own", "scripted"}
    assert not haloconv.replace(torch.nn.Sequential(Derived(1, 1, 1))).left  # haloconv's already
    assert "scripted Conv2d" in result.left["scripted"] and "Doubled" in result.left["own"]
    assert str(result).startswith("replaced 1 of 6 convolutions\n  left three: a torch.nn")
    with pytest.raises(TypeError, match="torch.nn.Module, but got list"):
        haloconv.replace([])


def test_route_sends_the_function_and_the_modules(net, x):
    expected = net(x)
    with haloconv.route(), Calls() as calls:
        assert_equal(net(x), expected)
    assert calls.count == 4
    with Calls() as calls:
        net(x)
    assert calls.count == 0
    assert F.conv2d is torch.conv2d


@pytest.mark.parametrize("padding", [1, "same"])
def test_what_is_scripted_while_routed(padding):
    model = torch.nn.Conv2d(2, 3, 3, padding=padding)
    with haloconv.route():
        scripted = torch.jit.script(model)
    assert "haloconv::conv2d" in str(scripted.inlined_graph)
    x = torch.randn(1, 2, 5, 6)
    torch.testing.assert_close(scripted(x), model(x))


def test_route_gradients(net, x):
    net(x).square().sum().backward()
    expected = [p.grad for p in net.parameters()]
    net.zero_grad()
    with haloconv.route():
        net(x).square().sum().backward()
    for mine, theirs in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(mine.grad, theirs, rtol=1e-12, atol=1e-11)


def test_routes_nest_and_outlive_each_other():
    plain = torch.conv2d
    try:
        with haloconv.route():
            with haloconv.route():
                assert F.conv2d is not plain
            assert F.conv2d is not plain
            haloconv.route(True)
        assert torch.conv2d is not plain
        with haloconv.route():
            haloconv.route(False)
            assert torch.conv2d is not plain
        assert F.conv2d is plain and torch.conv2d is plain
    finally:
        haloconv.route(False)
    with pytest.raises(RuntimeError, match="left"), haloconv.route():
        raise RuntimeError("left")
    assert F.conv2d is plain
    with pytest.raises(TypeError, match="True or False, but got 1"):
        haloconv.route(1)


def test_a_function_that_took_conv2d_s_place_comes_back(monkeypatch):
    monkeypatch.setattr(F, "conv2d", F.conv2d)  # comes back after this test

    def doubled(*args, **kwargs):
        return 2 * torch.conv2d(*args, **kwargs)

    x, w = torch.randn(1, 2, 5, 6), torch.randn(3, 2, 3, 3)
    plain = torch.conv2d
    with mock.patch.object(F, "conv2d", doubled):
        haloconv.route(False)
        with haloconv.route():
            assert F.conv2d is not doubled
        assert F.conv2d is doubled and torch.conv2d is plain
    route = haloconv.route()
    route.__enter__()
    with mock.patch.object(F, "conv2d", doubled):
        route.__exit__(None, None, None)
        assert F.conv2d is doubled
    with Calls() as calls:  # mock gives back what it found
        assert_equal(F.conv2d(x, w), plain(x, w))
    assert calls.count == 0


def test_patches_made_while_routed_stay():
    def patch(*args, **kwargs):
        return plain(*args, **kwargs)

    plain = torch.conv2d
    with haloconv.route(), mock.patch.object(F, "conv2d", patch):
        with haloconv.route():
            assert F.conv2d is patch
        assert F.conv2d is patch
    assert F.conv2d is plain
    with mock.patch.object(F, "conv2d", patch):
        haloconv.route(True)
    assert F.conv2d is plain  # mock's doing
    with haloconv.route():
        pass
    haloconv.route(False)
    assert F.conv2d is plain and torch.conv2d is plain


class Handled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in (F.conv2d, torch.conv2d):
            return "handled"
        return super().__torch_function__(function, types, args, kwargs or {})


class NoTensor:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return "handled"


class Named(torch.Tensor):
    """Of no meaning to torch's functions."""


def test_a_routed_call_of_a_type_that_handles_torch_s_functions_is_torch_s():
    x, w = torch.randn(1, 2, 5, 6), torch.randn(3, 2, 3, 3)
    with haloconv.route():
        routed = torch.conv2d
        with mock.patch.dict(haloconv.models._torch_functions, conv2d=lambda *_: "torch's"):
            for value in (x.as_subclass(Handled), NoTensor(), TwoTensor(x, x)):
                assert routed(value, w) == "torch's"
                assert routed(x, value) == "torch's"
            for value in (x, x.as_subclass(Named), torch.nn.Parameter(x)):
                assert_equal(routed(value, w).as_subclass(torch.Tensor), haloconv.conv2d(x, w))
    nested = torch.nested.nested_tensor([torch.cat([x, x]), x], layout=torch.jagged)
    expected = F.conv2d(nested, w).values()
    with haloconv.route():
        assert_equal(F.conv2d(nested, w).values(), expected)


def test_routes_of_several_threads():
    plain = torch.conv2d

    def work():
        for _ in range(200):
            with haloconv.route():
                assert F.conv2d is not plain

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert F.conv2d is plain and torch.conv2d is plain


def test_what_torch_rejects_a_routed_call_rejects(x):
    with haloconv.route():
        with pytest.raises(RuntimeError, match="weight"):
            F.conv2d(x, torch.randn(4, 2, 3, 3, dtype=torch.float64))
        with pytest.raises(TypeError):
            F.conv2d(x)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
def test_a_routed_call_with_onednn_s_layout_is_torch_s():
    x, w = torch.randn(1, 3, 6, 6), torch.randn(4, 3, 3, 3)
    with haloconv.route(), torch.no_grad():
        y = F.conv2d(x.to_mkldnn(), w.to_mkldnn())
    torch.testing.assert_close(y.to_dense(), F.conv2d(x, w))


def test_a_routed_model_is_compiled_and_exported(net, x):
    expected = net(x)
    with haloconv.route():
        compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
        assert_equal(compiled(x), expected)
        exported = torch.export.export(net, (x,))
    assert "haloconv.conv2d" in exported.graph_module.code
    assert_equal(exported.module()(x), expected)


class WithOperand(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return F.conv2d(x, self.weight)


class OwnParameter(torch.nn.Parameter):
    pass


@pytest.mark.parametrize("kind", [torch.nn.Buffer, OwnParameter])
def test_a_routed_operand_of_a_kind_of_its_own_is_compiled_and_exported(kind):
    model, x = WithOperand(kind(torch.randn(3, 2, 3, 3))), torch.randn(1, 2, 5, 6)
    expected = model(x)
    with haloconv.route():
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), expected)
        for strict in (False, True):
            code = torch.export.export(model, (x,), strict=strict).graph_module.code
            assert "haloconv.conv2d" in code


def test_depths_of_routing_are_one_to_a_compiler():
    counter = CompileCounter()
    compiled = torch.compile(WithOperand(torch.randn(3, 2, 3, 3)), backend=counter, fullgraph=True)
    x = torch.randn(1, 2, 5, 6)
    with ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(haloconv.route())
            compiled(x)
    assert counter.frame_count == 1


# torch.compile looks torch's functions up by name when it is imported, and again after a process
# group was made, which clears what it knows.
FIRST_COMPILED_WHILE_ROUTED = """if True:
    import sys, torch, haloconv
    if "cleared" in sys.argv:
        from torch._dynamo import trace_rules
        trace_rules.clear_lru_cache()
    graphs = []

    def backend(graph_module, inputs):
        graphs.append(graph_module.code)
        return graph_module

    layer, x = torch.nn.Conv2d(2, 3, 3), torch.randn(1, 2, 5, 6)
    with haloconv.route():
        torch.compile(layer, backend=backend, fullgraph=True)(x)
    torch._dynamo.reset()
    torch.compile(layer, backend=backend, fullgraph=True)(x)
    routed, after = graphs
    assert "haloconv.conv2d" in routed, routed
    assert "torch.conv2d(" in after, after
"""


@pytest.mark.parametrize("rules", ["new", "cleared"])
def test_a_compiler_knows_torch_s_functions_after_routing(rules):
    python(FIRST_COMPILED_WHILE_ROUTED, rules)


def flop_of(function) -> int:
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


@pytest.mark.parametrize("groups", [1, 2])
def test_the_flop_counter_counts_each_direction(groups):
    """Forward as torch counts it; the gradients as much each, of grouped layers too."""
    x, w = torch.randn(2, 4, 9, 11), torch.randn(6, 4 // groups, 3, 2, requires_grad=True)
    b = torch.randn(6, requires_grad=True)
    arguments = {"stride": (2, 1), "padding": (0, 1), "groups": groups}
    forward = flop_of(lambda: F.conv2d(x, w, b, **arguments))
    assert forward == 2 * 2 * 6 * 4 * 12 * 4 // groups * 6
    assert flop_of(lambda: haloconv.conv2d(x, w, b, **arguments)) == forward
    assert flop_of(lambda: haloconv.conv2d(x[0], w, b, **arguments)) == forward // 2
    x.requires_grad_()
    assert flop_of(lambda: haloconv.conv2d(x, w, b, **arguments).sum().backward()) == 3 * forward
