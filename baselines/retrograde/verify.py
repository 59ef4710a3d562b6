"""Verification of a folder of layers, entry by entry.

Each entry is converted to its position, each move is made, lines are detected by the rules, and each successor is
looked up on its own. The values are recomputed without the code of the sweep, but positions are numbered by the same
code, so that a wrong set of positions is not detected.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from baselines.retrograde.columns import column_position
from baselines.retrograde.folder import Folder, open_folder
from baselines.retrograde.layers import NUM_PROBE_FIELDS, AnyProbe, Layers, find_entry
from baselines.retrograde.ranks import Halves, join_halves, spread_halves
from baselines.retrograde.sweep import BYTES, WON, Values
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array, Parameters, compiled_nogil, inlined, int64
from ttt_envs.core.threads import Threads, count_threads, map_threads, split_rows
from ttt_envs.game.bits import line_in
from ttt_envs.game.boards import to_text
from ttt_envs.game.rules import Position, legal_bits, line_result, skip_chance_of, value_over_skip

BLOCK = 64
"""Number of entries whose look-ups are in flight at once."""
ENTRIES_AT_ONCE = 1 << 16
"""Number of entries that a thread checks at a time, some hundredths of a second."""
SCRATCH = 13
"""Number of cells in half of the largest board."""
LINE_MADE = -1
"""in place of a successor: the move completes a line"""


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
    layers, layer, here, probe = _map_layers(folder, stones)
    chosen = np.arange(entries.start, entries.stop) if isinstance(entries, range) else entries
    num_threads, game = count_threads(threads), layers.game
    scratch = [_Scratch.zeros(game.cells) for _ in range(num_threads)]

    def check(worker: int, rows: slice) -> tuple[float, int]:
        part = chosen[rows]
        return _check_entries(part, here, probe, game.parameters, layer, layers.rounding, scratch[worker])

    found = map_threads(check, split_rows(len(chosen), ENTRIES_AT_ONCE), num_threads)
    largest = max((difference for difference, _ in found), default=0.0)
    wrong = next((entry for _, entry in found if entry >= 0), None)
    return CheckResult(len(chosen), largest, None if wrong is None else (stones, wrong))


def describe_check(found: Folder, stones: int, entry: int) -> str:
    """Return an entry's position as text, with the mover's stones as o."""
    own, other = found.layers.sets_at(stones, entry)
    cells = [1 if own >> cell & 1 else 2 if other >> cell & 1 else 0 for cell in range(found.layers.game.cells)]
    return to_text(Position(np.array(cells, np.int8), 0), found.layers.game)


@lru_cache(maxsize=2)
def _map_layers(folder: Path, stones: int) -> tuple[Layers, Values, AnyProbe, AnyProbe]:
    """Return the layers of a folder, one of them, and probes of it, without values, and of the next.

    The next layer of the full board is not read.
    """
    found = open_folder(folder)
    layers, after = found.layers, min(stones + 1, found.layers.game.cells)
    return layers, found.mapped(stones), layers.probe(stones), layers.probe(after, found.mapped(after))


class _Scratch(NamedTuple):
    """Workspace for a block of entries."""

    halves: Halves
    """all subsets of the cells not taken by the mover's stones"""
    spread: Int64Array
    """int64[1]: the mover's stones to which the subsets belong, -1 for none yet"""
    empty: Int64Array
    """int64[cells]: these cells"""
    is_over: BoolArray
    """bool[BLOCK]: for each entry, whether the other player has a line"""
    ends: Int64Array
    """int64[BLOCK]: for each entry, the end of its moves"""
    turned_at: Int64Array
    """int64[BLOCK * cells]: for each move, the successor's entry with the other player to move, or ``LINE_MADE``"""
    same_at: Int64Array
    """int64[BLOCK * cells]: the same with the same player to move, with skips"""
    values: Float64Array
    """float64[BLOCK * cells]: value of each move"""

    @classmethod
    def zeros(cls, cells: int) -> _Scratch:
        """Allocate for a board of ``cells`` cells."""
        moves = BLOCK * cells
        return cls(
            Halves(np.zeros(1 << SCRATCH, np.uint32), np.zeros(1 << SCRATCH, np.uint32)),
            np.full(1, -1),
            np.zeros(cells, np.int64),
            np.zeros(BLOCK, np.bool_),
            np.zeros(BLOCK, np.int64),
            np.zeros(moves, np.int64),
            np.zeros(moves, np.int64),
            np.zeros(moves),
        )


