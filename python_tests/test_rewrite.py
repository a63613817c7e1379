"""Saved models on haloconv's operator: haloconv-rewrite, and haloconv.rewrite()."""

import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import haloconv
from haloconv import _library
from support import FLOATS, assert_equal


def find_program() -> Path:
    """haloconv-rewrite of the library's installation, or beside it in a build and in a wheel."""
    folder = _library.find().resolve().parent
    installed, beside = (place / "haloconv-rewrite" for place in (folder.parent / "bin", folder))
    return installed if installed.is_file() else beside


PROGRAM = find_program()
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason="haloconv-rewrite is not built")


def helper(x, w):
    return F.conv2d(x, w, padding="same") if x.size(0) > 1 else F.conv2d(x, w, padding=1)


class Net(torch.nn.Module):
    """Convolutions in submodules, a loop, a condition and a scripted function; shared weights.

    One is left.
    """

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, padding=1, bias=False), torch.nn.BatchNorm2d(4)
        )
        self.layers = torch.nn.ModuleList(torch.nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.up = torch.nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.one = torch.nn.Conv1d(2, 2, 3)
        self.volume = torch.nn.Conv3d(4, 2, (1, 3, 3))

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = torch.relu(layer(x))
        for _ in range(x.size(0)):
            x = x + self.layers[0](x)
        x = helper(x, self.layers[1].weight)
        if x.size(2) > 100:
            x = F.conv2d(x, self.layers[1].weight, stride=2)
        return self.up(x), self.one(x[:, :2, 0]), self.volume(x[:, :, None])


@pytest.fixture
def net():
    torch.manual_seed(0)
    net = Net().double()
    for _ in range(3):
        net(torch.randn(2, 3, 8, 8, dtype=torch.float64))  # statistics for batch norm
    return net.eval()


@pytest.fixture
def x():
    return torch.randn(2, 3, 8, 9, dtype=torch.float64)


def operators(module) -> str:
    return str(module.inlined_graph)


def test_a_scripted_model_keeps_its_meaning(net, x):
    scripted = torch.jit.script(net)
    rewritten, report = haloconv.rewrite(scripted)
    assert "aten::conv2d" not in operators(rewritten)
    assert operators(rewritten).count("haloconv::conv2d") >= 6
    for mine, theirs in zip(rewritten(x), net(x), strict=True):
        assert_equal(mine, theirs)
    for mine, theirs in zip(scripted(x[:1]), rewritten(x[:1]), strict=True):
        assert_equal(mine, theirs)
    assert list(rewritten.state_dict()) == list(net.state_dict())
    assert [n for n, _ in rewritten.named_modules()] == [n for n, _ in scripted.named_modules()]
    assert "aten::conv2d" in operators(scripted)  # the original is untouched
    assert report.startswith("replaced ") and ", left 1, " in report and ": it is 3-D\n" in report
    for name in ("conv_transpose2d", "conv1d"):
        assert f"aten::{name}" not in operators(rewritten)
        assert f"haloconv::{name}" in operators(rewritten)


def test_gradients_of_a_rewritten_model(net, x):
    net.train()
    rewritten, _ = haloconv.rewrite(torch.jit.script(net))
    net(x)[0].square().sum().backward()
    rewritten.train()
    rewritten(x)[0].square().sum().backward()
    expected = dict(net.named_parameters())
    for name, parameter in rewritten.named_parameters():
        if expected[name].grad is not None:
            torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-12, atol=1e-11)


def test_a_frozen_model_has_no_batch_norm(net, x):
    rewritten, _ = haloconv.rewrite(torch.jit.script(net), freeze=True)
    assert "batch_norm" not in operators(rewritten) and "haloconv::conv2d" in operators(rewritten)
    for mine, theirs in zip(rewritten(x), net(x), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)  # the fold rounds


