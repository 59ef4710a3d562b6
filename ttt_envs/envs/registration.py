"""Registration of the environments in Gymnasium and PettingZoo.

Both are slow to import, so this module does not import them: the ids are registered with a library once it is imported,
before or after this package.
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
    "ttt/FreestyleGomoku-v0": {"size": 15, "win_length": 5},
    "ttt/StandardGomoku-v0": {"size": 15, "win_length": 5, "overlines": False},
    "ttt/ConnectFour-v0": {"size": (6, 7), "win_length": 4, "gravity": True},
    "ttt/SkipConnectFour-v0": {"size": (6, 7), "win_length": 4, "skip_chance": 0.25, "gravity": True},
    "ttt/Misere-v0": {"size": 3, "win_length": 3, "misere": True},
    "ttt/Torus-v0": {"size": 4, "win_length": 4, "torus": True},
    "ttt/PhantomTicTacToe-v0": {"size": 3, "win_length": 3, "phantom": "classic"},
}
"""Gymnasium ids and their preset arguments; all other arguments stay open"""

TEXT_ID = "ttt/Text-v0"
"""Gymnasium id of the text environment"""

PETTINGZOO_PRESETS = {name.lower(): kwargs for name, kwargs in PRESETS.items()}
"""the same for PettingZoo, in lower case as its ids are"""


def register_in_gymnasium() -> None:
    """Register every preset that is not yet registered."""
    import gymnasium

    for name, kwargs in PRESETS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="ttt_envs.envs.single_env:SingleEnv",
                vector_entry_point="ttt_envs.envs.vector_env:MNKVectorEnv",
                kwargs=dict(kwargs),
            )
    if TEXT_ID not in gymnasium.registry:
        gymnasium.register(TEXT_ID, entry_point="ttt_envs.text.text_env:TextEnv")


def register_in_pettingzoo() -> None:
    """Register every preset that is not yet registered; PettingZoo has no registry before 1.27."""
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
"""library -> function that registers the presets with it"""


class _RegisterAfterImport(MetaPathFinder):
    """Finds the libraries of ``REGISTRIES`` with the other finders, and registers the presets after their execution."""

    def __init__(self) -> None:
        self._searched: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if fullname not in REGISTRIES or fullname in self._searched:
            return None
        self._searched.add(fullname)  # the search below calls this finder again
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
    """Register the presets with each library: now if it is already imported, else after its import."""
    for library, register in REGISTRIES.items():
        if library in sys.modules:
            register()
    if not any(isinstance(finder, _RegisterAfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegisterAfterImport())
