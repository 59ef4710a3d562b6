"""Tablebases: the layers of a game in memory or in a folder, read for analysis and by searches.

A table holds the value of every position with N stones or more: the result of
:func:`~baselines.retrograde.builder.build` with ``stones=N``. A search from fewer stones than layer L adds one stone
per ply, skips or not, so it reaches that layer before any later one and needs to read only that layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from baselines.retrograde.folder import layer_name, open_folder
from baselines.retrograde.layers import AnyProbe, Layers, Probe, SetLayers, find_entry
from baselines.retrograde.sweep import BYTES, Values
from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int64Array,
    Parameters,
    compiled_nogil,
    inlined,
    int8,
    int64,
)
from ttt_envs.game.bits import to_bits
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import Game, skip_chance_of, value_over_skip, values_over_skip

# ---------------------------------------------------------------------------------------------------------------------
# Tables


def open_table(game: Game | None, folder: Path) -> LayeredTable:
    """Return a finished table of :func:`build`, memory-mapped; each layer's hash is checked on first read.

    Args:
        game: the expected game; None for any.
        folder: of the table.

    Raises:
        ValueError: there is no table, or it is of another game or unfinished.
    """
    found = open_folder(folder)
    layers = found.layers
    if game is not None and layers.game != game:
        raise ValueError(f"{folder} holds the layers of {layers.game}, not of {game}: choose another folder")
    if found.missing():
        raise ValueError(
            f"{folder} has no finished table of {layers.game}: its layers of {_numbers(found.missing())} stones are "
            f"missing. Build it there again: finished layers are reused"
        )
    read: dict[int, Values] = {}

    def read_layer(stones: int) -> Values:
        if stones not in read:
            array = found.read(stones)
            if array is None:
                raise ValueError(
                    f"{folder / layer_name(stones)} is damaged: build the table again, which rebuilds only this file"
                )
            read[stones] = array
        return read[stones]

    return LayeredTable(layers, read_layer)


def _numbers(stones: list[int]) -> str:
    return str(stones[0]) if len(stones) == 1 else f"{stones[-1]} to {stones[0]}"


class LayeredTable:
    """The values of all positions with at least some number of stones, from :func:`build` or a folder.

    Without skips it has the positions of alternating play only: the mover has as many stones as the other, or one
    fewer.
    """

    def __init__(self, layers: Layers, read: Callable[[int], Values]) -> None:
        self.game = layers.game
        self.stones = layers.stones
        """number of stones of its first layer"""
        self.dtype = layers.dtype
        """int8 without skips, else float32, or float64 in memory up to 16 cells"""
        self.error = (self.game.cells + 1) * 2.0**-25 if layers.dtype == np.float32 else 0.0
        """maximum difference of a value from the exact one, apart from float64 rounding: each layer rounds once"""
        self.layers = layers
        self._read = read

    def layer(self, stones: int) -> Values:
        """Return all values of the positions with ``stones`` stones, read-only, the parts concatenated.

        Raises:
            ValueError: the layer is not in the table, or its file is damaged.
        """
        if not self.stones <= stones <= self.game.cells:
            raise ValueError(
                f"a position of {stones} stones is not in {self}, which begins at {self.stones}: build the layers "
                f"from {max(stones, 0)} stones on"
            )
        return self._read(stones)

    def part(self, stones: int, own: int) -> Values:
        """Return V of the positions with ``stones`` stones, ``own`` of them the mover's, read-only: [classes, ranks].

        Only layers of games without gravity have parts.

        Raises:
            ValueError: as for :meth:`layer`.
        """
        assert isinstance(self.layers, SetLayers)
        return self.layers.part(stones, own, self.layer(stones))

    def values(self, boards: Boards) -> Float64Array:
        """Return the expected result under best play by both players, for the mover: float64[B] from -1 to 1.

        The value of a finished board is its result.

        Raises:
            ValueError: without skips, a position is unreachable by alternating play; or one has too few stones.
        """
        found = self._values(boards)
        return np.sign(found) if self.game.skip_chance == 0 else found

    def action_values(self, boards: Boards) -> Float64Array:
        """Return the value of each move for the mover: float64[B, rows * columns], NaN where illegal.

        Raises:
            ValueError: as for :meth:`values`; only the successors must be in the table.
        """
        found = self._action_values(boards)
        return np.sign(found) if self.game.skip_chance == 0 else found

    def distances(self, boards: Boards) -> Int64Array:
        """Return the plies to the end under best play, int64[B]: winners minimise and losers maximise this distance.

        A drawn position ends with the full board; a finished one has distance 0.

        Raises:
            ValueError: as for :meth:`values`; or the game has skips, so that the distance is random.
        """
        check_distance(self.game)
        empty = np.count_nonzero(boards.cells == 0, axis=1)
        found = self._values(boards)
        goes_on = self._sets(boards)[2]
        return np.where(goes_on, _to_plies(found, empty), 0)

    def action_distances(self, boards: Boards) -> Int64Array:
        """Return the plies to the end with each move, including it: int64[B, rows * columns], -1 where illegal.

        Raises:
            ValueError: as for :meth:`distances`.
        """
        check_distance(self.game)
        empty = np.count_nonzero(boards.cells == 0, axis=1, keepdims=True)
        found = self._action_values(boards)
        return np.where(np.isnan(found), -1, _to_plies(np.nan_to_num(found), empty))

    def _values(self, boards: Boards) -> Float64Array:
        """Return values in the units of the table."""
        own, other, goes_on = self._sets(boards)
        made, met = self.layers.has_line(own), self.layers.has_line(other)
        won, lost = float(self.layers.won), float(self.layers.lost)
        if self.game.misere:
            won, lost = lost, won
        out = np.where(made & ~met, won, np.where(met & ~made, lost, 0.0))
        out[goes_on] = self._look_up(own[goes_on], other[goes_on])
        return out

    def _action_values(self, boards: Boards) -> Float64Array:
        """Return action values in the units of the table."""
        own, other, goes_on = self._sets(boards)
        skip = self.game.skip_chance
        legal = boards.legal(self.game) & goes_on[:, None]
        out = np.full(legal.shape, np.nan)
        row, cell = np.nonzero(legal)
        made, theirs = own[row] | np.left_shift(1, cell), other[row]
        values = np.full(len(row), self.layers.line_value)
        left = ~self.layers.has_line(made)
        made, theirs = made[left], theirs[left]
        turned = self._look_up(theirs, made)
        if skip > 0:
            values[left] = values_over_skip(self._look_up(made, theirs), -turned, skip)
        else:
            values[left] = np.sign(turned) - turned  # one ply further away
        out[row, cell] = values + 0.0  # no -0.0
        return out

    def _sets(self, boards: Boards) -> tuple[Int64Array, Int64Array, BoolArray]:
        """Return the mover's stones and the other's, int64[B] each, and whether the game is in progress, bool[B]."""
        cells = self.game.cells
        seen = boards.own_first()
        powers = np.left_shift(1, np.arange(cells))
        own, other = (seen == 1) @ powers, (seen == 2) @ powers
        goes_on: BoolArray = ~self.layers.has_line(own) & ~self.layers.has_line(other)
        goes_on &= (own | other) != (1 << cells) - 1
        if self.game.skip_chance == 0:
            ahead = (seen == 1).sum(axis=1) - (seen == 2).sum(axis=1)
            wrong = ahead[goes_on & ((ahead > 0) | (ahead < -1))]
            if len(wrong):
                raise ValueError(
                    f"a position in which the mover has {abs(wrong[0])} stones {'more' if wrong[0] > 0 else 'less'} "
                    f"than the other player comes from no game without skips: choose one of alternate play, or solve "
                    f"the game with a skip chance, such as skip_chance=0.25"
                )
        return own, other, goes_on

    def _look_up(self, own: Int64Array, other: Int64Array) -> Float64Array:
        """Return V of pairs of sets without lines, int64[K] each, in the units of the table."""
        stones, entries = self.layers.locate(own, other)
        out = np.empty(len(own))
        for count in np.unique(stones).tolist():
            rows = stones == count
            out[rows] = self.layer(count)[entries[rows]]
        return out

    def __repr__(self) -> str:
        return f"LayeredTable({self.game})"


def check_distance(game: Game) -> None:
    """Raise ValueError for a game with skips, in which the number of plies left is random."""
    if game.skip_chance > 0:
        raise ValueError(
            f"distance is a number of plies only without skips, and this game has skip_chance="
            f"{game.skip_chance:g}: solve the game with skip_chance=0"
        )


def _to_plies(found: Float64Array, empty: Int64Array) -> Int64Array:
    """Return the plies to the end by byte values; a draw fills the empty cells."""
    return np.where(found == 0, empty, BYTES - np.abs(found).astype(np.int64))


# ---------------------------------------------------------------------------------------------------------------------
# Probing by searches


class Tablebase:
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

    def probe_layers(self, boards: Boards) -> Int64Array:
        """Return int64[B]: the number of stones at which a search from these positions probes the database."""
        layers: Int64Array = np.maximum(np.count_nonzero(boards.cells, axis=1) + 1, self.stones)
        return layers

    def scores(self, boards: Boards, depth: int) -> Float64Array:
        """Return float64[B], for the mover: search scores of positions in the database, with ``depth`` plies left."""
        out = np.empty(len(boards.mover))
        for stones, rows in group_by_layer(np.count_nonzero(boards.cells, axis=1)):
            part = boards.take(rows)
            found = np.empty(len(rows))
            _look_up_scores(
                np.ascontiguousarray(part.cells), part.mover, depth, self.probe(stones), self._parameters, found
            )
            out[rows] = found
        return out

    def probe(self, stones: int) -> AnyProbe:
        """Return the layer of ``stones`` stones.

        Raises:
            ValueError: its file is damaged.
        """
        return self.table.layers.probe(stones, self.table.layer(stones))


@inlined
def afterstate_value(own: int, other: int, probe: AnyProbe, parameters: Parameters) -> float:
    """Return the afterstate value of a position of the layer for its last player, in the units of the database.

    Args:
        own: stones of the last player, without a line.
        other: stones of the other player.
        probe: a layer that contains the position.
        parameters: ``Game.parameters``.
    """
    skip = skip_chance_of(parameters)
    _, turned = find_entry(other, own, probe)
    if skip > 0:
        _, same = find_entry(own, other, probe)
        return value_over_skip(np.float64(probe.results[same]), -np.float64(probe.results[turned]), skip)
    value = float(probe.plies[turned])
    return (1.0 if value > 0 else 0.0) - (1.0 if value < 0 else 0.0) - value


@compiled_nogil
def result_for_last_player(
    cells: Int8Array, mover: int, skipped: bool, probe: AnyProbe, parameters: Parameters
) -> float:
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
    _, at = find_entry(own, other, probe)
    if skip_chance_of(parameters) > 0:
        value = float(probe.results[at])
    else:
        value = (1.0 if probe.plies[at] > 0 else 0.0) - (1.0 if probe.plies[at] < 0 else 0.0)
    return value if skipped else -value


@inlined
def to_score(value: float, plies: float, depth: int, parameters: Parameters) -> float:
    """Convert an entry, with the result ``plies`` away, to a score of a search with ``depth`` plies left.

    With skips the score is the expected result. Without, a win at ply k counts ``depth - k + 1``, as in the search.
    Wins beyond the depth count less than 1, but more than heuristic scores, and sooner ones more.
    """
    if skip_chance_of(parameters) > 0 or value == 0.0:
        return value
    score = depth - plies + 1.0 if plies <= depth else 1.0 - plies / BYTES
    return score if value > 0 else -score


@inlined
def afterstate_score(cells: Int8Array, mover: int, depth: int, probe: AnyProbe, parameters: Parameters) -> float:
    """Return the search score of a position of the layer for its last player ``mover``, with ``depth`` plies left."""
    value = afterstate_value(to_bits(cells, int8(mover + 1)), to_bits(cells, int8(2 - mover)), probe, parameters)
    return to_score(value, BYTES - abs(value) - 1.0, depth, parameters)  # one ply is already played


@inlined
def _mover_score(cells: Int8Array, mover: int, depth: int, probe: AnyProbe, parameters: Parameters) -> float:
    """Return the search score of a position of the layer for its ``mover`` to move, with ``depth`` plies left."""
    own, other = to_bits(cells, int8(mover + 1)), to_bits(cells, int8(2 - mover))
    _, at = find_entry(own, other, probe)
    value = float(probe.results[at]) if skip_chance_of(parameters) > 0 else float(probe.plies[at])
    return to_score(value, BYTES - abs(value), depth, parameters)


@compiled_nogil
def _look_up_scores(
    cells: Int8Array, mover: Int8Array, depth: int, probe: AnyProbe, parameters: Parameters, out: Float64Array
) -> None:
    for b in range(len(cells)):
        out[b] = _mover_score(cells[b], int64(mover[b]), depth, probe, parameters)


def group_by_layer(layers: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Yield each distinct layer with its rows."""
    for stones in np.unique(layers).tolist():
        yield stones, np.flatnonzero(layers == stones)


@cache
def empty_probe() -> Probe:
    """Return the probe without a database, which is never read."""
    return SetLayers(Game(1, 1, 1)).probe()
