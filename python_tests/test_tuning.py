"""Results of timing, kept in files: what needs no GPU, and one way through with one."""

import json
import os
import subprocess
import sys
import warnings

import pytest
import torch

import haloconv
from haloconv import _library
from support import needs_gpu

VERSIONS = ["haloconv", "torch", "cuda_driver", "cuda_runtime", "cudnn"]


@pytest.fixture(autouse=True)
def nothing_known():
    haloconv.tuning.clear()
    yield
    haloconv.tuning.clear()


@pytest.fixture
def warning_of(capfd):
    """What a call warns of: on stderr or, where torch is 2.15 or newer, by Python's warnings."""

    def text(call, *arguments) -> str:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(*arguments)
        return capfd.readouterr().err + "".join(str(warning.message) for warning in caught)

    return text


def environment(results=None, **versions) -> dict:
    """One of a file's, of no machine there is unless ``versions`` say otherwise."""
    made = dict.fromkeys([*VERSIONS, "device"], "1.0") | versions
    return made | {"results": results or {}}


def write(path, *environments):
    path.write_text(json.dumps({"haloconv_tuning_format": 1, "environments": list(environments)}))
    return path


def environments_of(path) -> list[dict]:
    held = json.loads(path.read_text())
    assert held["haloconv_tuning_format"] == 1
    return held["environments"]


def python(program: str, **variables) -> subprocess.CompletedProcess:
    """Runs a program where haloconv is imported, in a process of its own."""
    paths = [os.path.dirname(os.path.dirname(haloconv.__file__)), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", "import haloconv, torch\n" + program],
        env={
            **os.environ,
            "HALOCONV_LIBRARY": str(_library.find()),
            "PYTHONPATH": os.pathsep.join(paths),
            **{name: str(value) for name, value in variables.items()},
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


RESULTS = {"fprop n1": {"family": "halo", "plan": 'tile "8x8"', "ms": 0.25}}


def test_nothing_is_known_at_first(tmp_path):
    haloconv.tuning.save(tmp_path / "tuning.json")
    assert environments_of(tmp_path / "tuning.json") == []
    haloconv.tuning.load(str(tmp_path / "tuning.json"))


def test_what_was_loaded_is_saved_beside_what_is_there(tmp_path):
    mine = [environment(RESULTS, haloconv=haloconv.__version__), environment(RESULTS)]
    haloconv.tuning.load(write(tmp_path / "1", *mine))
    other = environment(RESULTS, device="another")
    haloconv.tuning.save(write(tmp_path / "2", other))
    held = environments_of(tmp_path / "2")
    assert len(held) == 3 and all(each in held for each in [*mine, other])


def test_clear_forgets(tmp_path):
    haloconv.tuning.load(write(tmp_path / "1", environment(RESULTS)))
    haloconv.tuning.clear()
    haloconv.tuning.save(tmp_path / "2")
    assert environments_of(tmp_path / "2") == []


def test_other_versions_are_ignored_with_a_warning(tmp_path, warning_of):
    file = write(tmp_path / "tuning.json", environment(RESULTS))
    warning = warning_of(haloconv.tuning.load, file)
    assert 'tuning.json" are ignored: ' in warning
    assert f"haloconv 1.0 instead of {haloconv.__version__}" in warning
    assert f"torch 1.0 instead of {torch.__version__.split('+')[0]}" in warning


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1, column 1: expected a value"),
        ('{"haloconv_tuning_format": 1,', "line 1, column 30: expected"),
        ("[]", "expected an object"),
        ('{"haloconv_tuning_format": 2}', "its format is 2"),
    ],
)
def test_a_corrupt_file_is_ignored_with_a_warning(tmp_path, warning_of, text, why):
    (tmp_path / "tuning.json").write_text(text)
    warning = warning_of(haloconv.tuning.load, tmp_path / "tuning.json")
    assert f'tuning.json" are ignored: {why}' in warning


def test_what_python_writes_is_read(tmp_path, capfd):
    """json escapes what it likes to: the same text comes back."""
    names = {'\u00e9\u20ac\U0001f600 \\ " / \b\n\x7f': RESULTS["fprop n1"]}
    haloconv.tuning.load(write(tmp_path / "1", environment(names)))
    haloconv.tuning.save(tmp_path / "2")
    assert environments_of(tmp_path / "2") == [environment(names)]


