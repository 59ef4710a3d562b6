"""The Gymnasium vector environment: B games of the single environment in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ttt_envs.agents.adapters import Opponent, as_opponent
from ttt_envs.agents.observations import Context, DType, Observation, ObservationBuilder
from ttt_envs.core.checks import check_argument_names, check_choice
from ttt_envs.core.jit import BoolArray, Int64Array
from ttt_envs.core.random import draw_key
from ttt_envs.core.threads import Threads, count_threads
from ttt_envs.envs import render
from ttt_envs.envs.contexts import First, SkipChance, make_games, make_openings
from ttt_envs.envs.lockstep import IllegalAction, Lockstep, SeatChoice, StepOutput, Symmetry, parse_reset_options
from ttt_envs.envs.opponents import SELF, make_opponents
from ttt_envs.envs.render import Scene
from ttt_envs.envs.single_env import RenderMode, SingleEnv
from ttt_envs.game.game import BOARD_HINTS
from ttt_envs.game.phantom import Kind, visible
from ttt_envs.game.rules import ChanceOutcome

MOVING_METHODS = frozenset(("reset", "step", "restore_state"))
"""Methods of single environments that change the game."""


@check_argument_names(BOARD_HINTS)
class MNKVectorEnv(VectorEnv[Any, Any, Any]):
    """``num_envs`` simultaneous games; game i is :class:`ttt_envs.envs.single_env.SingleEnv` seeded ``seed + i``.

    Observations, rewards, flags and infos are those of ``gymnasium.vector.SyncVectorEnv`` over such environments, in
    new arrays at every call; only the text ``info["outcome"]`` is left out (``rules.Outcome`` has it for
    ``info["result"]``).

    Args:
        num_envs: B, at least 1.
        autoreset_mode: behaviour after the end of a game, as defined by Gymnasium: with ``NEXT_STEP`` the next step
            begins the next game and ignores its action; with ``SAME_STEP`` the same step does, and ``info`` keeps the
            end in ``final_obs`` and ``final_info``; with ``DISABLED`` the caller must
            ``reset(options={"reset_mask": bool[B]})``.
        render_mode: None, ``"ansi"`` or ``"rgb_array"``: ``render`` returns a tuple with one picture per game.
        max_episode_steps: number of steps after which a game is truncated, as by ``gymnasium.wrappers.TimeLimit``;
            ``info["result"]`` then stays -1, because the game is not over. None or -1: no limit.
        threads: number of threads for steps of 65,536 games or more, or ``"auto"``, see :mod:`ttt_envs.core.threads`;
            results do not depend on it. Opponents with code of their own move in one thread.
        copy: False lets each step write observations and action masks into the same memory, which is faster: they are
            valid until the next step. Rewards and flags are new arrays. As in ``gymnasium.vector.SyncVectorEnv``.

    The other arguments are those of ``SingleEnv``. A schedule of opponents counts the steps or episodes of each game:
    with B games, 20,000 steps in all are 20,000 / B of each.
    """

    render_modes: ClassVar[tuple[str, ...]] = ("ansi", "rgb_array")

    def __init__(
        self,
        num_envs: int = 1,
        size: int | tuple[int, int] = 3,
        win_length: int = 3,
        skip_chance: SkipChance = 0.0,
        *,
        opponent: Opponent = "random",
        seat: SeatChoice = "first",
        observation: Observation = "flat",
        dtype: DType = "float32",
        illegal_action: IllegalAction = "lose",
        symmetry: Symmetry = "none",
        context: Context = "hidden",
        openings: Sequence[str] | None = None,
        first: First = "player_0",
        gravity: bool = False,
        overlines: bool = True,
        misere: bool = False,
        torus: bool = False,
        phantom: Kind | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: RenderMode | None = None,
        max_episode_steps: int | None = None,
        threads: Threads = 1,
        copy: bool = True,
    ) -> None:
        self.num_envs = _checked_count(num_envs)
        self.autoreset_mode = _checked_mode(autoreset_mode)
        check_choice("render_mode", render_mode, (None, *self.render_modes))
        check_choice("copy", copy, (True, False))
        self._limit = _checked_limit(max_episode_steps)
        rules = {"gravity": gravity, "overlines": overlines, "misere": misere, "torus": torus, "phantom": phantom}
        self.games = make_games(size, win_length, skip_chance, rules)
        self.game = self.games[0]
        self._builder = ObservationBuilder(self.game, observation, dtype, context)
        opponents = make_opponents(
            opponent, self.games, lambda other, game: as_opponent(other, game, observation, dtype, context)
        )
        positions = make_openings(self.games, openings, first)
        self._games = Lockstep(
            self.games,
            self.num_envs,
            opponents or SELF,
            seat,
            illegal_action,
            symmetry,
            openings=positions,
            threads=count_threads(threads),
        )
        self._reused = None if copy else self._games.output()
        self.single_observation_space = self._builder.observation_space
        self.single_action_space = self._builder.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.render_mode = render_mode
        # an instance attribute, because environments may differ in their mode
        self.metadata = {
            "render_modes": list(self.render_modes),
            "render_fps": render.FPS,
            "autoreset_mode": self.autoreset_mode,
        }
        self._settings: dict[str, Any] = {
            "size": (self.game.rows, self.game.columns),
            "win_length": win_length,
            "skip_chance": skip_chance,
            "opponent": opponents or SELF,
            "seat": seat,
            "observation": observation,
            "dtype": dtype,
            "illegal_action": illegal_action,
            "symmetry": symmetry,
            "context": context,
            "openings": openings,
            "first": first,
            "render_mode": render_mode,
            **rules,
        }
        self._singles: list[SingleEnv] = []  # see `call`
        self._given: list[int | None] = [None] * self.num_envs  # the seeds
        self._steps = np.zeros(self.num_envs, np.int64)  # of the episodes, counted if there is a limit
        self._every = np.ones(self.num_envs, np.bool_)
        self._seeded = False
        # for rendering: the boards before the last step, and its illegal actions, else -1
        self._before = np.zeros((self.num_envs, self.game.cells), np.int8)
        self._refused = np.full(self.num_envs, -1)

    @property
    def plays_both_seats(self) -> bool:
        """Whether the caller moves for both players: ``opponent="self"``."""
        return self._games.is_self_play

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes.

        Args:
            seed: game i is seeded ``seed + i``, or ``seed[i]`` with a sequence; None continues with the next episodes.
            options: ``reset_mask`` bool[B] selects the games to reset, by default all; ``position`` and ``seat`` are
                those of ``SingleEnv`` for each of them.

        Returns:
            Observations of all games, and the infos of the games that were reset. As in Gymnasium's own vector
            environments, the entries of all others are 0, including ``action_mask``, and ``_action_mask`` bool[B] is
            False there: :meth:`action_masks` returns the masks of all games.

        Raises:
            TypeError, ValueError: a mask or a sequence of seeds has the wrong type or length, or an option is unknown.
        """
        others = dict(options or {})
        mask = self._checked_mask(others.pop("reset_mask", None))
        position, at_seat = parse_reset_options(self.games, others, self.plays_both_seats)
        rows = np.flatnonzero(mask)
        seeds = self._seeds(seed)
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        if not self._seeded:
            keys = self.np_random.integers(0, 1 << 64, self.num_envs, dtype=np.uint64)
            self._games.seed(np.arange(self.num_envs), keys)
            self._seeded = True
        chosen = [row for row in rows.tolist() if seeds[row] is not None]
        if chosen:
            generators = (seeding.np_random(seeds[row])[0] for row in chosen)
            self._games.seed(np.array(chosen), np.array([draw_key(rng) for rng in generators]))
            for row in chosen:
                self._given[row] = seeds[row]
        self._games.begin(rows, position, at_seat)
        self._steps[rows] = 0
        self._before[rows] = self._games.first_cells(rows) if position is None else position.cells
        self._refused[rows] = -1
        return self._observation(self._games.observe_all(), None if mask.all() else mask)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Make a move in every game, and let the opponents reply.

        Args:
            actions: integers [B].

        Returns:
            observations, rewards float64[B], terminated bool[B], truncated bool[B], info.

        Raises:
            TypeError: the actions are not integers.
            ValueError: there are not B actions, or one is off the board; with ``illegal_action="raise"`` also if one
                is illegal. Nothing has changed then.
            ResetNeeded: before ``reset``; with ``DISABLED`` also while a finished game has not been reset.
        """
        games = self._games
        if not self._seeded:
            raise ResetNeeded("no game has begun: call reset() before step()")
        actions = self._checked_actions(actions)
        mode = self.autoreset_mode
        if mode is AutoresetMode.DISABLED and games.over.any():
            raise ResetNeeded(
                f"game {int(np.argmax(games.over))} is over: call reset(options={{'reset_mask': mask}}) "
                f"with the games that have ended before the next step"
            )
        out = self._games.output() if self._reused is None else self._reused.with_new_rewards()
        if self.render_mode is not None:
            self._before[:] = games.positions().cells
            illegal = games.num_illegal.copy()
        if self._limit is None:
            ended = games.step(actions, mode is AutoresetMode.NEXT_STEP, out)
        else:
            new = games.over
            games.step(actions, mode is AutoresetMode.NEXT_STEP, out)
            ended = self._cut(self._limit, new, out)
        if self.render_mode is not None:
            self._refused = np.where(games.num_illegal > illegal, actions, -1)
        if mode is AutoresetMode.SAME_STEP and ended:
            over = games.over
            final_observation, final_info = self._observation(out, over)
            rows = np.flatnonzero(over)
            games.begin(rows)
            self._steps[rows] = 0
            self._refused[rows] = -1
            observation, info = self._observation(games.observe_all())
            info["final_obs"], info["_final_obs"] = self._unbatched(final_observation, rows), over
            info["final_info"], info["_final_info"] = final_info, over
        else:
            observation, info = self._observation(out)
        if self.render_mode is not None:
            begun = games.begun_games
            self._before[begun] = games.first_cells(begun)
        return observation, out.rewards, out.terminated, out.truncated, info

    def _cut(self, limit: int, new: BoolArray, out: StepOutput) -> int:
        """Count the step in all games that have not just begun, truncate, and return the number of finished games."""
        self._steps += 1
        self._steps[new] = 0
        late = self._steps >= limit
        out.truncated[late] = True
        self._games.end(late)
        return int(np.count_nonzero(self._games.over))

    def _observation(self, out: StepOutput, rows: BoolArray | None = None) -> tuple[Any, dict[str, Any]]:
        """Return observations of all games, and the infos of the games ``rows`` bool[B], as in ``SyncVectorEnv``.

        The result shares the arrays of ``out``.
        """
        mask = out.mask
        skip_chance = self._games.skip_chance
        shown = self._builder.build(out.planes, mask, skip_chance)
        rows_of_info = self._games.infos()
        if rows is None:
            there = self._every.copy()
        else:
            there = rows
            mask = mask * rows[:, None]
            rows_of_info *= rows
        # not unpacked, which takes twice as long
        mover, seat, result, winner = rows_of_info[0], rows_of_info[1], rows_of_info[2], rows_of_info[3]
        info = {
            "action_mask": mask,
            "_action_mask": there,
            "seat": seat,
            "_seat": there,
            "mover": mover,
            "_mover": there,
            "result": result,
            "_result": there,
            "winner": winner,
            "_winner": there,
        }
        if len(self.games) > 1:
            info |= {"skip_chance": skip_chance * there, "_skip_chance": there}
        return shown, info

    def _unbatched(self, observation: Any, rows: Int64Array) -> Any:
        """Return object[B]: the observations of ``rows`` one by one, None elsewhere."""
        out = np.full(self.num_envs, None, dtype=object)
        for row in rows:
            if isinstance(observation, dict):
                out[row] = {name: array[row] for name, array in observation.items()}
            else:
                out[row] = observation[row]
        return out

    def _checked_actions(self, actions: Any) -> Int64Array:
        array = np.asarray(actions)
        if array.dtype.kind not in "iu":
            what = "a column" if self.game.gravity else "the index of a cell"
            raise TypeError(
                f"actions of type {array.dtype} are no whole numbers: an action is {what}, "
                f"0 to {self._games.num_actions - 1}"
            )
        if array.shape != (self.num_envs,):
            raise ValueError(f"actions of shape {array.shape} do not fit {self.num_envs} games: give one for each game")
        return np.ascontiguousarray(array, dtype=np.int64)

    def _checked_mask(self, mask: Any) -> BoolArray:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise TypeError(
                f"options['reset_mask'] must be bool[{self.num_envs}], True for each game to reset, "
                f"but is {getattr(mask, 'dtype', type(mask).__name__)}{list(np.shape(mask))}"
            )
        if not mask.any():
            raise ValueError("options['reset_mask'] names no game: set at least one entry to True")
        if not self._seeded and not mask.all():
            raise ResetNeeded("no game has begun: call reset() for all games before resetting some")
        return mask.copy()

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            return [int(seed) + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(
                f"{len(seed)} seeds do not fit {self.num_envs} games: give one number, or one for each game"
            )
        return seed

    def action_masks(self) -> BoolArray:
        """Return bool[B, actions]: the legal actions of each game, all of them where it is over."""
        return self._games.observe_all().mask.astype(np.bool_)

    def chance_outcomes(self, index: int, action: int) -> list[ChanceOutcome]:
        """Return ``SingleEnv.chance_outcomes`` of game ``index``."""
        return self._games.chance_outcomes(index, action)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the results of a method of each game's ``SingleEnv``, or an attribute, as ``SyncVectorEnv`` does.

        The single environments are copies created on demand: this is for a few calls, not for playing.

        Raises:
            AttributeError: single environments have no such attribute.
            ValueError: the method would change the copies and not the games.
        """
        if name in MOVING_METHODS:
            raise ValueError(f"call({name!r}) would move copies of the games: use {name}() of the vector itself")
        results = (getattr(single, name) for single in self.single_envs())
        return tuple(result(*args, **kwargs) if callable(result) else result for result in results)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each game's ``SingleEnv``; see :meth:`call`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any, indices: Sequence[int] | None = None) -> None:
        """Set a new attribute on each game's ``SingleEnv``, which :meth:`get_attr` returns.

        Args:
            name: name of the attribute.
            values: a list or tuple of a value for each game, or one value for all.
            indices: the games, by default all.

        Raises:
            ValueError: there are not as many values as games, or single environments already have the attribute.
        """
        rows = range(self.num_envs) if indices is None else indices
        values = values if isinstance(values, (list, tuple)) else [values] * len(rows)
        if len(values) != len(rows):
            raise ValueError(f"{len(values)} values do not fit {len(rows)} games: give one, or one for each game")
        singles = self.single_envs()
        if name in self._attributes:
            raise ValueError(f"{name} cannot be set, for the games share it: make another environment")
        for row, value in zip(rows, values, strict=True):
            setattr(singles[row], name, value)

    def single_envs(self) -> list[SingleEnv]:
        """Return copies of the games as single environments; they do not follow later moves."""
        if not self._singles:
            self._singles = [SingleEnv(**self._settings) for _ in range(self.num_envs)]
            self._attributes = frozenset(dir(self._singles[0]))
        if self._seeded:
            state = self._games.clone(include_rng=True)
            for row, single in enumerate(self._singles):
                part = {name: value if name == "game" else value[row : row + 1] for name, value in state.items()}
                single.restore_state(part)
                single._before = self._before[row].copy()
                single._refused = self._refused_in(row)
                seed = self._given[row]
                if seed is not None:
                    single._np_random, single._np_random_seed = seeding.np_random(seed)
                    draw_key(single._np_random)  # drawn by the reset
        return self._singles

    def clone_state(self, include_rng: bool = False) -> dict[str, Any]:
        """Return a copy of all games. Without ``include_rng`` it does not determine future skips and replies."""
        state = self._games.clone(include_rng)
        return state if self._limit is None else {**state, "steps": self._steps.copy()}

    def restore_state(self, state: dict[str, Any], *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Restore cloned games, and return observations and info like :meth:`reset`.

        ``seed`` (game i: ``seed + i``) is for future random numbers; a state cloned without the generator needs it.
        """
        keys = None
        if seed is not None:
            self._given = list(self._seeds(seed))
            keys = np.array([draw_key(seeding.np_random(one)[0]) for one in self._given])
        self._games.restore(state, keys)
        self._steps[:] = state.get("steps", 0)
        self._before[:] = self._games.positions().cells
        self._refused[:] = -1
        self._seeded = True
        return self._observation(self._games.observe_all())

    def render(self) -> tuple[Any, ...] | None:
        """Return one picture for each game."""
        renderer = render.Renderer(visible(self.game), self.render_mode)
        if self.render_mode is None:
            renderer.render(self._scene(0))  # a warning
            return None
        return tuple(renderer.render(self._scene(b)) for b in range(self.num_envs))

    def _scene(self, b: int) -> Scene:
        games = self._games
        before, cells = games.to_caller_view(b, self._before[b]), games.to_caller_view(b, games.position(b).cells)
        seat = int(games.mover[b] if games.is_self_play else games.seat[b])
        return render.make_scene(before, cells, int(games.mover[b]), games.description(b), seat, self._refused_in(b))

    def _refused_in(self, b: int) -> int | None:
        return int(self._refused[b]) if self._refused[b] >= 0 else None


def _checked_count(num_envs: object) -> int:
    if isinstance(num_envs, bool) or not isinstance(num_envs, (int, np.integer)):
        raise TypeError(f"num_envs={num_envs!r} is not a whole number: write for example num_envs=64")
    if num_envs < 1:
        raise ValueError(f"num_envs={num_envs} leaves nothing to play: choose 1 or more games")
    return int(num_envs)


def _checked_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        choices = ", ".join(mode.name for mode in AutoresetMode)
        raise ValueError(f"autoreset_mode={mode!r} is not known: choose AutoresetMode {choices}") from None


def _checked_limit(steps: object) -> int | None:
    """Return the limit from ``max_episode_steps``, None for no limit."""
    if steps is None or (steps == -1 and not isinstance(steps, bool)):  # -1 as in `gymnasium.make`
        return None
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)):
        raise TypeError(f"max_episode_steps={steps!r} is not a whole number: write for example max_episode_steps=100")
    if steps < 1:
        raise ValueError(
            f"max_episode_steps={steps} ends games before they begin: choose 1 or more, or -1 for no limit"
        )
    return int(steps)
