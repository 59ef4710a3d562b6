"""Strong solution layer by layer: the value of every position of a board up to 21 cells, without a table of all boards.

:mod:`~baselines.layered.ranks` numbers sets of cells, :mod:`~baselines.layered.layers` lists the positions of a layer,
:mod:`~baselines.layered.sweep` computes a layer from the next, :mod:`~baselines.layered.building` computes all layers,
:mod:`~baselines.layered.folder` stores them, and :mod:`~baselines.layered.table` reads them. For boards up to 25 cells
the last layers can be computed: see :mod:`baselines.endgame`.
"""

from __future__ import annotations

from baselines.layered.building import MADE_BY, build, is_finished, open_table
from baselines.layered.folder import FORMAT, FolderLockedError
from baselines.layered.layers import MAX_CELLS, MAX_CELLS_LAST_LAYERS, check_memory, estimate
from baselines.layered.table import LayeredTable, check_distance

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
