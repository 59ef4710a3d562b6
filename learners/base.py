"""What learners have in common, and who takes which part of a game: transitions, and a learner's seat in PettingZoo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ttt_envs.boards import Boards
from ttt_envs.policy import Policy
from ttt_envs.rules import Cells, Game, Integers, Reals, compiled, inlined, wide

Bootstrap = Literal["own-turn", "ply"]


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

    @classmethod
    def empty(cls, count: int, cells: int) -> Transition:
        """Arrays to write into."""
        boards, after = (Boards(np.empty((count, cells), np.int8), np.empty(count, np.int8)) for _ in range(2))
        slot, action, next_action = np.empty((3, count), np.int64)
        reward, discount = np.empty((2, count))
        return cls(slot, boards, action, reward, discount, after, next_action)

    def flat(self) -> tuple[Any, ...]:
        """The arrays one after another, as kernels take them."""
        return self.slot, *self.boards, self.action, self.reward, self.discount, *self.next_boards, self.next_action

    def head(self, count: int) -> Transition:
        """The first ``count`` of them."""
        boards, after = (Boards(part.cells[:count], part.mover[:count]) for part in (self.boards, self.next_boards))
        slot, action, next_action = self.slot[:count], self.action[:count], self.next_action[:count]
        return Transition(slot, boards, action, self.reward[:count], self.discount[:count], after, next_action)


class Learner(Policy, Protocol):
    """A policy that learns. ``probabilities`` is what it would play in earnest: no exploration, and no learning."""

    game: Game
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

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that was learned, and all counters: enough to go on exactly."""
        ...

    def from_arrays(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take back what :meth:`to_arrays` gave.

        Raises:
            ValueError: arrays that are not a learner's of this kind and game.
        """
        ...


class LearnerConfig(Protocol):
    """A frozen dataclass of settings, from which the command line is made.

    A class attribute ``batch`` says how many games side by side suit the learner, where that is not 256.
    """

    def build(self, game: Game, rng: np.random.Generator) -> Learner:
        """The learner, with nothing learned yet."""
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
        if self.learner.wants_next_action:
            actions = self.learner.explore(boards, self._rng)
            self._close(slots, boards, actions)
        else:
            self._close(slots, boards, np.full(len(slots), -1))
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
        for other in (False,) if self._by_ply else (False, True):
            closed = Transition.empty(len(slots), self.learner.game.cells)
            count = _end(slots, self._by_ply, last, rewards, other, *self._held, *closed.flat())
            self._learn(closed, count)

    def _close(self, slots: Integers, boards: Boards, actions: Integers) -> None:
        """The decisions that are pending have led to these positions, and there to these actions."""
        closed = Transition.empty(len(slots), self.learner.game.cells)
        count = _close(slots, self._by_ply, *boards, actions, *self._held, *closed.flat())
        self._learn(closed, count)

    def _learn(self, closed: Transition, count: int) -> None:
        if count:
            self.logged = self.learner.observe(closed.head(count))

    @property
    def _held(self) -> tuple[Any, ...]:
        return self._pending, self._cells, self._mover, self._action

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

    def from_arrays(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
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


@inlined
def _release(
    lane: int,
    slot: int,
    k: int,
    pending: NDArray[np.bool_],
    held_cells: Cells,
    held_mover: Cells,
    held_action: Integers,
    out_slot: Integers,
    out_cells: Cells,
    out_mover: Cells,
    out_action: Integers,
) -> None:
    """Write a decision that was kept as the k-th transition."""
    pending[lane, slot] = False
    out_slot[k] = slot
    out_mover[k] = held_mover[lane, slot]
    out_action[k] = held_action[lane, slot]
    for cell in range(out_cells.shape[1]):
        out_cells[k, cell] = held_cells[lane, slot, cell]


@compiled
def _close(
    slots: Integers,
    by_ply: bool,
    cells: Cells,
    mover: Cells,
    actions: Integers,
    pending: NDArray[np.bool_],
    held_cells: Cells,
    held_mover: Cells,
    held_action: Integers,
    out_slot: Integers,
    out_cells: Cells,
    out_mover: Cells,
    out_action: Integers,
    reward: Reals,
    discount: Reals,
    next_cells: Cells,
    next_mover: Cells,
    next_action: Integers,
) -> int:
    """The transitions of decisions that led to positions where the game goes on; returns how many there are."""
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        lane = _lane(by_ply, wide(mover[i]))
        if not pending[lane, slot]:
            continue
        _release(
            lane, slot, count, pending, held_cells, held_mover, held_action, out_slot, out_cells, out_mover, out_action
        )
        reward[count] = 0.0
        discount[count] = 1.0 if out_mover[count] == mover[i] else -1.0
        next_mover[count] = mover[i]
        next_action[count] = actions[i]
        for cell in range(cells.shape[1]):
            next_cells[count, cell] = cells[i, cell]
        count += 1
    return count


@compiled
def _end(
    slots: Integers,
    by_ply: bool,
    last: Cells,
    rewards: Reals,
    other: bool,
    pending: NDArray[np.bool_],
    held_cells: Cells,
    held_mover: Cells,
    held_action: Integers,
    out_slot: Integers,
    out_cells: Cells,
    out_mover: Cells,
    out_action: Integers,
    reward: Reals,
    discount: Reals,
    next_cells: Cells,
    next_mover: Cells,
    next_action: Integers,
) -> int:
    """The transitions of decisions that the game's end followed: those of who moved last, or the ``other`` player's."""
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        player = 1 - wide(last[i]) if other else wide(last[i])
        lane = _lane(by_ply, player)
        if not pending[lane, slot]:
            continue
        _release(
            lane, slot, count, pending, held_cells, held_mover, held_action, out_slot, out_cells, out_mover, out_action
        )
        reward[count] = -rewards[i] if other else rewards[i]
        discount[count] = 0.0
        next_mover[count] = out_mover[count]
        next_action[count] = -1
        for cell in range(next_cells.shape[1]):
            next_cells[count, cell] = out_cells[count, cell]
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
    return json.loads(np.asarray(array, np.uint8).tobytes())


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
