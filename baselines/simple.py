"""The two plainest opponents: random moves, and one ply of sense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ttt_envs.boards import Boards
from ttt_envs.policy import Named, Uniforms
from ttt_envs.rules import Cells, Game, Integers, Parameters, Reals, compiled, pick, place, wide, win_length_of


@dataclass(frozen=True)
class Random(Named):
    """Every legal move is equally likely."""

    name: ClassVar[str] = "random"
    pure: ClassVar[bool] = True
    plays_uniformly: ClassVar[bool] = True

    game: Game

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns]."""
        empty = boards.cells == 0
        shares: Reals = empty / empty.sum(axis=1, keepdims=True)
        return shares

    def act(self, boards: Boards, rng: Uniforms) -> Integers:
        """int64[B]."""
        out = np.empty(len(boards.mover), np.int64)
        _random_moves(np.ascontiguousarray(boards.cells), rng.random(len(out)), out)
        return out


@compiled
def _random_moves(cells: Cells, u: Reals, out: Integers) -> None:
    for b in range(len(out)):
        out[b] = pick(cells[b], u[b])


@dataclass(frozen=True)
class WinOrBlock(Named):
    """Wins where one stone wins, else blocks where one stone of the opponent would win, else moves at random.

    Where several cells win, or several must be blocked, each is equally likely.
    """

    name: ClassVar[str] = "win-or-block"
    pure: ClassVar[bool] = True

    game: Game

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns]."""
        chosen = self._candidates(boards) == 0
        shares: Reals = chosen / chosen.sum(axis=1, keepdims=True)
        return shares

    def act(self, boards: Boards, rng: Uniforms) -> Integers:
        """int64[B]."""
        out = np.empty(len(boards.mover), np.int64)
        _random_moves(self._candidates(boards), rng.random(len(out)), out)
        return out

    def _candidates(self, boards: Boards) -> Cells:
        """int8[B, rows * columns]: 0 where this policy may move."""
        out = np.empty(boards.cells.shape, np.int8)
        _closed_cells(boards.cells.copy(), boards.mover, self.game.parameters, out)
        return out


@compiled
def _closed_cells(cells: Cells, mover: Cells, parameters: Parameters, out: Cells) -> None:
    """1 in ``out`` for every cell that win-or-block does not consider; ``cells`` is scratch and ends unchanged."""
    size = cells.shape[1]
    for b in range(len(cells)):
        board = cells[b]
        stones = 0
        own = 0
        for cell in range(size):
            stones += board[cell] != 0
            own += board[cell] == mover[b] + 1
            out[b, cell] = board[cell] != 0
        found = False
        for turn in range(2):
            player = wide(mover[b]) if turn == 0 else 1 - wide(mover[b])
            if (own if turn == 0 else stones - own) < win_length_of(parameters) - 1:
                continue  # too few stones for a line
            for cell in range(size):
                if board[cell] == 0:
                    wins = place(board, player, cell, stones, parameters) == player
                    board[cell] = 0
                    if wins and not found:
                        found = True
                        out[b, :] = 1
                    if wins:
                        out[b, cell] = 0
            if found:
                break
