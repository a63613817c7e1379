"""Bad calls: PyTorch's exception type, a message that says what was wrong, and no harm done."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import haloconv
from support import assert_equal, gradients, integers, needs_gpu, normals

ops = torch.ops.haloconv


def call(conv, device="cpu", **changes):
    arguments = {
        "input": torch.ones(2, 6, 8, 7),
        "weight": torch.ones(4, 6, 3, 3),
        "bias": torch.ones(4),
        **changes,
    }
    for name in ("input", "weight", "bias"):
        value = arguments[name]
        if isinstance(value, torch.Tensor) and value.device.type == "cpu":
            arguments[name] = value.to(device)
    return conv(**arguments)


# The change to a good call, and what the message must hold: the argument, its value, what it
# should have been.
BAD = {
    "input of 2 dimensions": ({"input": torch.ones(8, 7)}, ["input", "[8, 7]", "3"]),
    "input of 5 dimensions": (
        {"input": torch.ones(1, 2, 6, 8, 7)},
        ["input", "[1, 2, 6, 8, 7]", "4"],
    ),
    "weight of 3 dimensions": ({"weight": torch.ones(4, 6, 3)}, ["weight", "[4, 6, 3]", "4"]),
    "weight of 5 dimensions": (
        {"weight": torch.ones(4, 6, 3, 3, 3)},
        ["weight", "[4, 6, 3, 3, 3]", "4"],
    ),
    "channels": ({"weight": torch.ones(4, 5, 3, 3)}, ["input", "[2, 6, 8, 7]", "5", "6"]),
    "no filters": ({"weight": torch.ones(0, 6, 3, 3)}, ["weight", "[0, 6, 3, 3]"]),
    "filter without rows": ({"weight": torch.ones(4, 6, 0, 3)}, ["weight", "[4, 6, 0, 3]"]),
    "filter too large": ({"weight": torch.ones(4, 6, 9, 3)}, ["kernel", "9 x 3", "8 x 7"]),
    "image without rows": ({"input": torch.ones(2, 6, 0, 7)}, ["input", "0"]),
    "image without rows, padded": (
        {"input": torch.ones(2, 6, 0, 7), "padding": 2},
        ["input", "[2, 6, 0, 7]"],
    ),
    "groups of 0": ({"groups": 0}, ["groups", "0", "at least 1"]),
    "groups of -1": ({"groups": -1}, ["groups", "-1", "at least 1"]),
    "filters not divisible": (
        {"weight": torch.ones(3, 3, 3, 3), "groups": 2, "bias": None},
        ["weight", "[3, 3, 3, 3]", "groups", "2"],
    ),
    "fewer filters than groups": (
        {"weight": torch.ones(1, 3, 3, 3), "groups": 2, "bias": None},
        ["weight", "[1, 3, 3, 3]", "2"],
    ),
    "bias too short": ({"bias": torch.ones(3)}, ["bias", "[3]", "4"]),
    "bias of 2 dimensions": ({"bias": torch.ones(4, 1)}, ["bias", "[4, 1]", "1"]),
    "bias dtype": ({"bias": torch.ones(4).double()}, ["bias", "ouble", "loat"]),
    "weight dtype": ({"weight": torch.ones(4, 6, 3, 3).half()}, ["weight", "Half", "loat"]),
    "complex input, real weight": (
        {"input": torch.ones(2, 6, 8, 7, dtype=torch.complex64), "bias": None},
        ["input", "omplex", "weight"],
    ),
    "stride of 0": ({"stride": 0}, ["stride", "0", "at least 1"]),
    "stride of -1": ({"stride": (1, -1)}, ["stride", "[1, -1]", "at least 1"]),
    "stride of 3 values": ({"stride": (1, 2, 1)}, ["stride", "[1, 2, 1]", "2"]),
    "stride of no value": ({"stride": ()}, ["stride", "[]", "2"]),
    "dilation of 0": ({"dilation": 0}, ["dilation", "0", "at least 1"]),
    "dilation of -2": ({"dilation": (-2, 1)}, ["dilation", "[-2, 1]", "at least 1"]),
    "dilation of 3 values": ({"dilation": (1, 2, 1)}, ["dilation", "[1, 2, 1]", "2"]),
    "negative padding": ({"padding": -1}, ["padding", "-1", "at least 0"]),
    "padding of 3 values": ({"padding": (1, 2, 1)}, ["padding", "[1, 2, 1]", "2", "4"]),
    "padding of 5 values": ({"padding": (1, 2, 1, 2, 3)}, ["padding", "[1, 2, 1, 2, 3]", "4"]),
    "unknown padding": ({"padding": "full"}, ["padding", "full", "same", "valid"]),
    "same with a huge dilation": (
        {"padding": "same", "dilation": 2**62},
        ["dilation", str(2**62), "at most 2147483647"],
    ),
    "same with stride": ({"padding": "same", "stride": 2}, ["padding", "same", "stride", "2"]),
    "fractional stride": ({"stride": 1.5}, ["stride", "1.5", "int"]),
    "fractional padding of rows": ({"padding": (1.0, 1)}, ["padding", "got (1.0, 1)", "int"]),
    "fractional padding": ({"padding": (1, 0.5)}, ["padding", "0.5", "int"]),
    "stride of a bool": ({"stride": True}, ["stride", "True", "int"]),
    "padding of a bool": ({"padding": True}, ["padding", "True", "int"]),
    "dilation of bools": ({"dilation": (True, True)}, ["dilation", "True", "int"]),
    "fractional groups": ({"groups": 1.0}, ["groups", "1.0", "int"]),
    "groups of a bool": ({"groups": True}, ["groups", "True", "int"]),
    "groups of a fraction's tensor": ({"groups": torch.tensor(1.9)}, ["groups", "1.9", "int"]),
    "stride of a fraction's tensor": ({"stride": torch.tensor(1.0)}, ["stride", "1.", "int"]),
    "padding of a tensor": ({"padding": torch.tensor([1, 1])}, ["padding", "[1, 1]", "int"]),
    "dilation with a fraction's tensor": (
        {"dilation": [torch.tensor(1.5), 1]},
        ["dilation", "1.5", "int"],
    ),
    "no weight": ({"weight": None}, ["weight", "None", "Tensor"]),
    "input is a list": ({"input": [1.0]}, ["input", "[1.0]", "Tensor"]),
    "bias is a number": ({"bias": 3}, ["bias", "3", "Tensor"]),
    "input is an array": ({"input": np.ones((2, 6, 8, 7))}, ["input", "array([[[[", "Tensor"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls(name, device):
    changes, words = BAD[name]
    with pytest.raises(Exception) as pytorch:
        call(F.conv2d, **changes)
    with pytest.raises(Exception) as ours:
        call(haloconv.conv2d, device, **changes)
    assert ours.type is pytorch.type
    missing = [word for word in words if word not in str(ours.value)]
    assert not missing, f"{missing} not in: {ours.value}"
    assert len(str(ours.value)) < 1000
    expected = torch.full((2, 4, 6, 5), 55.0)
    assert_equal(call(haloconv.conv2d, device).cpu(), expected)


def test_an_error_of_a_hook_ends_the_call():
    """It is no argument's error, and the call is not made again."""
    calls = []

    def refuse(tensor):
        calls.append(tensor)
        raise TypeError("refused")

    x, w = torch.ones(1, 2, 5, 5, requires_grad=True), torch.ones(3, 2, 3, 3)
    with (
        torch.autograd.graph.saved_tensors_hooks(refuse, lambda tensor: tensor),
        pytest.raises(TypeError, match="refused"),
    ):
        haloconv.conv2d(x, w)
    assert len(calls) == 1


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_on_meta_tensors(name):
    """Shapes are checked by the same code, whatever the device."""
    changes, words = BAD[name]
    with pytest.raises((RuntimeError, TypeError)) as ours:
        call(haloconv.conv2d, "meta", **changes)
    assert all(word in str(ours.value) for word in words)


