"""A forced implementation belongs to the thread that forces it, and to what ran under it there."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from torch._dynamo import compiled_autograd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import haloconv
from support import needs_gpu

ops = torch.ops.haloconv


def forced() -> str:
    """What this thread's convolutions are told to run."""
    name = ops.force_implementation("auto")
    ops.force_implementation(name)
    return name


class Seen(TorchDispatchMode):
    """What was forced when each of haloconv's operators was called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.name().startswith("haloconv::conv2d"):
            self.names.append(forced())
        return func(*args, **(kwargs or {}))


# A Meta tensor is computed by none, and refused by none.
@pytest.fixture(params=["meta", pytest.param("cuda", marks=needs_gpu)])
def tensors(request):
    x, w = torch.ones(1, 4, 6, 6), torch.ones(4, 4, 3, 3)
    return [t.to(request.param).requires_grad_() for t in (x, w)]


def conv(x, w):
    return haloconv.conv2d(x, w, padding=1)


def fused(x, w):
    return haloconv.conv2d_fused(x, w, padding=1, residual=x, activation="sigmoid")


def test_contexts_nest_and_end_with_an_error():
    with haloconv.implementation("generic"):
        with haloconv.implementation("auto"):
            assert forced() == "auto"
            with pytest.raises(ZeroDivisionError), haloconv.implementation("aten"):
                assert forced() == "aten"
                raise ZeroDivisionError
            assert forced() == "auto"
        assert forced() == "generic"
    assert forced() == "auto"


def test_an_unknown_name_changes_nothing():
    with haloconv.implementation("aten"):
        with pytest.raises(RuntimeError, match="fastest"), haloconv.implementation("fastest"):
            pass
        assert forced() == "aten"


def test_contexts_of_two_threads_overlap():
    """The first ends while the second is in its own; neither sees the other's."""
    first_is_in, second_is_in = threading.Event(), threading.Event()
    first_is_out = threading.Event()

    def first():
        with haloconv.implementation("generic"):
            first_is_in.set()
            assert second_is_in.wait(60)
            assert forced() == "generic"
        first_is_out.set()
        return forced()

    def second():
        assert first_is_in.wait(60)
        assert forced() == "auto"
        with haloconv.implementation("aten"):
            second_is_in.set()
            assert first_is_out.wait(60)
            assert forced() == "aten"
        return forced()

    with ThreadPoolExecutor(2) as pool:
        after = [pool.submit(first), pool.submit(second)]
        assert [future.result() for future in after] == ["auto", "auto"]
    assert forced() == "auto"


def test_contexts_of_one_thread_overlap():
    """As those of generators and of asyncio's tasks do."""

    def suspended(name):
        with haloconv.implementation(name):
            yield forced()

    first, second = suspended("generic"), suspended("aten")
    assert [next(first), next(second)] == ["generic", "aten"]
    first.close()
    assert forced() == "aten"
    third = suspended("generic")
    next(third)
    second.close()
    assert forced() == "generic"
    third.close()
    assert forced() == "auto"


def test_a_generator_that_ends_in_another_thread_forces_nothing_there():
    def suspended():
        with haloconv.implementation("generic"):
            yield

    def end(generator):
        with haloconv.implementation("aten"):
            generator.close()
            return forced()

    generator = suspended()
    next(generator)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(end, generator).result() == "aten"
    ops.force_implementation("auto")  # nothing else ends it in this thread


@pytest.mark.parametrize("again", [None, "generic"])
def test_a_checkpoint_computes_again_what_its_context_forces(tensors, again):
    context = haloconv.implementation(again) if again else nullcontext()
    with haloconv.implementation("generic"):
        y = checkpoint(conv, *tensors, use_reentrant=False, preserve_rng_state=False,
                       context_fn=lambda: (nullcontext(), context))  # fmt: skip
    with haloconv.implementation("aten"), Seen() as seen:
        torch.autograd.grad(y, tensors, torch.ones_like(y))
    # On a CUDA device torch computes again in a thread of its own, which "aten" is not of.
    without = "auto" if y.is_cuda else "aten"
    assert seen.names[0] == (again or without)


def in_this_thread(function):
    function()


def in_another_thread(function):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


@pytest.mark.parametrize("function", [conv, fused])
@pytest.mark.parametrize("run", [in_this_thread, in_another_thread])
def test_a_backward_pass_runs_what_its_forward_pass_ran(tensors, function, run):
    with haloconv.implementation("generic"):
        y = function(*tensors)
    plain = function(*tensors)

    def backward():
        for result, expected in ((y, "generic"), (plain, "auto")):
            with haloconv.implementation("aten"), Seen() as seen:
                torch.autograd.grad(result, tensors, torch.ones_like(result))
                assert forced() == "aten"
            assert set(seen.names) == {expected}

    run(backward)


def test_so_do_gradients_of_gradients(tensors):
    with haloconv.implementation("generic"):
        y = conv(*tensors)
    (grad,) = torch.autograd.grad(y, tensors[0], torch.ones_like(y), create_graph=True)
    with Seen() as seen:
        torch.autograd.grad(grad, tensors[1], torch.ones_like(grad))
    assert seen.names == ["generic"]


def test_an_error_in_a_backward_pass_leaves_the_thread_s_own():
    x, w = (torch.ones(s, requires_grad=True) for s in ((1, 4, 6, 6), (4, 4, 3, 3)))
    with haloconv.implementation("generic"):
        y = conv(x.to("meta"), w.to("meta"))
    y = torch.nn.functional.silu(y)

    def refuse(grad):
        raise ZeroDivisionError

    y.register_hook(refuse)
    with haloconv.implementation("aten"):
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert forced() == "aten"


def test_captured_backward_passes_differ_by_what_was_forced():
    """Compiled autograd takes no graph for another that ran another implementation."""
    x, w = torch.ones(1, 4, 6, 6), torch.ones(4, 4, 3, 3, requires_grad=True)
    with compiled_autograd._enable(lambda graph: torch.compile(graph, backend="eager")):
        for name in ("aten", "auto", "aten"):
            with haloconv.implementation(name):
                y = conv(x, w)
            with haloconv.implementation("generic"), Seen() as seen:
                y.sum().backward()
            assert set(seen.names) == {name}
