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
from ttt_envs.graph.numbering import Numbering, rank, sign, unrank


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
    numbering, next_stones = _numbering(store.game), min(stones + 1, store.game.cells)
    table, above = ((numbering.layer(n), store.mapped(n)) for n in (stones, next_stones))
    return _check_entries(np.asarray(entries, np.int64), table, above, store.game.parameters)


@lru_cache(maxsize=1)
def _numbering(game: Game) -> Numbering:
    return Numbering(game)


def describe_entry(game: Game, stones: int, entry: int) -> str:
    """Return an entry's position as text, with the stones of the last mover as x, and the other
    player to move.
    """
    own, other = unrank(entry, _numbering(game).layer(stones))
    cells = [2 if own >> cell & 1 else 1 if other >> cell & 1 else 0 for cell in range(game.cells)]
    return to_text(Position(np.array(cells, np.int8), 0), game)


@kernel(interpreted=False, nogil=True)
def _check_entries(
    entries: Int64Array, table: Table, above: Table, parameters: Parameters
) -> tuple[float, int]:
    """Return the maximum difference, infinite if an entry is not in its place, and the first wrong
    entry or -1.
    """
    layer, values = table
    largest, wrong, skip = 0.0, -1, parameters.skip_chance
    tolerance = (
        0.0 if values.itemsize == 1 else 2.0**-24 if values.itemsize == 4 else 2.0**-50
    )  # by rounding
    for entry in entries:
        own, other = unrank(entry, layer)
        value = -best_move_value(other, own, above, parameters, None)
        if skip > 0:
            value = value_over_skip(
                best_move_value(own, other, above, parameters, None), value, skip
            )
        else:
            value -= sign(value)
        difference = abs(value - float(values[entry]))
        lines = has_line(own, parameters) or has_line(other, parameters)
        if lines or rank(own, other, layer) != entry or np.isnan(difference):
            difference = np.inf
        largest = max(largest, difference)
        if difference > tolerance and wrong < 0:
            wrong = entry
    return largest, wrong
