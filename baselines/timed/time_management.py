"""Time management: the time plan for a move, and when to stop searching."""

from __future__ import annotations

import math
from typing import NamedTuple

from baselines.timed.search import UNBOUNDED_DEPTH, Now, TimedSearch

STEADY_SHARE = 0.25
"""Share of its time after which a move with agreeing depths is made."""


class TimePlan(NamedTuple):
    """The time plan for one move.

    It grows with the time on the clock, and :func:`run_until` depends on that time in no other way: so more time never
    gives a shallower search.
    """

    soft_s: float
    """seconds after which no new depth is started"""
    hard_s: float
    """seconds after which a depth is interrupted"""
    min_depth: int = 1
    max_depth: int = UNBOUNDED_DEPTH
    extra: float = 1.0
    """factor on ``soft_s`` if the last two depths disagree"""
    steady: int | None = None
    """number of depths that must agree to stop early, None for never"""


def run_until(search: TimedSearch, plan: TimePlan, start: float, now: Now) -> None:
    """Deepen a search until the time planned since ``start`` is up or the result cannot change.

    The first step is always finished. No step is started that is predicted not to fit, except up to the minimum depth,
    which only ``hard_s`` interrupts.
    """
    while search.depth < plan.max_depth:
        if search.depth == 0:
            search.search_until(math.inf, plan.max_depth)
            continue
        spent = now() - start
        if search.depth >= plan.min_depth:
            disagree = search.num_agreeing == 1 and search.depth > 1
            limit = min(plan.hard_s, plan.soft_s * (plan.extra if disagree else 1.0))
            if not search.can_change(limit - spent):
                return
            if plan.steady is not None and search.num_agreeing >= plan.steady and spent >= STEADY_SHARE * plan.soft_s:
                return
            if spent + search.next_s > limit:
                return
        elif not search.can_change(plan.hard_s - spent):
            return
        if spent >= plan.hard_s or not search.search_until(start + plan.hard_s, plan.max_depth):
            return
