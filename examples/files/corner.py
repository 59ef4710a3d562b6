"""An opponent: corners first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ttt_envs import Boards, Game, Named


@dataclass(frozen=True)
class Corner(Named):
    """Takes an empty corner with probability ``firmly``, otherwise moves at random."""

    name: ClassVar[str] = "corner"
    pure = True
    variants = ("overlines", "misere", "torus")

    game: Game
    firmly: float = 1.0

    def probabilities(
        self, boards: Boards, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """float64[B, cells]."""
        empty = (boards.cells == 0).astype(np.float64)
        last_row = self.game.cells - self.game.columns
        last = self.game.cells - 1
        corners = np.zeros_like(empty)
        corners[:, [0, self.game.columns - 1, last_row, last]] = 1.0
        corners *= empty
        free = corners.sum(axis=1, keepdims=True)
        chosen = corners / np.maximum(free, 1.0)
        weight = np.where(free > 0, self.firmly, 0.0)
        anywhere = empty / empty.sum(axis=1, keepdims=True)
        shares: NDArray[np.float64] = weight * chosen + (1 - weight) * anywhere
        return shares