def test_a_traced_model(net, x):
    traced = torch.jit.trace(net, x, check_trace=False)
    rewritten, report = haloconv.rewrite(traced)
    assert "aten::_convolution" in operators(traced) and "haloconv::conv2d" in operators(rewritten)
    assert ", left 1, " in report and ": it is 3-D\n" in report
    for name in ("conv_transpose2d", "conv1d"):
        assert f"haloconv::{name}" in operators(rewritten)
    for mine, theirs in zip(rewritten(x), net(x), strict=True):
        assert_equal(mine, theirs)


@pytest.mark.parametrize("mode", ["same", "valid"])
def test_a_traced_padding_mode(mode):
    layer = torch.nn.Conv2d(2, 3, (2, 3), padding=mode, dilation=2).double()
    x = torch.randn(1, 2, 7, 8, dtype=torch.float64)
    rewritten, report = haloconv.rewrite(torch.jit.trace(layer, x))
    assert report.startswith("replaced 1, left 0"), report
    assert_equal(rewritten(x), layer(x))


def test_python_arguments(tmp_path):
    with pytest.raises(TypeError, match="scripted module or a path, but got Linear"):
        haloconv.rewrite(torch.nn.Linear(1, 1))
    torch.jit.script(torch.nn.Linear(1, 1)).save(tmp_path / "linear.pt")
    with pytest.raises(RuntimeError, match="has no convolution to replace"):
        haloconv.rewrite(tmp_path / "linear.pt")


def run(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, **options)


@needs_program
def test_the_program_rewrites_and_checks(tmp_path, net, x):
    torch.jit.script(net.float()).save(tmp_path / "in.pt")
    before = (tmp_path / "in.pt").read_bytes()
    done = run("--freeze", "--check", "2,3,8,9", tmp_path / "in.pt", tmp_path / "out.pt")
    assert done.returncode == 0, done.stderr
    assert "checked 3 results: largest relative difference" in done.stdout
    assert "replaced " in done.stdout and ": it is 3-D" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["in.pt", "out.pt"]
    assert (tmp_path / "in.pt").read_bytes() == before
    rewritten = torch.jit.load(tmp_path / "out.pt")
    for mine, theirs in zip(rewritten(x.float()), net(x.float()), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 1, 3)

    def forward(self, x):
        return self.conv(x)


def doubled(self, input: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return output * 2


def halved(self, input: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    return (F.conv2d(input[0], torch.full((1, 1, 1, 1), 0.5)),)


@pytest.mark.parametrize("owner", ["the model", "a submodule"])
def test_hooks_stay(tmp_path, owner):
    model = Conv()
    hooked = model if owner == "the model" else model.conv
    hooked.register_forward_hook(doubled)
    hooked.register_forward_pre_hook(halved)
    scripted = torch.jit.script(model)
    x = torch.randn(1, 1, 5, 6)
    rewritten, report = haloconv.rewrite(scripted)
    assert ", left 0, " in report
    torch.testing.assert_close(rewritten(x), scripted(x))
    if owner == "the model":
        with pytest.raises(RuntimeError, match="a model without forward hooks of its own"):
            haloconv.rewrite(scripted, freeze=True)
    else:
        torch.testing.assert_close(haloconv.rewrite(scripted, freeze=True)[0](x), scripted(x))


def test_what_is_shared_stays_shared():
    conv, other = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Conv2d(4, 4, 3, padding=1)
    other.weight = conv.weight
    scripted = torch.jit.script(torch.nn.Sequential(conv, torch.nn.ReLU(), conv, other))
    rewritten, _ = haloconv.rewrite(scripted)
    assert len(list(rewritten.parameters())) == len(list(scripted.parameters())) == 3
    with torch.no_grad():
        getattr(rewritten, "0").weight.zero_()
    assert not getattr(rewritten, "2").weight.any() and not getattr(rewritten, "3").weight.any()


class Autocast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1, 1, 3, 3))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.conv2d(torch.matmul(x, self.weight[0, 0]), self.weight)


