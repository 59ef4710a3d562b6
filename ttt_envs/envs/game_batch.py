"""The contract between environments and engines: a :class:`GameBatch` plays B games of one
configuration.

Environments and training make their games by ``engine.make_games``, and use no other member than
those of the contract; the functions of this module are what they need besides, and are the same for
every engine. The state of the games is a set of columns, arrays with an entry for each game:

- ``cells`` int8[B, cells], and in phantom games ``found`` int8[B, cells]: 1 for a stone that the
  other player has found.
- int64[B]: ``mover``; ``seat`` of the caller, in self-play that moved last; ``outcome``, a number
  of ``rules.Outcome``; ``is_over``, 1 where the end has been shown, so that the game must be reset;
  ``stones``, their number; ``episode``, its number since seeding; ``symmetry`` under which the
  episode is seen, an index into ``config.permutations``; ``num_illegal`` actions in the episode;
  ``stage`` of the schedule of opponents; ``num_steps`` since seeding, counted if there is a
  schedule.
- ``skip_chance`` float64[B] of the episode.
- uint64[B]: ``key`` of the seed, and ``episode_key``, ``splitmix64(key, episode)``, of which all
  random numbers of the episode come, see the streams of ``rules``.
- int64[B], of the last step: ``begins``, 1 where it began the game, and ``illegal``, 1 where the
  action was illegal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import ArrayLike, NDArray

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Int8Array, Int64Array, UInt64Array, inlined, int64
from ttt_envs.core.random import splitmix64, uniforms
from ttt_envs.envs.config import BoardConfig, EnvConfig, GameState
from ttt_envs.game.actions import action_to_cell, check_action, illegal_action_message
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Position
from ttt_envs.game.phantom import PhantomGame
from ttt_envs.game.rules import STREAM_OPENING, ChanceOutcome, Outcome, chance_outcomes

STATE = (
    "mover",
    "seat",
    "outcome",
    "is_over",
    "stones",
    "symmetry",
    "num_illegal",
    "stage",
    "num_steps",
    "skip_chance",
)
"""Columns of a game's state besides its stones and what follows."""
RANDOM = ("key", "episode_key", "episode")
"""Columns that determine future random numbers."""
INTEGERS = (int, np.int64)
"""types of most actions; no bool"""
ONLY_ROW = np.zeros(1, np.int64)
"""the row of one game"""
_UINT64 = np.dtype(np.uint64)  # passed faster than the type
# what seeding writes, as arrays, because to write a number takes a microsecond more
_NO_EPISODE = np.array(-1)
_NO_STEPS = np.array(0)


class HasArrayViews:
    """Base of what has views of its arrays: a copy makes them again, because a copy of a view is
    not a view.
    """

    def _make_array_views(self) -> None:
        """Make the views."""
        raise NotImplementedError

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._make_array_views()


