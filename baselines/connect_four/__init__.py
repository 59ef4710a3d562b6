"""Solves Connect Four: lines on boards where stones fall to the lowest empty cell of a column, without skips.

An alpha-beta search over bitboards: :class:`Solver` returns who wins any position, after how many moves, and by which
columns.
"""

from __future__ import annotations

from baselines.connect_four.bitboards import landing_cells as landing_cells
from baselines.connect_four.solver import Bounds as Bounds
from baselines.connect_four.solver import Solution as Solution
from baselines.connect_four.solver import Solver as Solver
from baselines.connect_four.solver import check_solvable as check_solvable
from baselines.connect_four.solver import is_solvable as is_solvable
