"""The trained net at play: by its policy head alone, or guiding a search with both heads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baselines.mcts import forced_moves_of_rows
from learners.alpha_zero.inference import NetEvaluator
from learners.alpha_zero.settings import AlphaZeroSettings
from learners.base import Arrays, Checkpointable, check_shapes
from learners.mlp import Packed, glorot, layer_shapes
from ttt_envs.agents.policy import best_shares
from ttt_envs.core.jit import Float32Array, Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game


class AlphaZero(Checkpointable):
    """The learner of :class:`~learners.alpha_zero.training.AlphaZeroConfig`.

    One net serves both seats: it sees the mover's stones as its own. The input is planes and lines, as
    :func:`~learners.mlp.evaluate_net` describes. Hidden layers end in ReLU. The last layer gives one logit per cell and
    then the value, which passes through tanh.

    Greedy play without a search takes the move with the highest logit, averaged over the training symmetries. With
    ``decisive`` it completes a line where it can, and where no turn can be skipped it blocks an immediate win. The net
    then chooses among such moves.

    ``evaluate`` and ``run_simulations``, which guide searches, do not average; ``values`` and ``action_values`` do.

    Attributes:
        lines: int64[L, win_length]: the lines that are input features, all or none.
        mean: the net averaged over the training symmetries, as in greedy play.
    """

    colour_blind = True
    game: Game
    evaluate: Callable[[Boards], tuple[Float32Array, Float64Array]]
    values: Callable[[Boards], Float64Array]
    action_values: Callable[[Boards], Float64Array]

    def __init__(self, config: AlphaZeroSettings, game: Game, rng: np.random.Generator) -> None:
        self.config, self.game = config, game
        self.symmetric = config.symmetries == "all"
        self.lines: Int64Array = game.line_cells if config.lines else game.line_cells[:0]
        inputs = 3 * game.cells + len(self.lines) * (2 * game.win_length - 1)
        self.weights = glorot(layer_shapes((inputs, *config.layers_for(game), game.cells + 1)), rng)

    @property
    def weights(self) -> dict[str, Float32Array]:
        """The net's arrays by name: replace all of them at once."""
        return self._weights

    @weights.setter
    def weights(self, weights: dict[str, Float32Array]) -> None:
        self._weights, arrays = weights, list(weights.values())
        net = Packed.from_layers(list(zip(arrays[::2], arrays[1::2], strict=True)), self.lines)
        self._own, self.mean = (NetEvaluator(self.game, net, which) for which in ("none", self.config.symmetries))
        self.evaluate, self.run_simulations = self._own.evaluate, self._own.run_simulations
        self.values, self.action_values = self.mean.values, self.mean.action_values

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves with the highest logit."""
        playable = boards.legal(self.game)
        if self.config.decisive:
            pressing = np.zeros(boards.cells.shape, np.int8)
            forced_moves_of_rows(boards.cells, boards.mover, self.game.parameters, pressing)
            playable &= (pressing == 1) | ~pressing.any(axis=1, keepdims=True)
        return best_shares(np.where(playable, self.mean.means(boards)[0], np.nan))

    @property
    def state(self) -> Arrays:
        """Return the weights."""
        return {name: array.copy() for name, array in self.weights.items()}

    @state.setter
    def state(self, arrays: Arrays) -> None:
        check_shapes(self.weights, arrays, self.config.name)
        self.weights = {name: arrays[name] for name in self.weights}

    def __str__(self) -> str:
        return self.config.name
