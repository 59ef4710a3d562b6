"""Numbers for every cell of a board, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import coordinate
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import legal

MAX_NARROW = 4
"""Maximum number of columns of a narrow board."""
DIGITS, WIDE_DIGITS = 3, 2
"""Decimal places of values in cells, on narrow boards and on wider ones."""


def cell_names(cells: Iterable[int], game: Game) -> str:
    """Return the names of the first 12 cells."""
    return ", ".join(coordinate(cell, game) for cell in islice(cells, 12))


def best_cells(values: Float64Array, tolerance: float = VALUE_TOLERANCE) -> list[int]:
    """Return the cells whose values equal the maximum within a tolerance; none if no value is known."""
    if np.isnan(values).all():
        return []
    return [int(cell) for cell in np.flatnonzero(values >= np.nanmax(values) - tolerance)]


def max_value(values: Float64Array) -> float:
    """Return the maximum, at least 1."""
    return max(1.0, float(np.nanmax(values)))


def value_text(value: float, digits: int = DIGITS) -> str:
    """Format a value with its sign; the minus sign is as wide as the plus."""
    text = f"{abs(value):.{digits}f}"
    return text if not float(text) else ("\N{MINUS SIGN}" if value < 0 else "+") + text


def probabilities_json(game: AnyGame, position: Position, shares: Float64Array, notes: list[str]) -> dict[str, Any]:
    """Return move probabilities; none for occupied cells."""
    known = np.where(legal(game, position.cells), shares, np.nan)
    texts = [None if np.isnan(one) else f"{one:.0%}" for one in known]
    return {**board_json(game, known, notes, "probability"), "texts": texts}


def learned_values_json(game: AnyGame, values: Float64Array, notes: list[str]) -> dict[str, Any]:
    """Return a learner's own action values, which may be wrong by any amount."""
    return {**board_json(game, values, notes), "scale": max(1.0, float(np.nanmax(np.abs(values))))}


def board_json(
    game: AnyGame, values: Float64Array, notes: list[str], word: str = "value", tolerance: float = VALUE_TOLERANCE
) -> dict[str, Any]:
    """Return a number for every empty cell, its text, and the best cells; the position's value if these are values."""
    digits = DIGITS if game.columns <= MAX_NARROW else WIDE_DIGITS
    known = [None if np.isnan(value) else float(value) + 0.0 for value in values]
    return {
        "values": known,
        "texts": [None if value is None else value_text(value, digits) for value in known],
        "best": best_cells(values, tolerance),
        "scale": 1.0,
        "word": word,
        "notes": notes,
        "value": max((value for value in known if value is not None), default=None) if word == "value" else None,
    }
