"""Endgame databases (tablebases): the last layers of a game in a folder, for searches and analysis.

A database holds the value of every position with N stones or more: the result of
:func:`~baselines.retrograde.builder.build` with ``stones=N``. A search from fewer stones than layer L adds one stone
per ply, skips or not, so it reaches that layer before any later one and needs to read only that layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baselines.retrograde import LayeredTable, build, estimate, open_table
from baselines.retrograde.folder import Folder, open_folder
from baselines.retrograde.layers import Layers
from baselines.retrograde.ranks import Classes, Halves, Ranks, classes_of, entry_of, joined, ranks_of, spread_halves
from baselines.retrograde.sweep import BYTES, WON, Values
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, Parameters, compiled_nogil, inlined, int8, int64
from ttt_envs.game.bits import line_in, to_bits
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.rules import Game, Position, legal_bits, skip_chance_of

__all__ = [
    "Checked",
    "Endgame",
    "Folder",
    "LayeredTable",
    "Probe",
    "build",
    "check",
    "describe_check",
    "estimate",
    "open_folder",
    "open_table",
]

NOWHERE = -1
"""layer number for a search without a database"""
BLOCK = 64
"""Number of entries whose look-ups are in flight at once."""
SCRATCH = 13
"""Number of cells in half of the largest board."""


# ---------------------------------------------------------------------------------------------------------------------
# Probing by searches


class Probe(NamedTuple):
    """One layer, in the form that kernels read."""

    stones: int
    """number of stones of the layer, ``NOWHERE`` without a database"""
    starts: Int64Array
    """int64[stones, own stones]: start of a part in its layer"""
    widths: Int64Array
    """int64[stones, own stones]: number of ranks of a part"""
    ranks: Ranks
    classes: Classes
    plies: NDArray[np.int8]
    """int8[N]: the values without skips, see :mod:`baselines.retrograde.sweep`; empty with skips"""
    results: NDArray[np.float32]
    """float32[N]: the values with skips, else empty"""


class Endgame:
    """A database probed by a search.

    Args:
        path: the folder.
        game: the game searched.

    Raises:
        ValueError: there is no finished database of this game.
    """

    def __init__(self, path: str | Path, game: Game) -> None:
        self.table = open_table(game, Path(path))
        self._parameters = game.parameters

    @property
    def stones(self) -> int:
        """Minimum number of stones of positions in the database."""
        return self.table.stones

    @property
    def error(self) -> float:
        """Maximum difference of a value from the exact one."""
        return self.table.error

    def layers_of(self, boards: Boards) -> Int64Array:
        """Return int64[B]: the number of stones at which a search from these positions probes the database."""
        layers: Int64Array = np.maximum(np.count_nonzero(boards.cells, axis=1) + 1, self.stones)
        return layers

    def scores(self, boards: Boards, depth: int) -> Float64Array:
        """Return float64[B], for the mover: search scores of positions in the database, with ``depth`` plies left."""
        out = np.empty(len(boards.mover))
        for stones, rows in by_layer(np.count_nonzero(boards.cells, axis=1)):
            part = boards.take(rows)
            found = np.empty(len(rows))
            _scores(np.ascontiguousarray(part.cells), part.mover, depth, self.probe(stones), self._parameters, found)
            out[rows] = found
        return out

    def probe(self, stones: int) -> Probe:
        """Return the layer of ``stones`` stones.

        Raises:
            ValueError: its file is damaged.
        """
        values, layers = self.table.layer(stones), self.table.layers
        plies, results = (values, _no_results()) if values.dtype == np.int8 else (_no_plies(), values)
        return Probe(stones, layers.starts, layers.widths, layers.ranks, layers.classes, plies, results)


@inlined
def afterstate_index(own: int, other: int, probe: Probe, parameters: Parameters) -> float:
    """Return the afterstate value of a position of the layer for its last player, in the units of the database.

    Args:
        own: stones of the last player, without a line.
        other: stones of the other player.
        probe: a layer that contains the position.
        parameters: ``Game.parameters``.
    """
    skip = skip_chance_of(parameters)
    _, turned = entry_of(other, own, probe.ranks, probe.classes, probe.starts, probe.widths)
    if skip > 0:
        _, same = entry_of(own, other, probe.ranks, probe.classes, probe.starts, probe.widths)
        return skip * float(probe.results[same]) - (1.0 - skip) * float(probe.results[turned])
    value = float(probe.plies[turned])
    return (1.0 if value > 0 else 0.0) - (1.0 if value < 0 else 0.0) - value


@compiled_nogil
def result_of(cells: Int8Array, mover: int, skipped: bool, probe: Probe, parameters: Parameters) -> float:
    """Return the expected result for ``mover``, the last player of a position, once the next mover is known.

    Args:
        cells: int8[cells], the position.
        mover: the player who has just moved.
        skipped: whether the last player moves again.
        probe: a layer that contains the position.
        parameters: ``Game.parameters``.
    """
    own, other = to_bits(cells, int8(mover + 1)), to_bits(cells, int8(2 - mover))
    if not skipped:
        own, other = other, own
    _, at = entry_of(own, other, probe.ranks, probe.classes, probe.starts, probe.widths)
    if skip_chance_of(parameters) > 0:
        worth = float(probe.results[at])
    else:
        worth = (1.0 if probe.plies[at] > 0 else 0.0) - (1.0 if probe.plies[at] < 0 else 0.0)
    return worth if skipped else -worth


@inlined
def score_of(worth: float, plies: float, depth: int, parameters: Parameters) -> float:
    """Convert an entry, with the result ``plies`` away, to a score of a search with ``depth`` plies left.

    With skips the score is the expected result. Without, a win at ply k counts ``depth - k + 1``, as in the search.
    Wins beyond the depth count less than 1, but more than heuristic scores, and sooner ones more.
    """
    if skip_chance_of(parameters) > 0 or worth == 0.0:
        return worth
    score = depth - plies + 1.0 if plies <= depth else 1.0 - plies / BYTES
    return score if worth > 0 else -score


@inlined
def value_of_score(cells: Int8Array, mover: int, depth: int, probe: Probe, parameters: Parameters) -> float:
    """Return the search score of a position of the layer for its last player ``mover``, with ``depth`` plies left."""
    worth = afterstate_index(to_bits(cells, int8(mover + 1)), to_bits(cells, int8(2 - mover)), probe, parameters)
    return score_of(worth, BYTES - abs(worth) - 1.0, depth, parameters)  # one ply is already played


@inlined
def _of_mover(cells: Int8Array, mover: int, depth: int, probe: Probe, parameters: Parameters) -> float:
    """Return the search score of a position of the layer for its ``mover`` to move, with ``depth`` plies left."""
    own, other = to_bits(cells, int8(mover + 1)), to_bits(cells, int8(2 - mover))
    _, at = entry_of(own, other, probe.ranks, probe.classes, probe.starts, probe.widths)
    worth = float(probe.results[at]) if skip_chance_of(parameters) > 0 else float(probe.plies[at])
    return score_of(worth, BYTES - abs(worth), depth, parameters)


@compiled_nogil
def _scores(
    cells: Int8Array, mover: Int8Array, depth: int, probe: Probe, parameters: Parameters, out: Float64Array
) -> None:
    for b in range(len(cells)):
        out[b] = _of_mover(cells[b], int64(mover[b]), depth, probe, parameters)


def by_layer(layers: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Yield each distinct layer with its rows."""
    for stones in np.unique(layers).tolist():
        yield stones, np.flatnonzero(layers == stones)


