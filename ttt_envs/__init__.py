"""m,n,k tic-tac-toe with skipped turns, small enough to be solved exactly.

Importing this package registers the Gymnasium ids of ``ttt_envs.envs.registration.PRESETS``, such as ``ttt/MNK-v0``,
``ttt/TicTacToe-v0`` and ``ttt/ConnectFour-v0``, and the same in small letters, as ``ttt/mnk-v0``, where PettingZoo has
a registry.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ttt_envs.envs import registration as registration
from ttt_envs.version import __version__ as __version__

if TYPE_CHECKING:
    from ttt_envs import mnk_v0 as mnk_v0
    from ttt_envs.agents.adapters import as_policy as as_policy
    from ttt_envs.agents.policy import Policy as Policy
    from ttt_envs.agents.policy import act as act
    from ttt_envs.agents.specs import make_policy as make_policy
    from ttt_envs.game.boards import Boards as Boards
    from ttt_envs.game.boards import from_text as from_text
    from ttt_envs.game.boards import to_text as to_text
    from ttt_envs.game.game import Game as Game
    from ttt_envs.game.game import Position as Position
    from ttt_envs.game.phantom import PhantomGame as PhantomGame
    from ttt_envs.game.rules import chance_outcomes as chance_outcomes

__ttt_envs__ = True  # marks our package among others of this name: ttt_envs/core/packages.py

PLACES = {
    "Boards": "game.boards",
    "Game": "game.game",
    "PhantomGame": "game.phantom",
    "Policy": "agents.policy",
    "Position": "game.game",
    "act": "agents.policy",
    "as_policy": "agents.adapters",
    "chance_outcomes": "game.rules",
    "from_text": "game.boards",
    "make_policy": "agents.specs",
    "to_text": "game.boards",
}
"""public name -> module that defines it; imported on first access, because compiled code takes half a second to import,
which registering the environments or printing help does not need"""

__all__ = sorted([*PLACES, "mnk_v0"])


def __getattr__(name: str) -> Any:
    """Import and return a public name, or ``ttt_envs.mnk_v0``, the PettingZoo environment."""
    if name == "mnk_v0":
        return importlib.import_module("ttt_envs.mnk_v0")
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"ttt_envs.{PLACES[name]}"), name)
    return found


def __dir__() -> list[str]:
    """Return the public names, including those not yet imported."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
