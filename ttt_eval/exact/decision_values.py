"""Exact values of positions and actions from any openings, with legal actions or with all.

Both classes have S positions and A actions, as rows of the arrays of a game
(:func:`ttt_envs.arrays.game_arrays`), and the same methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.arrays import RESULTS, GameArrays, against
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array

Backup = Callable[[Float64Array], Float64Array]
"""Returns the values of positions, float64[S], from those of their actions, float64[S, A]."""


class ActionModel(ABC):
    """What actions lead to, and exact values for the player to move.

    Attributes:
        rows: int64[S], the positions in the arrays of the game.
        observations: float32[S, 2 * cells], the environments' observation ``"flat"``.
        allowed: bool[S, A], actions from which a policy may choose.
        rewards: float64[S, A], expected reward before the next position.
        start: float64[S], probability that play begins with the position.
    """

    start: Float64Array

    def __init__(
        self, arrays: GameArrays, rows: Int64Array, rewards: Float64Array, masked: bool
    ) -> None:
        self.rows = rows
        self.observations = arrays.observations[rows].astype(np.float32)
        self.allowed: BoolArray = arrays.legal[rows] | (not masked)
        self.rewards = rewards

    @abstractmethod
    def expect(self, values: Float64Array) -> Float64Array:
        """Return the expected value after an action, float64[S, A]: that of the next position, seen
        by who acts, 0 after the end.
        """

    @abstractmethod
    def push(self, flow: Float64Array) -> Float64Array:
        """Return the probabilities of next positions, float64[S], from those of actions,
        float64[S, A].
        """

    @abstractmethod
    def value(self, probabilities: Float64Array) -> float:
        """Return the value of a policy, float64[S, A], from the beginning."""

    def fixed_point(
        self, backup: Backup, reward_scale: float = 1.0, discount: float = 1.0
    ) -> tuple[Float64Array, Float64Array]:
        """Return the values that no backup changes, float64[S], and those of actions,
        float64[S, A]; exact, because no position comes twice.
        """
        values = np.zeros(len(self.rows))
        while True:
            action_values = reward_scale * self.rewards + discount * self.expect(values)
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

    def policy_values(self, probabilities: Float64Array) -> Float64Array:
        """Return the values of positions under a policy, float64[S]."""
        return self.fixed_point(lambda values: (probabilities * values).sum(axis=1))[0]

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
        super().__init__(arrays, process.rows, process.rewards[:count], masked)
        self.start, ended, _ = np.split(process.start, [count, count + len(RESULTS)])
        self._start_reward = float(ended @ RESULTS)  # games that end before the first decision
        self._matrix = vstack([matrix[:count, :count] for matrix in process.transitions], "csr")

    def expect(self, values: Float64Array) -> Float64Array:
        """Return the expected value of the player's next position."""
        return np.asarray((self._matrix @ values).reshape(self.rewards.shape[::-1]).T)

    def push(self, flow: Float64Array) -> Float64Array:
        """Return the probabilities of the player's next positions."""
        return np.asarray(flow.T.ravel() @ self._matrix)

    def value(self, probabilities: Float64Array) -> float:
        """Return the expected result."""
        return self.total(self.policy_values(probabilities))

    def total(self, values: Float64Array) -> float:
        """Return the value from the beginning, given those of positions, float64[S]."""
        return float(self.start @ values) + self._start_reward


class SelfPlayValues(ActionModel):
    """Values where one policy moves for both players.

    Args:
        arrays: the game.
        starts: number of first rows with which games begin, equally often.
    """

    def __init__(self, arrays: GameArrays, starts: int = 1) -> None:
        rows = np.arange(arrays.over)
        super().__init__(arrays, rows, arrays.rewards[:-1].astype(float), masked=True)
        self.arrays = arrays
        self.starts = starts
        self.start = (rows < starts) / starts
        self._next = np.moveaxis(arrays.next[:-1], 2, 0)
        self._chances = np.array([1 - arrays.skip_chance, arrays.skip_chance])

    def expect(self, values: Float64Array) -> Float64Array:
        """Return the expected value of the next position, for who acts."""
        other, again = self._chances[:, None, None] * np.append(values, 0.0)[self._next]
        return np.asarray(again - other)

    def push(self, flow: Float64Array) -> Float64Array:
        """Return the probabilities of the next positions, whoever moves there."""
        weights = self._chances[:, None, None] * flow
        size = self.arrays.over + 1
        return np.asarray(np.bincount(self._next.ravel(), weights.ravel(), size)[:-1])

    def value(self, probabilities: Float64Array) -> float:
        """Return minus the exploitability: what best responders in both seats gain on average."""
        responders = [
            DecisionValues(self.arrays, probabilities, seat, self.starts) for seat in (0, 1)
        ]
        gains = [responder.total(responder.optimum()[0]) for responder in responders]
        return -float(np.mean(gains))
