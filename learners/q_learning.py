"""Tabular Q-learning (Watkins, 1989), as in the report on three learners, with its variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from learners.base import Bootstrap, Transition
from learners.config import TransitionLearnerConfig, check_rewards
from learners.limits import Fraction, Range
from learners.tabular import (
    Entries,
    MemoryGiB,
    PositionTable,
    StepSizes,
    TabularLearner,
    best_value,
    final_rewards,
    tabulate_step_sizes,
    update_entries,
    value_at,
)
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, kernel
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.phantom import HIDING, AnyGame, PhantomGame, visible
from ttt_envs.game.symmetry import Symmetries


@dataclass(frozen=True)
class QLearningConfig(TransitionLearnerConfig):
    """Tabular Q-learning: Q(s, a) <- Q(s, a) + alpha (reward + gamma discount max Q(s', .) - Q(s, a))."""

    name: ClassVar[str] = "q-learning"
    batch: ClassVar[int] = 2048
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    self_play: ClassVar[Mapping[str, Any]] = {"bootstrap": "ply", "symmetries": "all"}
    self_play_games: ClassVar[int] = 300_000

    step_size: Annotated[float, Range(0, 1, above=True)] = 1.0
    """learning rate alpha of the first update of an entry, above 0 and at most 1"""
    step_size_power: Fraction = 0.7
    """the learning rate of the n-th update of an entry is step_size / n ** step_size_power; 0 keeps it constant"""
    gamma: Fraction = 1.0
    """discount factor per turn, 0 to 1"""
    epsilon: Fraction = 0.3
    """probability of a random move during training, 0 to 1"""
    epsilon_decay: Fraction = 0.0
    """epsilon is multiplied by 1 - epsilon_decay after each random move, 0 to 1"""
    bootstrap: Bootstrap = "own-turn"
    """own-turn: bootstrap from the own next turn, and learn the best response to the opponent met; ply: in self-play,
    bootstrap from the next ply, and learn minimax values"""
    target: Literal["max", "chosen"] = "max"
    """value of the next turn: max over its moves (Q-learning), or that of the move played (SARSA), exploration
    included"""
    values: Literal["action", "afterstate"] = "action"
    """entries of the table: action values, or afterstate values, which several actions share"""
    rewards: Literal["unit", "report"] = "unit"
    """win, draw, loss: unit is 1, 0, -1; report is 1, 0.5, 0. Entries never updated have the value of a draw"""
    symmetries: Symmetries = "none"
    """repeat every update on the rotations, or all symmetries, of the position"""
    memory: MemoryGiB = 2.0
    """maximum size of the table in GiB"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rewards(self.rewards, self.bootstrap)

    def build(self, game: AnyGame, rng: np.random.Generator) -> QLearning:
        """Return an untrained learner; ``rng`` is unused.

        Raises:
            ValueError: values of positions after moves, in a phantom game, where a move may fail.
        """
        if isinstance(game, PhantomGame) and self.values == "afterstate":
            raise ValueError(f"values='afterstate' needs to know what a move does, not so in {game}: choose 'action'")
        return QLearning(self, game)


class QLearning(TabularLearner):
    """The learner of :class:`QLearningConfig`."""

    def __init__(self, config: QLearningConfig, game: AnyGame) -> None:
        table = PositionTable(
            game,
            int(config.memory * 2**30),
            afterstates=config.values == "afterstate",
            initial=0.5 if config.rewards == "report" else 0.0,
        )
        super().__init__(config.name, game, table, config.epsilon, config.epsilon_decay, config.symmetries)
        self.config = config
        self._steps = tabulate_step_sizes(config.step_size, config.step_size_power)
        self.bootstrap = config.bootstrap
        self.wants_next_action = config.target == "chosen"

    def observe(self, transition: Transition) -> dict[str, float]:
        """Update one entry per game in order, or one for each of its symmetries."""
        entered = transition.boards.own_first()
        if self.table.afterstates:
            entered[np.arange(len(entered)), transition.action] = 1
        after = transition.next_boards.own_first()
        batch = (
            self._symmetric_rows(entered),
            transition.action,
            final_rewards(transition.reward, transition.discount == 0, self.config.rewards),
            transition.discount * self.config.gamma,
            after,
            self.table.move_rows(after),
            transition.next_action,
        )
        error = _update(batch, self._inverses, self._steps, visible(self.game).parameters, self.table.entries)
        return {"td_error": error, "epsilon": float(self.epsilon[0]), "positions": float(self.table.size)}


_Batch = tuple[Int64Array, Int64Array, Float64Array, Float64Array, Int8Array, Int64Array, Int64Array]
"""Transitions in the order of their updates: rows int64[B, images] in the table, actions, rewards, discounts, next
boards int8[B, cells] with own stones first, their rows (:meth:`PositionTable.move_rows`), and next actions."""


@kernel
def _update(batch: _Batch, inverses: Int64Array, steps: StepSizes, parameters: Parameters, entries: Entries) -> float:
    """Update from each transition, in order. Returns the mean absolute TD error."""
    total = 0.0
    rows, actions, rewards, discounts, after, after_rows, next_actions = batch
    values = entries[0]
    for b in range(len(rows)):
        target = rewards[b]
        if discounts[b] != 0:
            if next_actions[b] >= 0:
                ahead = value_at(values, after_rows[b], next_actions[b])
            else:
                ahead = best_value(after[b], values, after_rows[b], parameters)[0]
            target += discounts[b] * ahead
        total += abs(update_entries(target, rows[b], inverses, actions[b], steps, entries))
    return total / len(rows) if len(rows) else 0.0