def test_a_scripted_autocast_region():
    """Its casts are written for the operators that torch knows, in a frozen model beforehand."""
    model = Autocast().eval()
    scripted = torch.jit.script(model)
    with pytest.raises(RuntimeError, match="Autocast.*: the model has an autocast region"):
        haloconv.rewrite(scripted)
    rewritten, _ = haloconv.rewrite(scripted, freeze=True)
    x = torch.randn(1, 1, 5, 3)
    assert rewritten(x).dtype == model(x).dtype == torch.bfloat16
    torch.testing.assert_close(rewritten(x), model(x))


@torch.jit.script
def convolved(x, w):
    return F.conv2d(x, w, padding=1)


@torch.jit.script
class Convolver:
    def __init__(self, padding: int):
        self.padding = padding

    def run(self, x, w):
        return F.conv2d(x, w, padding=self.padding)


def run_class(x, w):
    return Convolver(1).run(x, w)


class Everywhere(Conv):
    """Forks of a function and of a module, and a class used by a function."""

    def forward(self, x):
        forked = torch.jit.fork(convolved, x, self.conv.weight)
        other = torch.jit.fork(self.conv, x)
        return run_class(x, self.conv.weight) + torch.jit.wait(forked), torch.jit.wait(other)


@pytest.mark.parametrize("freeze", [False, True])
def test_forks_and_classes(freeze):
    scripted = torch.jit.script(Everywhere().eval())
    rewritten, report = haloconv.rewrite(scripted, freeze=freeze)
    assert "torch.conv2d" not in rewritten.code and ", left 0," in report, report
    assert report.count("  replaced ") == 3, report
    x = torch.randn(1, 1, 5, 6)
    for mine, theirs in zip(rewritten(x), scripted(x), strict=True):
        assert_equal(mine, theirs)


class Exported(Conv):
    def forward(self, x):
        return self.called(x)

    def called(self, x):
        return self.conv(x)

    @torch.jit.export
    def features(self, x):
        return self.called(x)


def test_exported_methods():
    """Freezing keeps forward alone."""
    scripted = torch.jit.script(Exported().eval())
    x = torch.randn(1, 1, 5, 6)
    rewritten, report = haloconv.rewrite(scripted)
    assert_equal(rewritten.features(x), scripted.features(x))
    assert "dropped" not in report
    rewritten, report = haloconv.rewrite(scripted, freeze=True)
    assert report.endswith("\n  dropped by freezing features()\n"), report
    assert not hasattr(rewritten, "features")


