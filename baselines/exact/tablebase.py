"""Endgame databases read by searches: layers from some number of stones on.

A search adds one stone per ply, skips or not. So it reaches a number of stones before any larger one, and needs to read
only one layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baselines.exact.layers import open_layers
from baselines.exact.solution import entry_value
from ttt_envs.core.jit import Float32Array, Int8Array, Int64Array, inlined, int8, kernel
from ttt_envs.game.bits import to_bits
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import legal_bits
from ttt_envs.graph.numbering import WON, Layer, Numbering

NO_LAYER = -1
"""number of stones of a probe without values"""


class Probe(NamedTuple):
    """One layer of a database, in the form that kernels read."""

    stones: int
    """number of stones at which a search reads it, ``NO_LAYER`` without values"""
    layer: Layer
    plies: NDArray[np.int8]
    """int8[N]: the values without skips, see :mod:`ttt_envs.graph.numbering`; empty with skips"""
    results: Float32Array
    """float32[N]: the values with skips, else empty"""


class Tablebase:
    """A database probed by a search.

    Args:
        path: the folder.
        game: the game searched.

    Raises:
        ValueError: there is no finished database of this game.
    """

    def __init__(self, path: str | Path, game: Game) -> None:
        self.solution = open_layers(game, Path(path))
        self.stones = max(1, self.solution.stones)
        """minimum number of stones of positions in the database"""

    def probe_layers(self, boards: Boards) -> Int64Array:
        """Return int64[B]: the number of stones at which a search from these positions probes the database."""
        layers: Int64Array = np.maximum(np.count_nonzero(boards.cells, axis=1) + 1, self.stones)
        return layers

    def probe(self, stones: int, *, of_moves: bool = False) -> Probe:
        """Return the probe that a search reads at ``stones`` stones.

        Args:
            stones: the number of stones, at least ``self.stones``.
            of_moves: whether it reads positions whose mover is known, and so the values of their moves, from the next
                layer; else positions before chance decides the next mover.

        Raises:
            ValueError: the layer's file is damaged.
        """
        number = min(stones + of_moves, self.solution.game.cells)
        layer, values = self.solution.numbering.layer(number), self.solution.layer(number)
        field = "plies" if values.dtype == np.int8 else "results"
        return empty_probe()._replace(stones=stones, layer=layer, **{field: values})


@cache
def empty_probe() -> Probe:
    """Return the probe without a database, which is never read."""
    plies, results = np.zeros(0, np.int8), np.zeros(0, np.float32)
    plies.flags.writeable = results.flags.writeable = False  # as all layers, so that kernels are compiled once
    return Probe(NO_LAYER, Numbering(Game(1, 1, 1)).layer(0), plies, results)


def group_by_layer(layers: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Yield each distinct layer with its rows."""
    for stones in np.unique(layers).tolist():
        yield stones, np.flatnonzero(layers == stones)


@inlined
def _entry_value(own: int, other: int, probe: Probe, parameters: Parameters) -> float:
    """Return W(own, other) in the units of the database; of a position with a line its result."""
    if parameters.skip_chance > 0:
        return entry_value(own, other, (probe.layer, probe.results), parameters)
    return entry_value(own, other, (probe.layer, probe.plies), parameters)


@kernel(interpreted=False, nogil=True)
def result_for_last_player(cells: Int8Array, mover: int, skipped: bool, probe: Probe, parameters: Parameters) -> float:
    """Return the expected result for ``mover``, the last player of a position, once the next mover is known.

    Args:
        cells: int8[cells], the position, not over.
        mover: the player who has just moved.
        skipped: whether the last player moves again.
        probe: of :meth:`Tablebase.probe` with ``of_moves``.
        parameters: ``Game.parameters``.
    """
    own, other = to_bits(cells, int8(mover + 1)), to_bits(cells, int8(2 - mover))
    if not skipped:
        own, other = other, own
    moves, best = legal_bits(own, other, parameters), -1000.0
    while moves:
        stone = moves & -moves
        moves ^= stone
        best = max(best, _entry_value(own | stone, other, probe, parameters))
    if parameters.skip_chance == 0:
        best = (1.0 if best > 0 else 0.0) - (1.0 if best < 0 else 0.0)
    return best if skipped else -best


@inlined
def afterstate_score(cells: Int8Array, mover: int, depth: int, probe: Probe, parameters: Parameters) -> float:
    """Return the search score of a position of the layer for its last player ``mover``, with ``depth`` plies left.

    With skips the score is the expected result. Without, a win at ply k counts ``depth - k + 1``, as in the search.
    Wins beyond the depth count less than 1, but more than heuristic scores, and sooner ones more.
    """
    value = _entry_value(to_bits(cells, int8(mover + 1)), to_bits(cells, int8(2 - mover)), probe, parameters)
    if parameters.skip_chance > 0 or value == 0.0:
        return value
    plies = WON + 1 - abs(value) - 1.0  # one ply is already played
    score = depth - plies + 1.0 if plies <= depth else 1.0 - plies / (WON + 1)
    return score if value > 0 else -score
