"""Opponent pool of a learner's own earlier snapshots: ``pool:every=5000,size=8``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from learners.base import Arrays, Learner
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
            snapshot.from_arrays({name: array.copy() for name, array in learner.to_arrays().items()})
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

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all snapshots."""
        arrays: dict[str, np.ndarray[Any, Any]] = {"made": np.array([self._num_taken])}
        for number, snapshot in self._snapshots.items():
            arrays |= {f"{number}.{name}": array for name, array in snapshot.to_arrays().items()}
        return arrays

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore the state from the arrays of :meth:`to_arrays`."""
        self._num_taken = int(arrays["made"][0])
        by_number: dict[int, dict[str, np.ndarray[Any, Any]]] = {}
        for name, array in arrays.items():
            number, dot, rest = name.partition(".")
            if dot:
                by_number.setdefault(int(number), {})[rest] = array
        self._snapshots = {}
        for key, of_snapshot in by_number.items():
            self._snapshots[key] = self._build()
            self._snapshots[key].from_arrays(of_snapshot)

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
    numbers = {}
    for key, value in {**({"every": parsed.unkeyed} if parsed.unkeyed else {}), **dict(parsed.keyed)}.items():
        if key not in ("every", "size"):
            raise ValueError(f"pool has no argument {key!r}: write pool:every=5000,size=8")
        if not value.isdecimal() or len(value) > DIGITS:
            raise ValueError(
                f"pool: {key}={value!r} is not a whole number of up to {DIGITS} digits: write pool:every=5000,size=8"
            )
        numbers[key] = int(value)
    return Pool(build, **numbers)
