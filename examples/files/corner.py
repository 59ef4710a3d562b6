"""An opponent that prefers corners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ttt_envs import Boards, Game, Named
from ttt_envs.core.checks import check_range


@dataclass(frozen=True)
class Corner(Named):
    """Plays at random, but any other cell has only ``weight`` times the probability of a corner."""

    name: ClassVar[str] = "corner"
    pure = True
    variants = ("overlines", "misere", "torus")

    game: Game
    weight: float = 0.01

    def __post_init__(self) -> None:
        check_range("weight", self.weight, 0, 1, above=True)

    def probabilities(
        self, boards: Boards, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """float64[B, cells]."""
        columns = self.game.columns
        weights = np.full(self.game.cells, self.weight)
        weights[[0, columns - 1, -columns, -1]] = 1.0
        legal = np.where(boards.cells == 0, weights, 0.0)
        shares: NDArray[np.float64] = legal / legal.sum(axis=1, keepdims=True)
        return shares
