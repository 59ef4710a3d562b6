"""The exact probability that a policy without masks makes an illegal move in a game, which ends the game."""

from __future__ import annotations

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.graph.layers import Traversal
from ttt_envs.graph.passes import ILLEGAL, forward
from ttt_eval.exact.dynamic_programming import make_pure


class UniformOverCells(Policy):
    """A uniformly random action among all cells, legal or not."""

    def __str__(self) -> str:
        return "uniform over cells"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]."""
        return np.full(boards.cells.shape, 1.0 / boards.cells.shape[1])


class Unmasked(Policy):
    """A policy before masking: its illegal mass is spread evenly over the occupied cells.

    Which occupied cell is chosen makes no difference, for any of them ends the game.

    Args:
        policy: a policy that reports ``illegal_mass``, such as those of ``as_policy``; any other never moves illegally.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy, self.pure = policy, policy.pure

    def __str__(self) -> str:
        return f"{self.policy} without masks"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells], over all cells."""
        masked = self.policy.probabilities(boards, rng)
        if self.policy.illegal_mass is None:
            return masked
        mass = self.policy.illegal_mass(boards)[:, None]
        occupied = boards.cells != 0
        count = occupied.sum(axis=1, keepdims=True)
        unmasked: Float64Array = masked * (1 - mass) + mass * occupied / np.maximum(count, 1)
        return unmasked


def probability_of_illegal_move(game: Game, policy: Policy, opponent: str | Policy, seat: int) -> float:
    """Return the probability that a game ends by an illegal action of ``policy``.

    Args:
        game: the game.
        policy: a pure policy, whose ``probabilities`` over all cells are those before masking.
        opponent: a spec string or a pure policy, which plays by the rules.
        seat: of the policy: 0 moves first, 1 second.

    Raises:
        ValueError: a policy that is not pure, or probabilities that are negative or do not sum to 1.
    """
    other = make_pure(opponent, game)
    players = (policy, other) if seat == 0 else (other, policy)
    results = np.zeros(4)
    for _ in forward(Traversal(game, players, masked=False), results):
        pass
    return float(results[ILLEGAL])
