"""Solves Connect Four: lines on boards where stones fall to the lowest empty cell of a column,
without skips.

An alpha-beta search over bitboards: :class:`Solver` returns who wins any position, after how many
moves, and by which columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from baselines.search.transpositions import FOREVER, empty_table, find, num_visits, store, worth_of
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Int64Array, inlined, int64, kernel
from ttt_envs.core.records import record
from ttt_envs.game.bits import all_bits, count_bits
from ttt_envs.game.boards import Boards, check_opening
from ttt_envs.game.game import Game, Position
from ttt_envs.game.lines import completing_bits
from ttt_envs.game.parameters import Parameters

__all__ = ["Bounds", "Solver", "is_solvable"]

# --------------------------------------------------------------------------------------------------
# Bitboards: columns of ``rows + 1`` bits each, lowest cell first; the top bit of a column stays
# empty. It separates columns, so that no line of set bits continues from one column into another.
# Kernels use signed integers: left shifts may leave garbage above the board, which callers remove
# with ``board.cells``.

MAX_BITS = 63
"""Maximum number of bits of a board, ``columns * (rows + 1)``."""


@dataclass(frozen=True)
class ColumnBoard:
    """A size of board."""

    rows: int
    columns: int
    win_length: int
    cells: int
    """the bits of all cells"""
    bottom: int
    """the bits of the lowest cells"""

    @classmethod
    def from_game(cls, game: Game) -> ColumnBoard:
        """Return the constants of a game on a board of up to :data:`MAX_BITS` bits."""
        bottom = sum(1 << column * (game.rows + 1) for column in range(game.columns))
        return cls(
            game.rows, game.columns, game.win_length, bottom * ((1 << game.rows) - 1), bottom
        )


def to_bits(board: ColumnBoard, boards: Boards) -> tuple[Int64Array, Int64Array]:
    """Return the stones of the mover and those of both players, as bits: int64[B] each."""
    heights = np.arange(board.rows)[::-1, None]
    first_bits = np.arange(board.columns) * (board.rows + 1)
    bits = (np.int64(1) << first_bits + heights).ravel()
    own = (boards.cells == boards.mover[:, None] + 1) @ bits
    return own, (boards.cells != 0) @ bits


@inlined
def winning_cells(stones: int, board: ColumnBoard) -> int:
    """Return the empty cells, as bits, where one more stone completes a line; bits of taken cells
    may be set too.

    For lines of four the shifts are written out, as :func:`ttt_envs.game.lines.completing_bits`
    takes several times as long. To that, the columns are rows, and no line leaves one over its top
    bit, which is empty.
    """
    height = board.rows + 1
    if board.win_length != 4:
        rules = Parameters(
            board.columns, height, board.win_length, 0.0, 0, int64(-1), int64(-1), int64(-1), None
        )
        return completing_bits(stones, rules) & board.cells
    above = (stones << 1) & (stones << 2) & (stones << 3)  # cells above the highest stone only
    return (
        above | _fours(stones, height - 1) | _fours(stones, height) | _fours(stones, height + 1)
    ) & board.cells


@inlined
def _fours(stones: int, step: int) -> int:
    """Return the cells of which the other three cells of a line of four hold stones."""
    up = (stones << step) & (stones << 2 * step)  # two stones before the cell
    down = (stones >> step) & (stones >> 2 * step)
    return (up & ((stones << 3 * step) | (stones >> step))) | (
        down & ((stones << step) | (stones >> 3 * step))
    )


@inlined
def mirror(bits: int, board: ColumnBoard) -> int:
    """Return the bits with the order of columns reversed."""
    height = board.rows + 1
    column = all_bits(height)
    out = 0
    for _ in range(board.columns):
        out = (out << height) | (bits & column)
        bits >>= height
    return out


# --------------------------------------------------------------------------------------------------
# The search: null windows, as a recursion that stops after a number of positions

TABLE_WORDS = 2
"""Number of words of a row of the table: the key; its worth and the bounds of the score."""
OFFSET = 64
"""Added to a score, so that it fits into 7 bits."""
STOPPED = 1 << 20
"""Takes the place of a score if the search has to stop."""
MAX_COLUMNS = MAX_BITS // 2


class SolverState(ColumnBoard):
    """The board, the progress of a search, and its memory by number of stones."""

    column_bits: Annotated[Int64Array, np.int64, (MAX_COLUMNS,)]
    """the cells of every column as bits, from the middle"""
    nodes: int
    """number of positions visited"""
    stop: int
    """number of positions after which to stop"""
    low: int
    """lower bound of the score of the root"""
    high: int
    """upper bound"""
    keys: Annotated[Int64Array, np.int64, (MAX_BITS, 1)]
    """keys of the positions"""
    moves: Annotated[Int64Array, np.int64, (MAX_BITS, MAX_COLUMNS)]
    """the moves to search, each as one bit"""
    replies: Annotated[Int64Array, np.int64, (MAX_BITS, MAX_COLUMNS)]
    """those cells of the other player's next moves that do not lose at once"""
    ranks: Annotated[Int64Array, np.int64, (MAX_BITS, MAX_COLUMNS)]
    """the higher, the earlier a move is searched"""


