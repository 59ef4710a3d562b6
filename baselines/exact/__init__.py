"""Exact values of positions: by layers, computed from the end of the game, and by search; and perfect play.

:func:`solve` returns the :class:`Solution` of a game. :mod:`~baselines.exact.layers` computes the layers of
:mod:`ttt_envs.graph.numbering`, :mod:`~baselines.exact.folder` stores them, :mod:`~baselines.exact.tablebase` lets
searches read them, :mod:`~baselines.exact.verify` checks them, and :mod:`~baselines.exact.count` counts positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from baselines.exact.layers import MAX_SOLVER_CELLS as MAX_SOLVER_CELLS
    from baselines.exact.layers import build as build
    from baselines.exact.layers import estimate as estimate
    from baselines.exact.layers import open_layers as open_layers
    from baselines.exact.solution import LayeredSolution as LayeredSolution
    from baselines.exact.solution import SearchedSolution as SearchedSolution
    from baselines.exact.solution import Solution as Solution
    from baselines.exact.solve import Optimal as Optimal
    from baselines.exact.solve import solve as solve
    from baselines.exact.tablebase import Tablebase as Tablebase
    from ttt_envs.core.work import Work as Work

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
