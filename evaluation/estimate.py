"""What exact answers will take, known before any work is done."""

from __future__ import annotations

from ttt_envs.policy import Policy
from ttt_envs.rules import Game


def affordable(game: Game, policy: Policy, seconds: float = 5.0) -> bool:
    """Whether exploitability, regret and an exact result of ``policy`` take no more than ``seconds``, or so."""
    return 3**game.cells <= 3**10
