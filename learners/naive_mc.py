"""Monte Carlo control by mean final rewards: the first and simplest algorithm of the report on three learners.

The update rule is :func:`mc_update`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from learners.base import Arrays, Transition, final_rewards, get_array
from learners.limits import Fraction
from learners.q_table import Memory, sum_stones, write_key
from learners.tabular import StepSizes, TabularConfig, TabularLearner, learn
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array, int64, kernel
from ttt_envs.game.phantom import AnyGame


@dataclass(frozen=True)
class NaiveMCConfig(TabularConfig):
    """Monte Carlo control with a table: at the end of a game Q(s, a) += (r - Q(s, a)) / n for every move of it."""

    name: ClassVar[str] = "naive-mc"
    self_play: ClassVar[Mapping[str, Any]] = {"epsilon_decay": 1e-5, "symmetries": "all"}
    report: ClassVar[Mapping[str, Any]] = {"batch": 1}

    epsilon: Fraction = 1.0
    """initial probability of a random move, 0 to 1"""
    epsilon_decay: Fraction = 1e-4
    """epsilon is multiplied by 1 - epsilon_decay after each random move, 0 to 1"""
    rewards: Literal["unit", "report"] = "report"
    """win, draw, loss: report is 1, 0.5, 0; unit is 1, 0, -1. A move never made has the value of a draw"""

    def build(self, game: AnyGame, rng: np.random.Generator) -> NaiveMC:
        """Return an untrained learner; ``rng`` is unused."""
        return NaiveMC(self, game)


class NaiveMC(TabularLearner):
    """The learner of :class:`NaiveMCConfig`; it keeps the moves of each player in each game until the game is over."""

    def __init__(self, config: NaiveMCConfig, game: AnyGame) -> None:
        super().__init__(config, game)
        self.steps = StepSizes.of(1.0, 1.0)
        self._waiting = np.zeros((0, 2, game.cells, len(self.table.memory.key)), np.uint64)
        self._lengths = np.zeros((0, 2), np.int64)

    def update(self, transition: Transition) -> dict[str, float]:
        """Remember the moves, and learn from those of the players whose game is over, in order."""
        more = int(transition.game.max(initial=-1)) + 1 - len(self._lengths)
        if more > 0:
            self._waiting = np.pad(self._waiting, ((0, more), (0, 0), (0, 0), (0, 0)))
            self._lengths = np.pad(self._lengths, ((0, more), (0, 0)))
        over = transition.discount == 0
        self.table.reserve(int(over.sum()) * self.game.cells)
        rewards = final_rewards(transition.reward, over, self.rewards)
        moves = transition.game, transition.boards.mover, transition.boards.own_first(), transition.action
        error = mc_update(*moves, over, rewards, self._waiting, self._lengths, self.steps, self.table.memory)
        errors = {"error": error} if over.any() else {}
        return {**errors, "epsilon": float(self.epsilon[0]), "entries": float(self.table.size)}

    @property
    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """The table, epsilon, and the moves of unfinished games."""
        return {**super().state, "waiting": self._waiting.copy(), "lengths": self._lengths.copy()}

    @state.setter
    def state(self, arrays: Arrays) -> None:
        waiting = get_array(arrays, "waiting", (None, *self._waiting.shape[1:]), "u8", self.name)
        lengths = get_array(arrays, "lengths", (len(waiting), 2), "i8", self.name, self.game.cells)
        self._restore(arrays)
        self._waiting, self._lengths = waiting.copy(), lengths.copy()


@kernel
def mc_update(
    games: Int64Array,
    movers: Int8Array,
    seen: Int8Array,
    actions: Int64Array,
    over: BoolArray,
    rewards: Float64Array,
    waiting: UInt64Array,
    lengths: Int64Array,
    steps: StepSizes,
    table: Memory,
) -> float:
    """Q(s, a) += 1 / n * (final reward - Q(s, a)) for all moves of a player whose game is over.

    ``waiting`` uint64[games, 2, cells, words] has the keys of the moves of each player, ``lengths`` int64[games, 2]
    their numbers. Return the mean absolute difference before.
    """
    total, count = 0.0, 0
    for b in range(len(actions)):
        game, mover = games[b], int64(movers[b])
        length = lengths[game, mover] if lengths[game, mover] < seen.shape[1] else 0  # full of games never finished
        sum_stones(seen[b], table)
        write_key(actions[b], table)
        for w in range(len(table.words)):
            waiting[game, mover, length, w] = table.key[w]
        lengths[game, mover] = length + 1
        if over[b]:
            for move in range(lengths[game, mover]):
                total += abs(learn(waiting[game, mover, move], rewards[b], steps, table))
                count += 1
            lengths[game, mover] = 0
    return total / max(1, count)