@lru_cache(maxsize=1)
def no_probe() -> Probe:
    """Return the probe without a database, which is never read."""
    game = Game(1, 1, 1)
    ranks = ranks_of(1)
    nothing = np.zeros((1, 1), np.int64)
    return Probe(NOWHERE, nothing, nothing, ranks, classes_of(game, ranks), _no_plies(), _no_results())


def _no_plies() -> NDArray[np.int8]:
    found = np.zeros(0, np.int8)
    found.flags.writeable = False
    return found


def _no_results() -> NDArray[np.float32]:
    found = np.zeros(0, np.float32)
    found.flags.writeable = False
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Checking


UNKNOWN, LOST, WON_AT_ONCE = 0, 1, 2
"""outcomes of a position by the rules alone"""


class Checked(NamedTuple):
    """Result of checking entries against their successors."""

    entries: int
    """number of entries checked"""
    largest: float
    """maximum difference: in values, or without skips in byte values"""
    wrong: tuple[int, int] | None
    """stones and index of the first entry whose difference exceeds rounding"""


def check(folder: Path, stones: int, start: int, stop: int, picked: Int64Array | None = None) -> Checked:
    """Recompute entries of a layer from the rules and from single look-ups in the next layer.

    This shares no code with the sweep: each entry is converted to its position, each move is made, lines are detected
    by the rules, and each successor is looked up on its own. Hashes are not checked.

    Args:
        folder: of a database.
        stones: the layer.
        start: the first entry.
        stop: the entry after the last.
        picked: int64[K], entries to check instead of the range, in increasing order.

    Raises:
        ValueError: there is no database, or a file cannot be read.
    """
    layers, layer, after = _layers_to_check(folder, stones)
    entries = np.zeros(0, np.int64) if picked is None else picked
    first, last = (start, stop) if picked is None else (0, len(picked))
    tables = _Tables(layers.starts, layers.widths, layers.ranks, layers.classes)
    scratch = _Scratch.of(layers.game.cells)
    differences, at = np.zeros(1), np.zeros(1, np.int64)
    _check(
        first,
        last,
        picked is not None,
        entries,
        stones,
        tables,
        layers.game.parameters,
        layer,
        after,
        layers.rounding,
        scratch,
        differences,
        at,
    )
    wrong = None if at[0] < 0 else (stones, int(at[0]))
    return Checked(last - first, float(differences[0]), wrong)


