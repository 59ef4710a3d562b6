"""B simultaneous games of one configuration: the engine of all environments.

Environments and training make a :class:`GameBatch` and call its methods: another engine is another
class of this name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

import numpy as np
from gymnasium.utils import seeding

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.simple import Random
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.random import draw_key, splitmix64, uniforms
from ttt_envs.envs import kernels
from ttt_envs.envs.config import BoardConfig, EnvConfig, IllegalAction, SeatChoice
from ttt_envs.game.actions import action_to_cell, check_action, illegal_action_message, num_actions
from ttt_envs.game.attempts import VISIBLE
from ttt_envs.game.bits import MAX_CELLS_IN_BITS
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Position
from ttt_envs.game.phantom import KINDS, PhantomGame, visible
from ttt_envs.game.rules import (
    NOT_OVER,
    STREAM_CONTEXT,
    STREAM_OPENING,
    ChanceOutcome,
    Outcome,
    chance_outcomes,
)

INTEGERS = (int, np.int64)  # types of most actions; no bool
_UINT64 = np.dtype(np.uint64)  # taken faster than the type


def keys_of_seeds(seeds: Sequence[int | None]) -> UInt64Array:
    """Return uint64[B], the seed keys of environments with these seeds."""
    return np.array([draw_key(seeding.np_random(seed)[0]) for seed in seeds], np.uint64)


class HasViews:
    """Base of what has views of its arrays: a copy names them again, because a copy of a view is
    not a view.
    """

    def _name_views(self) -> None:
        """Make the views."""
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_views()


class Output:
    """Arrays that a step writes, in one memory: each argument costs the caller of a kernel as much
    as a move.

    ``output[name]`` is an array; ``arrays``, a record without dimensions, has all of them:

    - ``planes`` int8[B, 2, cells]: own stones, then the opponent's stones; ``flat`` int8[B, 2 *
      cells] are the same.
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

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return cast(np.ndarray[Any, Any], self.arrays[name])

    def __reduce__(self) -> tuple[Any, ...]:
        return Output, (self.arrays.dtype, self.memory)  # a copy of a view is not a view


def output_layout(count: int, observed: int, cells: int, actions: int) -> np.dtype[np.void]:
    """Return the type of ``Output.arrays``, which are read faster than made;
    ``kernels.split_outputs`` has the same.

    ``observed`` is the number of games whose observations are written: all or none.
    """
    mask = (2 * observed * cells + 7) // 8
    info = mask + (observed * actions + 7) // 8
    rewards, flags = info + 4 * count, info + 5 * count
    fields = {
        "planes": ((np.int8, (observed, 2, cells)), 0),
        "flat": ((np.int8, (observed, 2 * cells)), 0),
        "mask": ((np.int8, (observed, actions)), 8 * mask),
        "info": ((np.int64, (4, count)), 8 * info),
        "rewards": ((np.float64, (count,)), 8 * rewards),
        "flags": ((np.bool_, (2, count)), 8 * flags),
        "terminated": ((np.bool_, (count,)), 8 * flags),
        "truncated": ((np.bool_, (count,)), 8 * flags + count),
    }
    for index, name in enumerate(("mover", "seat", "outcome", "winner")):
        fields[name] = ((np.int64, (count,)), 8 * (info + index * count))
    formats, offsets = zip(*fields.values(), strict=True)
    size = 8 * flags + (2 * count + 7) // 8 * 8
    return np.dtype(
        {"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": size}
    )


_RANDOM = ("key", "episode_key", "episode")
"""Columns that determine future random numbers."""
_STATE = tuple(name for name in (*kernels.COLUMNS, "skip_chance") if name != "episode")


