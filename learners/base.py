"""What a learner is: transitions, the policy that learns from them, and its stored state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttt_envs.agents.policy import GreedyPolicy, Policy
from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.jit import BoolArray, Float32Array, Float64Array, Int64Array, int64, kernel
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame

Backup = Literal["agent", "negamax"]
"""Where a transition leads. ``agent``: to the same player's next turn, the opponent is a part of
the environment. ``negamax``, in self-play only: to the next ply, whose value counts with a minus if
it is the opponent's turn."""
AnyArray = NDArray[Any]
"""An array of any dtype."""
Tensor: TypeAlias = Any
"""A tensor or a variable of TensorFlow or torch, which need not be installed."""
Arrays = Mapping[str, AnyArray]
"""Arrays by name, as they are stored."""
Bound = ArrayLike | None
Limit = tuple[Bound, Bound] | tuple[Bound, Bound, str]
Limits = Mapping[str, Limit]
"""Arguments of :meth:`ArraySpec.within`, by the name of a stored array or of the attribute that
holds several.
"""
MAX_COUNT = 1 << 53
"""Maximum of a stored number of games, moves or updates."""
MAX_NUMBER = 1e9
"""Numbers of this size or more mean that learning diverges."""


class Transition(NamedTuple):
    """One decision and what came of it, in each of B games."""

    game: Int64Array
    """int64[B]: index of the game among those side by side; at most one row per game, in ascending
    order
    """
    boards: Boards
    """positions before the move"""
    action: Int64Array
    """int64[B]"""
    reward: Float64Array
    """float64[B], to the player who moved: +1 win, 0 draw or not over, -1 loss"""
    discount: Float64Array
    """float64[B]: 0 if the game is over; +1 if next_boards is the same player's turn; -1 if the
    opponent's
    """
    next_boards: Boards
    """meaningless where discount is 0"""
    next_action: Int64Array
    """int64[B]: the next action played; -1 if none, or if the learner does not want it"""

    def own_first(self, rewards: str) -> Transition:
        """Return the transitions with own stones as 1, and with final rewards of 0, 0.5 and 1 for
        ``rewards`` of "report".
        """
        boards = next_boards = Boards(self.boards.own_first(), self.boards.mover)
        if self.next_boards is not self.boards:
            next_boards = Boards(self.next_boards.own_first(), self.next_boards.mover)
        reward = self.reward
        if rewards == "report":
            reward = np.where(self.discount == 0, (reward + 1) / 2, reward)
        return self._replace(boards=boards, reward=reward, next_boards=next_boards)


class ArraySpec(NamedTuple):
    """What a stored array must be."""

    dtype: np.dtype[np.generic]
    shape: tuple[int | str, ...]
    """A name in place of the first length: any length, the same in all arrays of the object with
    that name.
    """
    minimum: ArrayLike | None = None
    """A number or an array that broadcasts; None if every value fits, with ``maximum`` too. NaN
    never fits a range.
    """
    maximum: ArrayLike | None = None

    @classmethod
    def like(cls, array: ArrayLike) -> ArraySpec:
        """Return the spec of arrays as this one, with any values."""
        array = np.asarray(array)
        return cls(array.dtype, array.shape)

    def within(
        self, minimum: ArrayLike | None, maximum: ArrayLike | None, length: str = ""
    ) -> ArraySpec:
        """Return the spec with limits; with a ``length``, the name of a free first length."""
        shape = (length, *self.shape[1:]) if length else self.shape
        return ArraySpec(self.dtype, shape, minimum, maximum)