def describe_check(found: Folder, stones: int, entry: int) -> str:
    """Return an entry's position as text, with the mover's stones as o."""
    layers = found.layers
    own = int(np.searchsorted(layers.starts[stones], entry, side="right")) - 1
    row, rank = divmod(entry - int(layers.starts[stones, own]), int(layers.widths[stones, own]))
    cells = np.zeros(layers.game.cells, np.int8)
    mine = int(layers.classes.leaders[layers.classes.starts[own] + row])
    cells[[cell for cell in range(len(cells)) if mine >> cell & 1]] = 1
    others = int(layers.ranks.sets[layers.ranks.starts[stones - own] + rank])
    left = np.flatnonzero(cells == 0)
    cells[[int(cell) for place, cell in enumerate(left) if others >> place & 1]] = 2
    return to_text(Position(cells, 0), layers.game)


@lru_cache(maxsize=2)
def _layers_to_check(folder: Path, stones: int) -> tuple[Layers, Values, Values]:
    found = open_folder(folder)
    layers = found.layers
    above = found.mapped(stones + 1) if stones < layers.game.cells else found.mapped(stones)
    return layers, found.mapped(stones), above


class _Tables(NamedTuple):
    """The tables that map positions to entries, see :class:`Probe`."""

    starts: Int64Array
    widths: Int64Array
    ranks: Ranks
    classes: Classes


class _Scratch(NamedTuple):
    """Workspace for a block of entries."""

    halves: Halves
    """all subsets of the cells not taken by the mover's stones"""
    spread: Int64Array
    """int64[1]: the mover's stones to which the subsets belong, -1 for none yet"""
    empty: Int64Array
    """int64[cells]: these cells"""
    known: Int64Array
    """int64[BLOCK]: for each entry, the outcome by the rules alone"""
    turned_at: Int64Array
    """int64[BLOCK * cells]: for each move, the entry of the successor with the other player to move"""
    same_at: Int64Array
    """int64[BLOCK * cells]: the same with the same player to move, with skips"""
    worths: Float64Array
    """float64[BLOCK * cells]: value of each move"""

    @classmethod
    def of(cls, cells: int) -> _Scratch:
        """Allocate for a board of ``cells`` cells."""
        moves = BLOCK * cells
        return cls(
            Halves(np.zeros(1 << SCRATCH, np.uint32), np.zeros(1 << SCRATCH, np.uint32)),
            np.full(1, -1),
            np.zeros(cells, np.int64),
            np.zeros(BLOCK, np.int64),
            np.zeros(moves, np.int64),
            np.zeros(moves, np.int64),
            np.zeros(moves),
        )


