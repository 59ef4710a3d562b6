"""Opponent pool of a learner's own earlier snapshots: ``pool:every=5000,size=8``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from learners.base import Arrays, Learner, Stored, with_prefix
from ttt_envs.agents.policy import Policy, act_in_episodes
from ttt_envs.agents.specs import convert_value, parse_spec
from ttt_envs.core.jit import Int64Array, UInt64Array
from ttt_envs.core.random import uniforms
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import STREAM_POOL

NAME = "pool"


class Pool(Stored, Policy):
    """The latest snapshots of a learner; one of them, drawn uniformly, plays a whole game.

    A snapshot is taken before the first game, and whenever ``every`` more games have begun. Game n meets one of the
    ``size`` newest snapshots at its beginning, chosen by the game's random key. So opponents do not depend on the
    number of parallel games, and only the snapshots need to be stored.

    Args:
        build: makes a learner of the same kind, to hold a snapshot.
        every: number of games between snapshots.
        size: maximum number of snapshots that a game may meet.

    Raises:
        ValueError: numbers below 1.
    """

    pure = False

    def __init__(self, build: Callable[[], Learner], every: int = 5_000, size: int = 8) -> None:
        if every < 1 or size < 1:
            raise ValueError(f"pool: every={every} and size={size} do not work: choose 1 or more for both")
        self.every, self.size, self._build = every, size, build
        self._snapshots: dict[int, Learner] = {}

    def begin(self, first: int, last: int, running: int, learner: Learner) -> None:
        """Take due snapshots before games ``first`` to ``last``, and drop those older than game ``running`` needs."""
        for number in range(max(self._snapshots, default=-1) + 1, last // self.every + 1):
            self._snapshots[number] = self._copy(learner.state)
        oldest = min(first, running) // self.every + 1 - self.size
        self._snapshots = {number: snapshot for number, snapshot in self._snapshots.items() if number >= oldest}

    def act_in_games(
        self, boards: Boards, games: Int64Array, episode_keys: UInt64Array, plies: Int64Array
    ) -> Int64Array:
        """Return a move int64[B] in each of the games with these numbers."""
        u = np.empty(len(games))
        uniforms(episode_keys, STREAM_POOL, np.zeros(len(games), np.int64), u)
        available = games // self.every + 1
        chosen = available - 1 - (u * np.minimum(available, self.size)).astype(np.int64)
        actions = np.empty(len(games), np.int64)
        for number in np.unique(chosen):
            rows = np.flatnonzero(chosen == number)
            snapshot = self._snapshots[int(number)]
            actions[rows] = act_in_episodes(snapshot, boards.take(rows), episode_keys[rows], plies[rows])
        return actions

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of all snapshots."""
        parts = {number: snapshot.state for number, snapshot in self._snapshots.items()}
        return {f"{number}.{name}": array for number, state in parts.items() for name, array in state.items()}

    def from_arrays(self, arrays: Arrays) -> None:
        """Replace all snapshots.

        Raises:
            ValueError: there are none.
        """
        numbers = sorted({int(name.partition(".")[0]) for name in arrays})
        if not numbers:
            raise ValueError(f"there are no snapshots for {self}: this is the state of another training")
        self._snapshots = {number: self._copy(with_prefix(f"{number}.", arrays)) for number in numbers}

    def _copy(self, state: Arrays) -> Learner:
        snapshot = self._build()
        snapshot.state = state
        return snapshot

    def __str__(self) -> str:
        return f"{NAME}:every={self.every},size={self.size}"


def parse_pool(spec: str, build: Callable[[], Learner]) -> Pool | None:
    """Return the pool of a spec string, or None for another opponent.

    Raises:
        ValueError: arguments that a pool does not take.
    """
    if spec.partition(":")[0] != NAME:
        return None
    parsed = parse_spec(spec)
    numbers = {"every": parsed.unkeyed, **parsed.keyed} if parsed.unkeyed else parsed.keyed
    if unknown := numbers.keys() - {"every", "size"}:
        raise ValueError(f"pool has no argument {min(unknown)!r}: it takes every and size, as pool:every=5000,size=8")
    return Pool(build, **{key: convert_value(NAME, key, value, int) for key, value in numbers.items()})