def cast_class(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return Convolver(1).run(x, w)


class CastClass(Conv):
    def forward(self, x):
        return cast_class(x, self.conv.weight)


def test_an_autocast_region_around_a_class():
    with pytest.raises(RuntimeError, match="the model has an autocast region"):
        haloconv.rewrite(torch.jit.script(CastClass()))


def save_both(folder: Path, kind=Conv) -> tuple[Path, Path]:
    torch.jit.script(kind()).save(folder / "in.pt")
    return folder / "in.pt", folder / "out.pt"


def rewrite_file(source, target):
    return torch.ops.haloconv.rewrite_file(str(source), str(target))


def test_a_link_stays_a_link(tmp_path):
    source, target = save_both(tmp_path)
    (tmp_path / "latest.pt").symlink_to("out.pt")
    rewrite_file(source, tmp_path / "latest.pt")
    assert (tmp_path / "latest.pt").is_symlink() and not target.is_symlink()
    torch.jit.load(target)


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop"])
def test_what_is_no_file_stays(tmp_path, kind):
    source, target = save_both(tmp_path)
    make = {"pipe": os.mkfifo, "folder": os.mkdir, "loop": lambda path: path.symlink_to(path)}
    make[kind](target)
    before = target.lstat().st_mode
    with pytest.raises(RuntimeError, match='out.pt" cannot be written: expected a file'):
        rewrite_file(source, target)
    assert target.lstat().st_mode == before


def test_a_name_with_a_zero_byte(tmp_path):
    source, target = save_both(tmp_path)
    with pytest.raises(RuntimeError, match="expected output to be a file's name"):
        rewrite_file(source, f"{target}\0more")


def test_permissions_stay(tmp_path):
    source, target = save_both(tmp_path)
    rewrite_file(source, target)
    assert target.stat().st_mode == source.stat().st_mode
    target.chmod(0o640)
    rewrite_file(source, target)
    assert target.stat().st_mode & 0o777 == 0o640


def test_drafts_are_new_files(tmp_path):
    """A name that is there already, a link for one, is another's."""
    source, target = save_both(tmp_path)
    link = tmp_path / f"haloconv-{os.getpid()}-0.part"
    link.symlink_to("elsewhere")
    rewrite_file(source, target)
    assert link.is_symlink() and not (tmp_path / "elsewhere").exists() and not target.is_symlink()


def test_the_longest_name(tmp_path):
    source, _ = save_both(tmp_path)
    rewrite_file(source, tmp_path / ("a" * 252 + ".pt"))


@needs_program
def test_a_full_disk(tmp_path):
    """Here the largest file that a process may write, whose signal is ignored."""
    source, target = save_both(tmp_path)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    done = run(source, target, preexec_fn=limit)
    assert done.returncode == 1 and "cannot be written: File too large" in done.stderr, done
    assert os.listdir(tmp_path) == ["in.pt"]


def test_several_threads_write_one_file(tmp_path):
    source, target = save_both(tmp_path)
    rewrite_file(source, target)
    with ThreadPoolExecutor(8) as pool:  # a draft that was another's failed one call in ten
        written = [pool.submit(rewrite_file, source, target) for _ in range(100)]
        while not all(future.done() for future in written):
            torch.jit.load(target)
    assert all(future.result() for future in written)
    assert sorted(os.listdir(tmp_path)) == ["in.pt", "out.pt"]


FOREIGN = """
import sys, torch
library = torch.library.Library("haloconv_test", "DEF")
library.define("same(Tensor x) -> Tensor")

class Foreign(torch.nn.Module):
    def forward(self, x):
        return torch.ops.haloconv_test.same(torch.conv2d(x, x))

torch.jit.script(Foreign()).save(sys.argv[1])
"""


@needs_program
def test_an_operator_of_a_library_that_is_not_loaded(tmp_path):
    model, script = tmp_path / "in.pt", tmp_path / "foreign.py"
    script.write_text(FOREIGN)
    subprocess.run([sys.executable, script, model], check=True)
    done = run(model, tmp_path / "out.pt")
    assert done.returncode == 1
    assert "read here: Unknown builtin op: haloconv_test::same" in done.stderr, done


def test_extra_files_are_kept(tmp_path):
    files = {"labels.txt": "one two", "a/b.bin": b"\x00\x01"}
    torch.jit.script(Conv()).save(tmp_path / "in.pt", _extra_files=files)
    torch.ops.haloconv.rewrite_file(str(tmp_path / "in.pt"), str(tmp_path / "out.pt"))
    found = dict.fromkeys(files, "")
    torch.jit.load(tmp_path / "out.pt", _extra_files=found)
    assert found == {"labels.txt": b"one two", "a/b.bin": b"\x00\x01"}


class NanAlways(Conv):
    def forward(self, x):
        return self.conv(x) * float("nan"), self.conv(x)


class NanSomewhere(Conv):
    def forward(self, x):
        y = self.conv(x)
        return torch.where(torch.rand_like(y) < 0.5, float("nan"), y)


class NoTensor(Conv):
    def forward(self, x):
        return self.conv(x).size(2)


@needs_program
@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        (NanAlways, 0, "checked 2 results: largest relative difference 0\n"),
        (NanSomewhere, 1, "the rewritten model's results differ"),
        (NoTensor, 1, "expected --check to compare tensors, but the models return 0 and 0"),
    ],
)
def test_what_the_program_s_check_says(tmp_path, kind, status, message):
    torch.jit.script(kind()).save(tmp_path / "in.pt")
    done = run("--check", "1,1,12,12", tmp_path / "in.pt", tmp_path / "out.pt")
    assert done.returncode == status and message in done.stdout + done.stderr, done
    assert (tmp_path / "out.pt").exists() == (status == 0)


