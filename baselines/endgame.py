"""Endgame databases: the last layers of a game in a folder, for searches and for who wants to know.

A database holds the value of every position with N stones or more, as :mod:`baselines.layered` makes and keeps it: what
:func:`build` makes with ``stones=N``. A search that starts before layer L puts down one stone at a ply, skips or not,
and so meets that layer before any other: one layer is all that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baselines.layered import LayeredTable, build, estimate, open_table
from baselines.layered.folder import Folder, open_folder
from baselines.layered.layers import Layers
from baselines.layered.ranks import Classes, Halves, Ranks, classes_of, entry_of, joined, ranks_of, spread_halves
from baselines.layered.sweep import BYTES, WON, Values
from ttt_envs.bits import bits_of, line_in
from ttt_envs.boards import Boards, to_text
from ttt_envs.compiling import Cells, Integers, Parameters, Reals, compiled_nogil, inlined, stone_of, wide
from ttt_envs.rules import Game, Position, legal_bits, skip_chance_of

__all__ = [
    "Checked",
    "Endgame",
    "Folder",
    "LayeredTable",
    "Probe",
    "build",
    "check",
    "estimate",
    "in_words",
    "open_folder",
    "open_table",
]

NOWHERE = -1
"""the layer of a search without a database"""
BLOCK = 64
"""entries of which the look-ups are under way at once"""
SCRATCH = 13
"""cells in half of the largest board"""


# ---------------------------------------------------------------------------------------------------------------------
# For searches


class Probe(NamedTuple):
    """One layer, as kernels read it."""

    stones: int
    """of the layer, ``NOWHERE`` without a database"""
    starts: Integers
    """int64[stones, own stones]: where a part begins in its layer"""
    widths: Integers
    """int64[stones, own stones]: ranks in a part"""
    ranks: Ranks
    classes: Classes
    plies: NDArray[np.int8]
    """int8[N]: the values without skips, see :mod:`baselines.layered.sweep`; else none"""
    results: NDArray[np.float32]
    """float32[N]: the values with skips, else none"""


class Endgame:
    """A database that a search asks.

    Args:
        path: the folder.
        game: that is searched.

    Raises:
        ValueError: no finished database of this game.
    """

    def __init__(self, path: str | Path, game: Game) -> None:
        self.table = open_table(game, Path(path))
        self._parameters = game.parameters

    @property
    def stones(self) -> int:
        """Positions with so many or more are in it."""
        return self.table.stones

    @property
    def error(self) -> float:
        """How far a value may be from the exact one."""
        return self.table.error

    def layers_of(self, boards: Boards) -> Integers:
        """int64[B]: the number of stones at which a search from these positions asks the database."""
        layers: Integers = np.maximum(np.count_nonzero(boards.cells, axis=1) + 1, self.stones)
        return layers

    def scores(self, boards: Boards, depth: int) -> Reals:
        """float64[B], to the mover: positions of the database as a search scores them that has ``depth`` plies left."""
        out = np.empty(len(boards.mover))
        for stones, rows in by_layer(np.count_nonzero(boards.cells, axis=1)):
            part = boards.take(rows)
            found = np.empty(len(rows))
            _scores(np.ascontiguousarray(part.cells), part.mover, depth, self.probe(stones), self._parameters, found)
            out[rows] = found
        return out

    def probe(self, stones: int) -> Probe:
        """The layer of so many stones.

        Raises:
            ValueError: its file is damaged.
        """
        values, layers = self.table.layer(stones), self.table.layers
        plies, results = (values, _no_results()) if values.dtype == np.int8 else (_no_plies(), values)
        return Probe(stones, layers.starts, layers.widths, layers.ranks, layers.classes, plies, results)


@inlined
def after_of(own: int, other: int, probe: Probe, parameters: Parameters) -> float:
    """What a position of the layer is worth to who has just made it, as an entry of the database.

    Args:
        own: the stones of who has just moved, without a line.
        other: the other player's.
        probe: a layer that holds the position.
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
def result_of(cells: Cells, mover: int, skipped: bool, probe: Probe, parameters: Parameters) -> float:
    """The expected result to ``mover``, who has just made a position of the layer, once it is known who moves next.

    Args:
        cells: int8[cells], the position.
        mover: who has just moved.
        skipped: he moves again; else the other player does.
        probe: a layer that holds the position.
        parameters: ``Game.parameters``.
    """
    own, other = bits_of(cells, stone_of(mover + 1)), bits_of(cells, stone_of(2 - mover))
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
    """An entry, of a result that is so many ``plies`` away, as a score of a search that has ``depth`` plies left.

    With skips it is the expected result. Without, a win at ply k of these counts ``depth - k + 1``, as in the search;
    later ones are known, too, and count less than 1, but more than what only looks better, the sooner the more.
    """
    if skip_chance_of(parameters) > 0 or worth == 0.0:
        return worth
    score = depth - plies + 1.0 if plies <= depth else 1.0 - plies / BYTES
    return score if worth > 0 else -score


