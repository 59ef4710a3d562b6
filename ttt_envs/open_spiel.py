"""Conversion of positions to OpenSpiel states and back, for its ``tic_tac_toe``, ``mnk`` and
``connect_four``.

In OpenSpiel x moves first, so player_0's stones, o here, are x there; cells have the same numbers.
An OpenSpiel state is a sequence of moves: a position becomes one of the sequences that lead to it.
OpenSpiel has no skips.

``pyspiel`` is imported at the first conversion of positions: ``pip install open_spiel``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Int8Array
from ttt_envs.game.actions import cells_to_actions
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import winner

__all__ = ["load_game", "to_boards", "to_states"]

if TYPE_CHECKING:
    import pyspiel  # an optional dependency

STONES = ".xo"
"""OpenSpiel's letters of the cells 0, 1 and 2"""
TIC_TAC_TOE = "tic_tac_toe"
CONNECT_FOUR = "connect_four"


def load_game(game: Game) -> pyspiel.Game:
    """Return the same game in OpenSpiel: ``tic_tac_toe`` for 3 x 3 with 3 in a row, else ``mnk``;
    with gravity ``connect_four``.

    Raises:
        ValueError: the game has skips, hidden stones, or other rules than gravity.
    """
    if game.skip_chance:
        raise Refusal(
            f"skip_chance={game.skip_chance} is unknown to OpenSpiel: choose a game without skips"
        )
    check_variants(
        "load_game",
        game,
        ("gravity",),
        reasons="mnk and connect_four of OpenSpiel have no such rule",
    )
    import pyspiel

    if game.gravity:
        return pyspiel.load_game(
            f"{CONNECT_FOUR}(rows={game.rows},columns={game.columns},x_in_row={game.win_length})"
        )
    if (game.rows, game.columns, game.win_length) == (3, 3, 3):
        return pyspiel.load_game(TIC_TAC_TOE)
    return pyspiel.load_game(f"mnk(m={game.columns},n={game.rows},k={game.win_length})")


def to_game(other: pyspiel.Game) -> Game:
    """Return the game of an OpenSpiel game: the inverse of :func:`load_game`.

    Raises:
        ValueError: the game is neither ``tic_tac_toe``, ``mnk`` nor ``connect_four``.
    """
    name = other.get_type().short_name
    if name == TIC_TAC_TOE:
        return Game(3, 3, 3)
    if name not in ("mnk", CONNECT_FOUR):
        raise Refusal(
            f"{name} of OpenSpiel is not played here: choose {TIC_TAC_TOE}, mnk(m=...,n=...,k=...) "
            f"or {CONNECT_FOUR}"
        )
    defaults = other.get_type().parameter_specification
    parameters = {**defaults, **other.get_parameters()}
    if name == CONNECT_FOUR:
        size = (parameters["rows"], parameters["columns"])
        return Game(*size, parameters["x_in_row"], gravity=True)
    return Game(parameters["n"], parameters["m"], parameters["k"])


def to_boards(states: Iterable[pyspiel.State]) -> Boards:
    """Convert states of one game to a batch, in order; in finished ones the mover is the player who
    moved last.

    Raises:
        ValueError: there are no states, or states of different games or of an unknown game: see
            :func:`to_game`.
    """
    states = list(states)
    shapes = {to_game(state.get_game()) for state in states}
    if len(shapes) != 1:
        raise Refusal(f"states of {len(shapes)} games are no batch: choose states of one game")
    digits = str.maketrans({stone: str(cell) for cell, stone in enumerate(STONES)})
    texts = [str(state).replace("\n", "").translate(digits) for state in states]
    cells = np.array([list(text) for text in texts], np.int8)
    is_over = np.array([state.is_terminal() for state in states])
    return Boards(cells, ((cells != 0).sum(axis=1) % 2 ^ is_over).astype(np.int8))


def to_states(boards: Boards, game: Game) -> list[pyspiel.State]:
    """Convert each position to a state with one of its possible histories: the inverse of
    :func:`to_boards`.

    Raises:
        ValueError: the game has skips, or a position is unreachable without skips.
    """
    other = load_game(game)
    states = []
    for index in range(len(boards.cells)):
        state = other.new_initial_state()
        cells = np.array(_history(game, boards.position(index)), np.int64)
        for action in cells_to_actions(game, cells).tolist():
            state.apply_action(action)
        states.append(state)
    return states


def _history(game: Game, position: Position) -> list[int]:
    """Return cells whose stones lead to a position; a final winning stone comes last."""
    cells, mover = position
    first, second = (int(np.count_nonzero(cells == stone)) for stone in (1, 2))
    # the player of the last stone, who remains the mover after the end
    last = 1 - (first + second) % 2
    last_cells = np.zeros(
        game.cells, np.bool_
    )  # the last stones: the game was not over without them
    for cell in np.flatnonzero(cells == last + 1).tolist():
        before = cells.copy()
        before[cell] = 0
        last_cells[cell] = winner(game, before) is None
    history = None
    if first - second not in (0, 1):
        reason = f"{first} and {second} stones do not come by turns"
    elif mover == last and winner(game, cells) is None:
        reason = f"it is player_{1 - mover}'s turn"
    elif cells.any() and not last_cells.any():
        reason = "it was over before its last stone"
    else:
        reason = "its stones cannot have fallen by turns"
        history = _take_back(game, cells, last_cells, set())
    if history is None:
        raise Refusal(f"{to_text(position, game)!r} is no position of OpenSpiel's: {reason}")
    return history


def _take_back(
    game: Game, cells: Int8Array, allowed: BoolArray, failed: set[bytes]
) -> list[int] | None:
    """Return the cells of the stones in an order in which they are put by turns; None if there is
    none.

    Stones are taken back one by one, depth first; with gravity from the tops of the columns.

    Args:
        game: the game.
        cells: int8[rows * columns].
        allowed: bool[rows * columns]: cells of which the last stone must be one.
        failed: boards without such an order.
    """
    stones = np.count_nonzero(cells)
    if not stones or cells.tobytes() in failed:
        return None if stones else []
    last = (cells == 2 - stones % 2) & allowed
    if game.gravity:
        last[game.columns :] &= cells[: -game.columns] == 0
    for cell in np.flatnonzero(last)[::-1].tolist():
        lower = cells.copy()
        lower[cell] = 0
        history = _take_back(game, lower, np.ones_like(allowed), failed)
        if history is not None:
            return [*history, cell]
    failed.add(cells.tobytes())
    return None
