"""Nets of Stable-Baselines3 at play, from plain arrays: neither it nor torch is needed."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import Arrays
from learners.dense import Activation, Dense, forward
from ttt_envs.boards import Boards
from ttt_envs.compiling import Cells, Flags, Reals
from ttt_envs.rules import Game


def flat(boards: Boards) -> Cells:
    """int8[B, 2 * cells]: what the environments show with ``observation="flat"``, own stones first."""
    seen = boards.own_first()
    return np.concatenate((seen == 1, seen == 2), axis=1).astype(np.int8)


def choose(scores: Reals, legal: Flags, stochastic: bool) -> Reals:
    """float64[B, cells]: how likely each legal move is.

    Args:
        scores: float64[B, cells], values of actions or logits.
        legal: bool[B, cells], the legal actions.
        stochastic: whether scores are logits to draw from; else moves of the highest score share.
    """
    scores = np.where(legal, scores, -np.inf)
    best = scores.max(axis=1, keepdims=True)
    shares = np.exp(scores - best) if stochastic else (scores == best).astype(np.float64)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


class LinearLayer(NamedTuple):
    """A linear layer by its name in a ``state_dict``, and its size."""

    name: str
    inputs: int
    outputs: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Its two arrays."""
        return {f"{self.name}.weight": (self.outputs, self.inputs), f"{self.name}.bias": (self.outputs,)}


class SB3Net:
    """A net of Stable-Baselines3 at play, as it is at this moment.

    It is computed in float64, so that a position's probabilities do not depend on what else is in its batch.
    """

    pure = True
    colour_blind = True

    def __init__(
        self, game: Game, layers: list[LinearLayer], arrays: Arrays, activation: Activation, stochastic: bool
    ) -> None:
        self.game = game
        self.stochastic = stochastic
        self._layers = [
            Dense(
                arrays[f"{layer.name}.weight"].T.astype(np.float64),
                arrays[f"{layer.name}.bias"].astype(np.float64),
                "linear" if layer is layers[-1] else activation,
            )
            for layer in layers
        ]

    def scores(self, boards: Boards) -> Reals:
        """float64[B, cells]: the last layer, illegal actions included."""
        return forward(flat(boards), self._layers)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, cells]: equal shares for the legal moves of highest score, or the masked distribution."""
        return choose(self.scores(boards), boards.legal(self.game), self.stochastic)


class SB3QNet(SB3Net):
    """A net whose scores are the values of actions."""

    def action_values(self, boards: Boards) -> Reals:
        """float64[B, cells], to the mover, NaN where illegal."""
        return np.where(boards.legal(self.game), self.scores(boards), np.nan)

    def values(self, boards: Boards) -> Reals:
        """float64[B]: of the best legal move, to the mover."""
        return np.asarray(np.where(boards.legal(self.game), self.scores(boards), -np.inf).max(axis=1))


def tower(prefix: str, widths: tuple[int, ...]) -> list[LinearLayer]:
    """Linear layers with activations between them, which take every second number."""
    return [LinearLayer(f"{prefix}.{2 * i}", *pair) for i, pair in enumerate(pairwise(widths))]
