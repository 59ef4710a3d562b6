"""Numbers for every cell of a board, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import coordinate
from ttt_envs.game.game import Game

MAX_NARROW = 4
"""Maximum number of columns of a narrow board."""
DIGITS, WIDE_DIGITS = 3, 2
"""Decimal places of values in cells, on narrow boards and on wider ones."""


def cell_names(cells: Iterable[int], game: Game) -> str:
    """Return the names of the first 12 cells."""
    return ", ".join(coordinate(cell, game) for cell in islice(cells, 12))


def best_cells(values: Float64Array, tolerance: float = VALUE_TOLERANCE) -> list[int]:
    """Return the cells whose values equal the maximum within a tolerance; none if no value is known."""
    highest = max(values[~np.isnan(values)], default=0.0)
    return [int(cell) for cell in np.flatnonzero(values >= highest - tolerance)]


def value_text(value: float, digits: int = DIGITS) -> str:
    """Format a value with its sign; the minus sign is as wide as the plus."""
    text = f"{abs(value):.{digits}f}"
    return text if not float(text) else ("\N{MINUS SIGN}" if value < 0 else "+") + text


def board_json(
    game: Game,
    values: Float64Array,
    notes: list[str],
    word: str = "value",
    text: Callable[[float], str] | None = None,
    tolerance: float = VALUE_TOLERANCE,
) -> dict[str, Any]:
    """Return a number for every empty cell, its text, and the best cells; the position's value if these are values.

    Args:
        game: the game.
        values: float64[cells], NaN where there is none.
        notes: sentences about them.
        word: what they are.
        text: formats one; default: as a value.
        tolerance: maximum difference between two that count as equal.
    """
    digits = DIGITS if game.columns <= MAX_NARROW else WIDE_DIGITS
    numbers = [None if np.isnan(value) else float(value) + 0.0 for value in values]
    known = [number for number in numbers if number is not None]
    to_text = text or (lambda number: value_text(number, digits))
    return {
        "values": numbers,
        "texts": [None if number is None else to_text(number) for number in numbers],
        "best": best_cells(values, tolerance),
        "scale": max(1.0, max(map(abs, known), default=0.0)),
        "word": word,
        "notes": notes,
        "value": max(known, default=None) if word in ("value", "result") else None,
    }