class GameBatch(HasViews):
    """B simultaneous games, which the kernels of :mod:`ttt_envs.envs.kernels` play.

    Args:
        config: of the environment. With a :class:`BoardConfig` alone, the caller moves for both
            players, and planes are player_0's stones and player_1's, whoever moves.
        count: B.
        observes: whether operations write observations.

    Attributes:
        setting: what a state to restore must have been cloned with: the games, and the numbers of
            symmetries under which episodes are seen and of stages of the schedule of opponents.
    """

    def __init__(self, config: BoardConfig, count: int, *, observes: bool = True) -> None:
        self.config, self.game, self._count = config, config.game, count
        players = config if isinstance(config, EnvConfig) else None
        self._opponents = players.opponents if players else ()
        self._starts = np.array(
            [start for _, start in players.schedule] if players else [], np.int64
        )
        self.is_self_play = not self._opponents
        self.setting = {
            "games": config.games,
            "symmetries": len(config.permutations),
            "stages": max(1, len(self._starts)),
        }
        self._skip_chances = np.array([game.skip_chance for game in config.games])
        # whether Python draws something where episodes begin
        self._draws = (
            config.opening_positions is not None or len(config.games) > 1 or len(self._starts) > 1
        )
        is_uniform = all(type(policy) is Random for stage in self._opponents for policy in stage)
        replies = kernels.REPLY_RANDOM if is_uniform and not self._draws else kernels.REPLY_POLICY
        self._replies = kernels.REPLY_NONE if self.is_self_play else replies
        self._steps_at_once = self._replies != kernels.REPLY_POLICY and not self._draws
        seats, illegal_action = kernels.NOBODY, kernels.LOSE
        if players is not None:
            seats = kernels.BOTH if self.is_self_play else get_args(SeatChoice).index(players.seat)
            illegal_action = get_args(IllegalAction).index(players.illegal_action)
        hidden = 1 + KINDS.index(self.game.kind) if isinstance(self.game, PhantomGame) else VISIBLE
        rules = visible(max(config.games, key=lambda game: game.skip_chance)).parameters
        in_bits = self.game.cells <= MAX_CELLS_IN_BITS and hidden == VISIBLE
        reach = (
            sum(1 << row * rules.columns for row in range(rules.rows))
            if self.game.gravity and in_bits
            else 1
        )
        self.num_actions = actions = num_actions(self.game)
        self._layout = output_layout(count, count if observes else 0, self.game.cells, actions)
        self._blocks = np.zeros(-(-count // kernels.LANES), kernels.BLOCK)
        self._blocks["settings"] = (
            count,
            reach,
            actions,
            seats,
            illegal_action,
            self._replies,
            hidden,
            observes,
        )
        self._blocks["rules"] = rules[:-1]
        self._blocks["outcome"], self._blocks["is_over"], self._blocks["episode"] = NOT_OVER, 1, -1
        self._blocks["skip_chance"] = self.game.skip_chance
        self._boards = np.zeros((0 if in_bits else count, 2, self.game.cells), np.int8)
        self._waiting, self._action = np.empty(count, np.int64), np.zeros(1, np.int64)
        self._name_views()

    def _name_views(self) -> None:
        """Name the arguments of kernels."""
        self._memory = self._blocks.view(np.int64)  # as kernels take them
        self._lines, boards = (
            visible(self.game).parameters.lines,
            self._boards if len(self._boards) else None,
        )
        self._arguments: tuple[Any, Any, Any, Any] = (
            self._memory,
            self.config.permutations,
            self._lines,
            boards,
        )
        self._is_plain = (
            self._lines is None and boards is None and len(self.config.permutations) == 1
        )

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_arguments", "_memory")
        }

    def output(self) -> Output:
        """Allocate the output of a step."""
        return Output(self._layout)

    def column(self, name: str, rows: Int64Array | BoolArray | None = None) -> np.ndarray[Any, Any]:
        """Return a column of ``kernels.BLOCK`` of the games ``rows``, by default all, as a copy."""
        values = self._blocks[name].flatten()[: self._count]
        return values if rows is None else values[rows]

    def set_column(self, name: str, rows: Int64Array, values: Any) -> None:
        """Write a column of the games ``rows`` int64[R]."""
        self._blocks[name][rows // kernels.LANES, rows % kernels.LANES] = values

    @property
    def over(self) -> BoolArray:
        """bool[B]: the end of the game has been shown, and the game must be reset."""
        return np.asarray(self.column("is_over") != 0)

    def seed(self, rows: Int64Array, keys: UInt64Array) -> None:
        """Set the 64-bit seed keys of the games ``rows``; their next episode is number 0."""
        self.set_column("key", rows, keys)
        self.set_column("episode", rows, -1)
        self.set_column("num_steps", rows, 0)

    def reset(
        self,
        rows: Int64Array,
        out: Output,
        *,
        keys: UInt64Array | None = None,
        position: Position | None = None,
        seat: int | None = None,
    ) -> None:
        """Begin the next episode in the games ``rows`` int64[R], including the opponent's opening
        moves.

        Args:
            rows: the games.
            out: its planes, masks and ``info`` are written, for all games.
            keys: uint64[R], seed keys: the episode is number 0 of that key. None continues with the
                next episodes.
            position: initial position; by default an opening, or the empty board without openings.
            seat: the caller's seat; by default as configured.
        """
        if keys is not None:
            self.seed(rows, keys)
        kernels.step(*self._arguments, rows, kernels.RESET, out.memory)
        is_placed = position is not None or seat is not None
        if self._draws or is_placed:
            self._begin(rows, position, seat)
        if self._replies == kernels.REPLY_POLICY or (is_placed and not self.is_self_play):
            self._reply()
        if self._draws or is_placed or self._replies == kernels.REPLY_POLICY:
            self.observe(out)

    def _begin(
        self, rows: Int64Array, position: Position | None = None, seat: int | None = None
    ) -> None:
        """Set what kernels do not draw where episodes begin: skip chance, opponent, position and a
        given seat.
        """
        if len(self._skip_chances) > 1:
            index = self._draw(rows, STREAM_CONTEXT, len(self._skip_chances))
            self.set_column("skip_chance", rows, self._skip_chances[index])
        if len(self._starts) > 1:
            stages = np.searchsorted(self._starts, self.column("num_steps", rows), side="right") - 1
            self.set_column("stage", rows, stages)
        boards = (
            self.first_boards(rows)
            if position is None
            else Boards.from_positions([position] * len(rows))
        )
        kernels.write_boards(rows, boards.cells, boards.mover, self._memory, self._boards)
        self.set_column("outcome", rows, NOT_OVER)
        if seat is not None:
            self.set_column("seat", rows, seat)

    def _draw(self, rows: Int64Array, stream: int, count: int) -> Int64Array:
        """Return uniform numbers below ``count`` of the current episodes of the games ``rows``."""
        u = uniforms(self.column("episode_key", rows), stream, np.zeros(len(rows), np.int64))
        return (u * count).astype(np.int64)

    def first_boards(self, rows: Int64Array) -> Boards:
        """Return the positions with which the current episodes of the games ``rows`` begin, if none
        was given.
        """
        openings = self.config.opening_positions
        if openings is None:
            return Boards.start(self.game, len(rows))
        return openings.take(self._draw(rows, STREAM_OPENING, len(openings.mover)))

    def step(self, actions: Int64Array, out: Output, *, begin_over: bool = False) -> int:
        """Make the caller's move in every game, let the opponent reply, and write the resulting
        state.

        Args:
            actions: int64[B], in the caller's view. Any number is ignored where a game begins, and
                where the game is over.
            out: written.
            begin_over: whether games that are over are reset instead of moving (reward 0); else
                they stay over.

        Returns:
            The number of games that have ended.

        Raises:
            ValueError: an action is out of range, or is illegal with ``illegal_action="raise"``; no
                game has changed.
        """
        mode = kernels.MOVE_OR_RESET if begin_over else kernels.MOVE
        num_ended = kernels.step(*self._arguments, actions, mode, out.memory)
        if num_ended < 0:
            is_ignored = self.column("outcome") != NOT_OVER
            if begin_over:
                is_ignored |= self.over
            actions = np.where(is_ignored, 0, actions)
            num_ended = kernels.step(*self._arguments, actions, mode, out.memory)
        if num_ended < 0:
            self._refuse(-1 - num_ended, int(actions[-1 - num_ended]))
        if self._steps_at_once:  # the common case
            return num_ended
        if len(self._starts) > 1:
            self._blocks["num_steps"] += 1 - self._blocks["begins"]
        begun = np.flatnonzero(self.column("begins")) if begin_over and self._draws else ()
        if len(begun):
            self._begin(np.asarray(begun))
        if self._replies == kernels.REPLY_POLICY:
            self._reply()
            return kernels.step(*self._arguments, actions, kernels.FINISH, out.memory)
        if len(begun):  # in self-play
            self.observe(out)
        return num_ended

    def step_one(self, action: int, out: Output) -> int:
        """Move in the only game, in self-play, by an action in range.

        Where there is a shorter way, rewards and flags are not written.

        Returns:
            Twice the (outcome + 1), plus the next mover.
        """
        if self._is_plain:
            return kernels.step_one(self._memory, out.memory, action)
        self._action[0] = action
        self.step(self._action, out)
        mover, _, outcome, _ = out["info"][:, 0].tolist()
        return int(2 * (outcome + 1) + mover)

    def _refuse(self, row: int, action: int) -> None:
        """Raise ValueError for an action that is out of range or illegal."""
        try:
            check_action(self.game, action)
        except ValueError as problem:
            message = str(problem)
        else:
            cells = self.to_caller_view(row, self._read(np.array([row]), views=True).cells[0])
            message = illegal_action_message(self.game, cells, action)
        raise Refusal(f"game {row}: {message}" if self._count > 1 else message)

    def _reply(self) -> None:
        """Let the opponents move, until the caller is to move in every game."""
        while num_waiting := kernels.games_to_reply(self._memory, self._waiting):
            rows = self._waiting[:num_waiting]
            if len(self._opponents) == len(self._skip_chances) == 1:
                self._reply_by(self._opponents[0][0], rows)
                continue
            stage, index = self.column("stage", rows), self._skip_chance_index(rows)
            for i, j in sorted(set(zip(stage.tolist(), index.tolist(), strict=True))):
                self._reply_by(self._opponents[i][j], rows[(stage == i) & (index == j)])

    def _reply_by(self, opponent: Policy, rows: Int64Array) -> None:
        """Let an opponent make one move in each of the games ``rows``."""
        boards, keys, plies = (
            self.views(rows),
            self.column("episode_key", rows),
            self.column("stones", rows),
        )
        if isinstance(self.game, PhantomGame):  # failed attempts need random numbers of their own
            plies = np.count_nonzero(boards.cells, axis=1)
        actions = opponent.act_in_games(boards, self.column("episode", rows), keys, plies)
        if kernels.play_replies(rows, actions, self._memory, self._lines, self._boards) >= 0:
            raise Refusal(
                f"the opponent {opponent} moved to a cell that is illegal: choose another, or "
                "correct it"
            )

    def _skip_chance_index(self, rows: Int64Array) -> Int64Array:
        """Return the index into ``config.games`` int64[R] of the games ``rows``."""
        return np.asarray(
            (self.column("skip_chance", rows)[:, None] == self._skip_chances).argmax(axis=1)
        )

    def _read(self, rows: Int64Array, *, views: bool) -> Boards:
        boards = Boards(
            np.empty((len(rows), self.game.cells), np.int8), np.empty(len(rows), np.int8)
        )
        kernels.read_boards(rows, self._memory, self._boards, views, *boards)
        return boards

    def views(self, rows: Int64Array) -> Boards:
        """Return the positions of the games ``rows`` int64[R] as their movers see them."""
        return self._read(rows, views=True)

    def boards(self, rows: Int64Array | None = None) -> Boards:
        """Return the positions, with all stones, of the games ``rows`` int64[R], by default all."""
        return self._read(np.arange(self._count) if rows is None else rows, views=False)

    def found_stones(self) -> Int8Array:
        """Return int8[B, cells]: 1 for the stones of phantom games that the other player has
        found.
        """
        return self._boards[:, 1].copy()

    def observe(self, out: Output) -> None:
        """Write ``planes``, ``mask`` and ``info``."""
        kernels.step(*self._arguments, self._waiting, kernels.OBSERVE, out.memory)

    def end(self, rows: BoolArray) -> None:
        """Mark the games where ``rows`` bool[B] is true as over, so that they must be reset;
        outcomes do not change.
        """
        self.set_column("is_over", np.flatnonzero(rows), 1)

    def clone(self, include_rng: bool = False) -> dict[str, Any]:
        """Return a copy of all games as arrays by name, and ``setting``.

        Without ``include_rng``, arrays that determine future random numbers are left out.
        """
        columns = {name: self.column(name) for name in (*_STATE, *(_RANDOM if include_rng else ()))}
        hidden = {"found": self.found_stones()} if isinstance(self.game, PhantomGame) else {}
        return {**self.setting, "cells": self.boards().cells, **hidden, **columns}

    def restore(self, state: dict[str, Any], keys: UInt64Array | None = None) -> None:
        """Restore a state from :meth:`clone`; with ``keys``, random numbers come from these keys
        from now on.

        Raises:
            ValueError: the state has another setting or another number of games, or there are
                neither stored nor new keys.
        """
        if state["games"] != self.config.games:
            games = " or ".join(map(str, state["games"]))
            raise Refusal(
                f"a state of the game {games} cannot be restored in the game {self.game}: make "
                "that first"
            )
        for name, count in self.setting.items():
            if state[name] != count:
                raise Refusal(
                    f"a state with {state[name]} {name} cannot be restored where there are "
                    f"{count}: make an "
                    f"environment with the same symmetry and the same schedule of opponents first"
                )
        if len(state["cells"]) != self._count:
            raise Refusal(
                f"a state of {len(state['cells'])} games does not fit {self._count}: make as many "
                "first"
            )
        has_keys = "key" in state
        if not has_keys and keys is None:
            raise Refusal(
                "this state was cloned without its generator: use restore_state(state, seed=...), "
                "or "
                "clone_state(include_rng=True), which copies the generator"
            )
        rows = np.arange(self._count)
        cells, movers = (np.ascontiguousarray(state[name], np.int8) for name in ("cells", "mover"))
        kernels.write_boards(rows, cells, movers, self._memory, self._boards)
        if isinstance(self.game, PhantomGame):
            self._boards[:, 1] = state["found"]
        for name in (*_STATE, *(_RANDOM if has_keys else ())):
            self.set_column(name, rows, state[name])
        self._blocks["illegal"] = self._blocks["begins"] = 0
        if keys is not None:
            self.seed(rows, keys)
            self.set_column("episode", rows, 0)
            self.set_column(
                "episode_key", rows, np.array([splitmix64(key, 0) for key in keys], np.uint64)
            )

    # ----------------------------------------------------------------------------------------------
    # What environments ask about one game

    def to_caller_view(self, row: int, cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a board [cells] in the view of the caller of game ``row``."""
        return np.asarray(cells[self.config.permutations[self.column("symmetry")[row]]])

    def description(self, row: int) -> str | None:
        """Return a text for the outcome of game ``row``, None while it is in progress."""
        return Outcome(int(self.column("outcome")[row])).description or None

    def chance_outcomes(self, row: int, action: object) -> list[ChanceOutcome]:
        """Return the possible successors of the caller's move in game ``row``, before the
        opponent's reply.
        """
        position = self.boards(np.array([row])).position(0)
        action = self.to_caller_view(row, np.arange(self.game.cells))[
            check_action(self.game, action)
        ]
        game = self.config.games[self._skip_chance_index(np.array([row]))[0]]
        return chance_outcomes(game, position, action_to_cell(game, position.cells, action))
