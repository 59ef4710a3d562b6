"""The rules of m,n,k tic-tac-toe with skipped turns and its variants: legal moves, turns and
results.

The environments, the solver, the searches and the learners all call this module. Two design
decisions: *chance is an argument*: no rule draws a random number, the caller passes ``u`` in [0,
1). And the *mover is part of the position*: after a skip, the number of stones no longer determines
the player to move. :mod:`ttt_envs.game.reference` has the same rules in plain Python.
"""

from __future__ import annotations

import operator
from enum import IntEnum
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import (
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
    inlined,
    int8,
    int64,
    kernel,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, NOT_NEGATIVE, Bits, all_bits, count_bits, to_bits
from ttt_envs.game.game import Position
from ttt_envs.game.lines import completes_line, completing_bits, has_line, makes_line
from ttt_envs.game.parameters import Parameters, has_gravity, line_sign
from ttt_envs.game.phantom import AnyGame

Value = TypeVar("Value", float, Float64Array)


class Outcome(IntEnum):
    """Outcome of a move or of a game; the number of a win is the winner's."""

    description: str
    """text, empty while the game is in progress"""
    winner: int
    """0 or 1, -1 for none"""
    returns: tuple[float, float]
    """both players' returns where each plays for itself: the opponent of a player who forfeits gets
    0
    """

    def __new__(
        cls,
        value: int,
        description: str = "",
        winner: int = -1,
        returns: tuple[float, float] = (0.0, 0.0),
    ) -> Outcome:
        """Return the member with this value."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.description = description
        member.winner = winner
        member.returns = returns
        return member

    def result_index(self, player: int) -> int:
        """Return the index of a player's result in (win, draw, loss)."""
        if self.winner < 0:
            return 1
        return 0 if self.winner == player else 2

    ILLEGAL = -2  # of a move, which changes nothing
    NOT_OVER = -1
    PLAYER_0_WON = 0, "player_0 won", 0, (1.0, -1.0)
    PLAYER_1_WON = 1, "player_1 won", 1, (-1.0, 1.0)
    DRAW = 2, "draw"
    PLAYER_0_FORFEITED = 3, "player_0 lost by an illegal action", 1, (-1.0, 0.0)
    PLAYER_1_FORFEITED = 4, "player_1 lost by an illegal action", 0, (0.0, -1.0)
    TRUNCATED = 5, "truncated after too many illegal actions"


# For kernels, in which the winner is 0 or 1.
DRAW = int(Outcome.DRAW)
NOT_OVER = int(Outcome.NOT_OVER)
ILLEGAL = int(Outcome.ILLEGAL)

# Independent streams of the random numbers of an episode, see `core.random.uniform`. The key of an
# episode is `splitmix64(key, episode)`. Numbers of skips and opponents are indexed by ply, the
# others have number 0 only.
(
    STREAM_SKIP,
    STREAM_OPPONENT,
    STREAM_SEAT,
    STREAM_SYMMETRY,
    STREAM_POOL,
    STREAM_CONTEXT,
    STREAM_OPENING,
) = range(7)


# --------------------------------------------------------------------------------------------------
# Kernels


@inlined
def is_legal(cells: Int8Array, cell: int, parameters: Parameters) -> bool:
    """Return whether a cell may be played in a game in progress (the colour encoding does not
    matter).
    """
    support = cell + parameters.columns
    floats = has_gravity(parameters) and support < len(cells) and cells[support] == 0
    return bool(cells[cell] == 0) and not floats


@inlined
def landing_cell(cells: Int8Array, column: int, parameters: Parameters) -> int:
    """Return the cell where a stone that is dropped into a column comes to rest, -1 if the column
    is full.
    """
    cell = len(cells) - parameters.columns + column
    while cell >= 0 and cells[cell] != 0:
        cell -= parameters.columns
    return max(cell, -1)


@inlined
def legal_bits(first: Bits, second: Bits, parameters: Parameters) -> Bits:
    """Return the legal cells as bits, see :func:`is_legal`; ``first`` and ``second`` are both
    players' stones.
    """
    rows = parameters.rows
    columns = parameters.columns
    stones = first | second
    board = all_bits(rows * columns)
    bottom_row = all_bits(columns) << ((rows - 1) * columns)
    floor = bottom_row if has_gravity(parameters) else int64(-1)
    return ~stones & board & ((stones & NOT_NEGATIVE) >> columns | floor)


@inlined
def opened_cell(cell: int, parameters: Parameters) -> int:
    """Return the cell that becomes legal by a stone on ``cell``: with gravity the one above, -1 for
    none.
    """
    has_cell_above = has_gravity(parameters) and cell >= parameters.columns
    return cell - parameters.columns if has_cell_above else -1


@inlined
def outcome_of_move(line: bool, mover: int, stones: int, parameters: Parameters) -> int:
    """Return the outcome of a stone of ``mover``, given ``line``, whether it makes one, and
    ``stones`` including it.
    """
    winner = mover if line_sign(parameters) > 0 else 1 - mover
    other_outcome = DRAW if stones == parameters.rows * parameters.columns else NOT_OVER
    return winner if line else other_outcome


@inlined
def _put(
    cells: Int8Array, mover: int, cell: int, stones: int, own: int, parameters: Parameters
) -> int:
    """Like :func:`place`; no line is searched where ``own``, the maximum number of own stones, is
    too small for one.
    """
    if cell < 0 or cell >= len(cells) or not is_legal(cells, cell, parameters):
        return ILLEGAL
    cells[cell] = mover + 1
    line = own >= parameters.win_length and makes_line(cells, cell, parameters)
    return outcome_of_move(line, mover, stones + 1, parameters)


@kernel(forceinline=True)
def place(cells: Int8Array, mover: int, cell: int, stones: int, parameters: Parameters) -> int:
    """Put a stone of ``mover`` on ``cell``, in place; ``stones`` counts the stones before the move.

    Returns:
        The winner (``mover``), ``DRAW``, ``NOT_OVER``; or ``ILLEGAL``, with the board unchanged.
    """
    return _put(cells, mover, cell, stones, stones + 1, parameters)


@kernel(forceinline=True)
def next_mover(mover: int, u: float, skip_chance: float) -> int:
    """Return the next mover after a stone that does not end the game: ``mover`` again when ``u <
    skip_chance``.
    """
    return mover if u < skip_chance else 1 - mover


@kernel(forceinline=True)
def mover_after(mover: int, episode_key: np.uint64, stones: int, skip_chance: float) -> int:
    """Like :func:`next_mover`, with the episode's skip draw for the ply ``stones``."""
    if skip_chance > 0:
        return next_mover(mover, uniform(episode_key, STREAM_SKIP, stones), skip_chance)
    return 1 - mover  # no random number is needed


def values_over_skip(own: Value, other: Value, skip: float) -> Value:
    """Return the expected value of an afterstate for one player, over the turn that follows;
    numbers or arrays.

    Both values are of that player: the negative of a value for the player to move, where that is
    the other one.

    Args:
        own: value if the other player's turn is skipped, ignored without skips.
        other: value if the other player moves next.
        skip: the skip chance.
    """
    return skip * own + (1.0 - skip) * other if skip > 0 else other


value_over_skip = inlined(values_over_skip)
"""in kernels: :func:`values_over_skip` of numbers"""


@inlined
def play(
    cells: Int8Array,
    mover: int,
    cell: int,
    stones: int,
    episode_key: np.uint64,
    parameters: Parameters,
) -> tuple[int, int]:
    """Make a move in a game that began with an empty board, then draw the next mover.

    The skip draw is the episode's draw for this ply.

    Returns:
        (outcome, mover): the outcome as in :func:`place`; the mover is unchanged after the end or
            an illegal move.
    """
    # without skips, the mover has half of the stones
    own = stones + 1 if parameters.skip_chance > 0 else stones // 2 + 1
    outcome = _put(cells, mover, cell, stones, own, parameters)
    if outcome == NOT_OVER:
        mover = mover_after(mover, episode_key, stones, parameters.skip_chance)
    return outcome, mover


@inlined
def nth_legal_cell(cells: Int8Array, u: float, parameters: Parameters) -> int:
    """Return the legal cell at quantile ``u`` in [0, 1) of the uniform distribution, in order of
    cells; -1 if full.
    """
    if not has_gravity(parameters):
        return nth_empty_cell(cells, u)
    num_legal = 0
    for cell in range(len(cells)):
        num_legal += int64(is_legal(cells, cell, parameters))
    rank = int(u * num_legal)
    for cell in range(len(cells)):
        if is_legal(cells, cell, parameters):
            if rank == 0:
                return cell
            rank -= 1
    return -1


@inlined
def nth_empty_cell(cells: Int8Array, u: float) -> int:
    """Return the empty cell at quantile ``u`` in [0, 1) of the uniform distribution, in order of
    cells; -1 if full.
    """
    num_empty = 0
    for cell in range(len(cells)):
        num_empty += cells[cell] == 0
    rank = int(u * num_empty)
    for cell in range(len(cells)):
        if cells[cell] == 0:
            if rank == 0:
                return cell
            rank -= 1
    return -1


@inlined
def completing_cells(cells: Int8Array, mover: int, parameters: Parameters, out: Int8Array) -> None:
    """Write 1 into ``out`` int8[rows * columns] where a legal stone of ``mover`` completes a line,
    else 0.
    """
    if len(cells) <= MAX_CELLS_IN_BITS:
        bits = completing_bits(to_bits(cells, int8(mover + 1)), parameters)
        for cell in range(len(cells)):
            out[cell] = is_legal(cells, cell, parameters) and bits >> cell & 1
    else:
        for cell in range(len(cells)):
            line = completes_line(cells, cell, mover + 1, parameters)
            out[cell] = is_legal(cells, cell, parameters) and line


@inlined
def outcome_of_bits(first: int, second: int, parameters: Parameters) -> int:
    """Do :func:`terminal_outcome`, given both players' stones as bits."""
    line = has_line(first, parameters)
    stones = count_bits(first | second)
    return outcome_of_move(
        line or has_line(second, parameters), int64(not line), stones, parameters
    )


@kernel(forceinline=True)
def terminal_outcome(cells: Int8Array, parameters: Parameters) -> int:
    """Return the outcome of a position from a scan of the whole board: the winner, ``DRAW`` or
    ``NOT_OVER``.
    """
    if len(cells) <= MAX_CELLS_IN_BITS:
        return outcome_of_bits(to_bits(cells, int8(1)), to_bits(cells, int8(2)), parameters)
    for cell in range(len(cells)):
        if cells[cell] != 0 and completes_line(cells, cell, int64(cells[cell]), parameters):
            return outcome_of_move(True, int64(cells[cell]) - 1, 0, parameters)
    return DRAW if cells.all() else NOT_OVER


@kernel
def play_rows(
    cells: Int8Array,
    mover: Int8Array,
    stones: Int64Array,
    episode_keys: UInt64Array,
    rows: Int64Array,
    actions: Int64Array,
    parameters: Parameters,
    outcomes: Int8Array,
) -> None:
    """Apply :func:`play` in the games ``rows`` of a batch, in place.

    Args:
        cells: int8[B, rows * columns]; mover: int8[B]; stones: int64[B]; episode_keys: uint64[B].
        rows: int64[R]: indices of the games that move.
        actions: int64[R].
        outcomes: int8[B], written for ``rows``; a game with outcome ``ILLEGAL`` is otherwise
            unchanged.
    """
    for i in range(len(rows)):
        b = rows[i]
        outcome, next_mover = play(
            cells[b], int64(mover[b]), actions[i], stones[b], episode_keys[b], parameters
        )
        outcomes[b] = outcome
        if outcome != ILLEGAL:
            mover[b] = next_mover
            stones[b] += 1


@kernel
def begin_rows(
    cells: Int8Array,
    mover: Int8Array,
    stones: Int64Array,
    episode_keys: UInt64Array,
    key: np.uint64,
    episodes: Int64Array,
) -> None:
    """Start episode ``episodes[b]`` of the seed's key in every game b of a batch, see
    :func:`play_rows`.
    """
    cells[:] = 0
    mover[:] = 0
    stones[:] = 0
    for b in range(len(cells)):
        episode_keys[b] = splitmix64(key, episodes[b])


# --------------------------------------------------------------------------------------------------
# Functions for Python callers


def check_cells(game: AnyGame, cells: Int8Array) -> None:
    """Raise ValueError unless ``cells`` is a board of ``game``: int8[rows * columns] of 0, 1 and 2,
    none in the air.
    """
    if not isinstance(cells, np.ndarray) or cells.shape != (game.cells,) or cells.dtype != np.int8:
        raise Refusal(
            f"cells must be int8[{game.cells}] for a board of {game.rows} x {game.columns}, row by "
            "row, "
            f"but got {getattr(cells, 'dtype', type(cells).__name__)}{list(np.shape(cells))}"
        )
    if ((cells < 0) | (cells > 2)).any():
        raise Refusal(
            f"cells holds {cells[(cells < 0) | (cells > 2)][0]}: use 0 empty, 1 player_0, 2 "
            "player_1"
        )
    if game.gravity and ((cells[: -game.columns] != 0) & (cells[game.columns :] == 0)).any():
        raise Refusal(
            "cells holds a stone above an empty cell: with gravity, stones fall to the lowest one"
        )


def action_index(game: AnyGame, action: object, kind: Literal["cell", "column"] = "cell") -> int:
    """Return ``action`` as an int, checked for type and range.

    Raises:
        TypeError: the action is not an integer.
        ValueError: the action is not a cell, or not a column, of the board.
    """
    count = game.cells if kind == "cell" else game.columns
    try:
        if isinstance(action, (bool, np.bool_)):
            raise TypeError
        index = operator.index(action)  # type: ignore[arg-type]  # raises TypeError for objects without an index
    except TypeError:
        raise TypeError(
            f"action {action!r} is not a whole number: an action is the index of a {kind}, 0 to "
            f"{count - 1}"
        ) from None
    if not 0 <= index < count:
        raise Refusal(
            f"action {index} is no {kind} of a board of {game.rows} x {game.columns}: choose 0 to "
            f"{count - 1}"
        )
    return index


def legal(game: AnyGame, cells: Int8Array) -> NDArray[np.bool_]:
    """Return :func:`is_legal` as bool, of the shape of ``cells``: int8[..., rows * columns], games
    in progress.
    """
    legal: NDArray[np.bool_] = cells == 0
    if game.gravity:
        legal[..., : -game.columns] &= cells[..., game.columns :] != 0
    return legal


def illegal_message(game: AnyGame, cells: Int8Array, action: int) -> str:
    """Return the error message for an illegal action, the index of a cell."""
    choices = [*map(str, np.flatnonzero(legal(game, cells)))]
    if len(choices) > 12:
        choices = [*choices[:12], "..."]
    examples = ", ".join(choices)
    if cells[action]:
        return (
            f"action {action} is illegal, the cell holds a stone: choose an empty one ({examples})"
        )
    return (
        f"action {action} is illegal, stones fall to the lowest empty cell: choose one of these "
        f"({examples})"
    )


def winner(game: AnyGame, cells: Int8Array) -> int | None:
    """Return the winner, 0 or 1, or ``DRAW``; None while the game is in progress."""
    outcome = int(terminal_outcome(cells, game.parameters))
    return None if outcome == NOT_OVER else outcome


class ChanceOutcome(NamedTuple):
    """One possible successor of a move."""

    probability: float
    position: Position
    winner: int | None
    """None while the game is in progress, else 0, 1 or ``DRAW``"""


def put_stone(game: AnyGame, cells: Int8Array, mover: int, cell: int) -> int:
    """Do :func:`place` on a board whose stones are counted first."""
    return int(place(cells, mover, cell, int(np.count_nonzero(cells)), game.parameters))


def chance_outcomes(game: AnyGame, position: Position, action: int) -> list[ChanceOutcome]:
    """Return all possible successors of a move with exact probabilities: the chance model for
    planners.

    Args:
        game: the game.
        position: a position that is not over; it is not changed.
        action: index of an empty cell.

    Returns:
        One outcome with probability 1 if the move ends the game or turns are never skipped; else
        two, the other player's turn first. In positions of finished games the mover is the player
        who moved last.

    Raises:
        TypeError: the action is not an integer.
        ValueError: the action is illegal, the position is over, or cells are not a board of the
            game.
    """
    check_cells(game, position.cells)
    if position.mover not in (0, 1):
        raise Refusal(
            f"mover={position.mover!r} is no player: use 0 (player_0, o) or 1 (player_1, x)"
        )
    if winner(game, position.cells) is not None:
        raise Refusal("the game is over in this position: no action leads on from it")
    cell = action_index(game, action)
    mover = int(position.mover)
    cells = position.cells.copy()
    outcome = put_stone(game, cells, mover, cell)
    if outcome == ILLEGAL:
        raise Refusal(illegal_message(game, cells, cell))
    if outcome != NOT_OVER:
        return [ChanceOutcome(1.0, Position(cells, mover), outcome)]
    turn = ChanceOutcome(1.0 - game.skip_chance, Position(cells, 1 - mover), None)
    if game.skip_chance == 0:
        return [turn]
    return [turn, ChanceOutcome(game.skip_chance, Position(cells.copy(), mover), None)]
