"""Interfaces of players: policies, spec strings, and adapters for external agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_envs.agents.policy import Evaluator as Evaluator
    from ttt_envs.agents.policy import Forfeit as Forfeit
    from ttt_envs.agents.policy import Player as Player
    from ttt_envs.agents.policy import best_shares as best_shares
    from ttt_envs.agents.policy import sample as sample
    from ttt_envs.agents.specs import Named as Named
    from ttt_envs.agents.wrappers import check_symmetric as check_symmetric

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
