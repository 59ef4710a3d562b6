"""Tabular Q-learning (Watkins, 1989), as in the report on three learners, with its variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from learners.base import Bootstrap, Transition
from learners.table import PositionTable, best_of, greedy, value_at
from ttt_envs.boards import Boards
from ttt_envs.rules import Cells, Game, Integers, Reals, compiled, pick
from ttt_envs.symmetry import Symmetries, inverse, symmetries


@dataclass(frozen=True)
class QLearningConfig:
    """Tabular Q-learning: Q(s, a) <- Q(s, a) + alpha (reward + gamma discount max Q(s', .) - Q(s, a))."""

    name: ClassVar[str] = "q-learning"

    step_size: float = 1.0
    """alpha of the first update of an entry, above 0 and at most 1"""
    step_size_power: float = 0.7
    """alpha of the n-th update of an entry is step_size / n ** step_size_power; 0 keeps it constant"""
    gamma: float = 1.0
    """how much the next turn counts, 0 to 1"""
    epsilon: float = 0.3
    """probability of a random move while learning, 0 to 1"""
    epsilon_step: float = 0.0
    """epsilon is multiplied by 1 - epsilon_step after each random move, 0 to 1"""
    bootstrap: Bootstrap = "own-turn"
    """own-turn: look ahead to the own next turn, and learn the best response to the opponent met; ply: in self-play, to
    the next ply, and learn minimax values"""
    target: Literal["max", "chosen"] = "max"
    """value of the next turn: of its best move, or of the move then played, exploratory ones included"""
    rewards: Literal["unit", "report"] = "unit"
    """win, draw, loss: unit is 1, 0, -1; report is 1, 0.5, 0"""
    symmetries: Symmetries = "none"
    """apply every update also to the images of the position under the rotations, or all symmetries"""
    memory: float = 2.0
    """GiB that the table may take"""

    def __post_init__(self) -> None:
        limits = {
            "step_size": (0 < self.step_size <= 1, "above 0 and at most 1"),
            "step_size_power": (0 <= self.step_size_power <= 1, "0 to 1"),
            "gamma": (0 <= self.gamma <= 1, "0 to 1"),
            "epsilon": (0 <= self.epsilon <= 1, "0 to 1"),
            "epsilon_step": (0 <= self.epsilon_step <= 1, "0 to 1"),
            "memory": (self.memory > 0, "above 0"),
        }
        for name, (holds, admissible) in limits.items():
            if not holds:
                raise ValueError(f"{name}={getattr(self, name)} does not work for q-learning: choose {admissible}")
        if self.rewards == "report" and self.bootstrap == "ply":
            raise ValueError(
                'rewards="report" (1, 0.5, 0) has no opposite for the other player, which bootstrap="ply" needs: '
                'choose rewards="unit" or bootstrap="own-turn"'
            )

    def build(self, game: Game, rng: np.random.Generator) -> QLearning:
        """A learner that knows nothing yet; ``rng`` is not needed."""
        return QLearning(self, game)


class QLearning:
    """The learner of :class:`QLearningConfig`. One table serves both seats: it sees the mover's stones as its own."""

    pure: ClassVar[bool] = True

    def __init__(self, config: QLearningConfig, game: Game) -> None:
        self.config = config
        self.game = game
        self.bootstrap: Bootstrap = config.bootstrap
        self.wants_next_action = config.target == "chosen"
        self.table = PositionTable(game, int(config.memory * 2**30))
        self.epsilon = np.array([config.epsilon])
        self._permutations = symmetries(game, config.symmetries)
        self._inverses = inverse(self._permutations)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, cells]: equal shares for the moves of highest value; all moves where the position is new."""
        seen = boards.own_first()
        out = np.empty(seen.shape)
        greedy(seen, self.table.values, self.table.find(seen), out)
        return out

    def action_values(self, boards: Boards) -> Reals:
        """float64[B, cells], to the mover, NaN where illegal; 0 where nothing was learned."""
        seen = boards.own_first()
        rows = self.table.find(seen)
        values = np.zeros(seen.shape)
        values[rows >= 0] = self.table.values[rows[rows >= 0]]
        return np.where(seen == 0, values, np.nan)

    def values(self, boards: Boards) -> Reals:
        """float64[B], to the mover."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def explore(self, boards: Boards, rng: np.random.Generator) -> Integers:
        """int64[B]: epsilon-greedy."""
        seen = boards.own_first()
        out = np.empty(len(seen), np.int64)
        rows = self.table.find(seen)
        _explore(seen, rows, self.table.values, rng.random((len(seen), 2)), self.epsilon, self.config.epsilon_step, out)
        return out

    def observe(self, transition: Transition) -> dict[str, float]:
        """Update one entry for each game, one after another, or one for each of its images."""
        seen = transition.boards.own_first()
        images = len(self._permutations)
        count, size = seen.shape
        # every image of every board, board by board; the first is the board itself
        rows = self.table.rows(seen[:, self._permutations].reshape(count * images, size)).reshape(count, images)
        after = transition.next_boards.own_first()
        reward = transition.reward
        if self.config.rewards == "report":
            reward = np.where(transition.discount == 0, (reward + 1) / 2, reward)
        error = _update(
            rows,
            self._inverses,
            transition.action,
            reward,
            transition.discount * self.config.gamma,
            after,
            self.table.find(after),
            transition.next_action,
            self.config.step_size,
            self.config.step_size_power,
            self.table.values,
            self.table.counts,
        )
        return {"td_error": error, "epsilon": float(self.epsilon[0]), "positions": float(self.table.size)}

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The table and epsilon."""
        return {**self.table.to_arrays(), "epsilon": self.epsilon}

    def from_arrays(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take back what :meth:`to_arrays` gave.

        Raises:
            ValueError: arrays of another learner or game.
        """
        epsilon = arrays.get("epsilon")
        if epsilon is None or epsilon.shape != (1,) or epsilon.dtype != np.float64:
            raise ValueError("a q-learner's arrays need epsilon as float64[1]: these are another learner's, or damaged")
        self.table.from_arrays(arrays)
        self.epsilon = epsilon.copy()

    def __str__(self) -> str:
        return self.config.name


@compiled
def _explore(
    seen: Cells, rows: Integers, values: Reals, u: Reals, epsilon: Reals, epsilon_step: float, out: Integers
) -> None:
    """Epsilon-greedy moves; ``u`` float64[B, 2] decides whether and which."""
    for b in range(len(out)):
        if u[b, 0] < epsilon[0]:
            out[b] = pick(seen[b], u[b, 1])
            epsilon[0] *= 1.0 - epsilon_step
            continue
        best, ties = best_of(seen[b], values, rows[b])
        skip = int(u[b, 1] * ties)
        for cell in range(seen.shape[1]):
            if seen[b, cell] == 0 and value_at(values, rows[b], cell) == best:
                if skip == 0:
                    out[b] = cell
                    break
                skip -= 1


@compiled
def _update(
    rows: Integers,
    inverses: Integers,
    actions: Integers,
    rewards: Reals,
    discounts: Reals,
    after: Cells,
    after_rows: Integers,
    next_actions: Integers,
    step_size: float,
    power: float,
    values: Reals,
    counts: Integers,
) -> float:
    """The update of each transition, in order, in the rows int64[B, images]. Returns the mean absolute TD error."""
    total = 0.0
    for b in range(len(rows)):
        target = rewards[b]
        if discounts[b] != 0:
            if next_actions[b] >= 0:
                ahead = value_at(values, after_rows[b], next_actions[b])
            else:
                ahead = best_of(after[b], values, after_rows[b])[0]
            target += discounts[b] * ahead
        for image in range(rows.shape[1]):
            row = rows[b, image]
            action = inverses[image, actions[b]]
            again = False  # a position that is its own image must not be updated twice
            for earlier in range(image):
                again = again or (rows[b, earlier] == row and inverses[earlier, actions[b]] == action)
            if again:
                continue
            counts[row, action] += 1
            error = target - values[row, action]
            values[row, action] += step_size * float(counts[row, action]) ** -power * error
            if image == 0:
                total += abs(error)
    return total / max(1, len(rows))
