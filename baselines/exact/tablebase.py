"""Endgame databases read by searches: layers from some number of stones on.

A search adds one stone per ply, skips or not. So it reaches a number of stones before any larger
one, and needs to read only one layer.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from baselines.exact.layers import open_layers
from baselines.exact.solution import best_move_value, entry_value
from ttt_envs.core.jit import Int8Array, Int64Array, inlined, kernel
from ttt_envs.game.bits import bits_by_player
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters
from ttt_envs.graph.numbering import WON, NumberedLayer, Values, plies_to_end, sign


class Probe(NamedTuple):
    """One layer of a database, in the form that kernels read."""

    stones: int
    """number of stones at which a search reads it"""
    layer: NumberedLayer
    values: Values
    """float32[N], without skips int8[N]: see :mod:`ttt_envs.graph.numbering`"""
    parameters: Parameters
    """``Game.parameters``"""


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
        """Return int64[B]: the number of stones at which a search from these positions probes the
        database.
        """
        return np.maximum(boards.num_stones + 1, self.stones)

    def probe(self, stones: int, *, of_moves: bool = False) -> Probe:
        """Return the probe that a search reads at ``stones`` stones.

        Args:
            stones: the number of stones, at least ``self.stones``.
            of_moves: whether it reads positions whose mover is known, and so the values of their
                moves, from the next layer; else positions before chance decides the next mover.

        Raises:
            ValueError: the layer's file is damaged.
        """
        number = min(stones + of_moves, self.solution.game.cells)
        return Probe(
            stones,
            self.solution.numbering.layer(number),
            self.solution.layer(number),
            self.solution.game.parameters,
        )


@kernel(interpreted=False, nogil=True)
def result_for_last_player(cells: Int8Array, mover: int, skipped: bool, probe: Probe) -> float:
    """Return the expected result for ``mover``, the last player of a position, once the next mover
    is known.

    Args:
        cells: int8[cells], the position, not over.
        mover: the player who has just moved.
        skipped: whether the last player moves again.
        probe: of :meth:`Tablebase.probe` with ``of_moves``.
    """
    own, other = bits_by_player(cells, mover if skipped else 1 - mover)
    best = best_move_value(own, other, (probe.layer, probe.values), probe.parameters, None)
    if probe.parameters.skip_chance == 0:
        best = float(sign(best))
    return best if skipped else -best


@inlined
def afterstate_score(cells: Int8Array, mover: int, depth: int, probe: Probe | None) -> float:
    """Return the search score of a position of the layer for its last player ``mover``, with
    ``depth`` plies left.

    Without a database it is not called, but compiled: a kernel without layers has fewer arguments.

    With skips the score is the expected result. Without, a win at ply k counts ``depth - k + 1``,
    as in the search. Wins beyond the depth count less than 1, but more than heuristic scores, and
    sooner ones more.
    """
    if probe is None:
        return 0.0
    own, other = bits_by_player(cells, mover)
    value = entry_value(own, other, (probe.layer, probe.values), probe.parameters)
    if probe.parameters.skip_chance > 0 or value == 0.0:
        return value
    plies = plies_to_end(value) - 1.0  # one ply is already played
    score = 1.0 - plies / (WON + 1)
    if plies <= depth:
        score = depth - plies + 1.0
    return score if value > 0 else -score