@inlined
def position_key(own: int, mask: int, board: ColumnBoard) -> int:
    """Return a key of a position: the mover's stones and those of both players, the same for
    mirrored positions.

    A carry of the two and the lowest cells marks the height of every column. No key is 0, as that
    of a free row.
    """
    key = own + mask + board.bottom
    return min(key, mirror(key, board))


@inlined
def safe_moves(mask: int, threats: int, board: ColumnBoard) -> int:
    """Return the moves after which the other player, who threatens to win on ``threats``, cannot
    win at once.
    """
    possible = (mask + board.bottom) & board.cells
    forced = possible & threats
    if forced != 0:
        possible = forced if forced & (forced - 1) == 0 else int64(0)
    return possible & ~(threats >> 1)


@kernel(interpreted=False)
def bound_score(own: int, mask: int, state: SolverState, table: Int64Array) -> None:
    """Narrow the bounds of a position's score, until they meet or the search has to stop.

    A score counts the stones that the winner has left, so faster wins are higher: a player who wins
    with their last stone scores 1, one who loses against it -1, and a draw is 0. Every search has a
    null window: it decides whether the score is at least some target, where targets near 0 come
    first, because they are decided faster.

    Args:
        own: the stones of the mover, as bits; mask: those of both players.
        state: it holds bounds, and gets narrower ones.
        table: of positions.
    """
    stones = count_bits(mask)
    num_cells = state.rows * state.columns
    low = -((num_cells - stones) // 2)
    high = (num_cells + 1 - stones) // 2
    choices = safe_moves(mask, winning_cells(own ^ mask, state) & ~mask, state)
    if winning_cells(own, state) & (mask + state.bottom) & ~mask != 0:
        low = high
    elif stones == num_cells:
        low = high = 0
    elif choices == 0:
        high = low
    state.low = max(state.low, low)
    state.high = min(state.high, high)
    while state.low < state.high:
        target = _next_target(state.low, state.high)
        score = _search(own, mask, choices, target, stones, state, table)
        if score == STOPPED:
            break
        if score >= target:
            state.low = max(state.low, score)
        else:
            state.high = min(state.high, score)


@inlined
def _next_target(low: int, high: int) -> int:
    """Return a target above ``low`` and at most ``high``, far from 0 at first: such a target bounds
    the depth.
    """
    middle = low + (high - low) // 2
    if middle <= 0:
        return 1 + min(middle, -(-low // 2))
    return 1 + max(middle, high // 2)


@inlined
def _insert(
    move: int,
    replies: int,
    rank: int,
    count: int,
    moves: Int64Array,
    all_replies: Int64Array,
    ranks: Int64Array,
) -> None:
    """Insert a move into the first ``count`` ones, after those whose rank is as high."""
    slot = count
    while slot > 0 and ranks[slot - 1] < rank:
        moves[slot] = moves[slot - 1]
        all_replies[slot] = all_replies[slot - 1]
        ranks[slot] = ranks[slot - 1]
        slot -= 1
    moves[slot] = move
    all_replies[slot] = replies
    ranks[slot] = rank


@kernel(interpreted=False)
def _search(
    own: int,
    mask: int,
    choices: int,
    target: int,
    stones: int,
    state: SolverState,
    table: Int64Array,
) -> int:
    """Return a bound of the score, on the side of ``target`` where the score lies, or ``STOPPED``.

    The mover cannot win at once; after ``choices``, as bits, neither can the other player.
    """
    num_cells = state.rows * state.columns
    moves = state.moves[stones]
    all_replies = state.replies[stones]
    ranks = state.ranks[stones]
    if state.nodes >= state.stop:
        return STOPPED
    nodes_before = state.nodes
    state.nodes += 1
    if stones >= num_cells - 2:
        return 0
    low = -((num_cells - 2 - stones) // 2)
    high = (num_cells - 1 - stones) // 2
    if low >= target or high < target:
        return low if low >= target else high
    state.keys[stones, 0] = position_key(own, mask, state)
    entry = find(state.keys, stones, 1, table)
    if entry >= 0:
        info = int64(table[entry, 1])
        low = max(low, (info & 127) - OFFSET)
        high = min(high, (info >> 7 & 127) - OFFSET)
        if low >= target or high < target:
            return low if low >= target else high
    count = 0
    for i in range(state.columns):
        move = choices & state.column_bits[i]
        if move == 0:
            continue
        threats = winning_cells(own | move, state) & ~(mask | move)
        replies = safe_moves(mask | move, threats, state)
        if replies == 0:
            # the other player cannot stop a win at the next turn, which is the earliest possible
            return high
        _insert(move, replies, count_bits(threats), count, moves, all_replies, ranks)
        count += 1
    best = low
    i = 0
    while best < target and i < count:
        score = _search(
            own ^ mask, mask | moves[i], all_replies[i], 1 - target, stones + 1, state, table
        )
        if score == STOPPED:
            return STOPPED
        best = max(best, -score)
        i += 1
    if best >= target:
        low = best
    else:
        high = best
    info = worth_of(state.nodes - nodes_before) | (high + OFFSET) << 7 | (low + OFFSET)
    store(state.keys, stones, 1, info, table)
    return best


# --------------------------------------------------------------------------------------------------
# Functions for Python callers

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
        if self.low > 0:
            return 1
        if self.high < 0:
            return -1
        return 0 if self.low == self.high == 0 else None


class Solver:
    """Solves positions of one game, with a transposition table that later positions share.

    Alpha-beta search with null windows (Pons, "Solving Connect 4: how to build a perfect AI",
    2015-2019; Tromp, "John's Connect Four Playground"). A player who can win at once does, threats
    are stopped, moves below a threat of the other player are left out, and moves that make more
    threats come first.

    Results do not depend on earlier positions or on the size of the table, but the number of nodes
    does.

    Raises:
        ValueError: the game has no gravity, has skips, or its board does not fit into 63 bits.
    """

    def __init__(
        self, game: Game, *, memory: int = 1 << 28, progress: Progress | None = None
    ) -> None:
        """Make a solver.

        Args:
            game: with gravity and without skips; no other rule may be changed.
            memory: maximum size of the table in bytes; at least 4 MiB are used.
            progress: called with ``nodes``, the number of positions visited so far; an attribute
                that may be replaced. If it raises an exception, the search ends with that, and the
                table keeps its results.
        """
        if not is_solvable(game):
            raise Refusal(
                f"{game} is not solved by the search for Connect Four: choose gravity=True, no "
                "other variant of the rules, skip_chance=0, and a board of columns * (rows + 1) <= "
                f"{MAX_BITS}"
            )
        self.game = game
        self.nodes = 0
        self.progress = progress
        self.board = ColumnBoard.from_game(game)
        rows = max(memory, MIN_TABLE_BYTES) // (8 * TABLE_WORDS)
        self._table = empty_table(1 << rows.bit_length() - 1, TABLE_WORDS)
        state: Any = record(SolverState)
        for name, number in vars(self.board).items():
            state[name] = number
        # middle first
        self._order = sorted(range(game.columns), key=lambda i: abs(2 * i + 1 - game.columns))
        for number, column in enumerate(self._order):
            bits = ((1 << game.rows) - 1) << column * (game.rows + 1)
            state["column_bits"][number] = bits
        self._state = state

    def clear(self) -> None:
        """Forget all positions."""
        self._table[:] = 0

    def score(self, position: Position, *, nodes: int | None = None) -> Bounds:
        """Return the score of a position, or bounds of it if ``nodes`` are not enough.

        The score is 0 for a draw; 1 if the mover wins with their last stone of a full board, 2 with
        the last but one, and so on; negative if the mover loses, by the stones of the other player.
        The winner wins fast, the loser loses late.

        Args:
            position: stones and mover.
            nodes: maximum number of positions to visit; None for no limit.

        Raises:
            ValueError: the position is over, or unreachable with gravity.
        """
        return self._score(*self.to_bits(position), nodes, ALL)

    def scores(self, position: Position, *, nodes: int | None = None) -> dict[int, Bounds]:
        """Return the score of each move for the mover, by the cell of the stone, in the order of
        columns.

        Args:
            position: stones and mover.
            nodes: maximum number of positions to visit for all moves together; None for no limit.

        Raises:
            ValueError: as for :meth:`score`.
        """
        return self._bound_moves(*self.to_bits(position), nodes, ALL)

    def values(self, own: int, mask: int) -> dict[int, int | None]:
        """Return the value of each move for the mover, by the cell of the stone: 1 a win, 0 a draw,
        -1 a loss.

        It takes less time than :meth:`scores`.

        Args:
            own: stones of the mover, as bits (:meth:`to_bits`).
            mask: stones of both players.
        """
        moves = self._bound_moves(own, mask, None, (-1, 1))
        return {cell: bounds.value for cell, bounds in moves.items()}

    def distance(self, score: int, stones: int) -> int:
        """Return the number of plies to the end of a game from a position with this score and
        number of stones.
        """
        if score == 0:
            return self.game.cells - stones
        # the number of stones at the end, or one more, by who wins
        last = self.game.cells + 2 - 2 * abs(score)
        return last - stones - (last - stones - (score > 0)) % 2

    def to_bits(self, position: Position) -> tuple[int, int]:
        """Return the stones of the mover and of both players as bits; raises ValueError as
        :meth:`score`.
        """
        check_opening(self.game, position, "a position to be solved")
        own, mask = to_bits(self.board, Boards.from_positions([position]))
        return int(own[0]), int(mask[0])

    def _bound_moves(
        self, own: int, mask: int, nodes: int | None, window: Window
    ) -> dict[int, Bounds]:
        """Return the score of each move, by its cell, bounded as by :meth:`_score`."""
        out: dict[int, Bounds] = {}
        rows = self.game.rows
        columns = self.game.columns
        before = self.nodes
        wins = winning_cells(own, self.board)
        for column in self._order:
            first_bit = column * (rows + 1)
            move = (mask + (1 << first_bit)) & ~mask & self.board.cells
            cell = (first_bit + rows - move.bit_length()) * columns + column
            if move & wins:
                score = (self.game.cells + 1 - mask.bit_count()) // 2
                out[cell] = Bounds(score, score, 0)
            elif move:
                num_left = None if nodes is None else nodes - (self.nodes - before)
                other_window = -window[1], -window[0]
                low, high, count = self._score(own ^ mask, mask | move, num_left, other_window)
                out[cell] = Bounds(-high, -low, count)
        return dict(sorted(out.items(), key=lambda item: item[0] % columns))

    def _score(self, own: int, mask: int, nodes: int | None, window: Window) -> Bounds:
        """Return the score of a position that is not over; one outside of the window is only
        bounded by it.
        """
        state = self._state
        limit = FOREVER if nodes is None else nodes
        before = self.nodes
        count = 0
        # By item, because attributes of a record take Python ten times as long
        state["low"], state["high"] = window
        state["nodes"] = 0
        while True:
            state["stop"] = min(limit, count + num_visits(count, SLICE, self._table))
            bound_score(own, mask, state, self._table)
            low = int(state["low"])
            high = int(state["high"])
            count = int(state["nodes"])
            self.nodes = before + count
            if self.progress is not None:
                self.progress(self.nodes)
            if low >= high or count >= limit:
                break
        # initial bounds are no results
        if low <= window[0]:
            low = -MAX_SCORE
        if high >= window[1]:
            high = MAX_SCORE
        return Bounds(low, high, count)


def is_solvable(game: Game) -> bool:
    """Return whether :class:`Solver` takes a game: lines under gravity without skips, on a board
    that fits.
    """
    return (
        game.variants == {"gravity": True}
        and game.skip_chance == 0
        and game.columns * (game.rows + 1) <= MAX_BITS
    )
