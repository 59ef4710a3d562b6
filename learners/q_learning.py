"""Tabular Q-learning (Watkins, 1989) and Sarsa (Rummery and Niranjan, 1994).

The update rule is :func:`q_update`, for each transition: ``Q(s, a) += alpha * (td_target - Q(s,
a))``, where ``td_target = reward + discount * gamma * max Q(s', .)``, or with Q(s', a') of the move
played in Sarsa. The discount is 0 where the game is over, 1 where s' is the same player's turn, and
-1 where it is the opponent's (``backup``).

Exploration: in training a random legal move has the probability ``epsilon`` (0.3, constant, unless
set), else the move of the highest value is played;
:meth:`learners.base.EpsilonGreedyLearner.explore` does it, and the setting stands in
:class:`learners.q_table.TabularConfig` with those that all tables share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from learners.base import Backup, Transition
from learners.config import Fraction, Rate
from learners.q_table import (
    Memory,
    TabularConfig,
    TabularLearner,
    learn,
    learning_rates,
    max_value,
    set_key,
    value_of,
)
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array, kernel
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.phantom import AnyGame, PhantomGame


@dataclass(frozen=True)
class QLearningConfig(TabularConfig):
    """Tabular Q-learning: Q(s, a) += alpha (reward + gamma discount max Q(s', .) - Q(s, a))."""

    name: ClassVar[str] = "q-learning"
    self_play: ClassVar[Mapping[str, object]] = {"backup": "negamax", "symmetries": "all"}
    report: ClassVar[Mapping[str, object]] = {
        "batch": 1, "step_size": 1.0, "step_size_power": 0.0, "gamma": 1.0, "epsilon": 1.0,
        "epsilon_decay": 1e-4,
        "rewards": "report", "values": "afterstate", "target": "sarsa",
    }  # fmt: skip

    step_size: Rate = 1.0
    """learning rate alpha of the first update of an entry, above 0 and at most 1"""
    step_size_power: Fraction = 0.7
    """the learning rate of the n-th update of an entry is step_size / n ** step_size_power; 0 keeps
    it constant
    """
    gamma: Fraction = 1.0
    """discount factor per turn, 0 to 1"""
    backup: Backup = "agent"
    """agent: s' is the own next turn, to learn the best response to the opponent; negamax: in
    self-play, s' is the next ply, to learn minimax values"""
    target: Literal["max", "sarsa"] = "max"
    """value of s': max over its moves (Q-learning), or that of the move played (Sarsa), exploration
    included
    """
    values: Literal["action", "afterstate"] = "action"
    """entries of the table: action values, or afterstate values, which several actions share"""

    def build(self, game: AnyGame, rng: np.random.Generator) -> QLearning:
        """Return an untrained learner; ``rng`` is unused.

        Raises:
            ValueError: values of positions after moves, in a phantom game, where a move may fail.
        """
        if isinstance(game, PhantomGame) and self.values == "afterstate":
            raise Refusal(
                f"values='afterstate' needs to know what a move does, not so in {game}: choose "
                "'action'"
            )
        return QLearning(self, game)


class QLearning(TabularLearner):
    """The learner of :class:`QLearningConfig`."""

    config: QLearningConfig

    def __init__(self, config: QLearningConfig, game: AnyGame) -> None:
        super().__init__(config, game, config.backup, afterstates=config.values == "afterstate")
        self.on_policy = config.target == "sarsa"
        self._rates = learning_rates(config.step_size, config.step_size_power)

    def update(self, transition: Transition) -> dict[str, float]:
        """Learn from the transitions, in order."""
        self.table.reserve(len(transition.action))
        config = self.config
        error = q_update(
            transition.own_first(config.rewards),
            config.gamma,
            self._rates,
            config.step_size_power,
            self._parameters,
            self.table.memory,
        )
        return {
            "td_error": error,
            "epsilon": float(self.epsilon[0]),
            "entries": float(self.table.size),
        }


@kernel
def q_update(
    batch: Transition,
    gamma: float,
    rates: Float64Array,
    power: float,
    parameters: Parameters,
    table: Memory,
) -> float:
    """Q(s, a) += alpha * (td_target - Q(s, a)), for each transition in order. Return the mean
    absolute TD error.
    """
    total = 0.0
    for b in range(len(batch.action)):
        obs = batch.boards.cells[b]
        next_obs = batch.next_boards.cells[b]
        next_value = 0.0
        if batch.discount[b] != 0:
            if batch.next_action[b] >= 0:  # Sarsa
                next_value = value_of(next_obs, batch.next_action[b], table)
            else:  # Q-learning
                next_value = max_value(next_obs, parameters, table, table.scratch_q)
        td_target = batch.reward[b] + batch.discount[b] * gamma * next_value

        action = batch.action[b]
        set_key(obs, action, table)
        total += learn(table.action_keys[action], td_target, rates, power, table)
    return total / max(1, len(batch.action))
