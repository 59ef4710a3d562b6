"""Verification of a folder of layers, entry by entry, by the rules.

Each entry is turned into its position, each move is made, lines and legal moves are those of the rules, and each
successor is looked up on its own. It shares with the sweep the numbering: ``rank`` and ``unrank``. So it also checks
that an entry's position has no line, that its rank is the entry, and that every move without a line leads to an entry.
What it cannot see is a layer that lacks positions which no other position leads to.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from baselines.exact.folder import Folder
from ttt_envs.core.jit import Int64Array, compiled_nogil, inlined
from ttt_envs.core.threads import Threads, count_threads, map_threads, split_rows
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.lines import has_line
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import legal_bits, value_over_skip
from ttt_envs.graph.numbering import WON, Layer, Numbering, Values, rank, unrank

ENTRIES_AT_ONCE = 1 << 16
"""Number of entries that a thread checks at a time, some hundredths of a second."""
ROUNDING = {"int8": 0.0, "float32": 2.0**-24, "float64": 2.0**-50}
"""maximum difference, by rounding, between a value and its recomputation from its successors"""
WRONG = 1000.0
"""difference of an entry whose position is not one of the layer"""


class CheckResult(NamedTuple):
    """Result of checking entries against their successors."""

    entries: int
    """number of entries checked"""
    largest: float
    """maximum difference: in values, or without skips in byte values"""
    wrong: tuple[int, int] | None
    """stones and index of the first entry whose difference exceeds rounding"""


def check_entries(folder: Path, stones: int, entries: range | Int64Array, *, threads: Threads = 1) -> CheckResult:
    """Recompute entries of a layer from the rules and from single look-ups in the next layer.

    Hashes are not checked.

    Args:
        folder: of a database.
        stones: the layer.
        entries: the entries to check, in increasing order.
        threads: number of threads, see :mod:`ttt_envs.core.threads`; the result does not depend on it.

    Raises:
        ValueError: there is no database, or a file cannot be read.
    """
    numbering, values, above = _map_layers(folder, stones)
    game, next_stones = numbering.game, min(stones + 1, numbering.game.cells)
    layer, next_layer = numbering.layer(stones), numbering.layer(next_stones)
    chosen, tolerance = np.asarray(entries, np.int64), ROUNDING[values.dtype.name]

    def check(_: int, rows: slice) -> tuple[float, int]:
        return _check_entries(chosen[rows], layer, next_layer, game.parameters, values, above, tolerance)

    results = map_threads(check, split_rows(len(chosen), ENTRIES_AT_ONCE), count_threads(threads))
    largest = max((difference for difference, _ in results), default=0.0)
    wrong = next((entry for _, entry in results if entry >= 0), None)
    return CheckResult(len(chosen), largest, None if wrong is None else (stones, wrong))


@lru_cache(maxsize=2)
def _map_layers(folder: Path, stones: int) -> tuple[Numbering, Values, Values]:
    """Return the numbering of a folder, one of its layers, and the next, which is not read for the full board."""
    store = Folder.open(folder)
    return _numbering(store.game), store.mapped(stones), store.mapped(min(stones + 1, store.game.cells))


@lru_cache(maxsize=2)
def _numbering(game: Game) -> Numbering:
    return Numbering(game)


def describe_entry(game: Game, stones: int, entry: int) -> str:
    """Return an entry's position as text, with the stones of the last mover as x, and the other player to move."""
    own, other = unrank(entry, _numbering(game).layer(stones))
    cells = [2 if own >> cell & 1 else 1 if other >> cell & 1 else 0 for cell in range(game.cells)]
    return to_text(Position(np.array(cells, np.int8), 0), game)


@compiled_nogil
def _check_entries(
    entries: Int64Array,
    layer: Layer,
    next_layer: Layer,
    parameters: Parameters,
    values: Values,
    above: Values,
    tolerance: float,
) -> tuple[float, int]:
    """Return the maximum difference, and the first entry whose difference exceeds the tolerance, -1 for none."""
    largest, wrong, skip = 0.0, -1, parameters.skip_chance
    for entry in entries:
        own, other = unrank(entry, layer)
        turned = _position_value(other, own, next_layer, parameters, above)
        if skip > 0:
            value = value_over_skip(_position_value(own, other, next_layer, parameters, above), -turned, skip)
        else:
            value = (1.0 if turned > 0 else 0.0) - (1.0 if turned < 0 else 0.0) - turned
        difference = abs(value - float(values[entry]))
        if has_line(own, parameters) or has_line(other, parameters) or rank(own, other, layer) != entry:
            difference = WRONG
        if not difference <= largest:
            largest = difference
        if not difference <= tolerance and wrong < 0:
            wrong = entry
    return largest, wrong


@inlined
def _position_value(own: int, other: int, next_layer: Layer, parameters: Parameters, above: Values) -> float:
    """Return V(own, other) in the units of the layers, from each move and its successor."""
    moves, best = legal_bits(own, other, parameters), -WRONG
    if moves == 0:
        return 0.0
    while moves:
        stone = moves & -moves
        moves ^= stone
        entry = rank(own | stone, other, next_layer)
        if has_line(own | stone, parameters):
            value = float(line_sign(parameters) * (WON if above.itemsize == 1 else 1))
        else:
            value = float(above[entry]) if entry >= 0 else WRONG
        best = max(best, value)
    return best