def test_errors_name_the_file(tmp_path):
    for call, failure in [(haloconv.tuning.load, "read"), (haloconv.tuning.save, "written")]:
        name = f"haloconv::tuning::{call.__name__}: "
        with pytest.raises(RuntimeError, match=f'{name}".*here" cannot be {failure}: No such file'):
            call(tmp_path / "not" / "here")
        with pytest.raises(RuntimeError, match=f"{name}expected file to be a file's name"):
            call("a\0b")
        with pytest.raises(TypeError):
            call(1)


def test_what_another_version_wrote_is_not_replaced(tmp_path):
    newer = '{"haloconv_tuning_format": 2}'
    (tmp_path / "tuning.json").write_text(newer)
    with pytest.raises(RuntimeError, match="cannot be written: its format is 2"):
        haloconv.tuning.save(tmp_path / "tuning.json")
    assert (tmp_path / "tuning.json").read_text() == newer


@pytest.mark.parametrize("ms", [float("nan"), float("inf")])
def test_a_time_that_no_file_can_hold_is_an_error(tmp_path, ms):
    add = torch.ops.haloconv.tuning_add
    with pytest.raises(RuntimeError, match=f"expected ms to be finite, but got {ms}"):
        add("a graph", torch.device("cpu"), "a plan", ms)
    haloconv.tuning.save(str(tmp_path / "kept"))
    assert environments_of(tmp_path / "kept") == []


def test_the_environment_names_a_file(tmp_path):
    named = write(tmp_path / "named", environment(RESULTS))
    program = f"haloconv.tuning.save({str(tmp_path / 'saved')!r})"
    assert "are ignored" in python(program, HALOCONV_TUNING_FILE=named).stderr
    assert environments_of(tmp_path / "saved") == [environment(RESULTS)]


def test_the_file_that_the_environment_names_may_come_later(tmp_path):
    done = python("haloconv.tuning.clear()", HALOCONV_TUNING_FILE=tmp_path / "not" / "here")
    assert done.stderr == ""


def test_compiled_functions_call_them(tmp_path):
    haloconv.tuning.load(write(tmp_path / "1", environment(RESULTS)))

    @torch.compile(backend="eager")
    def function(x):
        haloconv.tuning.save(tmp_path / "2")
        return x + 1

    assert function(torch.zeros(1)) == 1
    assert environments_of(tmp_path / "2") == [environment(RESULTS)]


CONVOLUTIONS = """
torch.backends.cudnn.benchmark = True
x = torch.ones(4, 8, 32, 32, device="cuda")
weight = torch.ones(16, 8, 3, 3, device="cuda")
for padding in (0, 1):
    haloconv.conv2d(x, weight, padding=padding)
print(*(line for line in haloconv.explain(x, weight).splitlines() if "timed: " in line))
"""


@needs_gpu
def test_results_outlive_the_process(tmp_path):
    kept = tmp_path / "tuning.json"
    first = python(CONVOLUTIONS, HALOCONV_TUNING_FILE=kept).stdout
    (written,) = environments_of(kept)
    assert first.startswith("timed: ")
    assert len(written["results"]) == 2
    assert torch.cuda.get_device_name() in written["device"]
    # A result that no timing gives: that it is kept shows that none was made.
    for result in written["results"].values():
        result["ms"] = 1e9
    write(kept, written)
    assert python(CONVOLUTIONS, HALOCONV_TUNING_FILE=kept).stdout == first
    assert environments_of(kept) == [written]


@needs_gpu
def test_a_plan_that_is_gone_is_timed_anew(tmp_path):
    kept = tmp_path / "tuning.json"
    python(CONVOLUTIONS, HALOCONV_TUNING_FILE=kept)
    (written,) = environments_of(kept)
    gone = {
        problem: {"family": "halo", "plan": "gone", "ms": 1.0} for problem in written["results"]
    }
    write(kept, written | {"results": gone})
    assert python(CONVOLUTIONS, HALOCONV_TUNING_FILE=kept).stdout.startswith("timed: ")
    (anew,) = environments_of(kept)
    assert all(result["plan"] != "gone" for result in anew["results"].values())


@needs_gpu
def test_another_device_is_timed_anew(tmp_path):
    kept = tmp_path / "tuning.json"
    python(CONVOLUTIONS, HALOCONV_TUNING_FILE=kept)
    (written,) = environments_of(kept)
    write(kept, written | {"device": "another"})
    warning = python(CONVOLUTIONS, HALOCONV_TUNING_FILE=kept).stderr
    assert f"device another instead of {written['device']}" in warning
    assert [each["device"] for each in environments_of(kept)].count("another") == 1
    assert len(environments_of(kept)) == 2


