"""Verification of a folder of layers, entry by entry, by the rules.

Each entry is turned into its position, each move is made, lines and legal moves are those of the
rules, and each successor is looked up on its own. It shares with the sweep the numbering: ``rank``
and ``unrank``. So it also checks that an entry's position has no line, that its rank is the entry,
and that every move without a line leads to an entry. What it cannot see is a layer that lacks
positions which no other position leads to.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from baselines.exact.folder import Folder
from baselines.exact.solution import Table, best_move_value
from ttt_envs.core.jit import Int64Array, kernel
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.lines import has_line
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import value_over_skip
from ttt_envs.graph.numbering import Numbering, before_ply, rank, unrank


def check_entries(folder: Path, stones: int, entries: range | Int64Array) -> tuple[float, int]:
    """Recompute entries of a layer from the rules and from single look-ups in the next layer.

    Hashes are not checked.

    Args:
        folder: of a database.
        stones: the layer.
        entries: the entries to check, in increasing order.

    Returns:
        The maximum difference, in values, or without skips in byte values; infinite if an entry is
        not in its place. And the first entry whose difference exceeds rounding, -1 for none.

    Raises:
        ValueError: there is no database, or a file cannot be read.
    """
    store = Folder.open(folder)
    numbering = _numbering(store.game)
    next_stones = min(stones + 1, store.game.cells)
    table = numbering.layer(stones), store.mapped(stones)
    next_table = numbering.layer(next_stones), store.mapped(next_stones)
    rows = np.asarray(entries, np.int64)
    return _check_entries(rows, table, next_table, store.game.parameters)


@lru_cache(maxsize=1)
def _numbering(game: Game) -> Numbering:
    return Numbering(game)


def describe_entry(game: Game, stones: int, entry: int) -> str:
    """Return an entry's position as text, with the stones of the last mover as x, and the other
    player to move.
    """
    own, other = unrank(entry, _numbering(game).layer(stones))
    cells = np.arange(game.cells)
    board = 2 * (own >> cells & 1) + (other >> cells & 1)
    return to_text(Position(board.astype(np.int8), 0), game)


@kernel(interpreted=False, nogil=True)
def _check_entries(
    entries: Int64Array, table: Table, next_table: Table, parameters: Parameters
) -> tuple[float, int]:
    """Return the maximum difference, infinite if an entry is not in its place, and the first wrong
    entry or -1.
    """
    layer, values = table
    skip = parameters.skip_chance
    tolerance = 0.0  # by rounding
    if values.itemsize == 4:
        tolerance = 2.0**-24
    elif values.itemsize == 8:
        tolerance = 2.0**-50
    max_difference = 0.0
    wrong_entry = -1
    for entry in entries:
        own, other = unrank(entry, layer)
        switch_value = best_move_value(other, own, next_table, parameters, None)
        if skip > 0:
            stay_value = best_move_value(own, other, next_table, parameters, None)
            value = value_over_skip(stay_value, -switch_value, skip)
        else:
            value = before_ply(switch_value)
        difference = abs(value - float(values[entry]))
        has_lines = has_line(own, parameters) or has_line(other, parameters)
        if has_lines or rank(own, other, layer) != entry or np.isnan(difference):
            difference = np.inf
        max_difference = max(max_difference, difference)
        if difference > tolerance and wrong_entry < 0:
            wrong_entry = entry
    return max_difference, wrong_entry
