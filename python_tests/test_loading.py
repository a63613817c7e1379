"""Loading the library changes nothing else: torch's own convolution stays what it is.

Each program runs twice, with the library loaded and without, and must print the same.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import haloconv

PACKAGE_ROOT = Path(haloconv.__file__).resolve().parents[1]


@cache  # what a program prints without the library is compared more than once
def python(program: str, *arguments: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


KERNELS = """if True:
    import sys, torch
    if "library" in sys.argv:
        torch.ops.load_library(sys.argv[2])
    if "package" in sys.argv:
        import haloconv
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not name.startswith("haloconv::"):
            print(name, torch._C._dispatch_dump(name))
"""


@pytest.mark.parametrize(
    "what", [("library", haloconv.library_path), ("package",)], ids=lambda w: w[0]
)
def test_no_other_operator_gets_a_kernel(what):
    before, after = python(KERNELS), python(KERNELS, *what)
    assert "aten::conv2d" in before.stdout
    assert after.stdout == before.stdout


FOUR_SIDES = """if True:
    import sys, torch
    import torch.nn.functional as F
    if "haloconv" in sys.argv:
        import haloconv

    def outcome(f, *arguments):
        try:
            return f(*arguments)
        except Exception as error:
            return type(error), str(error).splitlines()[0]

    def conv(x, w):
        return F.conv2d(x, w, padding=(1, 1, 1, 2))

    class Net(torch.nn.Module):
        def forward(self, x, w):
            return conv(x, w)

    x, w = torch.ones(1, 2, 6, 6), torch.ones(3, 2, 3, 3)

    def shape(device):
        return conv(x.to(device), w.to(device)).shape

    for device in ("cpu", "meta", *["cuda"] * torch.cuda.is_available()):
        print(device, outcome(shape, device))
        with torch.inference_mode():
            print(outcome(shape, device))
    print(outcome(torch.vmap(conv), x[None], w[None]))
    print(outcome(lambda: torch.export.export(Net(), (x, w)).graph))
"""


def test_torch_s_convolution_takes_four_sides_as_it_did():
    before, after = python(FOUR_SIDES), python(FOUR_SIDES, "haloconv")
    assert "padding" in before.stdout
    assert after.stdout == before.stdout


GRAPHS = """if True:
    import json, sys, torch
    from torch.export import Dim, export
    from torch.fx.experimental.proxy_tensor import make_fx
    if "haloconv" in sys.argv:
        import haloconv

    def targets(graph):
        return [str(node.target) for node in graph.nodes if node.op == "call_function"]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.second = torch.nn.Conv2d(4, 4, 3, padding="same")

        def forward(self, x):
            return self.second(self.first(x))

    net, x, found = Net(), torch.ones(2, 3, 8, 8), {}
    for strict in (False, True):
        for name, dim in (("fixed", None), ("any", Dim("n", min=2, max=64))):
            program = export(net, (x,), dynamic_shapes=({0: dim} if dim else None,), strict=strict)
            for kind, last in (
                ("exported", program),
                ("decomposed", program.run_decompositions()),
                ("core only", program.run_decompositions({})),
            ):
                found[f"{kind}, {name}, strict={strict}"] = targets(last.graph)
    weights = [p.detach() for p in net.parameters()]
    for pre_dispatch in (False, True):
        for mode in ("real", "fake", "symbolic"):
            def convolutions(x, w, b, w2, b2):
                x = torch.conv2d(x, w, b, padding=1)
                return torch.conv2d(x, w2, b2, padding="same")

            make = make_fx(convolutions, pre_dispatch=pre_dispatch, tracing_mode=mode)
            found[f"make_fx, {pre_dispatch=}, {mode}"] = targets(make(x, *weights).graph)
    print(json.dumps(found))
"""


def test_captured_graphs_of_torch_s_convolutions_do_not_change():
    before, after = (json.loads(python(GRAPHS, *a).stdout) for a in ((), ("haloconv",)))
    assert after == before
    assert any("aten.conv2d.default" in targets for targets in before.values())
    assert any("aten.convolution.default" in targets for targets in before.values())


RESULTS = """if True:
    import sys, warnings, torch
    import torch.nn.functional as F
    from torch.func import grad, vmap
    warnings.simplefilter("error")
    if "haloconv" in sys.argv:
        import haloconv
    torch.manual_seed(0)
    x, w, b = torch.randn(3, 2, 4, 6, 5), torch.randn(3, 6, 2, 3, 3), torch.randn(3, 6)
    for stride, padding in ((1, 1), ((2, 1), (0, 1)), (1, "same")):
        def conv(x, w, b):
            return F.conv2d(x, w, b, stride, padding, (1, 2), 2)

        print(conv(x[0], w[0], b[0]).tolist())
        print(vmap(conv)(x, w, b).tolist())
        print(vmap(conv, (0, None, None))(x, w[0], b[0]).tolist())
        print(vmap(conv, (None, 0, 0))(x[0], w, b).tolist())
        print(vmap(vmap(conv, (0, None, None)))(x[:, :, None], w, b).tolist())
        print(vmap(grad(lambda *t: conv(*t).sin().sum()))(x, w, b).tolist())
"""


def test_results_of_torch_s_convolutions_do_not_change_and_nothing_warns():
    before, after = python(RESULTS), python(RESULTS, "haloconv")
    assert after.stdout == before.stdout != ""
    assert after.stderr == before.stderr == ""
