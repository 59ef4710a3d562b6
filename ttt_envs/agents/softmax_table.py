"""Softmax distributions, a policy with one logit for each move of each position, and the index of
its positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ttt_envs.agents.policy import Policy, normalise
from ttt_envs.core.checks import Refusal
from ttt_envs.core.hash_index import KeyIndex
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards, num_words, position_words
from ttt_envs.game.phantom import AnyGame


def softmax(logits: Float64Array) -> Float64Array:
    """Return distributions over moves, float64[B, cells], proportional to exp(logit), of logits
    that are NaN where illegal.
    """
    masked = np.where(np.isnan(logits), -np.inf, logits)
    return normalise(np.exp(masked - masked.max(axis=1, keepdims=True)))


class PositionIndex:
    """Numbers distinct positions, board and mover, in the order given.

    Args:
        game: the game.
        boards: the N positions.

    Raises:
        ValueError: a position occurs twice.
    """

    def __init__(self, game: AnyGame, boards: Boards) -> None:
        self.game = game
        self.boards = boards
        self._index = KeyIndex(num_words(game.cells) + 1)
        self._index.rows(position_words(boards))
        if self._index.size != len(boards.mover):
            raise Refusal(
                f"{len(boards.mover)} positions hold {self._index.size} different ones: give each "
                "once"
            )

    def __len__(self) -> int:
        return self._index.size

    def find(self, boards: Boards) -> Int64Array:
        """Return the numbers int64[B] of positions, -1 for positions that have none."""
        return self._index.find(position_words(boards))


@dataclass(frozen=True)
class SoftmaxTable(Policy):
    """Plays each legal move with a probability proportional to exp(logit); uniformly in positions
    without a row.

    Raises:
        ValueError: logits of another shape, or that are not finite.
    """

    index: PositionIndex
    logits: Float64Array
    """float64[N, cells]; those of illegal moves are ignored"""

    def __post_init__(self) -> None:
        shape = (len(self.index), self.game.cells)
        if self.logits.shape != shape:
            raise Refusal(
                f"logits of shape {self.logits.shape} do not fit {shape[0]} positions: give {shape}"
            )
        if not np.isfinite(self.logits).all():
            raise Refusal("logits must be finite: mask no moves in them, illegal ones are ignored")

    @property
    def game(self) -> AnyGame:
        """The game."""
        return self.index.game

    def __str__(self) -> str:
        return f"softmax-table of {len(self.index)} positions"

    @cached_property
    def _rows(self) -> Float64Array:
        """float64[N + 1, cells]: the logits, and a last row 0, which the number -1 reads."""
        return np.concatenate([self.logits, np.zeros((1, self.game.cells))])

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]."""
        return softmax(
            np.where(boards.legal(self.game), self._rows[self.index.find(boards)], np.nan)
        )
