"""The simplest opponents: random moves, and one-ply wins and blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ttt_envs.agents.policy import ALL_VARIANTS, normalise
from ttt_envs.agents.specs import Named
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, int64, kernel
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, bits_by_player, count_bits, nth_bit
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.lines import completing_bits
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import completing_cells, legal_bits, nth_legal_cell


@dataclass(frozen=True)
class Random(Named):
    """Plays every legal move with equal probability."""

    name: ClassVar[str] = "random"
    symmetric = colour_blind = quick = plays_hidden = True
    variants = ALL_VARIANTS

    game: Game

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]."""
        return normalise(boards.legal(self.game))

    def act(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return int64[B]."""
        out = np.empty(len(boards.mover), np.int64)
        cells = boards.carrays().cells
        _random_moves(cells, rng.random(len(out)), self.game.parameters, out)
        return out


@kernel
def _random_moves(
    cells: Int8Array, u: Float64Array, parameters: Parameters, out: Int64Array
) -> None:
    for b in range(len(out)):
        out[b] = nth_legal_cell(cells[b], u[b], parameters)


@dataclass(frozen=True)
class WinOrBlock(Named):
    """Wins if one stone wins, else blocks if one stone of the opponent would win, else moves at
    random.

    Several winning or blocking cells are equally likely. In misère, where no stone wins, it avoids
    the cells that complete a line of its own, if it can.
    """

    name: ClassVar[str] = "win-or-block"
    symmetric = colour_blind = plays_hidden = True
    variants = ALL_VARIANTS

    game: Game

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]."""
        lines = np.empty((2, *boards.cells.shape), np.int8)
        _mark_completing(*boards.carrays(), self.game.parameters, lines)
        candidates = legal = boards.legal(self.game)
        own, other = lines != 0
        for cells in (legal & ~own,) if self.game.misere else (other, own):
            candidates = np.where(cells.any(axis=1, keepdims=True), cells, candidates)
        return normalise(candidates)

    def act(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return int64[B]."""
        if self.game.cells > MAX_CELLS_IN_BITS:
            return super().act(boards, rng)
        out = np.empty(len(boards.mover), np.int64)
        _win_or_block(*boards.carrays(), rng.random(len(out)), self.game.parameters, out)
        return out


@kernel
def _mark_completing(
    cells: Int8Array, mover: Int8Array, parameters: Parameters, out: Int8Array
) -> None:
    """Write to ``out`` int8[2, B, rows * columns] which moves complete a line of the mover, and of
    the other player.
    """
    for b in range(len(mover)):
        for turn in range(2):
            completing_cells(cells[b], int64(mover[b]) ^ turn, parameters, out[turn, b])


@kernel
def _win_or_block(
    cells: Int8Array, mover: Int8Array, u: Float64Array, parameters: Parameters, out: Int64Array
) -> None:
    """Sample moves int64[B] with uniform numbers, on a board up to ``MAX_CELLS_IN_BITS`` cells."""
    for b in range(len(out)):
        own, other = bits_by_player(cells[b], int64(mover[b]))
        legal = legal_bits(own, other, parameters)
        lines = completing_bits(own, parameters) & legal
        if line_sign(parameters) < 0:
            lines = legal & ~lines
        elif lines == 0:
            lines = completing_bits(other, parameters) & legal
        candidates = lines if lines != 0 else legal
        out[b] = nth_bit(candidates, int(u[b] * count_bits(candidates)), cells.shape[1])