@compiled_nogil
def _check(
    first: int,
    last: int,
    picking: bool,
    picked: Int64Array,
    stones: int,
    tables: _Tables,
    parameters: Parameters,
    layer: Values,
    after: Values,
    tolerance: float,
    scratch: _Scratch,
    largest: NDArray[np.float64],
    wrong: Int64Array,
) -> None:
    """Do :func:`check`; ``largest`` and ``wrong`` have one entry each, which are written."""
    cells = len(scratch.empty)
    skip = skip_chance_of(parameters)
    won, lost = (1.0, -1.0) if skip > 0 else (float(WON), float(-BYTES))
    wrong[0] = -1
    begin = first
    while begin < last:
        end = min(begin + BLOCK, last)
        moves = int64(0)
        for i in range(begin, end):
            mine, theirs = _stones_at(picked[i] if picking else i, stones, tables, scratch)
            known = int64(LOST if line_in(theirs, parameters) else UNKNOWN)
            if known != LOST and stones < cells:
                known, moves = _look_ahead(mine, theirs, moves, tables, parameters, scratch)
            scratch.known[i - begin] = known
        _look_up(moves, skip, after, scratch)
        at = int64(0)
        for i in range(begin, end):
            entry = picked[i] if picking else i
            known = scratch.known[i - begin]
            value = lost if known == LOST else won
            if known != LOST:
                best = _best_score(at, at + cells - stones, scratch)
                value = won if known == WON_AT_ONCE else best
                at += cells - stones
            difference = abs(value - float(layer[entry]))
            if not difference <= largest[0]:
                largest[0] = difference
            if not difference <= tolerance and wrong[0] < 0:
                wrong[0] = entry
        begin = end


@inlined
def _stones_at(entry: int, stones: int, tables: _Tables, scratch: _Scratch) -> tuple[int, int]:
    """Return the mover's stones and the other player's stones in an entry's position."""
    starts, widths, ranks, classes = tables
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
    return mine, joined(others, cells - own, scratch.halves)


@inlined
def _look_ahead(
    mine: int, theirs: int, moves: int, tables: _Tables, parameters: Parameters, scratch: _Scratch
) -> tuple[int, int]:
    """Make each move in a position and find the entries of the successors.

    The look-ups follow later, many at once.

    Args:
        mine: the mover's stones.
        theirs: the other player's stones.
        moves: number of moves so far.
        tables: map positions to entries.
        parameters: ``Game.parameters``.
        scratch: written from index ``moves`` on.

    Returns:
        ``WON_AT_ONCE`` if a move wins, else ``UNKNOWN``; and the new number of moves.
    """
    starts, widths, ranks, classes = tables
    known = int64(UNKNOWN)
    left = legal_bits(mine, theirs, parameters)
    while left != 0:
        stone = left & -left
        left ^= stone
        made = mine | stone
        if line_in(made, parameters):
            known = int64(WON_AT_ONCE)
        _, scratch.turned_at[moves] = entry_of(theirs, made, ranks, classes, starts, widths)
        if skip_chance_of(parameters) > 0:
            at = int64(0)
            if known != WON_AT_ONCE:
                _, at = entry_of(made, theirs, ranks, classes, starts, widths)
            scratch.same_at[moves] = at
        moves += 1
    return known, moves


@inlined
def _look_up(moves: int, skip: float, after: Values, scratch: _Scratch) -> None:
    """Compute the values of the first ``moves`` moves, for the player who makes them."""
    if skip > 0:
        for j in range(moves):
            same, turned = after[scratch.same_at[j]], after[scratch.turned_at[j]]
            scratch.worths[j] = skip * float(same) - (1.0 - skip) * float(turned)
    else:
        for j in range(moves):
            value = float(after[scratch.turned_at[j]])
            scratch.worths[j] = (1.0 if value > 0 else 0.0) - (1.0 if value < 0 else 0.0) - value


@inlined
def _best_score(start: int, stop: int, scratch: _Scratch) -> float:
    """Return the value of the best of these moves; a draw if there are none, on a full board."""
    value = 0.0 if start == stop else -1000.0
    for j in range(start, stop):
        value = max(value, scratch.worths[j])
    return value