class Stored:
    """What can be saved as arrays and restored from them exactly: the attributes named in
    ``stored``.
    """

    name: str = "a learner"
    """By which messages call it."""
    stored: ClassVar[tuple[str, ...]] = ()
    """Attributes that determine its future: arrays, dictionaries or named tuples of arrays,
    generators, other objects of this kind, or None."""

    @property
    def state(self) -> Arrays:
        """Copies of all arrays by name, ``attribute`` or ``attribute.name``: enough to resume
        exactly.

        Setting it raises ValueError for arrays that do not fit their :meth:`array_specs`, and
        changes nothing then.
        """
        return self.to_arrays()

    @state.setter
    def state(self, arrays: Arrays) -> None:
        specs = self.array_specs(arrays)
        check_arrays(specs, arrays, self.name)
        with name_place(f"arrays of {self.name} are damaged"):
            self.from_arrays({name: arrays[name].copy() for name in specs})

    def limits(self) -> Limits:
        """Return the limits of arrays, see :meth:`array_specs`; of all others every value fits."""
        return {}

    def array_specs(self, arrays: Arrays) -> dict[str, ArraySpec]:
        """Return what each array of ``state`` must be: as at present, within the :meth:`limits`.

        Kernels and others rely on what is declared here: they check no index. ``arrays`` are those
        to be restored, for objects that have other names of arrays each time.
        """
        specs: dict[str, ArraySpec] = {}
        for name in self.stored:
            value = getattr(self, name)
            if isinstance(value, Stored):
                own = value.array_specs(with_prefix(f"{name}.", arrays))
                specs |= {f"{name}.{part}": spec for part, spec in own.items()}
                continue
            for part, array in _to_arrays(name, value).items():
                specs[part] = ArraySpec.like(array)
            if isinstance(value, np.random.Generator):
                specs[name] = specs[name].within(None, None, name)
        for place, limits in self.limits().items():
            for part in specs:
                if part == place or part.startswith(f"{place}."):
                    specs[part] = specs[part].within(*limits)
        return specs

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return ``state``."""
        arrays: dict[str, AnyArray] = {}
        for name in self.stored:
            arrays |= _to_arrays(name, getattr(self, name))
        return arrays

    def from_arrays(self, arrays: Arrays) -> None:
        """Set ``state`` to arrays that fit their specs, which nothing else changes."""
        for name in self.stored:
            setattr(self, name, _from_arrays(name, getattr(self, name), arrays))


def _to_arrays(name: str, value: Any) -> dict[str, AnyArray]:
    """Return the arrays of a stored attribute."""
    if value is None:
        return {}
    if isinstance(value, np.ndarray):
        return {name: value.copy()}
    if isinstance(value, np.random.Generator):
        text = json.dumps(value.bit_generator.state, default=np.ndarray.tolist)
        return {name: np.frombuffer(text.encode(), np.uint8)}
    if isinstance(value, Stored):
        parts = value.to_arrays()
    elif hasattr(value, "_asdict"):  # a named tuple
        parts = value._asdict()
    else:
        parts = value
    return {f"{name}.{part}": np.array(array) for part, array in parts.items()}


def _from_arrays(name: str, value: object, arrays: Arrays) -> object:
    """Return the new value of a stored attribute, given the old one."""
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return arrays[name]
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = json.loads(arrays[name].tobytes())
        return value
    parts = with_prefix(f"{name}.", arrays)
    if isinstance(value, Stored):
        value.from_arrays(parts)
        return value
    if isinstance(value, tuple):  # a named tuple
        return type(value)(**parts)
    return parts


class Checkpointable(Stored, Policy):
    """A trained policy that can be saved as arrays."""

    game: AnyGame
    """The game that it learns."""

    def __str__(self) -> str:
        return self.name


class Learner(Checkpointable):
    """A policy that learns. ``probabilities`` and ``act`` are its greedy policy: no exploration, no
    learning.
    """

    backup: Backup = "agent"
    on_policy: bool = False
    """Whether the next action is chosen before the update, which needs it, as in Sarsa."""

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return moves int64[B] as it plays while it learns."""
        raise NotImplementedError

    def update(self, transition: Transition) -> dict[str, float]:
        """Learn from the transitions, in order, and return metrics to log."""
        raise NotImplementedError


