"""The Gymnasium vector environment: B games of the single environment in lockstep."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from ttt_envs.agents.observations import map_parts
from ttt_envs.core.checks import Refusal, TypeRefusal, check_choice, check_range, check_whole
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.core.random import draw_keys
from ttt_envs.envs import render
from ttt_envs.envs.config import EnvConfig, GameState, Info, Keywords, environment, takes
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import (
    Output,
    chance_outcomes_of,
    clone_games,
    first_boards,
    keys_of_seeds,
    must_be_reset,
    restore_games,
    seed_games,
)
from ttt_envs.envs.single_env import make_scene, parse_reset_options
from ttt_envs.game.actions import num_actions
from ttt_envs.game.phantom import visible
from ttt_envs.game.rules import ChanceOutcome

# arrays of `Output` that a step returns
_RESULTS = operator.itemgetter(
    "flat", "mask", "mover", "seat", "outcome", "winner", "rewards", "terminated", "truncated"
)
Results = tuple[Any, Float64Array, BoolArray, BoolArray, Info]
"""observations, rewards, terminated, truncated, info"""
_INT64 = np.dtype(np.int64)


@dataclass(frozen=True)
class BatchConfig:
    """Arguments of vector environments besides those of the single one.

    Args:
        num_envs: B, at least 1.
        autoreset_mode: behaviour after the end of a game, as defined by Gymnasium: with NEXT_STEP
            the next step begins the next game and ignores its action; with SAME_STEP the same step
            does, and info keeps the end in final_obs and final_info; with DISABLED the caller must
            reset(options={'reset_mask': bool[B]}).
        max_episode_steps: number of steps after which a game is truncated, as by
            gymnasium.wrappers.TimeLimit; info['result'] then stays -1, because the game is not
            over. None or -1: no limit.
        copy: False lets each step write observations and action masks into the same memory, which
            is faster: they are valid until the next step. Rewards and flags are new arrays. As in
            gymnasium.vector.SyncVectorEnv.
    """

    num_envs: int = 1
    _: KW_ONLY
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    max_episode_steps: int | None = None
    copy: bool = True

    def __post_init__(self) -> None:
        check_whole("num_envs", self.num_envs, 64)
        check_range("num_envs", self.num_envs, 1, problem="leaves nothing to play")
        if self.max_episode_steps not in (None, -1):  # -1 as in `gymnasium.make`
            check_whole("max_episode_steps", self.max_episode_steps, 64)
            check_range(
                "max_episode_steps", self.max_episode_steps, 1, problem="leaves nothing to play"
            )
        check_choice("copy", self.copy, (True, False))
        try:
            AutoresetMode(self.autoreset_mode)
        except ValueError:
            modes = ", ".join(mode.name for mode in AutoresetMode)
            raise Refusal(
                f"autoreset_mode={self.autoreset_mode!r} is not known: choose AutoresetMode {modes}"
            ) from None


@dataclass(frozen=True, kw_only=True)
class VectorConfig(EnvConfig, BatchConfig):
    """Arguments of :class:`MNKVectorEnv`."""

    def __post_init__(self) -> None:
        EnvConfig.__post_init__(self)
        BatchConfig.__post_init__(self)


@environment(VectorConfig)
class MNKVectorEnv(VectorEnv[Any, Any, Any]):
    """``num_envs`` simultaneous games; game i is :class:`ttt_envs.envs.single_env.SingleEnv` seeded
    ``seed + i``.

    Observations, rewards, flags and infos are those of ``gymnasium.vector.SyncVectorEnv`` over such
    environments, in new arrays at every call; the infos of a reset are of all games. ``render``
    returns a tuple with one picture per game.
    """

    render_modes: ClassVar[tuple[str, ...]] = ("ansi", "rgb_array")

    @takes(VectorConfig)
    def __init__(self, config: VectorConfig) -> None:
        check_choice("render_mode", config.render_mode, (None, *self.render_modes))
        self.config = config
        self.game = config.game
        self.render_mode = config.render_mode
        self.num_envs = count = int(config.num_envs)
        self.autoreset_mode = mode = AutoresetMode(config.autoreset_mode)
        # a game has less than 4 steps for each cell: a stone, an attempt in phantom games, an
        # illegal action
        limit = config.max_episode_steps or 0
        self._limit = limit if 0 < limit < 4 * self.game.cells else None
        self._games = make_games(config, count)
        self._reused = None if config.copy else self._games.output()
        self._begins_over = mode is AutoresetMode.NEXT_STEP
        self._waits_for_reset = mode is AutoresetMode.DISABLED
        self._is_flat = config.is_flat and config.dtype == "int8"
        self.single_observation_space = config.observations.observation_space
        self.single_action_space = config.observations.action_space
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        # an instance attribute, because environments may differ in their mode
        self.metadata = {
            "render_modes": list(self.render_modes),
            "render_fps": render.FPS,
            "autoreset_mode": mode,
        }
        self._steps = np.zeros(count, np.int64)  # of the episodes, counted if there is a limit
        self._all_rows = np.ones(count, np.bool_)
        self._has_keys = False
        # for rendering: the boards before the last step, and its actions
        self._before = np.zeros((count, self.game.cells), np.int8)
        self._actions = np.zeros(count, np.int64)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Keywords | None = None,
    ) -> tuple[Any, Info]:
        """Begin new episodes.

        Args:
            seed: game i is seeded ``seed + i``, or ``seed[i]`` with a sequence; None continues with
                the next episodes.
            options: ``reset_mask`` bool[B] selects the games to reset, by default all; ``position``
                and ``seat`` are those of ``SingleEnv`` for each of them.

        Returns:
            Observations and infos of all games, also of those that were not reset: Gymnasium's own
            vector environments have infos of the games that were reset, and zeros in place of the
            others, action masks among them.

        Raises:
            TypeError, ValueError: a mask or a sequence of seeds has the wrong type or length, or an
                option is unknown.
        """
        single_options = dict(options or {})
        mask = self._check_mask(single_options.pop("reset_mask", None))
        position, seat = parse_reset_options(self.config, single_options)
        seeds = self._seeds(seed)
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        if not self._has_keys:
            keys = draw_keys(self.np_random, self.num_envs)
            seed_games(self._games, np.arange(self.num_envs), keys)
            self._has_keys = True
        rows = np.flatnonzero(mask)
        seed_rows = np.array([row for row in rows.tolist() if seeds[row] is not None], np.int64)
        if len(seed_rows):
            keys = keys_of_seeds([seeds[row] for row in seed_rows.tolist()])
            seed_games(self._games, seed_rows, keys)
        out = self._games.output()
        self._games.reset(rows, out, position=position, seat=seat)
        self._steps[rows] = 0
        if self.render_mode is not None and position is not None:
            self._before[rows] = position.cells
        elif self.render_mode is not None:
            self._before[rows] = first_boards(self._games, rows).cells
        observation, *_, info = self._results(out)
        return observation, info

    def step(self, actions: ArrayLike) -> Results:
        """Make a move in every game, and let the opponents reply.

        Args:
            actions: integers [B]; ignored where the step begins a game, and where the game is over.

        Returns:
            observations, rewards float64[B], terminated bool[B], truncated bool[B], info.

        Raises:
            TypeError: the actions are not integers.
            ValueError: there are not B actions, or one of a game in progress is off the board; with
                ``illegal_action="raise"`` also if one is illegal. Nothing has changed then.
            ResetNeeded: before ``reset``; with ``DISABLED`` also while a finished game has not been
                reset.
        """
        games = self._games
        if not self._has_keys:
            raise ResetNeeded("no game has begun: call reset() before step()")
        actions = self._check_actions(actions)
        if self._waits_for_reset and must_be_reset(games).any():
            raise ResetNeeded(
                f"game {int(np.argmax(must_be_reset(games)))} is over: call "
                "reset(options={'reset_mask': mask}) with the games that have ended before the "
                "next step"
            )
        out = games.output() if self._reused is None else self._reused
        if self.render_mode is not None:
            self._before = games.column("cells")
            self._actions = actions.copy()
        is_new = must_be_reset(games) if self._limit is not None else self._all_rows
        num_ended = games.step(actions, out, begin_over=self._begins_over)
        if self._limit is not None:
            self._steps = np.where(is_new, 0, self._steps + 1)
            is_late = self._steps >= self._limit
            out["truncated"][:] |= is_late
            games.set_column("is_over", np.flatnonzero(is_late), 1)
            num_ended = int(np.count_nonzero(must_be_reset(games)))
        is_reset = num_ended and not (self._begins_over or self._waits_for_reset)
        results = self._begin_over(out) if is_reset else self._results(out)
        if self.render_mode is not None:
            new_rows = np.flatnonzero(games.column("begins"))
            self._before[new_rows] = first_boards(games, new_rows).cells
        return results

    def _begin_over(self, out: Output) -> Results:
        """Begin the next game where one is over; return results, with the last ones in
        ``final_...`` of infos.
        """
        is_over = must_be_reset(self._games)
        final_observation, rewards, terminated, truncated, final_info = self._results(out, is_over)
        rows = np.flatnonzero(is_over)
        next_out = self._games.output()
        self._games.reset(rows, next_out)
        self._steps[rows] = 0
        observation, *_, info = self._results(next_out)
        info["final_obs"] = self._unbatch(final_observation, rows)
        info["final_info"] = final_info
        info["_final_obs"] = info["_final_info"] = is_over
        return observation, rewards, terminated, truncated, info

    def _results(self, out: Output, rows: BoolArray | None = None) -> Results:
        """Return what a step does of all games, with the infos of the games ``rows`` bool[B] as in
        ``SyncVectorEnv``.

        The results share the arrays of ``out``.
        """
        results = _RESULTS(out.arrays)
        if self._reused is not None:
            results = (*results[:2], *(array.copy() for array in results[2:]))
        flat, mask, mover, seat, result, winner, rewards, terminated, truncated = results
        is_row = self._all_rows.copy() if rows is None else rows
        if rows is not None:
            mask = mask * rows[:, None]
            mover = mover * rows
            seat = seat * rows
            result = result * rows
            winner = winner * rows
        info = {
            "action_mask": mask,
            "mover": mover,
            "seat": seat,
            "result": result,
            "winner": winner,
            "_action_mask": is_row,
            "_mover": is_row,
            "_seat": is_row,
            "_result": is_row,
            "_winner": is_row,
        }
        if self._is_flat:  # the fast path for the common case
            return flat, rewards, terminated, truncated, info
        skip_chance = None  # by default the only one
        if len(self.config.games) > 1:
            skip_chance = self._games.column("skip_chance")
            info |= {"skip_chance": skip_chance * is_row, "_skip_chance": is_row}
        observation = self.config.observations.build(out["planes"], out["mask"], skip_chance)
        return observation, rewards, terminated, truncated, info

    def _unbatch(self, observation: Any, rows: Int64Array) -> NDArray[np.object_]:
        """Return object[B]: the observations of ``rows`` one by one, None elsewhere."""
        out = np.full(self.num_envs, None, dtype=object)
        for row in rows:
            out[row] = map_parts(operator.itemgetter(row), observation)
        return out

    def _check_actions(self, actions: ArrayLike) -> Int64Array:
        array = np.asarray(actions)
        if array.dtype is _INT64 and array.shape == self._all_rows.shape and array.flags.carray:
            return array  # the common case
        if array.dtype.kind not in "iu":
            kind = "a column" if self.game.gravity else "the index of a cell"
            raise TypeRefusal(
                f"actions of type {array.dtype} are no whole numbers: an action is {kind}, "
                f"0 to {num_actions(self.game) - 1}"
            )
        if array.shape != (self.num_envs,):
            raise Refusal(
                f"actions of shape {array.shape} do not fit {self.num_envs} games: give one for "
                "each game"
            )
        # a copy, because kernels would be compiled again for a read-only array
        return np.array(array, np.int64, order="C")

    def _check_mask(self, mask: Any) -> BoolArray:
        if mask is None:
            return self._all_rows.copy()
        if (
            not isinstance(mask, np.ndarray)
            or mask.dtype != np.bool_
            or mask.shape != (self.num_envs,)
        ):
            raise TypeRefusal(
                f"options['reset_mask'] must be bool[{self.num_envs}], True for each game to "
                "reset, "
                f"but is {getattr(mask, 'dtype', type(mask).__name__)}{list(np.shape(mask))}"
            )
        if not mask.any():
            raise Refusal("options['reset_mask'] names no game: set at least one entry to True")
        if not self._has_keys and not mask.all():
            raise ResetNeeded("no game has begun: call reset() for all games before resetting some")
        return mask.copy()

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None or isinstance(seed, (int, np.integer)):
            return [None if seed is None else int(seed) + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise Refusal(
                f"{len(seed)} seeds do not fit {self.num_envs} games: give one number, or one for "
                "each game"
            )
        return seed

    def action_masks(self) -> BoolArray:
        """Return bool[B, actions]: the legal actions of each game, all of them where it is over."""
        out = self._games.output()
        self._games.observe(out)
        return out["mask"].astype(np.bool_)

    def chance_outcomes(self, index: int, action: int) -> list[ChanceOutcome]:
        """Return ``SingleEnv.chance_outcomes`` of game ``index``."""
        return chance_outcomes_of(self._games, index, action)

    def clone_state(self, include_rng: bool = False) -> GameState:
        """Return a copy of all games. Without ``include_rng`` it does not determine future skips
        and replies.
        """
        return {**clone_games(self._games, include_rng), "steps": self._steps.copy()}

    def restore_state(self, state: GameState, *, seed: int | None = None) -> tuple[Any, Info]:
        """Restore cloned games, and return observations and info like :meth:`reset`.

        ``seed`` (game i: ``seed + i``) is for future random numbers; a state cloned without the
        generator needs it.
        """
        keys = None if seed is None else keys_of_seeds(self._seeds(seed))
        restore_games(self._games, state, keys)
        self._steps[:] = state.get("steps", 0)  # a state of single environments has none
        self._before = self._games.column("cells")
        self._has_keys = True
        out = self._games.output()
        self._games.observe(out)
        observation, *_, info = self._results(out)
        return observation, info

    def render(self) -> tuple[Any, ...] | None:
        """Return one picture for each game."""
        renderer = render.Renderer(visible(self.game), self.render_mode)
        is_refused = (self._games.column("illegal") & ~self._games.column("begins")) != 0

        def scene(row: int) -> render.Scene:
            refused = int(self._actions[row]) if is_refused[row] else None
            return make_scene(self._games, self.config, row, self._before[row], refused)

        scenes = map(scene, range(self.num_envs))
        if self.render_mode is None:
            renderer.render(next(scenes))  # a warning
            return None
        return tuple(map(renderer.render, scenes))

    def call(self, name: str, *args: object, **kwargs: object) -> tuple[Any, ...]:
        """Return a picture of each game, as ``SyncVectorEnv.call("render")`` does, or None without
        a ``render_mode``.

        Trainers, skrl's among them, draw vectors so. Games in lockstep have no other methods of
        their own.

        Raises:
            AttributeError: another method.
        """
        if name != "render":
            raise AttributeError(
                f"call({name!r}) has no environment to ask: games in lockstep can only be rendered"
            )
        return (None,) * self.num_envs if self.render_mode is None else self.render() or ()
