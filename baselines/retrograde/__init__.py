"""Retrograde analysis: exact values of positions by backward induction from the end of the game.

:mod:`~baselines.retrograde.solver` keeps one value for every board in memory. The others store one value for every
reachable position up to symmetry, layer by layer, for boards up to 21 cells. :mod:`~baselines.retrograde.ranks` numbers
sets of cells, :mod:`~baselines.retrograde.layers` lists the positions of a layer, :mod:`~baselines.retrograde.sweep`
computes a layer from the next, :mod:`~baselines.retrograde.builder` computes all layers,
:mod:`~baselines.retrograde.folder` stores them, and :mod:`~baselines.retrograde.layered_table` reads them.
:mod:`~baselines.retrograde.endgame` computes the last layers of boards up to 25 cells.
:mod:`~baselines.retrograde.reachable` counts positions.
"""

from __future__ import annotations

from baselines.retrograde.builder import MADE_BY, build, is_finished, open_table
from baselines.retrograde.folder import FORMAT, FolderLockedError
from baselines.retrograde.layered_table import LayeredTable, check_distance
from baselines.retrograde.layers import MAX_CELLS, MAX_CELLS_LAST_LAYERS, check_memory, estimate

__all__ = [
    "FORMAT",
    "MADE_BY",
    "MAX_CELLS",
    "MAX_CELLS_LAST_LAYERS",
    "FolderLockedError",
    "LayeredTable",
    "build",
    "check_distance",
    "check_memory",
    "estimate",
    "is_finished",
    "open_table",
]
