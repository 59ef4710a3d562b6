"""What learners have in common, and who takes which part of a game: transitions, and a learner's seat in PettingZoo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttt_envs.boards import Boards
from ttt_envs.compiling import Cells, Integers, Reals, compiled, inlined, wide
from ttt_envs.files import parse_json
from ttt_envs.policy import Policy
from ttt_envs.rules import Game

Bootstrap = Literal["own-turn", "ply"]
Arrays = Mapping[str, np.ndarray[Any, Any]]
"""by name, as they are stored"""


class Transition(NamedTuple):
    """One decision and what it led to, in each of B games."""

    slot: Integers
    """int64[B]: which of the games played side by side; at most one row per slot, in slot order"""
    boards: Boards
    """before the move"""
    action: Integers
    """int64[B]"""
    reward: Reals
    """float64[B], to the player who moved: +1 win, 0 draw or not over, -1 loss"""
    discount: Reals
    """float64[B]: 0 the game is over; +1 next_boards is the same player's turn; -1 the opponent's"""
    next_boards: Boards
    """meaningless where discount is 0"""
    next_action: Integers
    """int64[B]: what was then played; -1 where nothing was, and for learners that do not ask for it"""


class Stored(Policy, Protocol):
    """A policy that has learned, and what it has learned as arrays."""

    game: Game

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that was learned, and all counters: enough to go on exactly, beside what its training keeps."""
        ...

    def from_arrays(self, arrays: Arrays) -> None:
        """Take back what :meth:`to_arrays` gave.

        Raises:
            ValueError: arrays that are not a learner's of this kind and game.
        """
        ...


class Learner(Stored, Protocol):
    """A policy that learns. ``probabilities`` is what it would play in earnest: no exploration, and no learning."""

    bootstrap: Bootstrap
    """``own-turn``: transitions lead to the same player's next turn. ``ply``, in self-play only: to the next ply"""
    wants_next_action: bool
    """whether ``next_action`` is needed: then the next move is chosen before the last one is learned from"""

    def explore(self, boards: Boards, rng: np.random.Generator) -> Integers:
        """int64[B], the behaviour while learning."""
        ...

    def observe(self, transition: Transition) -> dict[str, float]:
        """Learn; return what is worth logging."""
        ...


@runtime_checkable
class Follower(Protocol):
    """An opponent that changes while a learner learns from games against it."""

    def begin(self, first: int, last: int, running: int, learner: Learner) -> None:
        """Games ``first`` to ``last`` are about to begin, while ``running`` is the lowest that still runs."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that decides how it goes on."""
        ...

    def from_arrays(self, arrays: Arrays) -> None:
        """Take back what :meth:`to_arrays` gave."""
        ...


class Turns:
    """A learner's decisions in B games, from when they are taken until what they led to is known.

    Both loops play through this, which is why they teach the same. Per turn: close the decision that is pending, then
    choose the next; at the end close the last mover's decision first, then the other's.
    """

    def __init__(self, learner: Learner, slots: int, rng: np.random.Generator) -> None:
        self.learner = learner
        self.logged: dict[str, float] = {}
        self._rng = rng
        self._by_ply = learner.bootstrap == "ply"
        size = learner.game.cells
        # one pending decision for each player; ply by ply only one for both
        self._pending = np.zeros((2, slots), np.bool_)
        self._cells = np.zeros((2, slots, size), np.int8)
        self._mover = np.zeros((2, slots), np.int8)
        self._action = np.zeros((2, slots), np.int64)

    def take(self, slots: Integers, boards: Boards) -> Integers:
        """The learner's moves int64[B] in the games ``slots``, in ascending order."""
        nothing = np.zeros(len(slots))
        if self.learner.wants_next_action:
            actions = self.learner.explore(boards, self._rng)
            self._close(slots, boards.mover, nothing, boards, actions)
        else:
            self._close(slots, boards.mover, nothing, boards, np.full(len(slots), -1))
            actions = self.learner.explore(boards, self._rng)
        _hold(slots, self._by_ply, *boards, actions, self._pending, self._cells, self._mover, self._action)
        return actions

    def end(self, slots: Integers, last: Cells, rewards: Reals) -> None:
        """The games ``slots`` are over.

        Args:
            slots: int64[B], in ascending order.
            last: int8[B]: the learner's seat that moved last.
            rewards: float64[B], to that seat; the other's are the opposite.
        """
        for player, signed in ((last, rewards), (1 - last, -rewards))[: 1 if self._by_ply else 2]:
            nowhere = np.full(len(slots), -1)
            self._close(slots, player, signed, None, nowhere)

    def _close(self, slots: Integers, player: Cells, reward: Reals, after: Boards | None, then: Integers) -> None:
        """What the decisions that are pending for these players led to is known: learn from it.

        Args:
            slots: int64[B], in ascending order.
            player: int8[B]: whose decisions.
            reward: float64[B], to them.
            after: B positions; None where the games are over.
            then: int64[B], what is played there.
        """
        boards = Boards.start(self.learner.game, len(slots))
        rows, action = np.empty((2, len(slots)), np.int64)
        held = self._pending, self._cells, self._mover, self._action
        count = _release(slots, player, self._by_ply, *held, rows, *boards, action)
        if count == 0:
            return
        rows, before = rows[:count], Boards(boards.cells[:count], boards.mover[:count])
        if after is None:
            discount, following = np.zeros(count), before
        else:
            following = after.take(rows)
            discount = np.where(before.mover == following.mover, 1.0, -1.0)
        transition = Transition(slots[rows], before, action[:count], reward[rows], discount, following, then[rows])
        self.logged = self.learner.observe(transition)

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The decisions that are pending, and the state of the exploration's generator."""
        return {
            "pending": self._pending,
            "cells": self._cells,
            "mover": self._mover,
            "action": self._action,
            "rng": to_bytes(self._rng.bit_generator.state),
            "logged": to_bytes(self.logged),
        }

    def from_arrays(self, arrays: Arrays) -> None:
        """Take back what :meth:`to_arrays` gave, of the same board and as many games."""
        for name in ("pending", "cells", "mover", "action"):
            getattr(self, f"_{name}")[...] = arrays[name]
        self._rng.bit_generator.state = from_bytes(arrays["rng"])
        self.logged = from_bytes(arrays["logged"])