@pytest.mark.parametrize("conv", [F.conv2d, haloconv.conv2d], ids=["torch", "haloconv"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float8_e4m3fn], ids=str)
def test_dtypes_without_convolution(dtype, conv):
    x, w = torch.ones(2, 6, 8, 7).to(dtype), torch.ones(4, 6, 3, 3).to(dtype)
    with pytest.raises(NotImplementedError):
        conv(x, w)


# grad_output (2, 4, 6, 5) of input (2, 6, 8, 7) and weight (4, 6, 3, 3).
GRAD = torch.ones(2, 4, 6, 5)
BAD_GRADIENTS = {
    "dgrad: grad_output's size": (
        "conv2d_dgrad",
        (torch.ones(2, 4, 6, 6), torch.ones(4, 6, 3, 3), (8, 7)),
        ["grad_output", "[2, 4, 6, 6]", "[2, 4, 6, 5]"],
    ),
    "dgrad: grad_output's channels": (
        "conv2d_dgrad",
        (torch.ones(2, 5, 6, 5), torch.ones(4, 6, 3, 3), (8, 7)),
        ["grad_output", "[2, 5, 6, 5]", "4"],
    ),
    "dgrad: input_size of 3 values": (
        "conv2d_dgrad",
        (GRAD, torch.ones(4, 6, 3, 3), (8, 7, 6)),
        ["input_size", "[8, 7, 6]", "2"],
    ),
    "dgrad: huge input_size": (
        "conv2d_dgrad",
        (GRAD, torch.ones(4, 6, 3, 3), (2**62, 7)),
        ["input_size", str(2**62), "at most 2147483647"],
    ),
    "dgrad: negative input_size": (
        "conv2d_dgrad",
        (GRAD, torch.ones(4, 6, 3, 3), (-8, 7)),
        ["input_size", "[-8, 7]", "at least 1"],
    ),
    "dgrad: dtypes": (
        "conv2d_dgrad",
        (GRAD, torch.ones(4, 6, 3, 3).double(), (8, 7)),
        ["grad_output", "weight", "ouble"],
    ),
    "wgrad: grad_output's size": (
        "conv2d_wgrad",
        (torch.ones(2, 4, 5, 5), torch.ones(2, 6, 8, 7), (3, 3)),
        ["grad_output", "[2, 4, 5, 5]", "[2, 4, 6, 5]"],
    ),
    "wgrad: batch": (
        "conv2d_wgrad",
        (torch.ones(3, 4, 6, 5), torch.ones(2, 6, 8, 7), (3, 3)),
        ["grad_output", "[3, 4, 6, 5]"],
    ),
    "wgrad: kernel_size of 0": (
        "conv2d_wgrad",
        (GRAD, torch.ones(2, 6, 8, 7), (0, 3)),
        ["kernel_size", "[0, 3]", "at least 1"],
    ),
    "wgrad: kernel_size of 2^31": (
        "conv2d_wgrad",
        (GRAD, torch.ones(2, 6, 8, 7), (2**31, 3)),
        ["kernel_size", "[2147483648, 3]", "at most 2147483647"],
    ),
    "wgrad_bias: kernel_size of 3 values": (
        "conv2d_wgrad_bias",
        (GRAD, torch.ones(2, 6, 8, 7), (3, 3, 3)),
        ["kernel_size", "[3, 3, 3]", "2"],
    ),
    "backward: grad_output's size": (
        "conv2d_backward",
        (torch.ones(2, 4, 6, 6), torch.ones(2, 6, 8, 7), torch.ones(4, 6, 3, 3)),
        ["grad_output", "[2, 4, 6, 6]", "[2, 4, 6, 5]"],
    ),
    "backward: channels": (
        "conv2d_backward",
        (GRAD, torch.ones(2, 5, 8, 7), torch.ones(4, 6, 3, 3)),
        ["input", "6 channels", "[2, 5, 8, 7]"],
    ),
    "backward: dtypes": (
        "conv2d_backward",
        (GRAD.double(), torch.ones(2, 6, 8, 7), torch.ones(4, 6, 3, 3)),
        ["grad_output", "input", "ouble"],
    ),
    "backward: input of 2 dimensions": (
        "conv2d_backward",
        (GRAD, torch.ones(8, 7), torch.ones(4, 6, 3, 3)),
        ["input", "[8, 7]", "4-D"],
    ),
}