@inlined
def worth_of(cells: Cells, mover: int, depth: int, probe: Probe, parameters: Parameters) -> float:
    """The score of a search to ``mover``, who has just made a position of the layer, with ``depth`` plies left."""
    worth = after_of(bits_of(cells, stone_of(mover + 1)), bits_of(cells, stone_of(2 - mover)), probe, parameters)
    return score_of(worth, BYTES - abs(worth) - 1.0, depth, parameters)  # one of its plies is played


@inlined
def _of_mover(cells: Cells, mover: int, depth: int, probe: Probe, parameters: Parameters) -> float:
    """The score of a search to ``mover``, who is to move in a position of the layer, with ``depth`` plies left."""
    own, other = bits_of(cells, stone_of(mover + 1)), bits_of(cells, stone_of(2 - mover))
    _, at = entry_of(own, other, probe.ranks, probe.classes, probe.starts, probe.widths)
    worth = float(probe.results[at]) if skip_chance_of(parameters) > 0 else float(probe.plies[at])
    return score_of(worth, BYTES - abs(worth), depth, parameters)


@compiled_nogil
def _scores(cells: Cells, mover: Cells, depth: int, probe: Probe, parameters: Parameters, out: Reals) -> None:
    for b in range(len(cells)):
        out[b] = _of_mover(cells[b], wide(mover[b]), depth, probe, parameters)


def by_layer(layers: Integers) -> Iterator[tuple[int, Integers]]:
    """The layers that there are, and the rows of each."""
    for stones in np.unique(layers).tolist():
        yield stones, np.flatnonzero(layers == stones)


@lru_cache(maxsize=1)
def no_probe() -> Probe:
    """Of no database: nothing is ever asked."""
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
"""what the rules say of a position alone"""


class Checked(NamedTuple):
    """What came of checking entries against those after them."""

    entries: int
    """how many were looked at"""
    largest: float
    """the largest difference: in values, or without skips in what the bytes hold"""
    wrong: tuple[int, int] | None
    """stones and entry of the first that is further away than rounding explains"""


