"""Batches of positions, their text format, their hash keys, and values that are computed once for
each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import MAX_PROBLEM, Refusal, name_place, quote, truncate
from ttt_envs.core.hash_index import distinct_rows
from ttt_envs.core.jit import (
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
    inlined,
    int64,
    kernel,
)
from ttt_envs.core.records import chunks
from ttt_envs.game.bits import where
from ttt_envs.game.game import Game, Position
from ttt_envs.game.lines import Line
from ttt_envs.game.phantom import AnyGame, visible
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    check_cells,
    legal,
    play_rows,
    values_over_skip,
    winner,
)

STONES = ".ox"
"""letters of the cells 0, 1 and 2"""
MOVERS = "ox"
COLUMNS = "abcdefghijklmnopqrs"
"""column names, from the left"""
MAX_CELLS_BASE_3 = 40
"""Maximum number of cells for which 3**cells fits into 64 bits."""
MAX_CELLS_OF_VALUES = 12
"""Maximum number of cells for which :class:`PositionValues` has a table."""


class Boards(NamedTuple):
    """A batch of B positions of one game."""

    cells: Int8Array
    """int8[B, rows * columns], row by row: 0 empty, 1 a stone of player_0, 2 a stone of player_1"""
    mover: NDArray[np.int8]
    """int8[B]: player to move, 0 or 1"""

    @classmethod
    def start(cls, game: AnyGame, count: int = 1) -> Boards:
        """Return ``count`` empty boards, player_0 to move."""
        return cls(np.zeros((count, game.cells), np.int8), np.zeros(count, np.int8))

    @classmethod
    def from_positions(cls, positions: Iterable[Position]) -> Boards:
        """Stack single positions of one game into a batch.

        Raises:
            ValueError: there are none, so that the size of the board is unknown.
        """
        positions = list(positions)
        if not positions:
            raise Refusal(
                "no positions make no batch: give one or more, or write Boards.start(game, 0)"
            )
        cells, movers = zip(*positions, strict=True)
        return cls(np.stack(cells).astype(np.int8, copy=False), np.array(movers, np.int8))

    def position(self, index: int) -> Position:
        """Return row ``index`` as a position, copied."""
        return Position(self.cells[index].copy(), int(self.mover[index]))

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Boards:
        """Return the selected rows, copied."""
        return Boards(self.cells[rows], self.mover[rows])

    @property
    def num_stones(self) -> Int64Array:
        """int64[B]: the number of stones on each board."""
        return np.asarray(np.count_nonzero(self.cells, axis=1))

    def chunks(self, size: int) -> Iterator[Boards]:
        """Return the rows in order, as views of up to ``size`` consecutive ones."""
        return map(Boards, chunks(self.cells, size), chunks(self.mover, size))

    def legal(self, game: AnyGame) -> NDArray[np.bool_]:
        """Return bool[B, rows * columns]: the legal actions in positions of ``game`` that are not
        over.
        """
        return legal(game, self.cells)

    def own_first(self) -> Int8Array:
        """Return int8[B, rows * columns] in the mover's view: 0 empty, 1 an own stone, 2 a stone of
        the opponent.
        """
        out = np.empty(self.cells.shape, np.int8)
        own_first_rows(*self.carrays(), out)
        return out

    def carrays(self) -> Boards:
        """Return the boards in contiguous, writeable arrays, for which kernels are compiled: these,
        or copies.
        """
        cells, mover = self
        if cells.flags.carray and mover.flags.carray:
            return self
        return Boards(cells.copy(), mover.copy())


@kernel
def own_first_rows(cells: Int8Array, mover: Int8Array, out: Int8Array) -> None:
    """Write ``Boards.own_first`` into ``out``: stones 1 and 2 are exchanged where player_1 is to
    move.
    """
    for b in range(len(cells)):
        own_first_row(cells[b], int64(mover[b]), out[b])


@inlined
def own_first_row(board: Int8Array, mover: int, out: Int8Array) -> None:
    """Do :func:`own_first_rows` for one position."""
    for cell in range(len(board)):
        stone = int64(board[cell])
        swapped_bits = (stone >> 1 | stone << 1) & 3  # which exchanges 1 and 2
        out[cell] = where(mover, swapped_bits, stone)


def play_moves(
    game: Game, boards: Boards, rows: Int64Array, actions: Int64Array
) -> tuple[Int8Array, Int8Array]:
    """Make moves in copies of positions; the turn after a move is left to the caller.

    Args:
        game: the game.
        boards: positions that are not over.
        rows: int64[M]: the position of each move.
        actions: int64[M]: legal cells.

    Returns:
        The cells after each move, int8[M, rows * columns], and its outcome, int8[M], see
        ``rules.place``.
    """
    cells = boards.cells[rows]
    outcomes = np.full(len(rows), NOT_OVER, np.int8)
    stones = np.count_nonzero(cells, axis=1)
    numbers = np.arange(len(rows))
    # keys of the skips, which are drawn in a copy of the movers
    keys = np.zeros(len(rows), np.uint64)
    mover = boards.mover[rows]
    actions = np.ascontiguousarray(actions)
    play_rows(cells, mover, stones, keys, numbers, actions, game.parameters, outcomes)
    return cells, outcomes


def one_ply_ahead(
    game: Game, boards: Boards, values: Callable[[Boards], Float64Array], win: float = 1.0
) -> Float64Array:
    """Return action values float64[B, cells] from the mover's view, NaN where illegal; a move that
    ends the game has the value of its result.

    Q(a) = p V(after a, same mover) - (1 - p) V(after a, other mover), where p is the skip chance.

    Args:
        game: the game.
        boards: B positions that are not over.
        values: function from positions to values, from their movers' view.
        win: value of a win.
    """
    skip = game.skip_chance
    rows, action = np.nonzero(boards.legal(game))
    mover = boards.mover[rows]
    cells, outcome = play_moves(game, boards, rows, action)
    q = np.where(outcome == mover, 1.0, -1.0) * win  # in misère a line loses
    q[outcome == DRAW] = 0.0
    goes_on = outcome == NOT_OVER
    cells = cells[goes_on]
    mover = mover[goes_on]
    other = -values(Boards(cells, 1 - mover))
    own = values(Boards(cells, mover)) if skip > 0 else other
    q[goes_on] = values_over_skip(own, other, skip)
    action_values = np.full(boards.cells.shape, np.nan)
    action_values[rows, action] = q
    return action_values


def keys(cells: Int8Array) -> UInt64Array:
    """Return a key for every board, injective in the cells.

    The mover is not part of the key: a table over positions has a separate row for each mover, or
    is read with ``keys(boards.own_first())``.

    Args:
        cells: int8[B, rows * columns].

    Returns:
        Up to 40 cells uint64[B]: the cells as base-3 digits, the first the least significant;
        adding a stone only increases the key. Above that uint64[B, W]: the bits of player_0's
        stones in W/2 words, then player_1's.
    """
    size = cells.shape[1]
    if size <= MAX_CELLS_BASE_3:
        out = np.empty(len(cells), np.uint64)
        _base_3(np.ascontiguousarray(cells), out)
        return out
    words = num_words(size)
    planes = np.zeros((len(cells), 2, words * 32), np.bool_)
    planes[:, 0, :size] = cells == 1
    planes[:, 1, :size] = cells == 2
    octets = np.packbits(planes, axis=2, bitorder="little")
    return octets.reshape(len(cells), 8 * words).view("<u8").astype(np.uint64, copy=False)


def position_keys(boards: Boards) -> UInt64Array:
    """Return a key for every position, uint64[B]: twice that of its board, plus its mover; for less
    than 40 cells.
    """
    return np.uint64(2) * keys(boards.cells) + boards.mover.astype(np.uint64)


def position_words(boards: Boards) -> UInt64Array:
    """Return a key for every position on a board of any size, uint64[B, W + 1]: that of its board,
    then its mover.
    """
    board_keys = keys(boards.cells).reshape(len(boards.mover), num_words(boards.cells.shape[1]))
    return np.concatenate([board_keys, boards.mover.astype(np.uint64)[:, None]], axis=1)


def distinct_boards(boards: Boards) -> tuple[Boards, Int64Array]:
    """Return the distinct positions of boards of at most 39 cells, by their keys, and the row of
    each, int64[B].
    """
    first, inverse = distinct_rows(position_keys(boards)[:, None])
    return boards.take(first), inverse


class PositionValues:
    """A function of positions: computed once for each on small boards, and once for each in a batch
    on others.

    Args:
        game: the game.
        compute: returns float64[B] for distinct positions.
    """

    def __init__(self, game: AnyGame, compute: Callable[[Boards], Float64Array]) -> None:
        self.game = game
        self._compute = compute
        size = 2 * 3**game.cells if game.cells <= MAX_CELLS_OF_VALUES else 0
        self.table = np.full(size, np.nan)
        """float64[N]: by position key, NaN where not computed yet; empty on large boards"""

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B]."""
        if self.game.cells >= MAX_CELLS_BASE_3:
            return self._compute(boards)
        if not self.table.size:
            distinct, inverse = distinct_boards(boards)
            return self._compute(distinct).take(inverse)
        index = position_keys(boards).view(np.int64)
        values = self.table.take(index)
        missing = np.flatnonzero(np.isnan(values))
        if len(missing):
            first, inverse = distinct_rows(index[missing, None].view(np.uint64))
            new_values = self._compute(boards.take(missing[first]))
            self.table[index[missing[first]]] = new_values
            values[missing] = new_values.take(inverse)
        return values


