"""Opponent pool of a learner's own earlier snapshots: ``pool:every=5000,size=8``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from learners.base import Arrays, Learner, get_array, with_prefix
from ttt_envs.agents.policy import Policy, act_in_episodes
from ttt_envs.agents.specs import parse_spec
from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array
from ttt_envs.core.random import uniforms
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import STREAM_POOL

NAME = "pool"
DIGITS = 15
"""Maximum number of digits of a pool's numbers."""


class Pool(Policy):
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
        for name, value in (("every", every), ("size", size)):
            if value < 1:
                raise ValueError(f"pool: {name}={value} does not work: choose 1 or more")
        self.every = every
        self.size = size
        self._build = build
        self._snapshots: dict[int, Learner] = {}
        self._num_taken = 0

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return the mean policy of the newest snapshots, float64[B, cells]; within a game one snapshot plays."""
        newest = [self._snapshots[number] for number in range(max(0, self._num_taken - self.size), self._num_taken)]
        mean: Float64Array = np.mean([snapshot.probabilities(boards) for snapshot in newest], axis=0)
        return mean

    def begin(self, first: int, last: int, running: int, learner: Learner) -> None:
        """Take due snapshots before games ``first`` to ``last``, and drop those older than game ``running`` needs."""
        for number in range(self._num_taken, last // self.every + 1):
            snapshot = self._build()
            snapshot.state = {name: array.copy() for name, array in learner.state.items()}
            self._snapshots[number] = snapshot
            self._num_taken = number + 1
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

    @property
    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """All snapshots."""
        arrays: dict[str, np.ndarray[Any, Any]] = {"made": np.array([self._num_taken])}
        for number, snapshot in self._snapshots.items():
            arrays |= {f"{number}.{name}": array for name, array in snapshot.state.items()}
        return arrays

    @state.setter
    def state(self, arrays: Arrays) -> None:
        self._num_taken = int(get_array(arrays, "made", (1,), "i8", str(self))[0])
        self._snapshots = {}
        for number in sorted({int(name.partition(".")[0]) for name in arrays if name != "made"}):
            self._snapshots[number] = self._build()
            self._snapshots[number].state = with_prefix(f"{number}.", arrays)

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
    numbers = {"every": parsed.unkeyed, **parsed.keyed} if parsed.unkeyed else dict(parsed.keyed)
    for key, value in numbers.items():
        if key not in ("every", "size") or not value.isdecimal() or len(value) > DIGITS:
            raise ValueError(
                f"pool: {key}={value!r} does not work: it takes every and size, whole numbers of up to {DIGITS} "
                f"digits, such as pool:every=5000,size=8"
            )
    return Pool(build, **{key: int(value) for key, value in numbers.items()})
