"""Monte Carlo control by mean final rewards: the first and simplest algorithm of the report on
three learners.

The update rule is :func:`mc_update`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from learners.base import Arrays, Limits, Transition
from learners.config import Fraction
from learners.q_table import (
    Memory,
    TabularConfig,
    TabularLearner,
    learn,
    learning_rates,
    set_key,
)
from ttt_envs.core.hash_index import extend_rows
from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array, int64, kernel
from ttt_envs.game.phantom import AnyGame


@dataclass(frozen=True)
class NaiveMCConfig(TabularConfig):
    """Monte Carlo control with a table: at the end of a game Q(s, a) += (r - Q(s, a)) / n for every
    move of it.
    """

    name: ClassVar[str] = "naive-mc"
    self_play: ClassVar[Mapping[str, object]] = {"epsilon_decay": 1e-5, "symmetries": "all"}
    report: ClassVar[Mapping[str, object]] = {"batch": 1}

    epsilon: Fraction = 1.0
    """initial probability of a random move, 0 to 1"""
    epsilon_decay: Fraction = 1e-4
    """epsilon is multiplied by 1 - epsilon_decay after each random move, 0 to 1"""
    rewards: Literal["unit", "report"] = "report"
    """win, draw, loss: report is 1, 0.5, 0; unit is 1, 0, -1. A move never made has the value of a
    draw
    """

    def build(self, game: AnyGame, rng: np.random.Generator) -> NaiveMC:
        """Return an untrained learner; ``rng`` is unused."""
        return NaiveMC(self, game)


class NaiveMC(TabularLearner):
    """The learner of :class:`NaiveMCConfig`; it keeps the moves of each player in each game until
    the game is over.

    Attributes:
        waiting: uint64[games, 2, cells, words]: the keys of the moves of each player.
        lengths: int64[games, 2]: their numbers.
    """

    stored = (*TabularLearner.stored, "waiting", "lengths")
    config: NaiveMCConfig

    def __init__(self, config: NaiveMCConfig, game: AnyGame) -> None:
        super().__init__(config, game)
        self._rates = learning_rates(1.0, 1.0)
        self.waiting = np.zeros((0, 2, game.cells, len(self.table.memory.words)), np.uint64)
        self.lengths = np.zeros((0, 2), np.int64)

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {
            **super().limits(),
            "waiting": (None, None, "games"),
            "lengths": (0, self.game.cells, "games"),
        }

    def from_arrays(self, arrays: Arrays) -> None:
        """See :class:`~learners.base.Stored`.

        Raises:
            ValueError: a key without a move, or a move off the board.
        """
        is_used = np.arange(self.game.cells) < arrays["lengths"][..., None]
        self.table.check_keys(arrays["waiting"][is_used])
        super().from_arrays(arrays)

    def update(self, transition: Transition) -> dict[str, float]:
        """Remember the moves, and learn from those of the players whose game is over, in order."""
        batch = transition.own_first(self.config.rewards)
        num_over = int((transition.discount == 0).sum())
        games = int(batch.game.max(initial=-1)) + 1
        if games > len(self.lengths):
            self.waiting = extend_rows(self.waiting, games)
            self.lengths = extend_rows(self.lengths, games)
        self.table.reserve(num_over * self.game.cells)
        error = mc_update(batch, self.waiting, self.lengths, self._rates, self.table.memory)
        errors = {"error": error} if num_over else {}
        return {**errors, "epsilon": float(self.epsilon[0]), "entries": float(self.table.size)}


@kernel
def mc_update(
    batch: Transition, waiting: UInt64Array, lengths: Int64Array, rates: Float64Array, table: Memory
) -> float:
    """Q(s, a) += 1 / n * (final reward - Q(s, a)) for all moves of a player whose game is over.

    ``waiting`` uint64[games, 2, cells, words] has the keys of the moves of each player, ``lengths``
    int64[games, 2] their numbers. Return the mean absolute difference before.
    """
    total = 0.0
    count = 0
    for b in range(len(batch.action)):
        game = batch.game[b]
        mover = int64(batch.boards.mover[b])
        obs = batch.boards.cells[b]
        action = batch.action[b]
        length = lengths[game, mover]
        if length == len(obs):  # the row is full of moves of games that were never finished
            length = 0
        set_key(obs, action, table)
        for w in range(len(table.words)):
            waiting[game, mover, length, w] = table.action_keys[action, w]
        lengths[game, mover] = length + 1
        if batch.discount[b] == 0:
            for ply in range(lengths[game, mover]):
                key = waiting[game, mover, ply]
                total += learn(key, batch.reward[b], rates, 1.0, table)
                count += 1
            lengths[game, mover] = 0
    return total / max(1, count)