@needs_gpu
def test_clear_has_all_timed_anew(tmp_path):
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        x = torch.ones(2, 8, 20, 20, device="cuda")
        weight = torch.ones(4, 8, 3, 3, device="cuda")
        for file in (tmp_path / "1", tmp_path / "2"):
            haloconv.tuning.clear()
            assert "timed: " not in haloconv.explain(x, weight)
            haloconv.conv2d(x, weight)
            assert "timed: " in haloconv.explain(x, weight)
            haloconv.tuning.save(file)
            assert len(environments_of(file)[0]["results"]) == 1


@needs_gpu
def test_a_captured_graph_times_nothing():
    """It runs the model's choice; a call outside of it times."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        x = torch.ones(2, 16, 65, 47, device="cuda")
        weight = torch.ones(24, 16, 3, 3, device="cuda")
        if "implementation: aten" in haloconv.explain(x, weight):
            pytest.skip("the model chooses ATen here, which may not be timed in a graph itself")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = haloconv.conv2d(x, weight)
        assert "timed: " not in haloconv.explain(x, weight)
        graph.replay()
        assert torch.equal(captured, haloconv.conv2d(x, weight))
        assert "timed: " in haloconv.explain(x, weight)


@needs_gpu
def test_threads_time_once_and_agree(tmp_path):
    """Eight threads meet at one problem: the file has one result, and all ran to the same end."""
    program = f"""
import concurrent.futures
torch.backends.cudnn.benchmark = True
x = torch.ones(2, 16, 66, 47, device="cuda")
weight = torch.ones(24, 16, 3, 3, device="cuda")
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    results = list(pool.map(lambda _: haloconv.conv2d(x, weight), range(8)))
assert all(torch.equal(each, results[0]) for each in results)
haloconv.tuning.save({str(tmp_path / "tuning.json")!r})
"""
    python(program)
    (written,) = environments_of(tmp_path / "tuning.json")
    assert len(written["results"]) == 1


SHORT_OF_MEMORY = """
from pathlib import Path

def limit(room):
    torch.cuda.empty_cache()
    bytes = torch.cuda.memory_reserved() + room
    torch.cuda.set_per_process_memory_fraction(bytes / torch.cuda.mem_get_info()[1])

def is_timed(name):
    y = haloconv.conv2d(x, weight)
    assert torch.all(y == weight[0].numel())
    haloconv.tuning.save(folder / name)
    return "timed: " in haloconv.explain(x, weight)

torch.backends.cudnn.benchmark = True
"""


@needs_gpu
def test_where_no_candidate_finds_memory_the_call_fails_and_a_later_one_times(tmp_path):
    program = f"""
folder = Path({str(tmp_path)!r})
x = torch.ones(8, 3, 512, 512, device="cuda")
weight = torch.ones(16, 3, 3, 3, device="cuda")
limit(0)
try:
    haloconv.conv2d(x, weight)
except torch.OutOfMemoryError:
    print(haloconv.explain(x, weight))
torch.cuda.set_per_process_memory_fraction(1.0)
print(is_timed("all"))
"""
    *lines, timed_later = python(SHORT_OF_MEMORY + program).stdout.splitlines()
    assert lines and not any(line.startswith("timed: ") for line in lines)
    assert timed_later == "True"
    (written,) = environments_of(tmp_path / "all")
    assert len(written["results"]) == 1


@needs_gpu
def test_a_choice_of_those_that_find_memory_goes_to_no_file(tmp_path):
    """The filter takes 85 MB, and as many again where a candidate packs it."""
    program = f"""
folder = Path({str(tmp_path)!r})
x = torch.ones(1, 1536, 8, 8, device="cuda")
weight = torch.ones(1536, 1536, 3, 3, device="cuda")
limit(24 << 20)
print(is_timed("some"))
torch.cuda.set_per_process_memory_fraction(1.0)
haloconv.tuning.clear()
print(is_timed("all"))
"""
    assert python(SHORT_OF_MEMORY + program).stdout.split() == ["True", "True"]
    assert environments_of(tmp_path / "some") == []
    (written,) = environments_of(tmp_path / "all")
    assert len(written["results"]) == 1
