"""Nets of Stable-Baselines3 at play, from plain arrays: neither it nor torch is needed."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import Arrays
from learners.dense import Activation, Dense, forward
from ttt_envs.agents.policy import Policy, best_shares
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame


def flat(boards: Boards) -> Int8Array:
    """Return int8[B, 2 * cells]: the observation of ``observation="flat"``, own stones first."""
    seen = boards.own_first()
    return np.concatenate((seen == 1, seen == 2), axis=1).astype(np.int8)


def choose(scores: Float64Array, legal: BoolArray, stochastic: bool) -> Float64Array:
    """Return the probabilities float64[B, cells] of legal moves.

    Args:
        scores: float64[B, cells], action values or logits.
        legal: bool[B, cells], the legal actions.
        stochastic: whether scores are logits of a distribution; else the moves of highest score share equally.
    """
    if not stochastic:
        return best_shares(np.where(legal, scores, np.nan))
    scores = np.where(legal, scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


class LinearLayer(NamedTuple):
    """Name in a ``state_dict`` and size of a linear layer."""

    name: str
    inputs: int
    outputs: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its two arrays."""
        return {f"{self.name}.weight": (self.outputs, self.inputs), f"{self.name}.bias": (self.outputs,)}


class SB3Net(Policy):
    """A snapshot of a Stable-Baselines3 net at play.

    It is computed in float64, so that a position's probabilities do not depend on the rest of its batch.
    """

    colour_blind = True

    def __init__(
        self, game: AnyGame, layers: list[LinearLayer], arrays: Arrays, activation: Activation, stochastic: bool
    ) -> None:
        self.game = game
        self.stochastic = stochastic
        self._layers = _dense(layers, arrays, activation)

    def scores(self, boards: Boards) -> Float64Array:
        """Return the last layer's outputs float64[B, cells], illegal actions included; with gravity a cell has that of
        its column.
        """
        outputs = forward(flat(boards), self._layers)
        return np.tile(outputs, (1, self.game.rows)) if self.game.gravity else outputs

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the legal moves of highest score, or the masked distribution."""
        return choose(self.scores(boards), boards.legal(self.game), self.stochastic)


class SB3QNet(SB3Net):
    """A net whose scores are action values."""

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal."""
        return np.where(boards.legal(self.game), self.scores(boards), np.nan)

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B]: the value of the best legal move from the mover's view."""
        return np.asarray(np.where(boards.legal(self.game), self.scores(boards), -np.inf).max(axis=1))


class SB3ActorCritic(SB3Net):
    """A net with the critic that was trained beside it."""

    def __init__(
        self,
        game: AnyGame,
        layers: tuple[list[LinearLayer], list[LinearLayer]],
        arrays: Arrays,
        activation: Activation,
        stochastic: bool,
    ) -> None:
        super().__init__(game, layers[0], arrays, activation, stochastic)
        self.actor = self if stochastic else SB3Net(game, layers[0], arrays, activation, stochastic=True)
        self._critic = _dense(layers[1], arrays, activation)

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B]: the critic's values of ``actor`` from the mover's view."""
        return forward(flat(boards), self._critic)[:, 0]


def _dense(layers: list[LinearLayer], arrays: Arrays, activation: Activation) -> list[Dense]:
    """Return the layers of a net, the last one linear."""
    return [
        Dense(
            arrays[f"{layer.name}.weight"].T.astype(np.float64),
            arrays[f"{layer.name}.bias"].astype(np.float64),
            "linear" if layer is layers[-1] else activation,
        )
        for layer in layers
    ]


def tower(prefix: str, widths: tuple[int, ...]) -> list[LinearLayer]:
    """Return linear layers with even indices; activations between them have the odd ones."""
    return [LinearLayer(f"{prefix}.{2 * i}", *pair) for i, pair in enumerate(pairwise(widths))]