def check(folder: Path, stones: int, start: int, stop: int, picked: Integers | None = None) -> Checked:
    """Derive entries of a layer anew from the rules and from single look-ups in the next layer.

    Nothing of the sweep is used: for each entry its position is made, each move is made on it, lines are looked for by
    the rules, and each position after it is looked up by itself. Hashes are not looked at.

    Args:
        folder: of a database.
        stones: the layer.
        start: the first entry.
        stop: the entry after the last.
        picked: int64[K], entries instead of these, in increasing order.

    Raises:
        ValueError: no database, a file that cannot be read.
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


def in_words(found: Folder, stones: int, entry: int) -> str:
    """An entry's position as text, the mover's stones as o."""
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
    """What tells where positions stand, see :class:`Probe`."""

    starts: Integers
    widths: Integers
    ranks: Ranks
    classes: Classes


class _Scratch(NamedTuple):
    """What is kept of the entries that are looked at together."""

    halves: Halves
    """all sets of the cells that the mover's stones leave"""
    spread: Integers
    """int64[1]: the mover's stones for which it has these, -1 for none yet"""
    empty: Integers
    """int64[cells]: these cells"""
    known: Integers
    """int64[BLOCK]: of an entry, what the rules say"""
    turned_at: Integers
    """int64[BLOCK * cells]: of a move, where the position after it stands with the other player to move"""
    same_at: Integers
    """int64[BLOCK * cells]: and with the same player, with skips"""
    worths: Reals
    """float64[BLOCK * cells]: of a move, what it leads to"""

    @classmethod
    def of(cls, cells: int) -> _Scratch:
        """For a board of so many cells."""
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
    picked: Integers,
    stones: int,
    tables: _Tables,
    parameters: Parameters,
    layer: Values,
    after: Values,
    tolerance: float,
    scratch: _Scratch,
    largest: NDArray[np.float64],
    wrong: Integers,
) -> None:
    """See :func:`check`; ``largest`` and ``wrong`` have one entry each, which are written."""
    cells = len(scratch.empty)
    skip = skip_chance_of(parameters)
    won, lost = (1.0, -1.0) if skip > 0 else (float(WON), float(-BYTES))
    wrong[0] = -1
    begin = first
    while begin < last:
        end = min(begin + BLOCK, last)
        moves = wide(0)
        for i in range(begin, end):
            mine, theirs = _stones_at(picked[i] if picking else i, stones, tables, scratch)
            known = wide(LOST if line_in(theirs, parameters) else UNKNOWN)
            if known != LOST and stones < cells:
                known, moves = _look_ahead(mine, theirs, moves, tables, parameters, scratch)
            scratch.known[i - begin] = known
        _look_up(moves, skip, after, scratch)
        at = wide(0)
        for i in range(begin, end):
            entry = picked[i] if picking else i
            known = scratch.known[i - begin]
            value = lost if known == LOST else won
            if known != LOST:
                best = _best(at, at + cells - stones, scratch)
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
    """The mover's stones in an entry's position, and the other player's."""
    starts, widths, ranks, classes = tables
    cells, own = len(scratch.empty), wide(0)
    while starts[stones, own + 1] <= entry:
        own += 1
    within, width = entry - starts[stones, own], widths[stones, own]
    mine = wide(classes.leaders[classes.starts[own] + within // width])
    if mine != scratch.spread[0]:
        scratch.spread[0] = mine
        count = wide(0)
        for cell in range(cells):
            if mine >> cell & 1 == 0:
                scratch.empty[count] = cell
                count += 1
        spread_halves(scratch.empty, count, scratch.halves)
    others = wide(ranks.sets[ranks.starts[stones - own] + within % width])
    return mine, joined(others, cells - own, scratch.halves)


@inlined
def _look_ahead(
    mine: int, theirs: int, moves: int, tables: _Tables, parameters: Parameters, scratch: _Scratch
) -> tuple[int, int]:
    """Make each move on a position, and find where those after it stand.

    They are looked up afterwards, many at once.

    Args:
        mine: the mover's stones.
        theirs: the other player's.
        moves: how many there are so far.
        tables: that tell where positions stand.
        parameters: ``Game.parameters``.
        scratch: written from ``moves`` on.

    Returns:
        ``WON_AT_ONCE`` where a move wins, else ``UNKNOWN``; and how many moves there are now.
    """
    starts, widths, ranks, classes = tables
    known = wide(UNKNOWN)
    left = legal_bits(mine, theirs, parameters)
    while left != 0:
        stone = left & -left
        left ^= stone
        made = mine | stone
        if line_in(made, parameters):
            known = wide(WON_AT_ONCE)
        _, scratch.turned_at[moves] = entry_of(theirs, made, ranks, classes, starts, widths)
        if skip_chance_of(parameters) > 0:
            at = wide(0)
            if known != WON_AT_ONCE:
                _, at = entry_of(made, theirs, ranks, classes, starts, widths)
            scratch.same_at[moves] = at
        moves += 1
    return known, moves


@inlined
def _look_up(moves: int, skip: float, after: Values, scratch: _Scratch) -> None:
    """What so many moves lead to is worth to who makes them."""
    if skip > 0:
        for j in range(moves):
            same, turned = after[scratch.same_at[j]], after[scratch.turned_at[j]]
            scratch.worths[j] = skip * float(same) - (1.0 - skip) * float(turned)
    else:
        for j in range(moves):
            value = float(after[scratch.turned_at[j]])
            scratch.worths[j] = (1.0 if value > 0 else 0.0) - (1.0 if value < 0 else 0.0) - value


@inlined
def _best(start: int, stop: int, scratch: _Scratch) -> float:
    """What the best of these moves leads to; a draw where there are none, on a full board."""
    value = 0.0 if start == stop else -1000.0
    for j in range(start, stop):
        value = max(value, scratch.worths[j])
    return value
