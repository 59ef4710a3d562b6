"""The exact probability that a policy without masks makes an illegal move in a game, which ends the game."""

from __future__ import annotations

import numpy as np

from evaluation.exact.dynamic_programming import make_pure
from evaluation.exact.forward_backward import query_policy
from evaluation.exact.policy_evaluation import HasIllegalMass
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards, play_moves, position_keys
from ttt_envs.game.rules import NOT_OVER, Game

TOLERANCE = 1e-6
"""Maximum deviation of a sum of probabilities from 1, as for policies of legal moves."""


class UniformOverCells:
    """A uniformly random action among all cells, legal or not."""

    pure = True

    def __str__(self) -> str:
        return "uniform over cells"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]."""
        return np.full(boards.cells.shape, 1.0 / boards.cells.shape[1])


class Unmasked:
    """A policy before masking: its illegal mass is spread evenly over the occupied cells.

    Which occupied cell is chosen makes no difference, for any of them ends the game.

    Args:
        policy: a policy that reports ``illegal_mass``, such as those of ``as_policy``; any other never moves illegally.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.pure = policy.pure

    def __str__(self) -> str:
        return f"{self.policy} without masks"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells], over all cells."""
        masked = self.policy.probabilities(boards, rng)
        if not isinstance(self.policy, HasIllegalMass):
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
    boards, mass = Boards.start(game), np.ones(1)
    illegal = 0.0
    while len(mass):
        own = boards.mover == seat
        p = np.zeros(boards.cells.shape)
        for rows, player in ((np.flatnonzero(own), policy), (np.flatnonzero(~own), other)):
            if len(rows):
                p[rows] = query_policy(player, boards.take(rows))
        if not ((p >= 0).all() and (np.abs(p.sum(axis=1) - 1) <= TOLERANCE).all()):  # also rejects NaN
            raise ValueError(f"{policy} gave no distribution over cells: probabilities must be 0 or more, and sum to 1")
        p /= p.sum(axis=1, keepdims=True)
        legal = boards.legal(game)
        illegal += float(mass @ (p * ~legal).sum(axis=1))
        boards, mass = _next_positions(game, boards, mass[:, None] * p * legal)
    return illegal


def _next_positions(game: Game, boards: Boards, mass: Float64Array) -> tuple[Boards, Float64Array]:
    """Return the distinct unfinished positions one stone later, and their probabilities.

    ``mass`` float64[B, cells] is the probability of each move.
    """
    rows, cell = np.nonzero(mass)
    mover = boards.mover[rows]
    cells, outcome = play_moves(game, boards, rows, cell)
    unfinished = outcome == NOT_OVER
    parts = [(1, 1 - game.skip_chance), *([(0, game.skip_chance)] if game.skip_chance else [])]
    after = np.concatenate([cells[unfinished]] * len(parts))
    movers = np.concatenate([np.abs(mover[unfinished] - turn) for turn, _ in parts]).astype(np.int8)
    weight = np.concatenate([share * mass[rows, cell][unfinished] for _, share in parts])
    code = position_keys(Boards(after, movers))
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    sums: Float64Array = np.bincount(place.ravel(), weight, minlength=len(first)).astype(np.float64, copy=False)
    return Boards(after[first], movers[first]), sums
