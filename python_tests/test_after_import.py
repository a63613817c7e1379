"""What is done to modules after their import, and what that leaves as it was."""

import importlib
import sys

import pytest

from haloconv._after_import import after_import


@pytest.fixture
def name(tmp_path, monkeypatch):
    """That of a module that nobody has imported."""
    (tmp_path / "slow_to_import.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield "slow_to_import"
    sys.modules.pop("slow_to_import", None)
    sys.meta_path[:] = before


def test_it_is_done_once_the_module_is_there(name):
    seen = []
    after_import(name, lambda module: seen.append(module.value))
    assert name not in sys.modules and seen == []
    module = importlib.import_module(name)
    assert seen == [1]
    importlib.import_module(name)
    assert seen == [1]
    after_import(name, lambda module: seen.append(module.value))
    assert seen == [1, 1]
    assert importlib.reload(module) is module
    assert seen == [1, 1, 1]


def test_several_things_are_done_to_one_module(name):
    seen = []
    for number in range(3):
        after_import(name, lambda module, number=number: seen.append(number))
    importlib.import_module(name)
    assert sorted(seen) == [0, 1, 2]


def test_a_module_that_does_not_exist_is_missed_as_ever(name):
    after_import(f"{name}_not", pytest.fail)
    with pytest.raises(ModuleNotFoundError, match=f"{name}_not"):
        importlib.import_module(f"{name}_not")
