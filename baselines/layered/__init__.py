"""Strong solving by layers: the value of every position of a board up to 21 cells, without a table of all boards.

:mod:`~baselines.layered.ranks` numbers sets of cells, :mod:`~baselines.layered.sweep` computes a layer from the next,
and :mod:`~baselines.layered.table` keeps the layers, in memory or on disk, and reads them. Of boards up to 25 cells it
makes the last layers: see :mod:`baselines.endgame`.
"""

from __future__ import annotations

from baselines.layered.table import (
    FORMAT,
    LARGEST,
    LARGEST_OF_ALL,
    MADE_BY,
    InUse,
    LayeredTable,
    build,
    check_distance,
    check_memory,
    estimate,
    is_finished,
    open_table,
)

__all__ = [
    "FORMAT",
    "LARGEST",
    "LARGEST_OF_ALL",
    "MADE_BY",
    "InUse",
    "LayeredTable",
    "build",
    "check_distance",
    "check_memory",
    "estimate",
    "is_finished",
    "open_table",
]