class Normalized(Conv):
    """Its result has another dtype than what rounds it."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(1)
        torch.nn.init.normal_(self.norm.running_mean)

    def forward(self, x):
        return self.norm(self.conv(x)).float()


@needs_program
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_program_checks_in_the_model_s_dtype(tmp_path, dtype):
    torch.manual_seed(0)
    torch.jit.script(Normalized().to(dtype).eval()).save(tmp_path / "in.pt")
    done = run("--freeze", "--check", "1,1,12,12", tmp_path / "in.pt", tmp_path / "out.pt")
    assert done.returncode == 0, done.stderr
    assert "checked 1 results" in done.stdout


@needs_program
def test_the_program_checks_a_frozen_model(tmp_path, device):
    """It has neither parameters nor buffers left."""
    frozen = torch.jit.freeze(torch.jit.script(Conv().to(device).eval()))
    frozen.save(tmp_path / "in.pt")
    done = run("--check", "1,1,12,12", tmp_path / "in.pt", tmp_path / "out.pt")
    assert done.returncode == 0, done.stderr
    assert "checked 1 results" in done.stdout


def test_the_installed_program_finds_its_libraries():
    build = Path(__file__).resolve().parents[1] / "build"
    installed = build / "install" / "bin" / PROGRAM.name
    if not installed.exists():
        pytest.skip("haloconv-rewrite is not installed in build/install")
    done = subprocess.run([installed, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("usage: haloconv-rewrite"), done.stderr


@needs_program
def test_the_program_s_errors(tmp_path):
    good, linear, bad, text = (tmp_path / n for n in ("good.pt", "linear.pt", "bad.pt", "a.txt"))
    torch.jit.script(torch.nn.Conv2d(1, 1, 3)).save(good)
    torch.jit.script(torch.nn.Linear(1, 1)).save(linear)
    bad.write_bytes(good.read_bytes()[:1000])
    text.write_text("no model")
    out = tmp_path / "out.pt"
    cases = [
        ((good,), 2, "expected two files"),
        ((good, out, out), 2, "expected two files"),
        (("--check", "1,x", good, out), 2, 'sizes like 1,3,224,224, but got "1,x"'),
        (("--check", "1,3,", good, out), 2, 'sizes like 1,3,224,224, but got "1,3,"'),
        (("--frozen", good, out), 2, "--help"),
        (("--check", "1,1,5,5", tmp_path / "absent.pt", out), 1, "no TorchScript model that can"),
        ((tmp_path / "absent.pt", out), 1, "no TorchScript model that can be read"),
        ((bad, out), 1, "no TorchScript model that can be read"),
        ((text, out), 1, "no TorchScript model that can be read"),
        ((linear, out), 1, "has no convolution to replace"),
        ((good, good), 1, "another file than input"),
        ((good, tmp_path / "no" / "folder.pt"), 1, "cannot be written: No such file"),
        ((good, tmp_path), 1, "cannot be written: expected a file"),
        (("--check", "1,2,5,5", good, out), 1, ""),
    ]
    before = good.read_bytes()
    for arguments, status, message in cases:
        done = run(*arguments)
        assert done.returncode == status and message in done.stderr, (arguments, done)
        assert "haloconv-rewrite: " in done.stderr
        assert not out.exists() and not list(tmp_path.glob("*.part*"))
    assert good.read_bytes() == before
