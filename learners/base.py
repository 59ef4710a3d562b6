"""What a learner is: transitions, the policy that learns from them, and its stored state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy, best_shares
from ttt_envs.core.files import parse_json
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array, inlined, int64, kernel
from ttt_envs.game.boards import Boards, play_moves
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import DRAW, NOT_OVER, values_over_skip

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

    name: str = "a learner"
    """By which messages call it."""
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

    def __str__(self) -> str:
        return self.name


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


class GreedyPolicy(Policy):
    """A policy that plays the moves of highest action value."""

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal."""
        raise NotImplementedError

    def values(self, boards: Boards) -> Float64Array:
        """Return values float64[B] from the mover's view."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves of highest value."""
        return best_shares(self.action_values(boards))


class EpsilonGreedyLearner(GreedyPolicy, Learner):
    """A learner that explores by random moves, with the probability ``epsilon[0]``.

    Args:
        name: of the learner.
        game: the game.
        epsilon: the probability at first.
        epsilon_decay: it is multiplied by 1 - epsilon_decay after each random move.
    """

    colour_blind = True

    def __init__(self, name: str, game: AnyGame, epsilon: float, epsilon_decay: float) -> None:
        self.name, self.game, self.epsilon, self.epsilon_decay = name, game, np.array([epsilon]), epsilon_decay

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return epsilon-greedy moves int64[B]."""
        draws, actions = rng.random((len(boards.mover), 2)), np.empty(len(boards.mover), np.int64)
        epsilon_greedy(self.training_values(boards), draws, self.epsilon, self.epsilon_decay, actions)
        return actions

    def training_values(self, boards: Boards) -> Float64Array:
        """Return the action values float64[B, cells] by which it explores, NaN where illegal."""
        return self.action_values(boards)


@kernel
def epsilon_greedy(
    q: Float64Array, draws: Float64Array, epsilon: Float64Array, epsilon_decay: float, actions: Int64Array
) -> None:
    """Do :func:`epsilon_greedy_move` for action values float64[B, cells], draws float64[B, 2]."""
    for b in range(len(actions)):
        best = -np.inf
        for action in range(q.shape[1]):
            best = q[b, action] if q[b, action] > best else best
        actions[b] = epsilon_greedy_move(q[b], best, draws[b], epsilon, epsilon_decay)


@inlined
def epsilon_greedy_move(
    q: Float64Array, best: float, draws: Float64Array, epsilon: Float64Array, epsilon_decay: float
) -> int:
    """Return a random legal move where draws[0] < epsilon, else one of the highest value, ``best``.

    ``q`` float64[cells] is NaN where illegal, and may be changed; draws[1] chooses among equals.
    """
    if draws[0] < epsilon[0]:
        epsilon[0] *= 1.0 - epsilon_decay
        best = 0.0
        for action in range(len(q)):
            q[action] *= 0.0
    num_best = 0
    for action in range(len(q)):
        num_best += q[action] == best
    rest, move = int64(draws[1] * num_best), 0
    for action in range(len(q)):
        is_best = int64(q[action] == best)
        move = action if (is_best != 0) & (rest == 0) else move
        rest -= is_best
    return move


def final_rewards(rewards: Float64Array, over: BoolArray, kind: str) -> Float64Array:
    """Map final rewards -1, 0 and 1 to 0, 0.5 and 1 where the game is over, if ``kind`` is "report"."""
    return np.where(over, (rewards + 1) / 2, rewards) if kind == "report" else rewards


def check_shapes(state: Arrays, arrays: Arrays, owner: str, any_length: tuple[str, ...] = ()) -> None:
    """Raise ValueError unless ``arrays`` has all arrays of a ``state``, with their dtypes and shapes.

    Those whose names begin with one of ``any_length`` may have another first length. ``owner`` is for the message.
    """
    for name, array in state.items():
        given, first = arrays.get(name), int(name.startswith(any_length))
        if given is None or (given.dtype, given.ndim, given.shape[first:]) != (
            array.dtype,
            array.ndim,
            array.shape[first:],
        ):
            kind = "nothing" if given is None else f"{given.dtype}{list(given.shape)}"
            raise ValueError(
                f"{owner} needs {name} as {array.dtype}{list(array.shape)}, but there is {kind}: these are another "
                f"game's or learner's, or damaged"
            )


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


def one_ply_ahead(game: Game, boards: Boards, values: Callable[[Boards], Float64Array]) -> Float64Array:
    """Return action values float64[B, cells] from the mover's view, NaN where illegal; a move that ends the game has
    the value of its result.

    Q(a) = p V(after a, same mover) - (1 - p) V(after a, other mover), where p is the skip chance.

    Args:
        game: the game.
        boards: B positions that are not over.
        values: function from positions to values, from their movers' view.
    """
    skip = game.skip_chance
    rows, action = np.nonzero(boards.legal(game))
    mover = boards.mover[rows]
    cells, outcome = play_moves(game, boards, rows, action)
    q = np.where(outcome == DRAW, 0.0, np.where(outcome == mover, 1.0, -1.0))  # in misère a line loses
    goes_on = outcome == NOT_OVER
    cells, mover = cells[goes_on], mover[goes_on]
    other = -values(Boards(cells, 1 - mover))
    own = values(Boards(cells, mover)) if skip > 0 else other
    q[goes_on] = values_over_skip(own, other, skip)
    action_values = np.full(boards.cells.shape, np.nan)
    action_values[rows, action] = q
    return action_values
