"""Exact values of positions and actions from any openings, with legal actions or with all.

All models have S positions and A actions, as rows of the arrays of a game
(:func:`ttt_envs.arrays.game_arrays`), and the same methods: :class:`DecisionValues` against a fixed
opponent, :class:`SelfPlayValues` for one policy in the mover's view, and :func:`model_both` for a
policy of each player.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.arrays import RESULTS, GameArrays, against
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Backup = Callable[[Float64Array], Float64Array]
"""Returns the values of positions, float64[S], from those of their actions, float64[S, A]."""


class ActionModel:
    """What actions lead to, and exact values for the player to move.

    Args:
        arrays: the game.
        rows: int64[S], the positions in the arrays of the game.
        outcomes: as the attribute, but negative where the other player is to move next.
        start: float64[S + 3], probability that play begins with the position, or that the game is
            won, drawn or lost before.
        masked: whether only legal actions are allowed; an illegal one ends the game and loses.

    Attributes:
        rows: int64[S], the argument.
        observations: float32[S, 2 * cells], the environments' observation ``"flat"``.
        allowed: bool[S, A], actions from which a policy may choose.
        outcomes: sparse float64[S * A, S + 3], probability of the next position, or that the game
            ends with a win, a draw or a loss of who acts.
        next: sparse float64[S * A, S], that of the next position, negative where the other player
            is to move there.
        rewards: float64[S, A], expected reward before the next position.
        start: float64[S], the argument's part of positions.
    """

    def __init__(
        self,
        arrays: GameArrays,
        rows: Int64Array,
        outcomes: csr_array,
        start: Float64Array,
        masked: bool = True,
    ) -> None:
        self.rows = rows
        self.observations = arrays.observations[rows].astype(np.float32)
        self.allowed: BoolArray = arrays.legal[rows] | (not masked)
        self.outcomes = outcomes.copy()  # abs(outcomes) would sort their columns
        self.outcomes.data = np.abs(outcomes.data)
        self.next = outcomes[:, : len(rows)]
        self.rewards = self.expect_results(RESULTS)
        self.start, ended = np.split(start, [len(rows)])
        self._start_reward = float(ended @ RESULTS)

    def expect_results(self, results: Float64Array) -> Float64Array:
        """Return the expected result after an action, float64[S, A], 0 if the game goes on, of the
        numbers for a win, a draw and a loss.
        """
        ends = self.outcomes[:, len(self.rows) :]
        return np.asarray((ends @ results).reshape(self.allowed.shape))

    def push(self, flow: Float64Array) -> Float64Array:
        """Return the probabilities of next positions, float64[S], from those of actions,
        float64[S, A].
        """
        return np.asarray((flow.ravel() @ self.outcomes)[: len(self.rows)])

    def total(self, values: Float64Array) -> float:
        """Return the value from the beginning, given those of positions, float64[S]."""
        return float(self.start @ values) + self._start_reward

    def value(self, probabilities: Float64Array) -> float:
        """Return the value of a policy, float64[S, A], from the beginning."""
        return self.total(self.policy_values(probabilities)[0])

    def fixed_point(
        self, backup: Backup, rewards: Float64Array | None = None, discount: float = 1.0
    ) -> tuple[Float64Array, Float64Array]:
        """Return the values that no backup changes, float64[S], and those of actions,
        float64[S, A]; exact, because no position comes twice.

        Args:
            backup: from values of actions to those of positions.
            rewards: float64[S, A], by default the model's.
            discount: for each action.
        """
        if rewards is None:
            rewards = self.rewards
        values = np.zeros(len(self.rows))
        while True:
            action_values = rewards + discount * (self.next @ values).reshape(rewards.shape)
            next_values = backup(action_values)
            if np.array_equal(next_values, values, equal_nan=True):
                return values, action_values
            values = next_values

    def best(self, action_values: Float64Array) -> Float64Array:
        """Return the largest value of an allowed action, float64[S]."""
        return np.asarray(np.where(self.allowed, action_values, -np.inf).max(axis=1))

    def optimum(self) -> tuple[Float64Array, Float64Array]:
        """Return the optimal values, float64[S], and those of actions, float64[S, A]."""
        return self.fixed_point(self.best)

    def policy_values(
        self,
        probabilities: Float64Array,
        rewards: Float64Array | None = None,
        discount: float = 1.0,
    ) -> tuple[Float64Array, Float64Array]:
        """Return the values of positions under a policy, float64[S], and those of actions,
        float64[S, A]; rewards and discount are as of :meth:`fixed_point`.
        """

        def backup(action_values: Float64Array) -> Float64Array:
            return np.asarray((probabilities * action_values).sum(axis=1))

        return self.fixed_point(backup, rewards, discount)

    def visits(self, probabilities: Float64Array) -> Float64Array:
        """Return the expected number of visits in a game under a policy, float64[S]."""
        chance = self.start
        total = np.zeros(len(chance))
        while chance.any():
            total += chance
            chance = self.push(chance[:, None] * probabilities)
        return total


class DecisionValues(ActionModel):
    """Values against a fixed opponent, which is a part of the environment.

    Args:
        arrays: the game.
        opponent, seat, starts: as of :func:`ttt_envs.arrays.against`.
        masked: whether only legal actions are allowed; an illegal one ends the game and loses.

    Raises:
        ValueError: the opponent is not pure, or ``seat`` is no seat.
    """

    def __init__(
        self,
        arrays: GameArrays,
        opponent: Policy | Float64Array,
        seat: int = 0,
        starts: int = 1,
        masked: bool = True,
    ) -> None:
        from scipy.sparse import vstack

        process = against(arrays, opponent, seat, starts)
        count = len(process.rows)
        columns = np.r_[:count, -3:0]
        moves = vstack([matrix[:count, columns] for matrix in process.transitions], "csr")
        by_position = np.arange(moves.shape[0]).reshape(-1, count).T.ravel()
        super().__init__(
            arrays, process.rows, moves[by_position], process.start[: len(columns)], masked
        )


class SelfPlayValues(ActionModel):
    """Values where one policy moves for both players.

    Args:
        arrays: the game.
        starts: number of first rows with which games begin, equally often.
    """

    def __init__(self, arrays: GameArrays, starts: int = 1) -> None:
        turns = list_turns(arrays)
        start = (np.arange(turns.shape[1]) < starts) / starts
        super().__init__(arrays, np.arange(arrays.over), turns, start)
        self.arrays = arrays
        self.starts = starts

    def value(self, probabilities: Float64Array) -> float:
        """Return minus the exploitability: what best responders in both seats gain on average."""
        gain = 0.0
        for seat in (0, 1):
            responder = DecisionValues(self.arrays, probabilities, seat, self.starts)
            gain += responder.total(responder.optimum()[0])
        return -gain / 2


def model_both(arrays: GameArrays) -> ActionModel:
    """Return the model in which each player has a policy: all positions with the first player to
    move, then all with the second.
    """
    from scipy.sparse import block_array

    turns = list_turns(arrays)
    moves = turns[:, : arrays.over]
    same = moves.maximum(0)
    other = moves.minimum(0)
    ends = turns[:, arrays.over :]
    outcomes = block_array([[same, other, ends], [other, same, ends]]).tocsr()
    rows = np.tile(np.arange(arrays.over), 2)
    return ActionModel(arrays, rows, outcomes, np.eye(1, outcomes.shape[1])[0])


def list_turns(arrays: GameArrays) -> csr_array:
    """Return what actions lead to in the mover's view, sparse float64[S * A, S + 3]: the
    probability of the next position, negative where the other player is to move, and of a win, a
    draw and a loss.
    """
    from scipy.sparse import csr_array

    next_rows = arrays.next[:-1]
    is_end = next_rows == arrays.over
    columns = next_rows + is_end * (1 - arrays.rewards[:-1, :, None])
    turns = [arrays.skip_chance - 1, arrays.skip_chance]
    chances = np.where(is_end, [1.0, 0.0], turns)
    bounds = np.arange(0, columns.size + 1, 2)
    shape = len(bounds) - 1, arrays.over + len(RESULTS)
    outcomes = csr_array((chances.ravel(), columns.ravel(), bounds), shape)
    outcomes.eliminate_zeros()
    return outcomes
