"""A learner: the cells that ended games best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from learners import Fraction, Learner, LearnerConfig, Transition
from ttt_envs import Boards, Game, PhantomGame, best_shares, sample


@dataclass(frozen=True)
class FavouriteConfig(LearnerConfig):
    """Prefers the cells whose moves ended games with the best mean reward, in any position."""

    name: ClassVar[str] = "favourite"

    epsilon: Fraction = 0.3
    """probability of a random move while learning, 0 to 1"""

    def build(self, game: Game | PhantomGame, rng: np.random.Generator) -> Favourite:
        """Return an untrained learner."""
        return Favourite(self, game)


class Favourite(Learner):
    """The learner of :class:`FavouriteConfig`: sums of rewards and counts, float64[cells] each."""

    name = FavouriteConfig.name
    stored = ("rewards", "counts")

    def __init__(self, config: FavouriteConfig, game: Game | PhantomGame) -> None:
        self.config = config
        self.game = game
        self.rewards = np.zeros(game.cells)
        self.counts = np.zeros(game.cells)

    def probabilities(
        self, boards: Boards, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """float64[B, cells]: equal shares for the legal cells of highest mean reward."""
        means = self.rewards / np.maximum(self.counts, 1.0)
        return best_shares(np.where(boards.cells == 0, means, np.nan))

    def explore(self, boards: Boards, rng: np.random.Generator) -> NDArray[np.int64]:
        """int64[B]: the same, but with probability epsilon any legal move."""
        empty = (boards.cells == 0).astype(np.float64)
        anywhere = empty / empty.sum(axis=1, keepdims=True)
        mixed = (1 - self.config.epsilon) * self.probabilities(
            boards
        ) + self.config.epsilon * anywhere
        return sample(mixed, rng.random(len(boards.mover)))

    def update(self, transition: Transition) -> dict[str, float]:
        """Add the rewards of the moves that ended games."""
        over = transition.discount == 0
        np.add.at(self.rewards, transition.action[over], transition.reward[over])
        np.add.at(self.counts, transition.action[over], 1.0)
        return {"ends": float(self.counts.sum())}