def num_words(cells: int) -> int:
    """Return the number of 64-bit words of a key of so many cells: 1 up to 40 cells."""
    return 1 if cells <= MAX_CELLS_BASE_3 else 2 * -(-cells // 64)


@kernel
def _base_3(cells: Int8Array, out: UInt64Array) -> None:
    for b in range(len(cells)):
        out[b] = base_3(cells[b])


@inlined
def base_3(board: Int8Array) -> np.uint64:
    """Return the key of one board of up to 40 cells."""
    key = np.uint64(0)
    for cell in range(len(board) - 1, -1, -1):
        key = key * np.uint64(3) + np.uint64(board[cell])
    return key


def from_keys(key: UInt64Array, game: AnyGame) -> Int8Array:
    """Return the boards with the given keys, int8[B, rows * columns]: the inverse of :func:`keys`.

    Keys of one word may be uint64[B] or uint64[B, 1].
    """
    size = game.cells
    out = np.empty((len(key), size), np.int8)
    if size <= MAX_CELLS_BASE_3:
        _digits(np.ascontiguousarray(key).reshape(-1), out)
        return out
    words = np.ascontiguousarray(key).astype("<u8", copy=False)
    octets = words.view(np.uint8).reshape(len(key), 2, 4 * words.shape[1])
    planes = np.unpackbits(octets, axis=2, count=size, bitorder="little")
    np.add(planes[:, 0], 2 * planes[:, 1], out=out, casting="unsafe")
    return out


@kernel
def _digits(key: UInt64Array, out: Int8Array) -> None:
    for b in range(len(out)):
        number = key[b]
        for cell in range(out.shape[1]):
            quotient = number // np.uint64(3)
            out[b, cell] = number - np.uint64(3) * quotient
            number = quotient


def from_text(text: str, game: AnyGame | None = None) -> Position:
    """Parse a position: rows from the top joined by "/", a space, then the mover, as in
    ``"x.o/.../..o x"``.

    Args:
        text: ``.`` empty, ``o`` a stone of player_0, ``x`` a stone of player_1.
        game: if given, the board must have its size.

    Raises:
        ValueError: the text is not a position, or not one of ``game``.
    """
    example = 'write rows from the top, then the player to move, as in "x.o/.../..o x"'
    quoted_text = truncate(repr(text), MAX_PROBLEM)
    parts = text.split(" ") if isinstance(text, str) else []
    if len(parts) != 2:
        raise Refusal(f"{quoted_text} is not a position: {example}")
    board, mover = parts
    if mover not in ("o", "x"):
        raise Refusal(
            f"{quoted_text} has the mover {quote(mover)}: write o (player_0) or x (player_1) at "
            "the end"
        )
    rows = board.split("/")
    for row in rows:
        for stone in row:
            if stone not in STONES:
                raise Refusal(
                    f"{quoted_text} has the cell {stone!r}: write . for empty, o for player_0, x "
                    "for player_1"
                )
        if len(row) != len(rows[0]) or not row:
            raise Refusal(f"{quoted_text} has rows of different or no length: {example}")
    if game is not None and (len(rows), len(rows[0])) != (game.rows, game.columns):
        raise Refusal(
            f"{quoted_text} is a board of {len(rows)} x {len(rows[0])}: this game needs "
            f"{game.rows} x {game.columns}"
        )
    cells = np.array([STONES.index(stone) for row in rows for stone in row], np.int8)
    if game is not None:
        with name_place(f"{quoted_text} is no position of this game"):
            check_cells(game, cells)
    return Position(cells, MOVERS.index(mover))


def check_opening(game: AnyGame, position: Position, name: str) -> None:
    """Raise ValueError, naming ``name``, if a position is over, or unreachable by its stones."""
    with name_place(f"{name} is no position of this game"):
        check_cells(game, position.cells)
    if winner(visible(game), position.cells) is not None:
        raise Refusal(f"{name} is over: choose a position of an unfinished game")
    o, x = (int(np.count_nonzero(position.cells == stone)) for stone in (1, 2))
    if game.skip_chance == 0:
        if o - x not in (0, 1) or position.mover != o - x:
            turn = f"{MOVERS[o - x]} is" if o - x in (0, 1) else "no player could be"
            raise Refusal(
                f"{name} comes from no game without skips, with {o} o and {x} x {turn} to move: "
                f"choose another, or a skip chance, such as 0.25"
            )
    elif o == 0 and (x or position.mover):
        raise Refusal(f"{name} comes from no game: o moves first")


def to_text(position: Position, game: AnyGame | None = None) -> str:
    """Format a position for :func:`from_text`; a board that is not square needs its ``game``.

    >>> to_text(from_text("x.o/.../..o x"))
    'x.o/.../..o x'

    Raises:
        ValueError: the cells are not a board of ``game``, or not a square board without ``game``.
    """
    if game is None:
        edge = round(len(position.cells) ** 0.5)
        if edge * edge != len(position.cells):
            raise Refusal(
                f"a board of {len(position.cells)} cells is not square: say which it is, "
                "to_text(position, game)"
            )
        columns = edge
    else:
        check_cells(game, position.cells)
        columns = game.columns
    line = "".join(STONES[cell] for cell in position.cells)
    return f"{'/'.join(chunks(line, columns))} {MOVERS[position.mover]}"


def draw_text(text: str, note: str) -> str:
    """Return a position as text in one line for each row, and a note beside the first.

    >>> print(draw_text("x.o/.../..o x", "plays 1"))
    x . o   x to move: plays 1
    . . .
    . . o
    """
    board, _, mover = text.partition(" ")
    first, *others = (" ".join(row) for row in board.split("/"))
    return "\n".join([f"{first}   {mover} to move: {note}", *others])


def board_lines(
    game: AnyGame, cells: Int8Array, last: Collection[int], line: Collection[int], gap: str = ""
) -> list[str]:
    """Return the lines of a board with its coordinates.

    Args:
        game: the game.
        cells: int8[rows * columns].
        last: cells to mark as ``[x]``.
        line: cells of a line that has won, marked as ``*x*``.
        gap: behind the numbers of the rows.
    """
    words = [f" {column} " for column in COLUMNS[: game.columns]]
    for cell, stone in enumerate(cells):
        marks = "[]" if cell in last else "  "
        if cell in line:
            marks = "**"
        words.append(marks[0] + STONES[stone] + marks[1])
    label = len(str(game.rows))
    lines = []
    for row in range(game.rows + 1):
        number = row or ""
        columns = "".join(words[row * game.columns : (row + 1) * game.columns])
        lines.append(f"{number:>{label}}{gap}{columns}".rstrip())
    return lines


def coordinate(cell: int, game: AnyGame) -> str:
    """Return a cell in coordinates: the letter of its column, from the left, and its row number,
    from the top.

    >>> coordinate(5, Game(3, 3))
    'c2'
    """
    row, column = divmod(cell, game.columns)
    return f"{COLUMNS[column]}{row + 1}"


def cell_at(text: str, game: AnyGame) -> int:
    """Return the cell at given coordinates: the inverse of :func:`coordinate`; capitals are
    accepted.

    Raises:
        ValueError: the text does not name a cell of the board.
    """
    match = re.fullmatch(r"([a-s])([1-9][0-9]?)", text.lower())
    if match is not None:
        row = int(match[2]) - 1
        column = COLUMNS.index(match[1])
        if row < game.rows and column < game.columns:
            return row * game.columns + column
    middle = coordinate(game.rows // 2 * game.columns + game.columns // 2, game)
    raise Refusal(
        f"{text[:20]!a} is no cell of a board of {game.rows} x {game.columns}: write its column, "
        f"a to {COLUMNS[game.columns - 1]}, and its row from the top, 1 to {game.rows}, as in "
        f"{middle}"
    )


def winning_line_cells(game: Game, cells: Int8Array, winner: int | None) -> list[int]:
    """Return the cells of the lines that decided the game: the winner's, in misère the loser's;
    none without one.
    """
    if winner is None or winner == DRAW:
        return []
    stone = 2 - winner if game.misere else winner + 1

    def is_complete(line: Line) -> bool:
        is_longer = bool((cells[list(line.beyond)] == stone).any())
        return not is_longer and bool((cells[list(line.cells)] == stone).all())

    return sorted({cell for line in filter(is_complete, game.lines) for cell in line.cells})
