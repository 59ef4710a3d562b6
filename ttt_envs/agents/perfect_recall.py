"""Policies with perfect recall, for phantom games: functions of information sets, where other policies see views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import keys
from ttt_envs.game.information_sets import InformationSets
from ttt_envs.game.phantom import JointViews


@runtime_checkable
class PerfectRecallPolicy(Protocol):
    """A distribution over attempts for every information set of a batch; always pure."""

    def recall_probabilities(self, sets: InformationSets) -> Float64Array:
        """Return float64[B, cells]: probabilities of attempts on cells that are not known to be taken; rows sum to 1.

        They are a function of each row alone.
        """
        ...


@dataclass(frozen=True)
class ByViews:
    """A policy over views as a policy with perfect recall, which uses nothing but the view."""

    policy: Policy
    """pure, and no cheating reference"""
    start: JointViews | None = None
    """one row: the state in which the games begin; None for an empty board"""

    def __str__(self) -> str:
        return str(self.policy)

    def recall_probabilities(self, sets: InformationSets) -> Float64Array:
        """Return float64[B, cells]: the policy's probabilities in the views."""
        views = sets.views(self.start)
        each = keys(views.cells) * np.uint64(2) + views.mover.astype(np.uint64)
        _, rows, again = np.unique(each, return_index=True, return_inverse=True)
        return np.asarray(self.policy.probabilities(views.take(rows))[again.reshape(-1)])
