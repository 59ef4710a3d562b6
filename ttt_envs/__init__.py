"""m,n,k tic-tac-toe with skipped turns, small enough to be solved exactly.

Importing this package registers the Gymnasium ids of ``ttt_envs.envs.registration.PRESETS``, such as ``ttt/MNK-v0``,
``ttt/TicTacToe-v0`` and ``ttt/ConnectFour-v0``, and the same in small letters, as ``ttt/mnk-v0``, where PettingZoo has
a registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names
from ttt_envs.envs import registration as registration
from ttt_envs.version import __version__ as __version__

if TYPE_CHECKING:
    from ttt_envs import mnk_v0 as mnk_v0
    from ttt_envs.agents.adapters import as_policy as as_policy
    from ttt_envs.agents.policy import Forfeit as Forfeit
    from ttt_envs.agents.policy import Player as Player
    from ttt_envs.agents.policy import Policy as Policy
    from ttt_envs.agents.policy import act as act
    from ttt_envs.agents.policy import best_shares as best_shares
    from ttt_envs.agents.policy import sample as sample
    from ttt_envs.agents.specs import Named as Named
    from ttt_envs.agents.specs import make_policy as make_policy
    from ttt_envs.agents.wrappers import check_symmetric as check_symmetric
    from ttt_envs.game.boards import Boards as Boards
    from ttt_envs.game.boards import cell_at as cell_at
    from ttt_envs.game.boards import from_text as from_text
    from ttt_envs.game.boards import to_text as to_text
    from ttt_envs.game.game import Game as Game
    from ttt_envs.game.game import Position as Position
    from ttt_envs.game.phantom import PhantomGame as PhantomGame
    from ttt_envs.game.rules import chance_outcomes as chance_outcomes

__ttt_envs__ = True  # marks our package among others of this name: ttt_envs/core/packages.py

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
