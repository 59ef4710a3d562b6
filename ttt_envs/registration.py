"""The names under which Gymnasium and PettingZoo know the environments."""

from __future__ import annotations

import gymnasium

PRESETS: dict[str, dict[str, object]] = {
    "ttt/MNK-v0": {},
    "ttt/TicTacToe-v0": {"size": 3, "win_length": 3},
    "ttt/SkipTicTacToe-v0": {"size": 3, "win_length": 3, "skip_chance": 0.25},
    "ttt/Gomoku-v0": {"size": 15, "win_length": 5},
}
"""Gymnasium's ids and the arguments that each presets; all others stay open"""

PETTINGZOO_PRESETS = {name.lower(): kwargs for name, kwargs in PRESETS.items()}
"""the same in PettingZoo, in small letters as it writes ids"""


def register_all() -> None:
    """Register everything, once."""
    for name, kwargs in PRESETS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="ttt_envs.single_env:SingleEnv",
                vector_entry_point="ttt_envs.vector_env:MNKVectorEnv",
                kwargs=dict(kwargs),
            )
    try:
        from pettingzoo import aec_registry, register
    except ImportError:  # before 1.27 PettingZoo has no registry
        return
    for name, kwargs in PETTINGZOO_PRESETS.items():
        if name not in aec_registry:
            register("aec", name, entry_point="ttt_envs.mnk_v0:env", kwargs=dict(kwargs))
