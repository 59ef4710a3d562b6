"""What a learner is: transitions, the policy that learns from them, and its stored state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.files import parse_json
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame, PhantomGame

Backup = Literal["agent", "negamax"]
"""Where a transition leads. ``agent``: to the same player's next turn, the opponent is a part of the environment.
``negamax``, in self-play only: to the next ply, whose value counts with a minus if it is the opponent's turn."""
Arrays = Mapping[str, np.ndarray[Any, Any]]
"""Arrays by name, as they are stored."""


class Transition(NamedTuple):
    """One decision and what came of it, in each of B games."""

    game: Int64Array
    """int64[B]: index of the game among those side by side; at most one row per game, in ascending order"""
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

    if TYPE_CHECKING:
        state: Arrays
    else:

        @property
        def state(self) -> Arrays:
            """The learned state and all counters: with the training's state, enough to resume exactly.

            Setting it raises ValueError for arrays of another shape or dtype, and changes nothing then.
            """
            raise NotImplementedError


class Learner(Checkpointable):
    """A policy that learns. ``probabilities`` and ``act`` are its greedy policy: no exploration, no learning."""

    backup: Backup = "agent"
    on_policy: bool = False
    """Whether the next action is chosen before the update, which needs it, as in Sarsa."""

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return moves int64[B] as it plays while it learns."""
        raise NotImplementedError

    def update(self, transition: Transition) -> dict[str, float]:
        """Learn from the transitions, in order, and return metrics to log."""
        raise NotImplementedError


def final_rewards(rewards: Float64Array, over: BoolArray, kind: str) -> Float64Array:
    """Map final rewards -1, 0 and 1 to 0, 0.5 and 1 where the game is over, if ``kind`` is "report"."""
    return np.where(over, (rewards + 1) / 2, rewards) if kind == "report" else rewards


def check_backup(learner: Learner, self_play: bool) -> None:
    """Raise ValueError if a learner that learns from every ply does not play both seats, or cannot see the next ply."""
    if learner.backup == "negamax" and isinstance(learner.game, PhantomGame):
        raise ValueError(
            f'backup="negamax" takes the value of a position for one player as the opposite of the other\'s, and in '
            f'the game {learner.game} they see different boards: choose backup="agent"'
        )
    if learner.backup == "negamax" and not self_play:
        raise ValueError(
            'backup="negamax" learns from every ply of a game, which only self-play shows: '
            'choose self-play, or backup="agent" against another opponent'
        )


def get_array(
    arrays: Arrays, name: str, shape: tuple[int | None, ...], kind: str, owner: str, most: int | None = None
) -> np.ndarray[Any, Any]:
    """Return the array ``name`` if it has this shape and dtype. A length of None is any length.

    With ``most`` its numbers are from 0 to it: they are places in other arrays, which kernels do not check.

    Raises:
        ValueError: it is missing or has another shape, dtype or numbers; ``owner`` is in the message.
    """
    array = arrays.get(name)
    lengths = () if array is None else array.shape
    fits = len(lengths) == len(shape) and all(
        want in (None, length) for want, length in zip(shape, lengths, strict=True)
    )
    if array is None or not fits or array.dtype != np.dtype(kind):
        found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
        wanted = f"{np.dtype(kind)}[{', '.join('any' if length is None else str(length) for length in shape)}]"
        raise ValueError(
            f"{owner} needs {name} as {wanted}, but there is {found}: these are another game's or learner's, or damaged"
        )
    if most is not None and ((array < 0) | (array > most)).any():
        raise ValueError(f"{owner} needs {name} from 0 to {most}: these numbers are damaged")
    return array


def check_shapes(state: Arrays, arrays: Arrays, owner: str, any_length: tuple[str, ...] = ()) -> None:
    """Raise ValueError unless ``arrays`` has all arrays of a ``state``, with their dtypes and shapes.

    Those whose names begin with one of ``any_length`` may have another first length.
    """
    for name, array in state.items():
        shape = (None, *array.shape[1:]) if name.startswith(any_length) else array.shape
        get_array(arrays, name, shape, array.dtype.str, owner)


def to_bytes(data: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Encode JSON-ready data as uint8[N], to store it among arrays: a generator's state, for example."""
    return np.frombuffer(json.dumps(data).encode(), np.uint8)


def from_bytes(array: np.ndarray[Any, Any]) -> Any:
    """Decode data encoded by :func:`to_bytes`.

    Raises:
        ValueError: an array that does not hold JSON.
    """
    return parse_json(np.asarray(array, np.uint8).tobytes())


def with_prefix(prefix: str, arrays: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
