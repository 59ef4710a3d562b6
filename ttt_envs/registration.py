"""The names under which Gymnasium and PettingZoo know the environments.

Both take long to import. So they are not imported here: the names are registered with a library as soon as it is
imported, before or after this package.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PRESETS: dict[str, dict[str, object]] = {
    "ttt/MNK-v0": {},
    "ttt/TicTacToe-v0": {"size": 3, "win_length": 3},
    "ttt/SkipTicTacToe-v0": {"size": 3, "win_length": 3, "skip_chance": 0.25},
    "ttt/Gomoku-v0": {"size": 15, "win_length": 5},
}
"""Gymnasium's ids and the arguments that each presets; all others stay open"""

PETTINGZOO_PRESETS = {name.lower(): kwargs for name, kwargs in PRESETS.items()}
"""the same in PettingZoo, in small letters as it writes ids"""


def register_in_gymnasium() -> None:
    """Register every preset that is not registered yet."""
    import gymnasium

    for name, kwargs in PRESETS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="ttt_envs.single_env:SingleEnv",
                vector_entry_point="ttt_envs.vector_env:MNKVectorEnv",
                kwargs=dict(kwargs),
            )


def register_in_pettingzoo() -> None:
    """Register every preset that is not registered yet; before 1.27 PettingZoo has no registry."""
    try:
        from pettingzoo import aec_registry, register
    except ImportError:
        return
    for name, kwargs in PETTINGZOO_PRESETS.items():
        if name not in aec_registry:
            register("aec", name, entry_point="ttt_envs.mnk_v0:env", kwargs=dict(kwargs))


REGISTRIES: dict[str, Callable[[], None]] = {
    "gymnasium": register_in_gymnasium,
    "pettingzoo": register_in_pettingzoo,
}
"""library -> what registers the presets with it"""


class _RegisterAfterImport(MetaPathFinder):
    """Finds the libraries of ``REGISTRIES`` by the other finders, and registers the presets when they are executed."""

    def __init__(self) -> None:
        self._searched: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if fullname not in REGISTRIES or fullname in self._searched:
            return None
        self._searched.add(fullname)  # the search below asks this finder again
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searched.discard(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                REGISTRIES[fullname]()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def register_all() -> None:
    """Register the presets with each library, now if it is imported already, else as soon as it is."""
    for library, register in REGISTRIES.items():
        if library in sys.modules:
            register()
    if not any(isinstance(finder, _RegisterAfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegisterAfterImport())
