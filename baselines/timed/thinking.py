"""How long a player thinks about a move: what it may spend, and when it has seen enough."""

from __future__ import annotations

import math
from typing import NamedTuple

from baselines.timed.clock import Clock
from baselines.timed.searches import LARGEST, Now, TimedSearch

MOST_OF_CLOCK = 0.5
"""of the time on the clock that one move is given, at most; and what a depth that takes longer may have, with"""
MOST_BEYOND = 0.6
SHARE_OF_INCREMENT = 0.8
"""of the seconds that a move brings back that it is given"""
STEADY_SHARE = 0.25
"""of its time after which a move whose depths agree is made"""
LARGEST_MARGIN_SHARE = 0.1
"""of the seconds for a move that the margin may take"""


class Plan(NamedTuple):
    """What may be spent on one move.

    All of it grows with the time on the clock, and nothing else that :func:`think` decides by depends on that time: so
    a position is never searched less deeply for having more.
    """

    soft_s: float
    """seconds after which no new depth is begun"""
    hard_s: float
    """seconds after which a depth is broken off"""
    min_depth: int = 1
    max_depth: int = LARGEST
    extra: float = 1.0
    """times ``soft_s`` where the last two depths disagree"""
    steady: int | None = None
    """depths that must agree for a move before its time is up, None for never"""


def plan_by_clock(
    left_s: float, clock: Clock, moves: float, moves_at_start: float, *, margin_s: float, extra: float, dynamic: bool
) -> tuple[float, float]:
    """Seconds to plan for a move, and at most, by a game's clock.

    Args:
        left_s: on the clock.
        clock: what it had, and what a move brings.
        moves: own moves to come, this one included.
        moves_at_start: the same on the first board.
        margin_s: seconds that are not spent, for what happens between player and clock.
        extra: how many times what is planned a move may take that needs it.
        dynamic: an equal share of what is left for all moves to come; else of what there was for all moves.
    """
    usable = max(0.0, left_s - margin_s)
    share = usable / moves if dynamic else clock.seconds / moves_at_start
    planned = min(share + SHARE_OF_INCREMENT * clock.increment, MOST_OF_CLOCK * usable)
    return planned, min(extra * planned, MOST_BEYOND * usable)


def plan_by_move(move_s: float, margin_s: float) -> float:
    """Seconds to spend where every move has as many."""
    return move_s - min(margin_s, LARGEST_MARGIN_SHARE * move_s)


def think(search: TimedSearch, plan: Plan, begun: float, now: Now) -> None:
    """Search deeper until the time planned since ``begun`` is up or nothing more is to be found.

    The first step is always done. No other is begun that is predicted not to fit, but for the least depth, which only
    ``hard_s`` cuts short.
    """
    while search.depth < plan.max_depth:
        if search.depth == 0:
            search.go_on(math.inf, plan.max_depth)
            continue
        spent = now() - begun
        if search.depth >= plan.min_depth:
            disagree = search.agreed == 1 and search.depth > 1
            limit = min(plan.hard_s, plan.soft_s * (plan.extra if disagree else 1.0))
            if not search.can_change(limit - spent):
                return
            if plan.steady is not None and search.agreed >= plan.steady and spent >= STEADY_SHARE * plan.soft_s:
                return
            if spent + search.next_s > limit:
                return
        elif not search.can_change(plan.hard_s - spent):
            return
        if spent >= plan.hard_s or not search.go_on(begun + plan.hard_s, plan.max_depth):
            return