class EpsilonGreedyLearner(GreedyPolicy, Learner):
    """A learner that explores by random moves, with the probability ``epsilon[0]``.

    Args:
        config: its settings, with ``name``, ``symmetries``, ``rewards``, ``epsilon`` and
            ``epsilon_decay``.
        game: the game.
        backup: where a transition leads.

    Attributes:
        epsilon: float64[2]: the probability, and its decay: it is multiplied by 1 - decay after
            each random move.

    Raises:
        ValueError: rewards that have no opposite, if the next value may be the opponent's.
    """

    colour_blind = True

    def __init__(self, config: Any, game: AnyGame, backup: Backup) -> None:
        if config.rewards == "report" and backup == "negamax":
            rule = (
                'rewards="report" (1, 0.5, 0) has no opposite for the other player, which '
                'backup="negamax" needs'
            )
            raise Refusal(f'{rule}: choose rewards="unit" or backup="agent"')
        self.config = config
        self.name = config.name
        self.game = game
        self.backup = backup
        self.symmetric = config.symmetries == "all"
        self.epsilon = np.array([config.epsilon, config.epsilon_decay])

    def limits(self) -> Limits:
        """See :class:`Stored`."""
        return {"epsilon": (0, 1)}

    def values_to_explore(self, boards: Boards, is_random: BoolArray) -> Float64Array:
        """Return action values float64[B, cells] in training, NaN where illegal; 0 where a move
        ``is_random``.
        """
        raise NotImplementedError

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return epsilon-greedy moves int64[B]."""
        draws = rng.random((len(boards.mover), 2))
        actions = np.empty(len(boards.mover), np.int64)
        is_random = np.empty(len(actions), np.bool_)
        decide_random(draws, self.epsilon, is_random)
        choose_best(self.values_to_explore(boards, is_random), draws, actions)
        return actions


@kernel
def decide_random(draws: Float64Array, epsilon: Float64Array, is_random: BoolArray) -> None:
    """Write whether to play a random move: where draws[b, 0] < epsilon[0], which then decays by
    epsilon[1].
    """
    for b in range(len(draws)):
        is_random[b] = draws[b, 0] < epsilon[0]
        epsilon[0] *= 1.0 - epsilon[1] * is_random[b]


@kernel
def choose_best(q: Float64Array, draws: Float64Array, actions: Int64Array) -> None:
    """Choose a move of the highest value q float64[B, cells], NaN where illegal; draws[b, 1]
    chooses among equals.

    No branch depends on the values, because it would be mispredicted.
    """
    for b in range(len(actions)):
        best = -np.inf
        num_best = 0
        for action in range(q.shape[1]):
            num_best = 0 if q[b, action] > best else num_best
            best = q[b, action] if q[b, action] > best else best
            num_best += q[b, action] == best
        rank = int64(draws[b, 1] * num_best)
        move = 0
        for action in range(q.shape[1]):
            rank -= q[b, action] == best
            move += rank >= 0
        actions[b] = move


def check_arrays(specs: Mapping[str, ArraySpec], arrays: Arrays, owner: str) -> None:
    """Raise ValueError unless there is an array for every spec, and fits it; ``owner`` is for the
    message.
    """
    lengths: dict[tuple[str, str], int] = {}
    for name, spec in specs.items():
        shape = list(spec.shape)
        if name not in arrays:
            raise _misfit(owner, name, f"{spec.dtype}{shape}", "nothing")
        array = arrays[name]
        if shape and isinstance(shape[0], str):
            place = name.rpartition(".")[0], shape[0]
            shape[0] = lengths.setdefault(place, len(array) if array.ndim else 0)
        if (array.dtype, list(array.shape)) != (spec.dtype, shape):
            raise _misfit(owner, name, f"{spec.dtype}{shape}", f"{array.dtype}{list(array.shape)}")
        if spec.minimum is None or spec.maximum is None:
            continue
        is_within = (array >= np.asarray(spec.minimum)) & (array <= np.asarray(spec.maximum))
        if not is_within.all():
            limits = f"numbers from {np.min(spec.minimum):g} to {np.max(spec.maximum):g}"
            raise _misfit(owner, name, limits, "another number")


def _misfit(owner: str, name: str, expected: str, actual: str) -> Refusal:
    """Return the error of an array that does not fit."""
    needs = f"{owner} needs {name} as {expected}, but there is {actual}"
    return Refusal(f"{needs}: these are another game's or learner's, or damaged")


def discounts(is_over: ArrayLike, seat: ArrayLike, mover: ArrayLike) -> Float32Array:
    """Return :attr:`Transition.discount` float32[B] of moves by the players ``seat`` after which
    ``mover`` is next.
    """
    return np.where(is_over, 0, np.where(np.equal(seat, mover), 1, -1)).astype(np.float32)


def with_prefix(prefix: str, arrays: Arrays) -> dict[str, AnyArray]:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
