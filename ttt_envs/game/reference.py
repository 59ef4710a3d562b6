"""The rules on one page: plain Python, slow and obvious. The kernels are tested to play the same
games.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from ttt_envs.core.checks import Refusal
from ttt_envs.game.game import Game

__all__ = ["DRAW", "State", "has_line", "legal_cells", "play"]

DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
"""steps of rows and columns along a row, a column and both diagonals"""
DRAW = 2


class State(NamedTuple):
    """A position of a game, or its end."""

    stones: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    """the cells that player_0 and player_1 hold; cell ``row * columns + column``"""
    mover: int = 0
    """the player to move; after the end the one who moved last"""
    winner: int | None = None
    """None while the game is in progress, else 0, 1 or ``DRAW``"""


def legal_cells(game: Game, stones: Set[int]) -> list[int]:
    """Return the cells where a stone may be put, in order: empty ones, with gravity those on a
    stone or the floor.
    """
    cells = [cell for cell in range(game.cells) if cell not in stones]
    if not game.gravity:
        return cells
    floor = range(game.cells, game.cells + game.columns)
    return [cell for cell in cells if cell + game.columns in stones or cell + game.columns in floor]


def run_through(game: Game, own: Set[int], cell: int, row_step: int, column_step: int) -> int:
    """Return the number of consecutive cells of ``own`` through ``cell`` in a direction; a torus
    has no edges.
    """
    run = {cell}
    for sign in (1, -1):
        row, column = divmod(cell, game.columns)
        while True:
            row += sign * row_step
            column += sign * column_step
            if game.torus:
                row %= game.rows
                column %= game.columns
            is_on_board = 0 <= row < game.rows and 0 <= column < game.columns
            next_cell = row * game.columns + column
            if not is_on_board or next_cell not in own or next_cell in run:
                break
            run.add(next_cell)
    return len(run)


def has_line(game: Game, own: Set[int]) -> bool:
    """Return whether stones have a line: ``win_length`` of them in a row, or more if overlines
    count.
    """
    lengths = {run_through(game, own, cell, *direction) for cell in own for direction in DIRECTIONS}
    return any(n == game.win_length or (n > game.win_length and game.overlines) for n in lengths)


def play(game: Game, state: State, cell: int, u: float) -> State:
    """Return the state after a move; the other player's turn is skipped if ``u`` in [0, 1) is below
    the skip chance.

    Raises:
        ValueError: the game is over, or the cell is illegal.
    """
    mover = state.mover
    first, second = state.stones
    legal = [] if state.winner is not None else legal_cells(game, first | second)
    if cell not in legal:
        raise Refusal(f"cell {cell} is illegal here: choose one of {legal}")
    stones = (first | {cell}, second) if mover == 0 else (first, second | {cell})
    if has_line(game, stones[mover]):
        return State(stones, mover, 1 - mover if game.misere else mover)
    if len(stones[0]) + len(stones[1]) == game.cells:
        return State(stones, mover, DRAW)
    return State(stones, mover if u < game.skip_chance else 1 - mover)