@pytest.mark.parametrize("where", ["there", "differentiated", "meta", "vmap"])
@pytest.mark.parametrize("name", BAD_GRADIENTS)
def test_bad_gradient_calls(name, where, device):
    operator, arguments, words = BAD_GRADIENTS[name]
    function = getattr(haloconv, operator)
    moved = [
        a.to("meta" if where == "meta" else device) if isinstance(a, torch.Tensor) else a
        for a in arguments
    ]
    if where == "differentiated":
        moved[1].requires_grad_()
    if where == "vmap":
        moved = [torch.stack((a, a)) if isinstance(a, torch.Tensor) else a for a in moved]
        plain = function

        def function(*arguments):
            in_dims = tuple(0 if isinstance(a, torch.Tensor) else None for a in arguments)
            return torch.vmap(plain, in_dims)(*arguments)

    with pytest.raises(RuntimeError) as error:
        function(*moved)
    assert f"haloconv::{operator}" in str(error.value)
    missing = [word for word in words if word not in str(error.value)]
    assert not missing, f"{missing} not in: {error.value}"


def test_unknown_names():
    with pytest.raises(RuntimeError, match="name.*generic.*fastest"):
        ops.force_implementation("fastest")
    x, w = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)
    with pytest.raises(RuntimeError, match="direction.*fprop.*dgrad.*wgrad.*sideways"):
        haloconv.explain(x, w, direction="sideways")


