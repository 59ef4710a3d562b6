"""The net at play: by its policy head alone, or guiding a search with both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from baselines.mcts import Forest, Rule, pressing_rows
from learners.alpha_zero.judging import Images, NetJudge
from learners.base import Arrays
from learners.dense import Floats, Packed
from learners.looking_ahead import one_ply_ahead
from learners.tabular import checked
from ttt_envs.boards import Boards
from ttt_envs.compiling import Integers, Reals
from ttt_envs.policy import best_shares
from ttt_envs.rules import Game, windows
from ttt_envs.symmetry import inverse, symmetries

if TYPE_CHECKING:
    from learners.alpha_zero.config import AlphaZeroConfig

LARGEST = float(np.finfo(np.float32).max)


def lines_of(game: Game, config: AlphaZeroConfig) -> Integers:
    """int64[L, win_length]: the lines that the net sees the states of, all or none."""
    lines = windows(game)
    return lines if config.lines else lines[:0]


def shapes_of(game: Game, config: AlphaZeroConfig) -> dict[str, tuple[int, ...]]:
    """The arrays of the net by name: weights [inputs, outputs] and bias [outputs] of each layer.

    The first sees planes and lines, as :func:`~learners.dense.outputs_of` says, the hidden ones end in ReLU, and the
    last gives a logit for each cell and then the value, which goes through tanh.
    """
    inputs = 3 * game.cells + len(lines_of(game, config)) * (2 * game.win_length - 1)
    widths = (inputs, *config.layers_of(game), game.cells + 1)
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(len(widths) - 1):
        shapes[f"{layer}.weights"] = (widths[layer], widths[layer + 1])
        shapes[f"{layer}.bias"] = (widths[layer + 1],)
    return shapes


class AlphaZero:
    """What :class:`AlphaZeroConfig` learns. One net serves both seats: it sees the mover's stones as its own.

    In earnest it plays, without a search, the move that the net thinks likeliest, the mean over the images that it
    learned from. With ``decisive`` it wins with one stone where it can, and where no turn can be skipped it stops a
    stone that wins: the net then chooses among such moves.

    Attributes:
        mean: the net as it judges in earnest, by the mean over the images that it learned from.
    """

    pure: ClassVar[bool] = True
    colour_blind: ClassVar[bool] = True

    def __init__(self, config: AlphaZeroConfig, game: Game, rng: np.random.Generator) -> None:
        self.config = config
        self.game = game
        self.symmetric = config.symmetries == "all"
        self._lines = lines_of(game, config)
        weights: dict[str, Floats] = {}
        for name, shape in shapes_of(game, config).items():
            # Glorot and Bengio, 2010; a bias begins with 0
            limit = math.sqrt(6 / sum(shape)) if len(shape) == 2 else 0.0
            weights[name] = rng.uniform(-limit, limit, shape).astype(np.float32)
        self.weights = weights

    @property
    def weights(self) -> dict[str, Floats]:
        """The arrays of the net by name, which cannot be written to: set all of them."""
        return self._weights

    @weights.setter
    def weights(self, weights: dict[str, Floats]) -> None:
        arrays = list(weights.values())
        for array in arrays:
            array.flags.writeable = False
        self._weights = weights
        net = Packed.of(list(zip(arrays[::2], arrays[1::2], strict=True)), self._lines)
        self._own, self.mean = (
            NetJudge(net, Images(permutations, inverse(permutations)))
            for permutations in (symmetries(self.game, kind) for kind in ("none", self.config.symmetries))
        )

    def judge(self, boards: Boards) -> tuple[Floats, Reals]:
        """What the net says of positions as they stand, of one image each: see :class:`~ttt_envs.policy.Judge`."""
        return self._own.judge(boards)

    def think(self, wanted: Integers, rule: Rule, forest: Forest) -> None:
        """The same of what simulations come to: see :class:`~ttt_envs.policy.Thinker`."""
        self._own.think(wanted, rule, forest)

    def values(self, boards: Boards) -> Reals:
        """float64[B]: what the net says, to the mover."""
        return self.mean.means(boards)[1]

    def action_values(self, boards: Boards) -> Reals:
        """float64[B, cells], to the mover, NaN where illegal: what the net says of the positions one ply ahead."""
        return one_ply_ahead(self.game, boards, self.values)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, cells]: equal shares for the likeliest moves."""
        playable = boards.legal(self.game)
        if self.config.decisive:
            pressing = np.zeros(boards.cells.shape, np.int8)
            pressing_rows(boards.cells, boards.mover, self.game.parameters, pressing)
            playable &= (pressing == 1) | ~pressing.any(axis=1, keepdims=True)
        return best_shares(np.where(playable, self.mean.means(boards)[0], np.nan))

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The weights."""
        return {name: array.copy() for name, array in self.weights.items()}

    def from_arrays(self, arrays: Arrays) -> None:
        """Take back what :meth:`to_arrays` gave.

        Raises:
            ValueError: arrays of another learner, game or settings, or damaged ones.
        """
        shapes = shapes_of(self.game, self.config)
        weights = {name: checked(arrays, name, shape, "f4", self.config.name) for name, shape in shapes.items()}
        if name := overflowing(weights):
            raise ValueError(f"{self.config.name} cannot hold the numbers in {name}, which are damaged")
        self.weights = {name: np.array(array) for name, array in weights.items()}

    def __str__(self) -> str:
        return self.config.name


def overflowing(weights: Arrays) -> str:
    """The first array of a net with which a layer may give more than float32 holds, and so nothing; "" for none."""
    largest = 1.0  # of what a layer may be given
    for name, array in weights.items():
        sizes = np.abs(array.astype(np.float64))
        largest = largest * float(sizes.sum(axis=0).max()) if array.ndim == 2 else largest + float(sizes.max())
        if not largest <= LARGEST:
            return name
    return ""
