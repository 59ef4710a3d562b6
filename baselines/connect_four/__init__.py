"""Solves Connect Four: lines on boards where stones fall to the lowest empty cell of a column, without skips.

An alpha-beta search over bitboards: :class:`Solver` returns who wins any position, after how many moves, and by which
columns.
"""

from __future__ import annotations

from baselines.connect_four.bitboards import landing_cells
from baselines.connect_four.solver import Bounds, Solver, check_solvable, is_solvable

__all__ = ["Bounds", "Solver", "check_solvable", "is_solvable", "landing_cells"]
