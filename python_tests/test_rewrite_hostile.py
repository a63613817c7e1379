"""haloconv-rewrite, and models that somebody made to do harm."""

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import haloconv
from support import assert_equal, normals
from test_rewrite import needs_program, run


def script(folder: Path, name: str, lines: list[str]) -> torch.jit.ScriptModule:
    """The class M of a Python file of these lines, scripted: TorchScript reads source files."""
    path = folder / f"{name}.py"
    path.write_text("\n".join(["import torch", "from torch import Tensor", *lines, ""]))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return torch.jit.script(module.M())


def function(name: str, result: str) -> list[str]:
    return [f"def {name}(x: Tensor, w: Tensor):", f"    return {result}"]


def model(result: str) -> list[str]:
    head = ["class M(torch.nn.Module):", "    def forward(self, x: Tensor, w: Tensor):"]
    return [*head, f"        return {result}"]


def nest(name: str, levels: int, innermost: str) -> list[str]:
    """Functions that each call the one before twice: name0 to name<levels>."""
    lines = function(f"{name}0", innermost)
    for i in range(1, levels + 1):
        lines += function(f"{name}{i}", f"{name}{i - 1}(x, w) + {name}{i - 1}(x, w)")
    return lines


CONVOLUTION = "torch.conv2d(x, w, None, 1, 1)"


def test_functions_that_call_functions(tmp_path):
    lines = [*nest("f", 5, CONVOLUTION), *model("torch.relu(f5(x, w))")]
    scripted = script(tmp_path, "some", lines)
    rewritten, report = haloconv.rewrite(scripted)
    assert report.startswith("replaced 32, left 0,")
    x, w = normals((1, 2, 5, 6)), normals((2, 2, 3, 3))
    assert_equal(rewritten(x, w), scripted(x, w))


@needs_program
@pytest.mark.parametrize("options", [(), ("--freeze",)])
def test_more_functions_than_can_be_inlined(tmp_path, options):
    """2**40 convolutions."""
    lines = [*nest("f", 40, CONVOLUTION), *model("f40(x, w)")]
    script(tmp_path, "deep", lines).eval().save(tmp_path / "in.pt")
    done = run(*options, tmp_path / "in.pt", tmp_path / "out.pt", timeout=300)
    assert done.returncode == 1, done
    assert "expected a model of at most 200000 nodes once" in done.stderr, done
    assert not (tmp_path / "out.pt").exists()


@needs_program
def test_methods_of_modules_count_when_they_are_frozen(tmp_path):
    class Leaf(torch.nn.Module):
        def forward(self, x):
            return F.conv2d(x, x)

    class Twice(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) + self.inner(x)

    nested = Leaf()
    for _ in range(40):
        nested = Twice(nested)
    torch.jit.script(nested.eval()).save(tmp_path / "in.pt")
    done = run("--freeze", tmp_path / "in.pt", tmp_path / "out.pt", timeout=300)
    assert done.returncode == 1 and "once all functions and methods are part" in done.stderr, done
    assert run(tmp_path / "in.pt", tmp_path / "out.pt", timeout=300).returncode == 0


@needs_program
def test_functions_without_convolutions_stay(tmp_path):
    """However many times they call each other, each is looked at once."""
    lines = [*nest("g", 40, "x * w.sum()"), *function("f", f"g40({CONVOLUTION}, w)")]
    script(tmp_path, "without", [*lines, *model("f(x, w) + g40(x, w)")]).save(tmp_path / "in.pt")
    done = run(tmp_path / "in.pt", tmp_path / "out.pt", timeout=300)
    assert done.returncode == 0 and "replaced 1, left 0" in done.stdout, done


def apart(count: int, block: list[str]) -> list[str]:
    """Convolutions, then a block of other nodes, then additions, from the last convolution's on."""
    lines = ["class M(torch.nn.Module):", "    def forward(self, x: Tensor, w: Tensor):"]
    lines += [f"        y{i} = {CONVOLUTION}" for i in range(count)]
    lines += [f"        {line}" for line in block]
    lines += [f"        z{i} = y{i} + x" for i in reversed(range(count))]
    return [*lines, f"        return ({', '.join(f'z{i}' for i in range(count))})"]


PRODUCTS = [f"p{i} = x * {i}" for i in range(400)]


@pytest.mark.parametrize("kind", ["plain", "in a condition"])
def test_additions_far_from_their_convolutions(tmp_path, kind):
    """Each move passes all the products: their number is bounded, that of convolutions is not."""
    inner = ["if bool(x.sum() > 0):", *[f"    {line}" for line in PRODUCTS]]
    lines = apart(300, PRODUCTS if kind == "plain" else inner)
    lines[-1] = lines[-1].replace("return (", f"return (torch.relu({CONVOLUTION}), ")
    scripted = script(tmp_path, "apart", lines)
    rewritten, report = haloconv.rewrite(scripted)
    far = report.count(": aten::add is too far from it\n")
    assert "replaced 301, left 0" in report and report.count("  fused add into") == 300 - far
    assert 1 <= 300 - far <= 100, report
    assert "  fused relu into" in report, report
    x, w = normals((1, 2, 5, 6)), normals((2, 2, 3, 3))
    for ours, theirs in zip(rewritten(x, w), scripted(x, w), strict=True):
        assert_equal(ours, theirs)
