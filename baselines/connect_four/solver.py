"""Exact results of positions of Connect Four, on boards of any size that fit into 63 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baselines.connect_four.bitboards import MAX_BITS, Board, to_bits, winning_cells
from baselines.connect_four.search import TABLE_WORDS, Path, State, bound_score
from baselines.search.transpositions import FOREVER, num_visits
from ttt_envs.core.records import records
from ttt_envs.game.boards import Boards, check_opening
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import check_cells

SLICE = 1 << 17
"""Number of positions between two checks for interrupts."""
MIN_TABLE_BYTES = 1 << 22
MAX_SCORE = 31
"""Maximum score of a position."""
Window = tuple[int, int]
ALL = -MAX_SCORE, MAX_SCORE

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


class Solver:
    """Solves positions of one game, with a transposition table that later positions share.

    Alpha-beta search with null windows (Pons, "Solving Connect 4: how to build a perfect AI", 2015-2019; Tromp, "John's
    Connect Four Playground"). A player who can win at once does, threats are stopped, moves below a threat of the other
    player are left out, and moves that make more threats come first.

    Results do not depend on earlier positions or on the size of the table, but the number of nodes does.

    Raises:
        ValueError: the game has no gravity, has skips, or its board does not fit into 63 bits.
    """

    def __init__(self, game: Game, *, memory: int = 1 << 28, progress: Progress | None = None) -> None:
        """Make a solver.

        Args:
            game: with gravity and without skips; no other rule may be changed.
            memory: maximum size of the table in bytes; at least 4 MiB are used.
            progress: called with ``nodes``, the number of positions visited so far.
        """
        check_solvable(game)
        self.game, self.nodes, self._progress = game, 0, progress
        self.board = Board.from_game(game)
        rows = max(memory, MIN_TABLE_BYTES) // (8 * TABLE_WORDS)
        self._table = np.zeros((1 << rows.bit_length() - 1, TABLE_WORDS), np.int64)
        self._path = Path(np.zeros((game.cells + 1, 4, game.columns), np.int64), records(State, (1,)))

    def clear(self) -> None:
        """Forget all positions."""
        self._table[:] = 0

    def score(self, position: Position, *, nodes: int | None = None) -> Bounds:
        """Return the score of a position, or bounds of it if ``nodes`` are not enough.

        The score is 0 for a draw; 1 if the mover wins with their last stone of a full board, 2 with the last but one,
        and so on; negative if the mover loses, by the stones of the other player. The winner wins fast, the loser loses
        late.

        Args:
            position: stones and mover.
            nodes: maximum number of positions to visit; None for no limit.

        Raises:
            ValueError: the position is over, or unreachable with gravity.
        """
        return self._score(*self.to_bits(position), nodes, ALL)

    def scores(self, position: Position, *, nodes: int | None = None) -> list[Bounds | None]:
        """Return for each column the score of a stone there, for the mover; None if the column is full.

        Args:
            position: stones and mover.
            nodes: maximum number of positions to visit for all columns together; None for no limit.

        Raises:
            ValueError: as for :meth:`score`.
        """
        return self._bound_moves(*self.to_bits(position), nodes, ALL)

    def values(self, mine: int, mask: int) -> list[int | None]:
        """Return for each column the value of a stone there: 1 a win, 0 a draw, -1 a loss, None if the column is full.

        It takes less time than :meth:`scores`.

        Args:
            mine: stones of the mover, as bits (:meth:`to_bits`).
            mask: stones of both players.
        """
        return [bounds and bounds.value for bounds in self._bound_moves(mine, mask, None, (-1, 1))]

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

    def _bound_moves(self, mine: int, mask: int, nodes: int | None, window: Window) -> list[Bounds | None]:
        """Return for each column the score of a stone there, bounded as by :meth:`_score`; None if it is full."""
        out: list[Bounds | None] = [None] * self.game.columns
        height, before, wins = self.game.rows + 1, self.nodes, winning_cells(mine, self.board)
        for column in sorted(range(len(out)), key=lambda column: abs(2 * column + 1 - len(out))):  # from the middle
            move = (mask + (1 << column * height)) & ~mask & self.board.cells
            if move & wins:
                score = (self.game.cells + 1 - mask.bit_count()) // 2
                out[column] = Bounds(score, score, 0)
            elif move:
                remaining = None if nodes is None else nodes - (self.nodes - before)
                low, high, count = self._score(mine ^ mask, mask | move, remaining, (-window[1], -window[0]))
                out[column] = Bounds(-high, -low, count)
        return out

    def _score(self, mine: int, mask: int, nodes: int | None, window: Window) -> Bounds:
        """Return the score of a position that is not over; one outside of the window is only bounded by it."""
        state, limit, before = self._path.states[0], FOREVER if nodes is None else nodes, self.nodes
        (state.low, state.high), state.nodes = window, 0
        while True:
            state.stop = min(limit, int(state.nodes) + num_visits(int(state.nodes), SLICE, self._table))
            bound_score(mine, mask, self._path, self._table, self.board)
            self.nodes = before + int(state.nodes)
            if self._progress is not None:
                self._progress(self.nodes)
            if state.low >= state.high or state.nodes >= limit:
                break
        # Initial bounds are no results
        low = int(state.low) if state.low > window[0] else -MAX_SCORE
        high = int(state.high) if state.high < window[1] else MAX_SCORE
        return Bounds(low, high, int(state.nodes))


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
