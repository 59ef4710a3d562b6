"""Exact values of positions: by layers, computed from the end of the game, and by search; and
perfect play.

:func:`solve` returns the :class:`Solution` of a game. :mod:`~baselines.exact.layers` computes the
layers of :mod:`ttt_envs.graph.numbering`, :mod:`~baselines.exact.folder` stores them,
:mod:`~baselines.exact.tablebase` lets searches read them, :mod:`~baselines.exact.verify` checks
them, and :mod:`~baselines.exact.count` counts positions.
"""

from __future__ import annotations

from baselines.exact.layers import MAX_SOLVER_CELLS as MAX_SOLVER_CELLS
from baselines.exact.layers import build, estimate, open_layers
from baselines.exact.optimal import Optimal, solve
from baselines.exact.solution import LayeredSolution as LayeredSolution
from baselines.exact.solution import SearchedSolution as SearchedSolution
from baselines.exact.solution import Solution
from baselines.exact.tablebase import Tablebase
from ttt_envs.core.work import Work

__all__ = ["Optimal", "Solution", "Tablebase", "Work", "build", "estimate", "open_layers", "solve"]
