"""Time management: the time plan for a move, and when to stop searching."""

from __future__ import annotations

import math
from typing import NamedTuple

from baselines.timed.clock import Clock
from baselines.timed.interruptible import UNBOUNDED_DEPTH, Now, TimedSearch

MAX_CLOCK_SHARE = 0.5
"""Maximum share of the time on the clock for one move; ``MAX_CLOCK_SHARE_EXTENDED``: the same with extra time."""
MAX_CLOCK_SHARE_EXTENDED = 0.6
SHARE_OF_INCREMENT = 0.8
"""Share of the increment that is planned for a move."""
STEADY_SHARE = 0.25
"""Share of its time after which a move with agreeing depths is made."""
MAX_MARGIN_SHARE = 0.1
"""Maximum share of a fixed time per move that the margin may take."""


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


def plan_by_clock(
    left_s: float, clock: Clock, moves: float, moves_at_start: float, *, margin_s: float, extra: float, dynamic: bool
) -> tuple[float, float]:
    """Return the planned and the maximum seconds for a move, by a game's clock.

    Args:
        left_s: seconds on the clock.
        clock: its initial time and increment.
        moves: own moves left, including this one.
        moves_at_start: the same on the first board.
        margin_s: seconds in reserve, for overhead between player and clock.
        extra: maximum factor on the planned time for a move that needs it.
        dynamic: whether to divide the remaining time by the moves left; else the initial time by all moves.
    """
    usable = max(0.0, left_s - margin_s)
    share = usable / moves if dynamic else clock.seconds / moves_at_start
    planned = min(share + SHARE_OF_INCREMENT * clock.increment, MAX_CLOCK_SHARE * usable)
    return planned, min(extra * planned, MAX_CLOCK_SHARE_EXTENDED * usable)


def plan_by_move(move_s: float, margin_s: float) -> float:
    """Return the seconds to spend with a fixed time per move."""
    return move_s - min(margin_s, MAX_MARGIN_SHARE * move_s)


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