class Output:
    """Arrays that a step writes, in one memory: each argument costs the caller of a kernel as much
    as a move.

    ``output[name]`` is an array; ``arrays``, a record without dimensions, has all of them:

    - ``planes`` int8[B, 2, cells]: own stones, then the opponent's stones; ``flat`` int8[B, 2 *
      cells] are the same.
    - ``views`` int8[B, 2, cells, 2], if the caller moves for both players: the planes as each
      player sees them, the own stones first.
    - ``mask`` int8[B, actions]: legal actions; all ones in a finished game, because an empty mask
      would make masked distributions uniform over illegal actions.
    - ``mover``, ``seat`` (in self-play that moved last), ``outcome``, see ``rules.Outcome``, and
      ``winner``, -1 for none: int64[B]; ``info`` int64[4, B] are all of them.
    - ``rewards`` float64[B], of the player ``seat``.
    - ``terminated``, ``truncated``: bool[B]; ``flags`` bool[2, B] are both.
    """

    __slots__ = ("arrays", "memory")

    def __init__(self, layout: np.dtype[np.void], memory: UInt64Array | None = None) -> None:
        """Name the parts of a memory, by default new, with a layout of :func:`output_layout`."""
        self.memory = np.empty(layout.itemsize // 8, _UINT64) if memory is None else memory
        self.arrays = np.ndarray((), layout, self.memory)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def __reduce__(self) -> tuple[type[Output], tuple[np.dtype[np.void], UInt64Array]]:
        return Output, (self.arrays.dtype, self.memory)  # a copy of a view is not a view


def output_layout(
    count: int, cells: int, actions: int, *, observes: bool, plays_alone: bool
) -> np.dtype[np.void]:
    """Return the type of ``Output.arrays``, which are read faster than made.

    Each array begins with a whole number of 8 bytes. ``observes`` is whether observations are
    written, and ``plays_alone`` whether the caller moves for both players.
    """
    num_observed = count if observes else 0
    num_viewed = num_observed if plays_alone else 0
    mask = _padded(2 * num_observed * cells)
    info = mask + _padded(num_observed * actions)
    rewards = info + 8 * 4 * count
    flags = rewards + 8 * count
    views = flags + _padded(2 * count)
    fields = {
        "planes": ((np.int8, (num_observed, 2, cells)), 0),
        "flat": ((np.int8, (num_observed, 2 * cells)), 0),
        "mask": ((np.int8, (num_observed, actions)), mask),
        "views": ((np.int8, (num_viewed, 2, cells, 2)), views),
        "info": ((np.int64, (4, count)), info),
        "rewards": ((np.float64, (count,)), rewards),
        "flags": ((np.bool_, (2, count)), flags),
        "terminated": ((np.bool_, (count,)), flags),
        "truncated": ((np.bool_, (count,)), flags + count),
    }
    for index, name in enumerate(("mover", "seat", "outcome", "winner")):
        fields[name] = ((np.int64, (count,)), info + 8 * index * count)
    formats, offsets = zip(*fields.values(), strict=True)
    size = views + _padded(4 * num_viewed * cells)
    return np.dtype(
        {"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": size}
    )


def _padded(size: int) -> int:
    """Return the size of an array in bytes up to the next whole number of 8."""
    return (size + 7) // 8 * 8


class GameBatch(Protocol):
    """B simultaneous games of one configuration: all that an engine needs to have.

    With an ``EnvConfig`` the opponents play, too. With a ``BoardConfig`` alone, the caller moves
    for both players, and planes are player_0's stones and player_1's, whoever moves.
    """

    config: BoardConfig

    def output(self) -> Output:
        """Allocate the output of a step."""

    def column(self, name: str, rows: Int64Array | BoolArray | None = None) -> NDArray[Any]:
        """Return a column of the games ``rows``, by default all, as a copy."""

    def set_column(self, name: str, rows: Int64Array, values: ArrayLike) -> None:
        """Write a column of the games ``rows`` int64[R]."""

    def views(self, rows: Int64Array) -> Boards:
        """Return the positions of the games ``rows`` int64[R] as their movers see them."""

    def reset(
        self,
        rows: Int64Array,
        out: Output,
        *,
        position: Position | None = None,
        seat: int | None = None,
    ) -> None:
        """Begin the next episode in the games ``rows`` int64[R], including the opponent's opening
        moves.

        Args:
            rows: the games.
            out: its planes, masks and ``info`` are written, for all games.
            position: initial position; by default an opening, or the empty board without openings.
            seat: the caller's seat; by default as configured.
        """

    def step(self, actions: Int64Array, out: Output, *, begin_over: bool = False) -> int:
        """Make the caller's move in every game, let the opponent reply, and write the resulting
        state.

        Args:
            actions: int64[B], under the symmetry of the episode. Any number is ignored where a game
                begins, and where the game is over.
            out: written.
            begin_over: whether games that are over are reset instead of moving (reward 0); else
                they stay over.

        Returns:
            The number of games that have ended.

        Raises:
            ValueError: an action is out of range, or is illegal with ``illegal_action="raise"``; no
                game has changed.
        """

    def step_one(self, action: int, out: Output) -> int:
        """Move in the only game, in self-play, by an action in range.

        Rewards and flags need not be written.

        Args:
            action: the move.
            out: has the observation of the position before the move.

        Returns:
            The result as one number, see :func:`unpack_result`.
        """

    def observe(self, out: Output) -> None:
        """Write ``planes``, ``mask`` and ``info``."""


@inlined
def pack_result(mover: int, outcome: int) -> int:
    """Return the next mover and the outcome as one number, which takes a kernel less time to return
    than two: below 2 it is the mover of a game that goes on.
    """
    return int64(2 * (outcome + 1) + mover)


def unpack_result(result: int) -> tuple[int, int]:
    """Return the mover and the outcome: the inverse of :func:`pack_result`."""
    return result & 1, (result >> 1) - 1


# --------------------------------------------------------------------------------------------------
# Seeds


def keys_of_seeds(seeds: Sequence[int | None]) -> UInt64Array:
    """Return uint64[B], the seed keys of environments with these seeds."""
    # raw numbers are those of `draw_key`, which takes 2 microseconds more
    raw = [seeding.np_random(seed)[0].bit_generator.random_raw() for seed in seeds]
    return np.array(raw, _UINT64)


def seed_games(games: GameBatch, rows: Int64Array, keys: UInt64Array) -> None:
    """Set the 64-bit seed keys of the games ``rows``; their next episode is number 0."""
    games.set_column("key", rows, keys)
    games.set_column("episode", rows, _NO_EPISODE)
    games.set_column("num_steps", rows, _NO_STEPS)


def draw_numbers(games: GameBatch, rows: Int64Array, stream: int, count: int) -> Int64Array:
    """Return uniform numbers below ``count`` of the current episodes of the games ``rows``."""
    u = uniforms(games.column("episode_key", rows), stream, np.zeros(len(rows), np.int64))
    return (u * count).astype(np.int64)


# --------------------------------------------------------------------------------------------------
# What environments ask about games


def boards_of(games: GameBatch, rows: Int64Array | None = None) -> Boards:
    """Return the positions, with all stones, of the games ``rows`` int64[R], by default all."""
    return Boards(games.column("cells", rows), games.column("mover", rows).astype(np.int8))


def first_boards(games: GameBatch, rows: Int64Array) -> Boards:
    """Return the positions with which the current episodes of the games ``rows`` begin, if none was
    given.
    """
    openings = games.config.opening_positions
    if openings is None:
        return Boards.start(games.config.game, len(rows))
    return openings.take(draw_numbers(games, rows, STREAM_OPENING, len(openings.mover)))


def must_be_reset(games: GameBatch) -> BoolArray:
    """Return bool[B]: whether the end of the game has been shown."""
    return np.asarray(games.column("is_over") != 0)


def to_caller_cells(games: GameBatch, row: int, cells: Int8Array) -> Int8Array:
    """Return a board [cells] under the symmetry of the episode of game ``row``."""
    return np.asarray(cells[games.config.permutations[games.column("symmetry")[row]]])


def describe_outcome(games: GameBatch, row: int) -> str | None:
    """Return a text for the outcome of game ``row``, None while it is in progress."""
    return Outcome(int(games.column("outcome")[row])).description or None


def game_numbers(games: GameBatch, rows: Int64Array) -> Int64Array:
    """Return int64[R]: the indices of the games ``rows`` into ``config.games``, by their skip
    chances.
    """
    skip_chances = np.array([game.skip_chance for game in games.config.games])
    return np.asarray((games.column("skip_chance", rows)[:, None] == skip_chances).argmax(axis=1))


def chance_outcomes_of(games: GameBatch, row: int, action: object) -> list[ChanceOutcome]:
    """Return the possible successors of the caller's move in game ``row``, before the opponent's
    reply.
    """
    rows = np.array([row])
    position = boards_of(games, rows).position(0)
    permutation = games.config.permutations[games.column("symmetry")[row]]
    action = permutation[check_action(games.config.game, action)]
    game = games.config.games[game_numbers(games, rows)[0]]
    return chance_outcomes(game, position, action_to_cell(game, position.cells, action))


def refuse_action(games: GameBatch, row: int, action: int) -> None:
    """Raise ValueError for an action of game ``row`` that is out of range or illegal."""
    game = games.config.game
    try:
        check_action(game, action)
    except ValueError as problem:
        message = str(problem)
    else:
        cells = to_caller_cells(games, row, games.views(np.array([row])).cells[0])
        message = illegal_action_message(game, cells, action)
    count = len(games.column("mover"))
    raise Refusal(f"game {row}: {message}" if count > 1 else message)


# --------------------------------------------------------------------------------------------------
# Copies


def setting_of(config: BoardConfig) -> GameState:
    """Return what a state to restore must have been cloned with: the games, and the numbers of
    symmetries under which episodes are seen and of stages of the schedule of opponents.
    """
    stages = len(config.schedule) if isinstance(config, EnvConfig) else 0
    return {
        "games": config.games,
        "symmetries": len(config.permutations),
        "stages": max(1, stages),
    }


def state_columns(config: BoardConfig, include_rng: bool) -> list[str]:
    """Return the names of the columns of a copied state, the stones first."""
    names = ["cells"]
    if isinstance(config.game, PhantomGame):
        names.append("found")
    names.extend(STATE)
    if include_rng:
        names.extend(RANDOM)
    return names


def clone_games(games: GameBatch, include_rng: bool = False) -> GameState:
    """Return a copy of all games as arrays by name, and :func:`setting_of`.

    Without ``include_rng``, arrays that determine future random numbers are left out.
    """
    columns = {name: games.column(name) for name in state_columns(games.config, include_rng)}
    return {**setting_of(games.config), **columns}


def restore_games(games: GameBatch, state: GameState, keys: UInt64Array | None = None) -> None:
    """Restore a state from :func:`clone_games`; with ``keys``, random numbers come from these keys
    from now on.

    Raises:
        ValueError: the state has another setting or another number of games, or there are neither
            stored nor new keys.
    """
    config = games.config
    if state["games"] != config.games:
        names = " or ".join(map(str, state["games"]))
        raise Refusal(
            f"a state of the game {names} cannot be restored in the game {config.game}: make that "
            "first"
        )
    for name, count in setting_of(config).items():
        if state[name] != count:
            raise Refusal(
                f"a state with {state[name]} {name} cannot be restored where there are {count}: "
                "make an environment with the same symmetry and the same schedule of opponents "
                "first"
            )
    rows = np.arange(len(games.column("mover")))
    if len(state["cells"]) != len(rows):
        raise Refusal(
            f"a state of {len(state['cells'])} games does not fit {len(rows)}: make as many first"
        )
    has_keys = "key" in state
    if not has_keys and keys is None:
        raise Refusal(
            "this state was cloned without its generator: use restore_state(state, seed=...), or "
            "clone_state(include_rng=True), which copies the generator"
        )
    for name in state_columns(config, has_keys):
        games.set_column(name, rows, state[name])
    games.set_column("illegal", rows, 0)
    games.set_column("begins", rows, 0)
    if keys is not None:
        seed_games(games, rows, keys)
        games.set_column("episode", rows, 0)
        episode_keys = np.array([splitmix64(key, 0) for key in keys], np.uint64)
        games.set_column("episode_key", rows, episode_keys)