@compiled_nogil
def _check_entries(
    entries: Int64Array,
    here: AnyProbe,
    probe: AnyProbe,
    parameters: Parameters,
    layer: Values,
    tolerance: float,
    scratch: _Scratch,
) -> tuple[float, int]:
    """Return the maximum difference, and the first entry whose difference exceeds the tolerance, -1 for none."""
    cells = len(scratch.empty)
    won, lost = (1.0, -1.0) if skip_chance_of(parameters) > 0 else (float(WON), float(-BYTES))
    line_value = won * line_result(parameters)
    largest, wrong = 0.0, int64(-1)
    for begin in range(0, len(entries), BLOCK):
        end = min(begin + BLOCK, len(entries))
        moves = int64(0)
        for i in range(begin, end):
            mine, theirs = _stones_at(entries[i], here, scratch)
            over = line_in(theirs, parameters)
            if not over and here.stones < cells:
                moves = _find_successors(mine, theirs, moves, probe, parameters, scratch)
            scratch.is_over[i - begin] = over
            scratch.ends[i - begin] = moves
        _look_up(moves, line_value, probe, parameters, scratch)
        start = int64(0)
        for i in range(begin, end):
            stop = scratch.ends[i - begin]
            value = lost if scratch.is_over[i - begin] else _best_value(start, stop, scratch)
            start = stop
            difference = abs(value - float(layer[entries[i]]))
            if not difference <= largest:
                largest = difference
            if not difference <= tolerance and wrong < 0:
                wrong = entries[i]
    return largest, wrong


@inlined
def _stones_at(entry: int, probe: AnyProbe, scratch: _Scratch) -> tuple[int, int]:
    """Return the mover's stones and the other player's stones in an entry's position."""
    if len(probe) != NUM_PROBE_FIELDS:
        return column_position(entry, probe)
    stones = probe.stones
    starts, widths, ranks, classes = probe.starts, probe.widths, probe.ranks, probe.classes
    cells, own = len(scratch.empty), int64(0)
    while starts[stones, own + 1] <= entry:
        own += 1
    within, width = entry - starts[stones, own], widths[stones, own]
    mine = int64(classes.leaders[classes.starts[own] + within // width])
    if mine != scratch.spread[0]:
        scratch.spread[0] = mine
        count = int64(0)
        for cell in range(cells):
            if mine >> cell & 1 == 0:
                scratch.empty[count] = cell
                count += 1
        spread_halves(scratch.empty, count, scratch.halves)
    others = int64(ranks.sets[ranks.starts[stones - own] + within % width])
    return mine, join_halves(others, cells - own, scratch.halves)


@inlined
def _find_successors(
    mine: int, theirs: int, moves: int, probe: AnyProbe, parameters: Parameters, scratch: _Scratch
) -> int:
    """Make each move in a position and find the entries of the successors; return the new number of moves.

    The look-ups follow later, many at once. Entries are written from index ``moves`` on.
    """
    left = legal_bits(mine, theirs, parameters)
    while left != 0:
        stone = left & -left
        left ^= stone
        made = mine | stone
        if line_in(made, parameters):
            scratch.turned_at[moves] = LINE_MADE
        else:
            _, scratch.turned_at[moves] = find_entry(theirs, made, probe)
            if skip_chance_of(parameters) > 0:
                _, scratch.same_at[moves] = find_entry(made, theirs, probe)
        moves += 1
    return moves


@inlined
def _look_up(moves: int, line_value: float, probe: AnyProbe, parameters: Parameters, scratch: _Scratch) -> None:
    """Compute the values of the first ``moves`` moves, for the player who makes them."""
    skip = skip_chance_of(parameters)
    for j in range(moves):
        at = scratch.turned_at[j]
        if at == LINE_MADE:
            scratch.values[j] = line_value
        elif skip > 0:
            same, turned = probe.results[scratch.same_at[j]], probe.results[at]
            scratch.values[j] = value_over_skip(np.float64(same), -np.float64(turned), skip)
        else:
            value = float(probe.plies[at])
            scratch.values[j] = (1.0 if value > 0 else 0.0) - (1.0 if value < 0 else 0.0) - value


@inlined
def _best_value(start: int, stop: int, scratch: _Scratch) -> float:
    """Return the value of the best of these moves; a draw if there are none, on a full board."""
    value = 0.0 if start == stop else -1000.0
    for j in range(start, stop):
        value = max(value, scratch.values[j])
    return value
