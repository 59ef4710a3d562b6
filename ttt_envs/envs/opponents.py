"""The opponents of an environment: one policy, or a schedule of policies, for each skip chance of the environment.

A schedule names each opponent with the number of steps or episodes after which it plays::

    ("random", "win-or-block@20000", "optimal@40000")                   by steps of the environment
    ("random", "win-or-block@500 episodes", (a_policy, "1000 episodes"))  by episodes

An opponent plays its games to the end: the schedule is looked up when an episode begins. Both numbers are counted since
the environment was seeded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ttt_envs.agents.policy import PlaysUniformly, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.phantom import AnyGame

SELF = "self"
"""opponent name for self-play: the caller moves for both players"""
Unit = Literal["steps", "episodes"]
_START = re.compile(r"([0-9]{1,15}) ?(steps|episodes)?")
_EXAMPLE = 'write for example opponent=("random", "win-or-block@20000"), or "win-or-block@500 episodes"'


@dataclass(frozen=True)
class Opponents:
    """The opponents of an environment."""

    policies: tuple[tuple[Policy, ...], ...]
    """by stage of the schedule, then by skip chance"""
    starts: tuple[int, ...]
    """the steps or episodes after which each stage begins; the first is 0"""
    unit: Unit
    """what ``starts`` count"""

    @property
    def num_policies(self) -> int:
        """Number of different policies."""
        return len({id(policy) for stage in self.policies for policy in stage})

    @property
    def plays_uniformly(self) -> bool:
        """Whether all of them are uniformly random over legal moves."""
        return all(
            isinstance(policy, PlaysUniformly) and policy.plays_uniformly for stage in self.policies for policy in stage
        )

    def stages(self, counts: Int64Array) -> Int64Array:
        """Return the stage of each episode int64[B], from the steps or episodes before it int64[B]."""
        return np.searchsorted(np.array(self.starts), counts, side="right") - 1


def make_opponents(
    opponent: Any, games: Sequence[AnyGame], convert: Callable[[Any, AnyGame], Any] | None = None
) -> Opponents | None:
    """Return the opponents that an environment's argument names, None for self-play.

    Args:
        opponent: a spec string, a policy, ``"self"``, or a schedule of spec strings and policies, see above.
            :class:`Opponents` are returned unchanged.
        games: the game of each skip chance; a policy named by a spec string is made for each, and so it knows the skip
            chance.
        convert: converts an opponent to a spec string or a policy of a game first.

    Raises:
        TypeError, ValueError: the schedule or an opponent is invalid.
    """
    if isinstance(opponent, Opponents):
        return opponent
    if isinstance(opponent, str) and opponent == SELF:
        return None
    is_schedule = isinstance(opponent, (tuple, list)) and not isinstance(opponent, Policy)
    entries, starts, unit = parse_schedule(opponent) if is_schedule else ([opponent], [0], "steps")
    policies = tuple(
        tuple(make_policy(convert(entry, game) if convert else entry, game) for game in games) for entry in entries
    )
    return Opponents(policies, tuple(starts), unit)


def parse_schedule(schedule: Sequence[Any]) -> tuple[list[Any], list[int], Unit]:
    """Return the opponents of a schedule, their starts, and what the starts count.

    Raises:
        TypeError, ValueError: an entry has no start, the starts do not increase from 0, or they count both steps and
            episodes.
    """
    if not schedule:
        raise ValueError(f"opponent={schedule!r} names no opponent: {_EXAMPLE}")
    opponents: list[Any] = []
    starts: list[int] = []
    units: set[str] = set()
    for entry in schedule:
        opponent, start, unit = _parse_entry(entry, first=not opponents)
        if isinstance(opponent, str) and opponent == SELF:
            raise ValueError("a schedule of opponents cannot hold 'self': self-play is opponent='self' alone")
        if start <= starts[-1] if starts else start != 0:
            after = f"after {starts[-1]}" if starts else "at 0"
            raise ValueError(f"the opponent {entry!r} of a schedule must start {after}: {_EXAMPLE}")
        opponents.append(opponent)
        starts.append(start)
        units |= {unit} if unit else set()
    if len(units) > 1:
        raise ValueError(f"opponent={schedule!r} counts both steps and episodes: choose one of them")
    return opponents, starts, "episodes" if units == {"episodes"} else "steps"


def _parse_entry(entry: Any, *, first: bool) -> tuple[Any, int, str | None]:
    """Return the opponent of an entry, its start, and the unit, None for a start of 0 without one."""
    opponent: Any = entry
    start: Any = "0"
    if isinstance(entry, str):
        name, at, text = entry.rpartition("@")
        if at:
            opponent, start = name, text
        elif not first:
            raise ValueError(f"the opponent {entry!r} of a schedule has no start: {_EXAMPLE}")
    elif isinstance(entry, (tuple, list)) and not isinstance(entry, Policy) and len(entry) == 2:
        opponent, start = entry
    elif not first:
        raise TypeError(f"the entry {entry!r} of a schedule has no start: write it as (opponent, 20000)")
    valid = isinstance(start, (str, int, np.integer)) and not isinstance(start, bool)
    match = _START.fullmatch(str(start)) if valid else None
    if match is None:
        raise ValueError(f"{start!r} is no start of an opponent: {_EXAMPLE}")
    number = int(match[1])
    return opponent, number, match[2] or ("steps" if number else None)
