"""The engine: kernels that play B simultaneous games of one configuration.

:func:`make_games` makes the games of all environments and of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.simple import Random
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Int64Array
from ttt_envs.envs import kernels
from ttt_envs.envs.config import BoardConfig, EnvConfig, IllegalAction, SeatChoice
from ttt_envs.envs.game_batch import (
    GameBatch,
    HasArrayViews,
    Output,
    draw_numbers,
    first_boards,
    game_numbers,
    must_be_reset,
    output_layout,
    pack_result,
    refuse_action,
)
from ttt_envs.game.actions import num_actions
from ttt_envs.game.attempts import VISIBLE
from ttt_envs.game.bits import MAX_CELLS_IN_BITS
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Position
from ttt_envs.game.phantom import KINDS, PhantomGame, visible
from ttt_envs.game.rules import NOT_OVER, STREAM_CONTEXT


def make_games(config: BoardConfig, count: int, *, observes: bool = True) -> GameBatch:
    """Return ``count`` games, which begin with a reset.

    ``observes`` is whether operations write observations, as they do where episodes have
    symmetries.
    """
    return KernelGames(config, count, observes=observes)


class KernelGames(HasArrayViews):
    """A ``GameBatch`` that the kernels of :mod:`ttt_envs.envs.kernels` play."""

    def __init__(self, config: BoardConfig, count: int, *, observes: bool = True) -> None:
        self.config = config
        self._count = count
        self._observes = observes or len(config.permutations) > 1
        self._opponents: tuple[tuple[Policy, ...], ...] = ()
        self._starts = np.zeros(0, np.int64)
        if isinstance(config, EnvConfig):
            self._opponents = config.opponents
            self._starts = np.array([start for _, start in config.schedule], np.int64)
        self._skip_chances = np.array([game.skip_chance for game in config.games])
        # whether Python draws something where episodes begin
        self._draws = (
            config.opening_positions is not None or len(config.games) > 1 or len(self._starts) > 1
        )
        self._replies = self._choose_replies()
        self._steps_at_once = self._replies != kernels.REPLY_POLICY and not self._draws
        game = visible(max(config.games, key=lambda game: game.skip_chance))
        hides = isinstance(config.game, PhantomGame)
        in_bits = game.cells <= MAX_CELLS_IN_BITS and not hides
        self._plays_alone = not isinstance(config, EnvConfig)
        self._layout = output_layout(
            count,
            game.cells,
            num_actions(game),
            observes=self._observes,
            plays_alone=self._plays_alone,
        )
        self._blocks = np.zeros(-(-count // kernels.LANES), kernels.BLOCK)
        for name in kernels.RULES:
            self._blocks["rules"][name] = getattr(game.parameters, name)
        for name, number in self._settings().items():
            self._blocks["settings"][name] = number
        self._blocks["outcome"] = NOT_OVER
        self._blocks["is_over"] = 1
        self._blocks["episode"] = -1
        self._blocks["skip_chance"] = config.game.skip_chance
        self._boards = np.zeros((0 if in_bits else count, 2, game.cells), np.int8)
        self._waiting = np.empty(count, np.int64)
        self._action = np.zeros(1, np.int64)
        self._make_array_views()

    def _choose_replies(self) -> int:
        """Return who makes the opponent's moves, see ``Settings.replies``."""
        if not self._opponents:
            return kernels.REPLY_NONE
        is_uniform = all(type(policy) is Random for stage in self._opponents for policy in stage)
        return kernels.REPLY_RANDOM if is_uniform and not self._draws else kernels.REPLY_POLICY

    def _settings(self) -> dict[str, int]:
        """Return the settings of kernels by name, ``kernels.Settings``."""
        config = self.config
        game = config.game
        seats = kernels.NOBODY
        illegal_action = kernels.LOSE
        if isinstance(config, EnvConfig):
            seats = get_args(SeatChoice).index(config.seat) if self._opponents else kernels.BOTH
            illegal_action = get_args(IllegalAction).index(config.illegal_action)
        action_cells = 1
        if game.gravity and game.cells <= MAX_CELLS_IN_BITS:  # a column
            action_cells = sum(1 << row * game.columns for row in range(game.rows))
        fields: Mapping[str, tuple[Any, ...]] = self._layout.fields or {}
        starts = {
            name: fields[name][1] // 8 for name in ("mask", "info", "rewards", "flags", "views")
        }
        return {
            "num_games": self._count,
            "action_cells": action_cells,
            "num_actions": num_actions(game),
            "seats": seats,
            "illegal_action": illegal_action,
            "replies": self._replies,
            "hidden": 1 + KINDS.index(game.kind) if isinstance(game, PhantomGame) else VISIBLE,
            "num_symmetries": len(config.permutations),
            **{f"{name}_start": start for name, start in starts.items()},
        }

    def _make_array_views(self) -> None:
        """Name the arguments of kernels."""
        self._memory: Int64Array = self._blocks.view(np.int64)  # as kernels take them
        self._lines = visible(self.config.game).parameters.lines
        boards = self._boards if len(self._boards) else None
        permutations = self.config.permutations
        observed_permutations = permutations if self._observes else None
        self._arguments = (self._memory, observed_permutations, self._lines, boards)
        is_seen_as_it_is = len(permutations) == 1 and not isinstance(self.config.game, PhantomGame)
        # whether `step_one` has a shorter way
        self._is_quick_in_cells = is_seen_as_it_is and boards is not None and self._plays_alone
        self._is_quick_in_bits = is_seen_as_it_is and boards is None and self._lines is None

    def __getstate__(self) -> dict[str, object]:
        views = ("_arguments", "_memory")
        return {name: value for name, value in self.__dict__.items() if name not in views}

    def output(self) -> Output:
        """See :class:`GameBatch`."""
        return Output(self._layout)

    def column(self, name: str, rows: Int64Array | BoolArray | None = None) -> NDArray[Any]:
        """See :class:`GameBatch`."""
        if name == "cells":
            numbers = np.arange(self._count)
            return self._read(numbers if rows is None else numbers[rows], sees_all=True).cells
        values = self._boards[:, 1].copy() if name == "found" else self._column(name)
        return values if rows is None else values[rows]

    def _column(self, name: str) -> NDArray[Any]:
        return self._blocks[name].flatten()[: self._count]

    def set_column(self, name: str, rows: Int64Array, values: ArrayLike) -> None:
        """See :class:`GameBatch`."""
        if name == "cells":
            cells = np.ascontiguousarray(values, np.int8)
            self._write(rows, Boards(cells, self._column("mover")[rows].astype(np.int8)))
        elif name == "found":
            self._boards[rows, 1] = values
        elif self._count <= kernels.LANES:  # one block, which takes a third of the time
            self._blocks[name][0][rows] = values
        else:
            self._blocks[name][rows // kernels.LANES, rows % kernels.LANES] = values

    def _read(self, rows: Int64Array, *, sees_all: bool) -> Boards:
        cells = np.empty((len(rows), self.config.game.cells), np.int8)
        boards = Boards(cells, np.empty(len(rows), np.int8))
        kernels.read_boards(rows, self._memory, self._boards, not sees_all, *boards)
        return boards

    def _write(self, rows: Int64Array, boards: Boards) -> None:
        kernels.write_boards(rows, *boards, self._memory, self._boards)

    def views(self, rows: Int64Array) -> Boards:
        """See :class:`GameBatch`."""
        return self._read(rows, sees_all=False)

    def observe(self, out: Output) -> None:
        """See :class:`GameBatch`."""
        kernels.step(*self._arguments, self._waiting, kernels.OBSERVE, out.memory)

    def reset(
        self,
        rows: Int64Array,
        out: Output,
        *,
        position: Position | None = None,
        seat: int | None = None,
    ) -> None:
        """See :class:`GameBatch`."""
        kernels.step(*self._arguments, rows, kernels.RESET, out.memory)
        is_placed = position is not None or seat is not None
        if self._draws or is_placed:
            self._begin(rows, position, seat)
        if self._replies == kernels.REPLY_POLICY or (is_placed and self._opponents):
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
            index = draw_numbers(self, rows, STREAM_CONTEXT, len(self._skip_chances))
            self.set_column("skip_chance", rows, self._skip_chances[index])
        if len(self._starts) > 1:
            stages = np.searchsorted(self._starts, self.column("num_steps", rows), side="right") - 1
            self.set_column("stage", rows, stages)
        if position is None:
            self._write(rows, first_boards(self, rows))
        else:
            self._write(rows, Boards.from_positions([position] * len(rows)))
        self.set_column("outcome", rows, NOT_OVER)
        if seat is not None:
            self.set_column("seat", rows, seat)

    def step(self, actions: Int64Array, out: Output, *, begin_over: bool = False) -> int:
        """See :class:`GameBatch`."""
        mode = kernels.MOVE_OR_RESET if begin_over else kernels.MOVE
        num_ended = kernels.step(*self._arguments, actions, mode, out.memory)
        if num_ended < 0:
            is_ignored = self.column("outcome") != NOT_OVER
            if begin_over:
                is_ignored |= must_be_reset(self)
            actions = np.where(is_ignored, 0, actions)
            num_ended = kernels.step(*self._arguments, actions, mode, out.memory)
        if num_ended < 0:
            row = -1 - num_ended
            refuse_action(self, row, int(actions[row]))
        if self._steps_at_once:  # the common case
            return num_ended
        if len(self._starts) > 1:
            self._blocks["num_steps"] += 1 - self._blocks["begins"]
        new_rows = np.zeros(0, np.int64)
        if begin_over and self._draws:
            new_rows = np.flatnonzero(self.column("begins"))
        if len(new_rows):
            self._begin(new_rows)
        if self._replies == kernels.REPLY_POLICY:
            self._reply()
            return kernels.step(*self._arguments, actions, kernels.FINISH, out.memory)
        if len(new_rows):  # in self-play
            self.observe(out)
        return num_ended

    def step_one(self, action: int, out: Output) -> int:
        """See :class:`GameBatch`."""
        if self._is_quick_in_bits:
            return kernels.step_one(self._memory, out.memory, action)
        if self._is_quick_in_cells:
            return kernels.step_one_in_cells(self._memory, self._boards, out.memory, action)
        self._action[0] = action
        self.step(self._action, out)
        return pack_result(int(out["mover"][0]), int(out["outcome"][0]))

    def _reply(self) -> None:
        """Let the opponents move, until the caller is to move in every game."""
        while True:
            num_waiting = kernels.games_to_reply(self._memory, self._waiting)
            if num_waiting == 0:
                return
            rows = self._waiting[:num_waiting]
            if len(self._opponents) == len(self._skip_chances) == 1:
                self._reply_by(self._opponents[0][0], rows)
                continue
            stage = self.column("stage", rows)
            number = game_numbers(self, rows)
            for i, j in sorted(set(zip(stage.tolist(), number.tolist(), strict=True))):
                self._reply_by(self._opponents[i][j], rows[(stage == i) & (number == j)])

    def _reply_by(self, opponent: Policy, rows: Int64Array) -> None:
        """Let an opponent make one move in each of the games ``rows``."""
        boards = self.views(rows)
        plies = self.column("stones", rows)
        if isinstance(self.config.game, PhantomGame):
            # failed attempts need random numbers of their own
            plies = boards.num_stones
        keys = self.column("episode_key", rows)
        actions = opponent.act_in_games(boards, self.column("episode", rows), keys, plies)
        if kernels.play_replies(rows, actions, self._memory, self._lines, self._boards) >= 0:
            raise Refusal(
                f"the opponent {opponent} moved to a cell that is illegal: choose another, or "
                "correct it"
            )
