"""Retrograde analysis: exact values of positions by backward induction from the end of the game.

:mod:`~baselines.retrograde.solver` keeps one value for every board in memory. The others store one value for every
reachable position up to symmetry, layer by layer: all layers of boards up to 21 cells, the last ones up to 25.
:mod:`~baselines.retrograde.ranks` numbers sets of cells, :mod:`~baselines.retrograde.layers` lists the positions of a
layer, :mod:`~baselines.retrograde.sweep` computes a layer from the next, :mod:`~baselines.retrograde.builder` computes
all layers, :mod:`~baselines.retrograde.folder` stores them, :mod:`~baselines.retrograde.tablebase` reads them, and
:mod:`~baselines.retrograde.verify` checks them. :mod:`~baselines.retrograde.count` counts positions.
"""

from __future__ import annotations

from baselines.retrograde.builder import MADE_BY, build, is_finished, start_value
from baselines.retrograde.folder import FORMAT, FolderLockedError
from baselines.retrograde.layers import MAX_CELLS_LAST_LAYERS, MAX_LAYERED_CELLS, estimate, fits_columns
from baselines.retrograde.tablebase import LayeredTable, Tablebase, check_distance, open_table

__all__ = [
    "FORMAT",
    "MADE_BY",
    "MAX_CELLS_LAST_LAYERS",
    "MAX_LAYERED_CELLS",
    "FolderLockedError",
    "LayeredTable",
    "Tablebase",
    "build",
    "check_distance",
    "estimate",
    "fits_columns",
    "is_finished",
    "open_table",
    "start_value",
]
