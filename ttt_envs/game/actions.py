"""The actions of the environments: cells, or with gravity the columns into which stones are
dropped.

Everything else speaks of cells: policies, tables and matches get and return arrays over cells, with
gravity too.
"""

from __future__ import annotations

import numpy as np

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import action_index, illegal_message, landing_cell, legal


def num_actions(game: AnyGame) -> int:
    """Return the number of actions: of cells, or with gravity of columns."""
    return game.columns if game.gravity else game.cells


def check_action(game: AnyGame, action: object) -> int:
    """Return an action of an environment as an int, checked for type and range.

    Raises:
        TypeError: the action is not an integer.
        ValueError: the action is not a cell of the board, or with gravity a column.
    """
    return action_index(game, action, "column" if game.gravity else "cell")


def legal_actions(game: AnyGame, cells: Int8Array) -> BoolArray:
    """Return the legal actions bool[..., actions] of games in progress, int8[..., rows *
    columns].
    """
    if game.gravity:
        open_columns: BoolArray = cells[..., : game.columns] == 0
        return open_columns
    return legal(game, cells)


def action_to_cell(game: AnyGame, cells: Int8Array, action: object) -> int:
    """Return the cell of one action on a board int8[rows * columns].

    Raises:
        TypeError, ValueError: see :func:`check_action`; or with gravity the column is full.
    """
    index = check_action(game, action)
    if not game.gravity:
        return index
    cell = landing_cell(cells, index, game.parameters)
    if cell < 0:
        raise Refusal(illegal_action_message(game, cells, index))
    return cell


def cells_to_actions(game: AnyGame, cells: Int64Array) -> Int64Array:
    """Return the action that puts a stone on each of the cells."""
    return cells % game.columns if game.gravity else cells


def spread_over_cells(game: AnyGame, cells: Int8Array, numbers: Float64Array) -> Float64Array:
    """Return numbers of legal actions float64[B, actions] as float64[B, cells], 0 for illegal
    cells.
    """
    if not game.gravity:
        return numbers
    out = np.zeros(cells.shape)
    rows, legal_cells = np.nonzero(legal(game, cells))
    out[rows, legal_cells] = numbers[rows, legal_cells % game.columns]
    return out


def sum_by_action(numbers: Float64Array, num_actions: int) -> Float64Array:
    """Return numbers of cells float64[B, cells] as those of actions: with gravity, the sums over
    columns.
    """
    return np.asarray(numbers.reshape(len(numbers), -1, num_actions).sum(axis=1))


def illegal_action_message(game: AnyGame, cells: Int8Array, action: int) -> str:
    """Return the error message for an illegal action that is in range."""
    if not game.gravity:
        return illegal_message(game, cells, action)
    choices = ", ".join(map(str, np.flatnonzero(legal_actions(game, cells)).tolist()))
    return f"action {action} is illegal, the column is full: choose another one ({choices})"