@inlined
def _lane(by_ply: bool, mover: int) -> int:
    """Where a decision waits: one place for each player, or ply by ply one for both."""
    return 0 if by_ply else mover


@compiled
def _hold(
    slots: Integers,
    by_ply: bool,
    cells: Cells,
    mover: Cells,
    actions: Integers,
    pending: NDArray[np.bool_],
    held_cells: Cells,
    held_mover: Cells,
    held_action: Integers,
) -> None:
    """Keep decisions until it is known what they led to."""
    for i in range(len(slots)):
        slot = slots[i]
        lane = _lane(by_ply, wide(mover[i]))
        pending[lane, slot] = True
        held_mover[lane, slot] = mover[i]
        held_action[lane, slot] = actions[i]
        for cell in range(cells.shape[1]):
            held_cells[lane, slot, cell] = cells[i, cell]


@compiled
def _release(
    slots: Integers,
    player: Cells,
    by_ply: bool,
    pending: NDArray[np.bool_],
    held_cells: Cells,
    held_mover: Cells,
    held_action: Integers,
    rows: Integers,
    cells: Cells,
    mover: Cells,
    action: Integers,
) -> int:
    """Write down the decisions that are pending, and from which of ``slots`` they are; returns how many there are."""
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        lane = _lane(by_ply, wide(player[i]))
        if pending[lane, slot]:
            pending[lane, slot] = False
            rows[count] = i
            mover[count] = held_mover[lane, slot]
            action[count] = held_action[lane, slot]
            for cell in range(cells.shape[1]):
                cells[count, cell] = held_cells[lane, slot, cell]
            count += 1
    return count


def to_bytes(data: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """JSON-ready data as uint8[N], to be stored beside arrays: the state of a generator, for example."""
    return np.frombuffer(json.dumps(data).encode(), np.uint8)


def from_bytes(array: np.ndarray[Any, Any]) -> Any:
    """What :func:`to_bytes` was given.

    Raises:
        ValueError: an array that is no JSON.
    """
    return parse_json(np.asarray(array, np.uint8).tobytes())


class Seat:
    """A learner in one or both seats of a PettingZoo AEC environment, one game at a time.

    The environment has two agents, of which ``possible_agents[0]`` is player_0, planes (rows, columns, 2) with own
    stones first, and one action per cell. In both seats it is self-play, and only then can it learn ply by ply.

    Args:
        learner: who learns.
        rng: for its exploration.
        agents: the indices of the agents that it plays, (0,), (1,) or (0, 1).
    """

    def __init__(self, learner: Learner, rng: np.random.Generator, agents: tuple[int, ...] = (0, 1)) -> None:
        check_bootstrap(learner, both=len(agents) == 2)
        self.agents = agents
        self._turns = Turns(learner, 1, rng)
        self._slot = np.zeros(1, np.int64)
        self._last: int | None = None

    def turn(self, observation: Mapping[str, Any], player: int) -> int:
        """The learner's action for agent ``player``, from what ``env.last()`` shows it."""
        self._last = player
        return int(self._turns.take(self._slot, seen_from(observation, player))[0])

    def end(self, rewards: tuple[float, float]) -> None:
        """The game is over, with these rewards for the two agents."""
        if self._last is not None:  # else the game ended before the learner's first turn
            last = np.array([self._last], np.int8)
            self._turns.end(self._slot, last, np.array([rewards[self._last]]))
        self._last = None


def seen_from(observation: Mapping[str, Any], player: int) -> Boards:
    """The position that agent ``player``, to move, sees in its planes (rows, columns, 2), as a batch of one."""
    own, other = np.moveaxis(np.asarray(observation["observation"]), -1, 0).reshape(2, -1).astype(np.int8)
    cells = own * (player + 1) + other * (2 - player)
    return Boards(cells[None].astype(np.int8), np.array([player], np.int8))


def check_bootstrap(learner: Learner, both: bool) -> None:
    """Raise ValueError where a learner that learns ply by ply does not play both seats."""
    if learner.bootstrap == "ply" and not both:
        raise ValueError(
            'bootstrap="ply" learns from every ply of a game, which only self-play shows: '
            'choose opponent "self", or bootstrap="own-turn" against another opponent'
        )