def quantized(t):
    return torch.quantize_per_tensor(t, 0.1, 0, torch.quint8)


@pytest.mark.parametrize(
    "convert, error",
    [
        (torch.Tensor.to_sparse, RuntimeError),
        (torch.Tensor.to_mkldnn, RuntimeError),
        (quantized, NotImplementedError),
    ],
)
def test_tensors_that_no_kernel_takes(convert, error):
    x = convert(torch.ones(2, 6, 8, 7))
    with pytest.raises(RuntimeError, match="expected input to be a strided tensor") as ours:
        call(haloconv.conv2d, input=x, bias=None)
    assert ours.type is error
    with pytest.raises(error, match="conv2d_backward: expected input to be a strided tensor"):
        ops.conv2d_backward(torch.ones(2, 4, 6, 5), x, torch.ones(4, 6, 3, 3))
    if convert is not torch.Tensor.to_mkldnn:  # which torch takes
        with pytest.raises(RuntimeError) as pytorch:
            call(F.conv2d, input=x, bias=None)
        assert pytorch.type is error


def test_threads_do_not_disturb_each_other(device):
    """The generic kernels and the CPU's repeat bit for bit, so threads must change nothing."""
    jobs = [
        (normals((2, 3, 16 + i % 3, 17), i).float(), normals((4, 3, 3, 3), i).float())
        for i in range(16)
    ]

    @haloconv.implementation("generic" if device == "cuda" else "aten")
    def work(job):
        x, w = (t.to(device) for t in job)
        g = torch.ones_like(haloconv.conv2d(x, w, padding=1))
        results = gradients(lambda x, w: haloconv.conv2d(x, w, padding=1), (x, w), g)
        return [haloconv.conv2d(x, w, padding=1), *results]

    # ATen splits a sum by the number of threads that the calling thread may use.
    pool = ThreadPoolExecutor(4, initializer=torch.set_num_threads, initargs=(1,))
    with pool:
        expected = [work(job) for job in jobs]
        for mine, theirs in zip(pool.map(work, jobs), expected, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                assert_equal(a, b)


def test_errors_in_one_thread_leave_others_alone():
    def work(i):
        if i % 2:
            with pytest.raises(RuntimeError):
                call(haloconv.conv2d, groups=0)
            return None
        return call(haloconv.conv2d)

    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(work, range(40)):
            if result is not None:
                assert_equal(result, torch.full((2, 4, 6, 5), 55.0))


@needs_gpu
def test_cpu_and_device_tensors_together():
    x, w = integers((1, 2, 4, 4)), integers((3, 2, 3, 3))
    with pytest.raises(RuntimeError, match="weight"):
        haloconv.conv2d(x.cuda(), w)
    with pytest.raises(RuntimeError, match="weight"):
        haloconv.conv2d(x, w.cuda())
    with pytest.raises(RuntimeError, match="bias"):
        haloconv.conv2d(x.cuda(), w.cuda(), torch.zeros(3))


@pytest.mark.parametrize("name", ["conv2d_dgrad", "conv2d_wgrad", "conv2d_wgrad_bias"])
def test_gradients_take_no_padding_by_name(name):
    first, second = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 4, 4)
    with pytest.raises(TypeError, match="expected padding to be one or more ints, but got 'same'"):
        getattr(haloconv, name)(first, second, (1, 1), padding="same")
