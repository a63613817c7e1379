"""Does something to a module once a program imports it, for modules that are slow to import."""

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Finder(MetaPathFinder):
    """Finds one module in a file, as the finders after it do, and acts after its execution."""

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name, self._act = name, act

    def find_spec(self, name, path, target=None):
        if name != self._name:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(name, path, target) for finder in behind)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._act(module)

        # Each spec of a file has a loader of its own.
        loader.exec_module = exec_module


def after_import(name: str, act: Callable[[ModuleType], None]) -> None:
    """Calls ``act`` with the module of that name: now if it is imported, else when it will be."""
    if name in sys.modules:
        act(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, act))
