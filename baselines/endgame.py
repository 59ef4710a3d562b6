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

from baselines.kernels import bare, bare_inlined
from baselines.layered import LayeredTable, build, estimate, open_table
from baselines.layered.folder import Folder, open_folder
from baselines.layered.layers import Layers
from baselines.layered.ranks import Classes, Ranks, Sets, classes_of, entry_of, ranks_of, spread
from baselines.layered.sweep import BYTES, WON, Values
from ttt_envs.bits import bits_of, line_in
from ttt_envs.boards import Boards, to_text
from ttt_envs.compiling import Cells, Integers, Parameters, Reals, stone_of, wide
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


@bare_inlined
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


@bare
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


@bare_inlined
def score_of(worth: float, plies: float, depth: int, parameters: Parameters) -> float:
    """An entry, of a result that is so many ``plies`` away, as a score of a search that has ``depth`` plies left.

    With skips it is the expected result. Without, a win at ply k of these counts ``depth - k + 1``, as in the search;
    later ones are known, too, and count less than 1, but more than what only looks better, the sooner the more.
    """
    if skip_chance_of(parameters) > 0 or worth == 0.0:
        return worth
    score = depth - plies + 1.0 if plies <= depth else 1.0 - plies / BYTES
    return score if worth > 0 else -score


@bare_inlined
def worth_of(cells: Cells, mover: int, depth: int, probe: Probe, parameters: Parameters) -> float:
    """The score of a search to ``mover``, who has just made a position of the layer, with ``depth`` plies left."""
    worth = after_of(bits_of(cells, stone_of(mover + 1)), bits_of(cells, stone_of(2 - mover)), probe, parameters)
    return score_of(worth, BYTES - abs(worth) - 1.0, depth, parameters)  # one of its plies is played


@bare_inlined
def _of_mover(cells: Cells, mover: int, depth: int, probe: Probe, parameters: Parameters) -> float:
    """The score of a search to ``mover``, who is to move in a position of the layer, with ``depth`` plies left."""
    own, other = bits_of(cells, stone_of(mover + 1)), bits_of(cells, stone_of(2 - mover))
    _, at = entry_of(own, other, probe.ranks, probe.classes, probe.starts, probe.widths)
    worth = float(probe.results[at]) if skip_chance_of(parameters) > 0 else float(probe.plies[at])
    return score_of(worth, BYTES - abs(worth), depth, parameters)


@bare
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
    differences, at = np.zeros(1), np.zeros(1, np.int64)
    _check(
        first,
        last,
        picked is not None,
        entries,
        stones,
        layers.starts,
        layers.widths,
        layers.ranks,
        layers.classes,
        layers.game.parameters,
        layer,
        after,
        layers.rounding,
        np.zeros(layers.game.cells, np.int64),
        np.zeros(1 << SCRATCH, np.uint32),
        np.zeros(1 << SCRATCH, np.uint32),
        np.zeros(BLOCK, np.int64),
        np.zeros(BLOCK * layers.game.cells, np.int64),
        np.zeros(BLOCK * layers.game.cells, np.int64),
        np.zeros(BLOCK * layers.game.cells),
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


@bare_inlined
def _class_at(entry: int, stones: int, starts: Integers, widths: Integers) -> tuple[int, int, int]:
    """How many stones of an entry are the mover's, its class, and the rank of the other's."""
    own = wide(0)
    while starts[stones, own + 1] <= entry:
        own += 1
    within = entry - starts[stones, own]
    return own, within // widths[stones, own], within % widths[stones, own]


@bare
def _check(
    first: int,
    last: int,
    picking: bool,
    picked: Integers,
    stones: int,
    starts: Integers,
    widths: Integers,
    ranks: Ranks,
    classes: Classes,
    parameters: Parameters,
    layer: Values,
    after: Values,
    tolerance: float,
    empty: Integers,
    low_spread: Sets,
    high_spread: Sets,
    sides: Integers,
    turned_at: Integers,
    same_at: Integers,
    worths: Reals,
    largest: NDArray[np.float64],
    wrong: Integers,
) -> None:
    """See :func:`check`; ``largest`` and ``wrong`` have one entry each, which are written; scratch stands before."""
    cells = len(ranks.starts) - 2
    skip = skip_chance_of(parameters)
    won, lost = (1.0, -1.0) if skip > 0 else (float(WON), float(-BYTES))
    everything = (wide(1) << cells) - 1
    wrong[0] = -1
    row_before, own_before = wide(-1), wide(-1)
    mine, half, ones = wide(0), wide(0), wide(0)
    begin = first
    while begin < last:
        end = min(begin + len(sides), last)
        moves = wide(0)
        for i in range(begin, end):
            entry = picked[i] if picking else i
            own, row, rank = _class_at(entry, stones, starts, widths)
            if row != row_before or own != own_before:
                row_before, own_before = row, own
                mine = wide(classes.leaders[classes.starts[own] + row])
                count = wide(0)
                for cell in range(cells):
                    if mine >> cell & 1 == 0:
                        empty[count] = cell
                        count += 1
                half = (count + 1) // 2
                ones = (wide(1) << half) - 1
                spread(empty, half, 0, low_spread)
                spread(empty, count - half, half, high_spread)
            compact = wide(ranks.sets[ranks.starts[stones - own] + rank])
            theirs = wide(low_spread[compact & ones]) | wide(high_spread[compact >> half])
            # what the rules say, and where the rest stands: looked up afterwards, many at once
            known = 2
            if line_in(theirs, parameters):
                known = -1
            elif stones == cells:
                known = 0
            else:
                left = legal_bits(mine | theirs, wide(0), parameters) & everything
                while left != 0:
                    stone = left & -left
                    left ^= stone
                    made = mine | stone
                    if line_in(made, parameters):
                        known = 1
                    _, turned_at[moves] = entry_of(theirs, made, ranks, classes, starts, widths)
                    if skip > 0:
                        at = wide(0)
                        if known != 1:
                            _, at = entry_of(made, theirs, ranks, classes, starts, widths)
                        same_at[moves] = at
                    moves += 1
            sides[i - begin] = known
        if skip > 0:
            for j in range(moves):
                worths[j] = skip * float(after[same_at[j]]) - (1.0 - skip) * float(after[turned_at[j]])
        else:
            for j in range(moves):
                turned = float(after[turned_at[j]])
                worths[j] = (1.0 if turned > 0 else 0.0) - (1.0 if turned < 0 else 0.0) - turned
        at = wide(0)
        for i in range(begin, end):
            entry = picked[i] if picking else i
            known = sides[i - begin]
            value = -1000.0
            if known == -1:
                value = lost
            elif stones == cells:
                value = 0.0
            else:
                for _ in range(cells - stones):
                    value = max(value, worths[at])
                    at += 1
                if known == 1:
                    value = won
            difference = abs(value - float(layer[entry]))
            if not difference <= largest[0]:
                largest[0] = difference
            if not difference <= tolerance and wrong[0] < 0:
                wrong[0] = entry
        begin = end
