"""Policies that see hidden stones: cheating references for phantom games."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttt_envs.agents import policy as policies
from ttt_envs.agents.policy import Policy, Uniforms
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import PhantomGame


@dataclass(frozen=True)
class Peeking:
    """A policy of the game with visible stones in a phantom game: it is asked about positions and not about views.

    It sees all stones, and so it never attempts an occupied cell. Environments and exact evaluation hand it the
    position; what it plays is no strategy of the phantom game.
    """

    game: PhantomGame
    policy: Policy
    """of ``game.game``"""

    @property
    def pure(self) -> bool:
        """As of the policy."""
        return self.policy.pure

    def __str__(self) -> str:
        spec = str(self.policy)
        return f"{spec}{',' if ':' in spec else ':'}peeking=true"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells] in positions, with all stones."""
        return self.policy.probabilities(boards, rng)

    def act(self, boards: Boards, rng: Uniforms) -> Int64Array:
        """Return int64[B] in positions, with all stones."""
        return policies.act(self.policy, boards, rng)


def is_peeking(policy: object) -> bool:
    """Return whether a policy must be asked about positions with all stones."""
    return isinstance(policy, Peeking)
