"""Exact results of positions of Connect Four, on boards of any size that fit into 63 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baselines.connect_four.bitboards import MAX_BITS, Board, has_line, to_bits
from baselines.connect_four.search import begin, new_search, run
from baselines.connect_four.table import empty_table, index_shift
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.boards import Boards, check_opening
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import check_cells

SLICE = 1 << 17
"""Number of positions between two checks for interrupts."""
UNBOUNDED = 1 << 62
MAX_SCORE = 31
"""Maximum score of a position."""

Progress = Callable[[int], None]
"""Takes the number of positions visited; called a few dozen times a second."""


class Bounds(NamedTuple):
    """What a search knows of the score of a position."""

    low: int
    """the score is at least this"""
    high: int
    """the score is at most this"""
    nodes: int
    """number of positions visited"""

    @property
    def score(self) -> int | None:
        """The score, None if the number of nodes was not enough."""
        return self.low if self.low == self.high else None

    @property
    def value(self) -> int | None:
        """1 if the mover wins, 0 for a draw, -1 for a loss, None if the bounds do not tell."""
        if self.low > 0 or self.high < 0:
            return 1 if self.low > 0 else -1
        return 0 if self.low == self.high == 0 else None


class Solution(NamedTuple):
    """The result of a position under best play by both players: the winner wins fast, the loser loses late."""

    value: int
    """for the mover: 1 a win, 0 a draw, -1 a loss"""
    score: int
    """0 for a draw; 1 if the mover wins with their last stone of a full board, 2 with the last but one, and so on;
    negative if the mover loses, by the stones of the other player"""
    distance: int
    """number of plies to the end of the game"""
    columns: tuple[int, ...]
    """the moves of the highest score, as indices of columns"""
    nodes: int
    """number of positions visited"""


class Solver:
    """Solves positions of one game, with a transposition table that later positions share.

    Alpha-beta search with null windows (Pons, "Solving Connect 4: how to build a perfect AI", 2015-2019; Tromp, "John's
    Connect Four Playground"). A player who can win at once does, threats are stopped, moves below a threat of the other
    player are left out, and moves that make more threats come first.

    Results do not depend on earlier positions or on the size of the table, but the number of nodes does.

    Raises:
        ValueError: the game has no gravity, has skips, or its board does not fit into 63 bits.
    """

    def __init__(self, game: Game, *, memory: int = 1 << 28) -> None:
        """Make a solver.

        Args:
            game: with gravity and without skips; no other rule may be changed.
            memory: maximum size of the table in bytes; at least 4 MiB are used.
        """
        check_solvable(game)
        self.game = game
        self.board = Board.from_game(game)
        self._table: Int64Array = empty_table(self.board, memory)
        self._shift = index_shift(self._table, self.board)
        self._search = new_search(self.board)

    def clear(self) -> None:
        """Forget all positions."""
        self._table[:] = 0

    def score(self, position: Position, *, nodes: int | None = None, progress: Progress | None = None) -> Bounds:
        """Return the score of a position, or bounds of it if ``nodes`` are not enough.

        Args:
            position: stones and mover.
            nodes: maximum number of positions to visit; None for no limit.
            progress: called with the number of positions visited.

        Raises:
            ValueError: the position is over, or unreachable with gravity.
        """
        return self._score(*self.to_bits(position), nodes, progress)

    def scores(
        self, position: Position, *, nodes: int | None = None, progress: Progress | None = None
    ) -> list[Bounds | None]:
        """Return for each column the score of a stone there, for the mover; None if the column is full.

        Args:
            position: stones and mover.
            nodes: maximum number of positions to visit for all columns together; None for no limit.
            progress: called with the number of positions visited.

        Raises:
            ValueError: as for :meth:`score`.
        """
        mine, mask = self.to_bits(position)
        out: list[Bounds | None] = [None] * self.game.columns
        before = 0
        for column in self._open_columns(mask):
            left = None if nodes is None else nodes - before
            out[column] = found = self._score_of_move(mine, mask, column, left, _offset(progress, before))
            before += found.nodes
        return out

    def solve(self, position: Position, *, progress: Progress | None = None) -> Solution:
        """Return the result of a position and the best moves.

        The moves are compared with the score of the position only, which is faster than :meth:`scores`.

        Args:
            position: stones and mover.
            progress: called with the number of positions visited.

        Raises:
            ValueError: as for :meth:`score`.
        """
        mine, mask = self.to_bits(position)
        score, _, total = self._score(mine, mask, None, progress)
        best = []
        for column in self._open_columns(mask):
            found = self._score_of_move(mine, mask, column, None, _offset(progress, total), score - 1, score)
            total += found.nodes
            if found.low >= score:
                best.append(column)
        stones = mask.bit_count()
        return Solution(int(np.sign(score)), score, self.distance(score, stones), tuple(sorted(best)), total)

    def values(self, mine: int, mask: int) -> list[int | None]:
        """Return for each column the value of a stone there: 1 a win, 0 a draw, -1 a loss, None if the column is full.

        It takes less time than :meth:`scores`.

        Args:
            mine: stones of the mover, as bits (:meth:`to_bits`).
            mask: stones of both players.
        """
        out: list[int | None] = [None] * self.game.columns
        for column in self._open_columns(mask):
            out[column] = self._score_of_move(mine, mask, column, None, None, -1, 1).value
        return out

    def distance(self, score: int, stones: int) -> int:
        """Return the number of plies to the end of a game from a position with this score and number of stones."""
        if score == 0:
            return self.game.cells - stones
        last = self.game.cells + 2 - 2 * abs(score)  # the number of stones at the end, or one less, by who wins
        return last - stones - (last - stones - (score > 0)) % 2

    def to_bits(self, position: Position) -> tuple[int, int]:
        """Return the stones of the mover and of both players as bits; raises ValueError as :meth:`score`."""
        check_cells(self.game, position.cells)
        check_opening(self.game, position, "a position to be solved")
        mine, mask = to_bits(self.board, Boards.from_positions([position]))
        return int(mine[0]), int(mask[0])

    def _open_columns(self, mask: int) -> list[int]:
        """Return the columns with an empty cell, from the middle."""
        height, columns = self.game.rows + 1, self.game.columns
        is_open = [column for column in range(columns) if not mask >> (column * height + height - 2) & 1]
        return sorted(is_open, key=lambda column: abs(2 * column + 1 - columns))

    def _score_of_move(
        self,
        mine: int,
        mask: int,
        column: int,
        nodes: int | None,
        progress: Progress | None,
        low: int = -MAX_SCORE,
        high: int = MAX_SCORE,
    ) -> Bounds:
        """Return the score of a move for its player; one outside of ``low`` to ``high`` is only bounded by it."""
        move = mask + (1 << column * (self.game.rows + 1)) & ~mask
        move &= -move
        if has_line(mine | move, self.board):
            score = (self.game.cells + 1 - mask.bit_count()) // 2
            return Bounds(score, score, 0)
        if mask | move == self.board.cells:
            return Bounds(0, 0, 0)
        found = self._score(mine ^ mask, mask | move, nodes, progress, -high, -low)
        return Bounds(-found.high, -found.low, found.nodes)

    def _score(
        self,
        mine: int,
        mask: int,
        nodes: int | None,
        progress: Progress | None,
        low: int = -MAX_SCORE,
        high: int = MAX_SCORE,
    ) -> Bounds:
        """Return the score of a position that is not over; one outside of ``low`` to ``high`` is only bounded by it."""
        stones = begin(self._search, mine, mask, low, high, self.board)
        state = self._search.states[0]
        limit = UNBOUNDED if nodes is None else nodes
        while state.low < state.high and state.nodes < limit:
            stop = min(limit, int(state.nodes) + SLICE)
            run(self._search, stones, self._table, self._shift, self.board, stop)
            if progress is not None:
                progress(int(state.nodes))
        # Initial bounds are no results
        at_least = int(state.low) if state.low > low else -MAX_SCORE
        at_most = int(state.high) if state.high < high else MAX_SCORE
        return Bounds(at_least, at_most, int(state.nodes))


def _offset(progress: Progress | None, before: int) -> Progress | None:
    """Return a progress of a part of the work, which adds the number of positions visited before."""
    return None if progress is None else lambda nodes: progress(before + nodes)


def is_solvable(game: Game) -> bool:
    """Return whether :class:`Solver` takes a game: lines under gravity without skips, on a board that fits."""
    return game.variants == {"gravity": True} and game.skip_chance == 0 and _num_bits(game) <= MAX_BITS


def _num_bits(game: Game) -> int:
    return game.columns * (game.rows + 1)


def check_solvable(game: Game) -> None:
    """Raise ValueError for a game without gravity or with skips, or if its board does not fit into 63 bits."""
    if game.variants != {"gravity": True}:
        raise ValueError(
            f"{game} is not Connect Four, whose lines and falling stones the search counts on: choose gravity=True and "
            f"no other variant of the rules"
        )
    if game.skip_chance > 0:
        raise ValueError(f"skip_chance={game.skip_chance:g} is not solved by alpha-beta search: choose skip_chance=0")
    if _num_bits(game) > MAX_BITS:
        raise ValueError(
            f"a board of {game.rows} x {game.columns} needs {_num_bits(game)} bits, one more than cells in each "
            f"column: choose one of at most {MAX_BITS}"
        )
