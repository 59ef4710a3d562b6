"""Interfaces shared by all learners: transitions, pending decisions, and a learner's seat in PettingZoo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.policy import Policy
from ttt_envs.core.files import parse_json
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, inlined, int64, kernel
from ttt_envs.game.actions import cells_to_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame, PhantomGame

Bootstrap = Literal["own-turn", "ply"]
Arrays = Mapping[str, np.ndarray[Any, Any]]
"""Arrays by name, as they are stored."""


class Transition(NamedTuple):
    """One decision and its outcome, in each of B games."""

    slot: Int64Array
    """int64[B]: index of the parallel game; at most one row per slot, in slot order"""
    boards: Boards
    """positions before the move"""
    action: Int64Array
    """int64[B]"""
    reward: Float64Array
    """float64[B], to the player who moved: +1 win, 0 draw or not over, -1 loss"""
    discount: Float64Array
    """float64[B]: 0 if the game is over; +1 if next_boards is the same player's turn; -1 if the opponent's"""
    next_boards: Boards
    """meaningless where discount is 0"""
    next_action: Int64Array
    """int64[B]: the next action played; -1 if none, or if the learner does not want it"""


class Checkpointable(Policy):
    """A trained policy that can be saved as arrays."""

    game: AnyGame
    """The game that it learns."""
    symmetric: bool

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the learned state and all counters: with the training's arrays, enough to resume exactly."""
        raise NotImplementedError

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore the state from the arrays of :meth:`to_arrays`.

        Raises:
            ValueError: arrays that are not of a learner of this kind and game.
        """
        raise NotImplementedError


class Learner(Checkpointable):
    """A policy that learns. ``probabilities`` is its greedy policy: no exploration, no learning."""

    bootstrap: Bootstrap
    """``own-turn``: transitions lead to the same player's next turn. ``ply``, in self-play only: to the next ply."""
    wants_next_action: bool
    """Whether ``next_action`` is needed. If so, the next move is chosen before the update from the last one."""

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return moves int64[B] of the behaviour policy used in training."""
        raise NotImplementedError

    def observe(self, transition: Transition) -> dict[str, float]:
        """Learn from the transition and return metrics to log."""
        raise NotImplementedError


@runtime_checkable
class AdaptiveOpponent(Protocol):
    """An opponent that changes during the training of a learner that plays against it."""

    def begin(self, first: int, last: int, running: int, learner: Learner) -> None:
        """Prepare for games ``first`` to ``last``, while ``running`` is the lowest unfinished game."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all state that determines its future behaviour."""
        ...

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore the state from the arrays of :meth:`to_arrays`."""
        ...


DECISIONS = ("pending", "cells", "mover", "action")
Decisions = tuple[NDArray[np.bool_], Int8Array, Int8Array, Int64Array]
"""Decisions of B games, one per player, or ply by ply one for both: whether it is pending, bool[2, B], cells int8[2, B,
cells], mover int8[2, B] and action int64[2, B]. A plain tuple, which kernels take faster than a named one."""


class PendingTransitions:
    """A learner's decisions in B games, pending until their outcomes are known.

    Both training loops use this class, so both train the same learner. Per turn: close the pending decision, then
    choose the next. At the end: close the last mover's decision first, then the other's.
    """

    def __init__(self, learner: Learner, slots: int, rng: np.random.Generator) -> None:
        self.learner = learner
        self.logged: dict[str, float] = {}
        self._rng = rng
        self._by_ply = learner.bootstrap == "ply"
        self._decisions: Decisions = (
            np.zeros((2, slots), np.bool_),
            np.zeros((2, slots, learner.game.cells), np.int8),
            np.zeros((2, slots), np.int8),
            np.zeros((2, slots), np.int64),
        )

    def take(self, slots: Int64Array, boards: Boards) -> Int64Array:
        """Choose moves int64[B] in the games ``slots``, given in ascending order."""
        nothing = np.zeros(len(slots))
        if self.learner.wants_next_action:
            actions = self.learner.explore(boards, self._rng)
            self._close(slots, boards.mover, nothing, boards, actions)
        else:
            self._close(slots, boards.mover, nothing, boards, np.full(len(slots), -1))
            actions = self.learner.explore(boards, self._rng)
        _store_decisions(slots, self._by_ply, *boards, actions, self._decisions)
        return actions

    def end(self, slots: Int64Array, last: Int8Array, rewards: Float64Array) -> None:
        """Close the decisions of the finished games ``slots``.

        Args:
            slots: int64[B], in ascending order.
            last: int8[B]: the learner's seat that moved last.
            rewards: float64[B], to that seat; the other's are the opposite.
        """
        for player, signed in ((last, rewards), (1 - last, -rewards))[: 1 if self._by_ply else 2]:
            nowhere = np.full(len(slots), -1)
            self._close(slots, player, signed, None, nowhere)

    def _close(
        self, slots: Int64Array, player: Int8Array, reward: Float64Array, after: Boards | None, then: Int64Array
    ) -> None:
        """Learn from the pending decisions of these players, whose outcomes are now known.

        Args:
            slots: int64[B], in ascending order.
            player: int8[B]: the players.
            reward: float64[B], to them.
            after: B positions; None where the games are over.
            then: int64[B], the moves played there.
        """
        boards = Boards.start(self.learner.game, len(slots))
        rows, action = np.empty((2, len(slots)), np.int64)
        count = _take_decisions(slots, player, self._by_ply, self._decisions, rows, *boards, action)
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
        """Return the pending decisions and the state of the exploration's generator."""
        return {
            **dict(zip(DECISIONS, self._decisions, strict=True)),
            "rng": to_bytes(self._rng.bit_generator.state),
            "logged": to_bytes(self.logged),
        }

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore the state from the arrays of :meth:`to_arrays`, for the same board and number of games."""
        decisions: tuple[np.ndarray[Any, Any], ...] = self._decisions
        for name, array in zip(DECISIONS, decisions, strict=True):
            array[...] = arrays[name]
        self._rng.bit_generator.state = from_bytes(arrays["rng"])
        self.logged = from_bytes(arrays["logged"])


@inlined
def _lane(by_ply: bool, mover: int) -> int:
    """Return the index of a pending decision: one per player, or one for both ply by ply."""
    return 0 if by_ply else mover


@kernel
def _store_decisions(
    slots: Int64Array, by_ply: bool, cells: Int8Array, mover: Int8Array, actions: Int64Array, decisions: Decisions
) -> None:
    """Store decisions until their outcomes are known."""
    pending, pending_cells, pending_mover, pending_action = decisions
    for i in range(len(slots)):
        slot = slots[i]
        lane = _lane(by_ply, int64(mover[i]))
        pending[lane, slot] = True
        pending_mover[lane, slot] = mover[i]
        pending_action[lane, slot] = actions[i]
        for cell in range(cells.shape[1]):
            pending_cells[lane, slot, cell] = cells[i, cell]


@kernel
def _take_decisions(
    slots: Int64Array,
    player: Int8Array,
    by_ply: bool,
    decisions: Decisions,
    rows: Int64Array,
    cells: Int8Array,
    mover: Int8Array,
    action: Int64Array,
) -> int:
    """Remove the players' pending decisions and write them and their indices into ``slots``; return their number."""
    pending, pending_cells, pending_mover, pending_action = decisions
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        lane = _lane(by_ply, int64(player[i]))
        if pending[lane, slot]:
            pending[lane, slot] = False
            rows[count] = i
            mover[count] = pending_mover[lane, slot]
            action[count] = pending_action[lane, slot]
            for cell in range(cells.shape[1]):
                cells[count, cell] = pending_cells[lane, slot, cell]
            count += 1
    return count


