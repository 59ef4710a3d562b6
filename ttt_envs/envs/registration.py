"""Ids of the environments in Gymnasium and PettingZoo, which importing this module registers.

Neither library loads plug-ins by itself: ``gymnasium.make("ttt_envs:ttt/TicTacToe-v0")`` imports
this package first.
"""

from __future__ import annotations

import gymnasium

TIC_TAC_TOE = {"size": 3, "win_length": 3}
GOMOKU = {"size": 15, "win_length": 5}
CONNECT_FOUR = {"size": (6, 7), "win_length": 4, "gravity": True}
PRESETS: dict[str, dict[str, object]] = {
    "ttt/MNK-v0": {},
    "ttt/TicTacToe-v0": {**TIC_TAC_TOE},
    "ttt/SkipTicTacToe-v0": {**TIC_TAC_TOE, "skip_chance": 0.25},
    "ttt/Gomoku-v0": {**GOMOKU},
    "ttt/FreestyleGomoku-v0": {**GOMOKU},
    "ttt/StandardGomoku-v0": {**GOMOKU, "overlines": False},
    "ttt/ConnectFour-v0": {**CONNECT_FOUR},
    "ttt/SkipConnectFour-v0": {**CONNECT_FOUR, "skip_chance": 0.25},
    "ttt/Misere-v0": {**TIC_TAC_TOE, "misere": True},
    "ttt/Torus-v0": {"size": 4, "win_length": 4, "torus": True},
    "ttt/PhantomTicTacToe-v0": {**TIC_TAC_TOE, "phantom": "classic"},
}
"""Gymnasium ids and their preset arguments; all other arguments stay open"""

MAX_EPISODE_STEPS = 2_000
"""Registered bound on steps, which some libraries ask for: it cuts no game of any size, whatever
its arguments.
"""


PETTINGZOO_PRESETS = {name.lower(): kwargs for name, kwargs in PRESETS.items()}
"""the same for PettingZoo, in lower case as its ids are"""


def register_all() -> None:
    """Register every preset with both libraries; PettingZoo has no registry before 1.27."""
    for name, kwargs in PRESETS.items():
        gymnasium.register(
            name,
            entry_point="ttt_envs.envs.single_env:SingleEnv",
            vector_entry_point="ttt_envs.envs.vector_env:MNKVectorEnv",
            max_episode_steps=MAX_EPISODE_STEPS,
            kwargs=dict(kwargs),
        )
    gymnasium.register("ttt/Text-v0", entry_point="ttt_envs.text.text_env:TextEnv")
    try:
        from pettingzoo import register
    except ImportError:
        return
    for name, kwargs in PETTINGZOO_PRESETS.items():
        register("aec", name, entry_point="ttt_envs.mnk_v0:env", kwargs=dict(kwargs))


register_all()
