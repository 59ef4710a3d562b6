"""The simplest opponents: random moves, and one-ply wins and blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ttt_envs.agents.policy import Uniforms
from ttt_envs.agents.specs import Named
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, compiled, compiled_allocating, inlined, int8, int64
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, count_bits, nth_bit, to_bits
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.lines import completing_bits
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import completing_cells, is_legal, legal_bits, nth_empty_cell, nth_legal_cell


@dataclass(frozen=True)
class Random(Named):
    """Plays every legal move with equal probability."""

    name: ClassVar[str] = "random"
    pure: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    colour_blind: ClassVar[bool] = True
    plays_uniformly: ClassVar[bool] = True
    quick: ClassVar[bool] = True

    game: Game

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]."""
        legal = boards.legal(self.game)
        shares: Float64Array = legal / legal.sum(axis=1, keepdims=True)
        return shares

    def act(self, boards: Boards, rng: Uniforms) -> Int64Array:
        """Return int64[B]."""
        out = np.empty(len(boards.mover), np.int64)
        _random_moves(np.ascontiguousarray(boards.cells), rng.random(len(out)), self.game.parameters, out)
        return out


@compiled
def _random_moves(cells: Int8Array, u: Float64Array, parameters: Parameters, out: Int64Array) -> None:
    for b in range(len(out)):
        out[b] = nth_legal_cell(cells[b], u[b], parameters)


@dataclass(frozen=True)
class WinOrBlock(Named):
    """Wins if one stone wins, else blocks if one stone of the opponent would win, else moves at random.

    Several winning or blocking cells are equally likely. In misère, where no stone wins, it avoids the cells that
    complete a line of its own, if it can.
    """

    name: ClassVar[str] = "win-or-block"
    pure: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    colour_blind: ClassVar[bool] = True

    game: Game

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]."""
        chosen = self._candidates(boards) == 0
        shares: Float64Array = chosen / chosen.sum(axis=1, keepdims=True)
        return shares

    def act(self, boards: Boards, rng: Uniforms) -> Int64Array:
        """Return int64[B]."""
        out = np.empty(len(boards.mover), np.int64)
        cells = np.ascontiguousarray(boards.cells)
        _win_or_block(cells, boards.mover, rng.random(len(out)), self.game.parameters, out)
        return out

    def _candidates(self, boards: Boards) -> Int8Array:
        """Return int8[B, rows * columns]: 0 for candidate moves."""
        out = np.empty(boards.cells.shape, np.int8)
        _closed_cells(np.ascontiguousarray(boards.cells), boards.mover, self.game.parameters, out)
        return out


@inlined
def _close(board: Int8Array, mover: int, parameters: Parameters, wins: Int8Array, closed: Int8Array) -> None:
    """Mark all other cells than candidates with 1 in ``closed`` int8[rows * columns]; ``wins`` is scratch."""
    size = len(board)
    found = 0
    if line_sign(parameters) < 0:
        completing_cells(board, mover, parameters, wins)
        for cell in range(size):
            wins[cell] = is_legal(board, cell, parameters) and wins[cell] == 0
            found += wins[cell]
    for turn in range(2 if line_sign(parameters) > 0 else 0):
        if found == 0:
            completing_cells(board, mover ^ turn, parameters, wins)
            for cell in range(size):
                found += wins[cell]
    for cell in range(size):
        closed[cell] = wins[cell] == 0 if found > 0 else not is_legal(board, cell, parameters)


@inlined
def _candidate_bits(board: Int8Array, mover: int, parameters: Parameters) -> int:
    """Return the candidate moves as bits, on a board up to ``MAX_CELLS_IN_BITS`` cells."""
    own, other = to_bits(board, int8(mover + 1)), to_bits(board, int8(2 - mover))
    legal = legal_bits(own, other, parameters)
    if line_sign(parameters) < 0:
        safe = legal & ~completing_bits(own, parameters)
        return safe if safe != 0 else legal
    wins, blocks = completing_bits(own, parameters) & legal, completing_bits(other, parameters) & legal
    forced = wins if wins != 0 else blocks
    return forced if forced != 0 else legal


@compiled_allocating
def _closed_cells(cells: Int8Array, mover: Int8Array, parameters: Parameters, out: Int8Array) -> None:
    """Mark all other cells than candidates with 1 in ``out`` int8[B, rows * columns]."""
    count, size = cells.shape
    wins = np.empty(size, np.int8)
    for b in range(count):
        if size <= MAX_CELLS_IN_BITS:
            bits = _candidate_bits(cells[b], int64(mover[b]), parameters)
            for cell in range(size):
                out[b, cell] = ~bits >> cell & 1
        else:
            _close(cells[b], int64(mover[b]), parameters, wins, out[b])


@compiled_allocating
def _win_or_block(cells: Int8Array, mover: Int8Array, u: Float64Array, parameters: Parameters, out: Int64Array) -> None:
    """Sample moves int64[B] with uniform numbers."""
    count, size = cells.shape
    wins, closed = np.empty(size, np.int8), np.empty(size, np.int8)
    for b in range(count):
        if size <= MAX_CELLS_IN_BITS:
            bits = _candidate_bits(cells[b], int64(mover[b]), parameters)
            out[b] = nth_bit(bits, int(u[b] * count_bits(bits)))
        else:
            _close(cells[b], int64(mover[b]), parameters, wins, closed)
            out[b] = nth_empty_cell(closed, u[b])
