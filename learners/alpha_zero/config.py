"""The AlphaZero learner as its hyperparameters build and train it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from learners.alpha_zero.learner import AlphaZero
from learners.alpha_zero.settings import AlphaZeroSettings
from learners.alpha_zero.training import SelfPlay
from learners.config import TrainingOptions
from learners.training import make_initial_rng
from ttt_envs.envs.config import SELF
from ttt_envs.game.phantom import AnyGame, visible


@dataclass(frozen=True)
class AlphaZeroConfig(AlphaZeroSettings):
    """AlphaZero with chance nodes: a policy-value net in TensorFlow, trained by its own search in self-play."""

    def build(self, game: AnyGame, rng: np.random.Generator) -> AlphaZero:
        """Return a learner with random weights drawn from ``rng``; playing needs no TensorFlow."""
        self.check_game(game)
        return AlphaZero(self, visible(game), rng)

    def training(self, game: AnyGame, games: int, **options: Unpack[TrainingOptions]) -> SelfPlay:
        """See :meth:`LearnerConfig.training`; the learner plays both seats and ignores ``opponent`` and ``seat``.

        Raises:
            ValueError: numbers out of range, no TensorFlow.
        """
        seed = options["seed"]
        learner = self.build(game, make_initial_rng(seed))
        return SelfPlay(learner, games, batch=options["batch"], seed=seed, cluster=options.get("cluster", ""))

    def check_opponent(self, opponent: str, game: AnyGame) -> None:
        """See :meth:`LearnerConfig.check_opponent`."""
        if opponent != SELF:
            raise ValueError(
                f"{self.name} learns from games against itself, and not against {opponent}: leave opponent= out"
            )