def num_rows(arrays: Arrays, name: str) -> int:
    """Return the length of an array, 0 if it is missing or has no dimensions."""
    return len(arrays[name]) if name in arrays and arrays[name].ndim else 0


Limit = float | list[int]


def get_array(
    arrays: Arrays, name: str, shape: tuple[int, ...], kind: str, owner: str, limits: tuple[Limit, Limit] | None = None
) -> np.ndarray[Any, Any]:
    """Return the array ``name`` if it has this shape and dtype, and its numbers are within the limits.

    Raises:
        ValueError: it is missing or has another shape or dtype, or numbers out of range; ``owner`` is in the message.
    """
    array = arrays.get(name)
    if array is None or array.shape != shape or array.dtype != np.dtype(kind):
        found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
        raise ValueError(
            f"{owner} needs {name} as {np.dtype(kind)}{list(shape)}, but there is {found}: "
            f"these are another game's or learner's, or damaged"
        )
    if limits is not None and not ((array >= limits[0]) & (array <= limits[1])).all():
        raise ValueError(f"{owner} cannot hold the numbers in {name}, which are out of range: they are damaged")
    return array


def to_bytes(data: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Encode JSON-ready data as uint8[N], to store it among arrays: a generator's state, for example."""
    return np.frombuffer(json.dumps(data).encode(), np.uint8)


def from_bytes(array: np.ndarray[Any, Any]) -> Any:
    """Decode data encoded by :func:`to_bytes`.

    Raises:
        ValueError: an array that does not hold JSON.
    """
    return parse_json(np.asarray(array, np.uint8).tobytes())


class Seat:
    """A learner in one or both seats of a PettingZoo AEC environment, one game at a time.

    The environment has two agents, with ``possible_agents[0]`` as player_0, planes (rows, columns, 2) with own stones
    first, and one action per cell, or with gravity per column. Both seats mean self-play; learning ply by ply requires
    it.

    Args:
        learner: the learner.
        rng: generator of its exploration.
        agents: indices of the agents that it plays, (0,), (1,) or (0, 1).
    """

    def __init__(self, learner: Learner, rng: np.random.Generator, agents: tuple[int, ...] = (0, 1)) -> None:
        check_bootstrap(learner, both=len(agents) == 2)
        self.agents = agents
        self._turns = PendingTransitions(learner, 1, rng)
        self._slot = np.zeros(1, np.int64)
        self._last: int | None = None

    def turn(self, observation: Mapping[str, Any], player: int) -> int:
        """Return the learner's action for agent ``player``, from the observation of ``env.last()``."""
        self._last = player
        cell = self._turns.take(self._slot, seen_from(observation, player))
        return int(cells_to_actions(self._turns.learner.game, cell)[0])

    def end(self, rewards: tuple[float, float]) -> None:
        """End the game with these rewards for the two agents."""
        if self._last is not None:  # else the game ended before the learner's first turn
            last = np.array([self._last], np.int8)
            self._turns.end(self._slot, last, np.array([rewards[self._last]]))
        self._last = None


def seen_from(observation: Mapping[str, Any], player: int) -> Boards:
    """Convert the planes (rows, columns, 2) that agent ``player``, the mover, observes to a batch of one position."""
    own, other = np.moveaxis(np.asarray(observation["observation"]), -1, 0).reshape(2, -1).astype(np.int8)
    cells = own * (player + 1) + other * (2 - player)
    return Boards(cells[None].astype(np.int8), np.array([player], np.int8))


def check_bootstrap(learner: Learner, both: bool) -> None:
    """Raise ValueError if a learner that learns ply by ply does not play both seats, or cannot see the next ply."""
    if learner.bootstrap == "ply" and isinstance(learner.game, PhantomGame):
        raise ValueError(
            f'bootstrap="ply" takes the value of a position for one player as the opposite of the other\'s, and in the '
            f'game {learner.game} they see different boards: choose bootstrap="own-turn"'
        )
    if learner.bootstrap == "ply" and not both:
        raise ValueError(
            'bootstrap="ply" learns from every ply of a game, which only self-play shows: '
            'choose self-play, or bootstrap="own-turn" against another opponent'
        )
