"""Training on many games side by side, resumable at every step.

With one game at a time and the same seed, :mod:`learners.pettingzoo_loop` trains the same learner,
bit for bit: skips, the opponent's moves and seats come from the number of the game, and the
learner's exploration from a stream of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar

import numpy as np

from learners.base import (
    MAX_COUNT,
    AnyArray,
    Arrays,
    ArraySpec,
    Checkpointable,
    Learner,
    Limits,
    Stored,
    Transition,
    with_prefix,
)
from ttt_envs.agents.policy import ALL_VARIANTS, Policy, act_in_episodes
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.random import draw_key, uniforms
from ttt_envs.core.work import usable_memory
from ttt_envs.envs.config import SELF, EnvConfig, SeatChoice, game_keywords
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import (
    clone_games,
    must_be_reset,
    restore_games,
    seed_games,
    setting_of,
)
from ttt_envs.game.actions import cells_to_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.game.rules import NOT_OVER, STREAM_POOL

POOL = "pool"
"""Opponent name of a learner's own earlier snapshots."""
Callback = Callable[[int, Policy], dict[str, float]]
"""Called with the number of finished games and the learner; its return value is logged."""

SPAWN_EXPLORATION, SPAWN_INITIAL, SPAWN_TEACHER, SPAWN_REPLAY = range(4)
"""Spawn keys of a training's seed, so that its uses share no random numbers: a learner's
exploration, of Stable-Baselines3 the seeds of games; initial weights and the learner's draws; and
with a number of games as the second part of the key, games of a teacher, and draws from a replay
buffer. Results of seeds depend on the values."""

Marks = Callable[[int], int]
"""Maps the number of games at the last mark, where a training is measured and logged, to that of
the next mark.
"""


def dense_first(games: int) -> Marks:
    """Return geometric marks, dense at first, when learning is fastest: each 25% later, by at most
    a fiftieth of all games.
    """
    return lambda mark: mark + max(1, min(mark // 4, games // 50))


@dataclass
class Progress:
    """Progress of a training, counted for the learner's seat; in self-play for player_0."""

    games: int = 0
    """Number of finished games."""
    wins: int = 0
    draws: int = 0
    losses: int = 0

    def count(self, results: Float64Array) -> None:
        """Add finished games with these rewards."""
        self.games += len(results)
        self.wins += int(np.count_nonzero(results > 0))
        self.losses += int(np.count_nonzero(results < 0))
        self.draws += int(np.count_nonzero(results == 0))


def make_seeds(seed: int, *key: int) -> np.random.SeedSequence:
    """Return the seeds of a use in a training: ``key`` begins with a spawn key, such as
    :data:`SPAWN_REPLAY`.
    """
    return np.random.SeedSequence(seed, spawn_key=key)


def make_rng(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of a use, see :func:`make_seeds`."""
    return np.random.default_rng(make_seeds(seed, *key))


class TrainingLoop(Stored, ABC):
    """A training that advances in steps, and can be saved and restored between two steps.

    Args:
        learner: the learner, trained in place.
        games: total number of games.
        batch: number of games per step, or in parallel.

    Attributes:
        learner, games, batch: the arguments.
        logged: metrics of the last step.
        done: progress so far.
        marked: number of finished games at the last measurement and log line.
        steps: number of moves made by the learner; 0 if no games are played.

    Raises:
        ValueError: numbers out of range.
    """

    name = "the state of a training"
    stored: ClassVar[tuple[str, ...]] = ("counts",)
    measured_at_end: ClassVar[bool] = False
    """Whether the callbacks are called at the end only."""
    continues_log: ClassVar[bool] = True
    """Whether a restored training goes on with the log; else it logs again from the beginning."""
    learner: Checkpointable

    def __init__(self, learner: Checkpointable, games: int, batch: int) -> None:
        check_counts(games, batch)
        self.learner = learner
        self.games = games
        self.batch = batch
        self.done = Progress()
        self.marked = 0
        self.steps = 0
        self.logged: Mapping[str, float] = {}

    @abstractmethod
    def step(self) -> None:
        """Make the next step."""

    @property
    def running(self) -> bool:
        """Whether games are still played: all that are started are finished and counted."""
        return self.done.games < self.games

    @property
    def counts(self) -> Int64Array:
        """int64[6]: ``marked``, ``steps`` and the fields of ``done``."""
        return np.array([self.marked, self.steps, *astuple(self.done)], np.int64)

    @counts.setter
    def counts(self, counts: Int64Array) -> None:
        self.marked, self.steps, *progress = counts.tolist()
        self.done = Progress(*progress)

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {"counts": (0, MAX_COUNT)}

    def run(
        self,
        *,
        every: int | Marks | None = None,
        callbacks: Iterable[Callback] = (),
        log: Callable[[int, dict[str, float]], None] | None = None,
        after_step: Callable[[TrainingLoop], bool] | None = None,
    ) -> Progress:
        """Run to the end.

        Args:
            every: number of games between calls of the callbacks and the log, or marks; never by
                default.
            callbacks: measurements to log; they must not draw from the learner's randomness.
            log: takes the number of games and all numbers measured since.
            after_step: called after every step; False stops.

        Returns:
            The progress.
        """
        next_mark = _marks(self.games + 1 if every is None else every)
        continues = True
        while continues and self.running:
            self.step()
            if self.is_log_point(next_mark):
                self.marked = self.done.games
                metrics = self._measure(callbacks)
                if log is not None:
                    log(self.done.games, metrics)
            if after_step is not None:
                continues = after_step(self)
        return self.done

    def _measure(self, callbacks: Iterable[Callback]) -> dict[str, float]:
        """Return what is logged at a mark."""
        progress = self.done
        metrics = {
            **self.logged,
            "wins": progress.wins,
            "draws": progress.draws,
            "losses": progress.losses,
        }
        if self.steps:
            metrics["steps"] = self.steps
        if not (self.measured_at_end and self.running):
            for callback in callbacks:
                metrics |= callback(progress.games, self.learner)
        return metrics

    def is_log_point(self, next_mark: Marks) -> bool:
        """Return whether to log after this step: it has reached a mark, or is the last."""
        games = self.done.games
        is_last = not self.running and games > self.marked
        return is_last or games >= next_mark(self.marked)


def _marks(every: int | Marks) -> Marks:
    """Return the marks at multiples of a number of games, or those given."""
    if callable(every):
        return every
    return lambda mark: (mark // every + 1) * every


class Decisions(Stored):
    """A learner's last decision in each seat of B games, until what comes of it is known; with
    negamax in any seat.

    Args:
        learner: the learner.
        games: B.
        rng: generator of its exploration.

    Attributes:
        logged: metrics of the learner's last update.
    """

    stored = ("is_open", "boards", "action", "rng", "logged")

    def __init__(self, learner: Learner, games: int, rng: np.random.Generator) -> None:
        self.learner = learner
        self.rng = rng
        self.logged: Mapping[str, float] = {}
        self.num_seats = 1 if learner.backup == "negamax" else 2
        size = self.num_seats * games
        self.is_open = np.zeros(size, np.bool_)
        self.boards = Boards.start(learner.game, size)
        self.action = np.zeros(size, np.int64)

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {
            "boards.cells": (0, 2),
            "boards.mover": (0, 1),
            "action": (0, self.learner.game.cells - 1),
        }

    def array_specs(self, arrays: Arrays) -> dict[str, ArraySpec]:
        """See :class:`~learners.base.Stored`; each learner logs metrics of its own."""
        logged = {f"logged.{name}": ArraySpec.like(0.0) for name in with_prefix("logged.", arrays)}
        return {**super().array_specs(arrays), **logged}

    def act(self, games: Int64Array, boards: Boards) -> Int64Array:
        """Learn from the decisions before, then choose moves int64[B] in ``games``, given in
        ascending order.

        Sarsa chooses first, because it learns from the moves chosen.
        """
        index = self._index(games, boards.mover)
        no_rewards = np.zeros(len(games))
        if self.learner.on_policy:
            actions = self.learner.explore(boards, self.rng)
            self._close(index, no_rewards, boards, actions)
        else:
            self._close(index, no_rewards, boards)
            actions = self.learner.explore(boards, self.rng)
        self.is_open[index] = True
        # a row as one number is written in a third of the time
        row = f"V{boards.cells.shape[1]}"
        self.boards.cells.view(row).put(index, boards.cells.view(row))
        self.boards.mover[index] = boards.mover
        self.action[index] = actions
        return actions

    def end(self, games: Int64Array, last: Int8Array, rewards: Float64Array) -> None:
        """Learn from the decisions in finished games.

        Args:
            games: int64[B], in ascending order.
            last: int8[B]: the learner's seat that moved last, whose decision is the first to be
                learned from.
            rewards: float64[B], to that seat; the other's are the opposite.
        """
        self._close(self._index(games, last), rewards)
        if self.num_seats == 2:
            self._close(self._index(games, 1 - last), -rewards)

    def _index(self, games: Int64Array, seats: Int8Array) -> Int64Array:
        return games if self.num_seats == 1 else 2 * games + seats

    def _close(
        self,
        index: Int64Array,
        rewards: Float64Array,
        results: Boards | None = None,
        actions: Int64Array | None = None,
    ) -> None:
        """Learn from the open decisions among these, which led to the boards ``results``, or to the
        end.

        ``actions`` are the moves chosen there, if they are known.
        """
        rows = self.is_open[index].nonzero()[0]
        if not len(rows):
            return
        index = index[rows]
        self.is_open[index] = False
        boards = next_boards = _take(self.boards, index)
        discount = np.zeros(len(rows))
        next_action = np.full(len(rows), -1)
        if results is not None:
            next_boards = _take(results, rows)
            discount = np.where(boards.mover == next_boards.mover, 1.0, -1.0)
        if actions is not None:
            next_action = actions[rows]
        transition = Transition(
            game=index // self.num_seats,
            boards=boards,
            action=self.action[index],
            reward=rewards[rows],
            discount=discount,
            next_boards=next_boards,
            next_action=next_action,
        )
        self.logged = self.learner.update(transition)


def _take(boards: Boards, rows: Int64Array) -> Boards:
    """Return rows of boards; ``Boards.take`` takes several times as long, but also a mask."""
    return Boards(boards.cells.take(rows, axis=0), boards.mover.take(rows))


class Pool(Stored, Policy):
    """The latest snapshots of a learner, ``pool:every=5000,size=8``; one of them, drawn uniformly,
    plays a whole game.

    A snapshot is taken before the first game, and whenever ``every`` more games have begun. Game n
    meets one of the ``size`` newest snapshots at its beginning, chosen by the game's random key. So
    opponents do not depend on the number of parallel games, and only the snapshots need to be
    stored.

    Args:
        game: the game.
        every: number of games between snapshots.
        size: maximum number of snapshots that a game may meet.

    Attributes:
        build: makes a learner of the same kind, to hold a snapshot; set before the first game.

    Raises:
        ValueError: numbers below 1.
    """

    name = POOL
    pure = False
    plays_hidden = True
    variants = ALL_VARIANTS
    build: Callable[[], Learner]

    def __init__(self, game: AnyGame, every: int = 5_000, size: int = 8) -> None:
        if every < 1 or size < 1:
            raise Refusal(
                f"pool: every={every} and size={size} do not work: choose 1 or more for both"
            )
        self.every = every
        self.size = size
        self._snapshots = dict[int, Learner]()

    def begin(self, first: int, last: int, running: int, learner: Checkpointable) -> None:
        """Take due snapshots before games ``first`` to ``last``, and drop those older than game
        ``running`` needs.
        """
        for number in range(max(self._snapshots, default=-1) + 1, last // self.every + 1):
            self._add(number, learner.state)
        first_number = min(first, running) // self.every + 1 - self.size
        for number in [*self._snapshots]:
            if number < first_number:
                del self._snapshots[number]

    def _add(self, number: int, state: Arrays) -> None:
        self._snapshots[number] = self.build()
        self._snapshots[number].state = state

    def act_in_games(
        self, boards: Boards, games: Int64Array, episode_keys: UInt64Array, plies: Int64Array
    ) -> Int64Array:
        """Return a move int64[B] in each of the games with these numbers."""
        u = uniforms(episode_keys, STREAM_POOL, np.zeros(len(games), np.int64))
        actions = np.empty(len(games), np.int64)
        num_taken = games // self.every + 1
        numbers = num_taken - 1 - (u * np.minimum(num_taken, self.size)).astype(np.int64)
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            actions[rows] = act_in_episodes(
                self._snapshots[number], boards.take(rows), episode_keys[rows], plies[rows]
            )
        return actions

    def check(self, running: int, num_started: int) -> None:
        """Raise ValueError unless it has the snapshots that the games from ``running`` to
        ``num_started`` - 1 may meet.
        """
        first_number = max(0, running // self.every + 1 - self.size)
        last_number = (num_started - 1) // self.every
        numbers = range(first_number, last_number + 1)
        is_ahead = max(self._snapshots, default=-1) > last_number
        if is_ahead or not {*numbers} <= {*self._snapshots}:
            raise Refusal(
                f"its pool needs the snapshots {list(numbers)}, and has {list(self._snapshots)}"
            )

    def array_specs(self, arrays: Arrays) -> dict[str, ArraySpec]:
        """See :class:`~learners.base.Stored`: those of every snapshot."""
        numbers = _snapshot_numbers(arrays)
        specs = self.build().array_specs({})
        return {f"{number}.{name}": spec for number in numbers for name, spec in specs.items()}

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of all snapshots."""
        arrays = {}
        for number, snapshot in self._snapshots.items():
            for name, array in snapshot.state.items():
                arrays[f"{number}.{name}"] = array
        return arrays

    def from_arrays(self, arrays: Arrays) -> None:
        """Replace all snapshots."""
        self._snapshots.clear()
        for number in _snapshot_numbers(arrays):
            self._add(number, with_prefix(f"{number}.", arrays))


def _snapshot_numbers(arrays: Arrays) -> list[int]:
    """Return the numbers of the snapshots whose arrays these are, in order."""
    words = {name.partition(".")[0] for name in arrays}
    return sorted(int(word) for word in words if word.isdecimal())


class GamesTraining(TrainingLoop):
    """Training on games side by side, which can be saved and restored.

    Games are numbered when they start, and every started game is finished and counted: stopping at
    a number of finished games would favour short games.

    Args:
        learner: the learner, trained in place.
        opponent: a spec string, a policy, or ``"self"``: the learner plays both seats.
        games: total number of games.
        batch: number of games in parallel.
        seed: seed of skips, opponent, seats and exploration.
        seat: the learner's, ``"first"``, ``"second"``, ``"random"`` or ``"alternate"``.
        openings: positions with which games begin, see :class:`~ttt_envs.envs.config.BoardConfig`;
            None for the empty board.

    Attributes:
        live: bool[B]: where a numbered game is played.
        rng: of the learner's exploration.
        pool: the opponent, if it is a pool.

    Raises:
        ValueError: numbers out of range, an unknown opponent.
    """

    stored: ClassVar[tuple[str, ...]] = ("counts", "live", "board", "pool")

    def __init__(
        self,
        learner: Checkpointable,
        opponent: str | Policy,
        games: int,
        *,
        batch: int = 1,
        seed: int = 0,
        seat: SeatChoice = "alternate",
        openings: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(learner, games, batch)
        self._self_play = opponent == SELF
        self.pool = opponent if isinstance(opponent, Pool) else None
        config = EnvConfig(
            **game_keywords(learner.game),
            opponent=opponent,
            seat=seat,
            illegal_action="raise",
            openings=openings,
        )
        self._count = min(batch, max(1, games))
        self._games = make_games(config, self._count, observes=False)
        rows = np.arange(self._count)
        seed_games(self._games, rows, np.full(self._count, training_key(seed)))
        self._output = self._games.output()
        self.live = np.zeros(self._count, np.bool_)
        self._actions = np.zeros(self._count, np.int64)
        self.rng = make_rng(seed, SPAWN_EXPLORATION)
        self.prepare()
        self.begin(rows)

    @abstractmethod
    def prepare(self) -> None:
        """Make what a kind of training has besides, before the first game.

        Raises:
            ValueError: the learner cannot learn in this way.
        """

    @property
    def board(self) -> dict[str, AnyArray]:
        """The games' arrays by name."""
        state = clone_games(self._games, include_rng=True)
        setting = setting_of(self._games.config)
        return {name: array for name, array in state.items() if name not in setting}

    @board.setter
    def board(self, arrays: Arrays) -> None:
        restore_games(self._games, {**setting_of(self._games.config), **arrays})

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`: the board's columns are those of one opponent, who
        sees no symmetries.
        """
        skip_chance = self.learner.game.skip_chance
        return {
            **super().limits(),
            **dict.fromkeys(("board.found", "board.mover", "board.seat", "board.is_over"), (0, 1)),
            "board.cells": (0, 2),
            "board.symmetry": (0, 0),
            "board.skip_chance": (skip_chance, skip_chance),
        }

    def from_arrays(self, arrays: Arrays) -> None:
        """See :class:`~learners.base.Stored`; of more games than before, the next ones begin.

        Raises:
            ValueError: more games than there are, or games in progress that are over, by their
                numbers or positions.
        """
        super().from_arrays(arrays)
        num_started = self.done.games + int(self.live.sum())
        in_progress = arrays["board.outcome"] == NOT_OVER
        numbers = self._games.column("episode", self.live)
        stones = np.count_nonzero(arrays["board.cells"], axis=1)
        if (
            num_started > self.games
            or not ((numbers >= 0) & (numbers < num_started)).all()
            or (self.live == must_be_reset(self._games)).any()
            or (in_progress & ~self.live).any()
            or (in_progress & (stones == self.learner.game.cells)).any()
            or (stones != arrays["board.stones"]).any()
        ):
            raise Refusal("its games contradict their numbers, results or positions")
        if self.pool is not None:
            self.pool.check(int(numbers.min(initial=num_started)), num_started)
        self.begin(np.flatnonzero(~self.live))

    def playing(self) -> BoolArray:
        """Return bool[B]: where the learner is to move."""
        return np.asarray(self.live & (self._games.column("outcome") == NOT_OVER))

    def move(self, rows: Int64Array, cells: Int64Array) -> Int64Array:
        """Put the learner's stones on ``cells`` int64[R] in the games ``rows``, and let the
        opponent reply.

        Returns:
            int64[E]: the games that have ended.
        """
        self._actions[rows] = cells_to_actions(self.learner.game, cells)
        self.steps += len(rows)
        self._games.step(self._actions, self._output)
        return np.flatnonzero(self.live & must_be_reset(self._games))

    def end(self, rows: Int64Array) -> None:
        """Count games that have ended, and begin the next ones in their place."""
        if not len(rows):
            return
        rewards = self._output["rewards"][rows]
        is_second = self._self_play & (self._games.column("seat", rows) == 1)
        self.done.count(np.where(is_second, -rewards, rewards))
        self.live[rows] = False
        self.begin(rows)

    def begin(self, rows: Int64Array) -> None:
        """Begin the next games in ``rows`` int64[R], while games remain."""
        num_started = self.done.games + np.count_nonzero(self.live)
        rows = rows[: self.games - num_started]
        if not len(rows):
            return
        numbers = num_started + np.arange(len(rows))
        if self.pool is not None:
            running = int(self._games.column("episode", self.live).min(initial=numbers[0]))
            self.pool.begin(int(numbers[0]), int(numbers[-1]), running, self.learner)
        self._games.set_column("episode", rows, numbers - 1)
        self.live[rows] = True
        self._games.reset(rows, self._output)


class Trainer(GamesTraining):
    """Training of a :class:`~learners.base.Learner` on its transitions."""

    learner: Learner
    stored = (*GamesTraining.stored, "decisions")

    def prepare(self) -> None:
        """See :class:`GamesTraining`."""
        check_backup(self.learner, self._self_play)
        self.decisions = Decisions(self.learner, self._count, self.rng)

    def step(self) -> None:
        """Make one move of the learner in every game, and let the opponent reply."""
        rows = self.playing().nonzero()[0]
        cells = np.zeros(0, np.int64)
        if len(rows):
            cells = self.decisions.act(rows, self._games.views(rows))
        ended_rows = self.move(rows, cells)
        if len(ended_rows):
            seats = self._games.column("seat", ended_rows).astype(np.int8)
            self.decisions.end(ended_rows, seats, self._output["rewards"][ended_rows])
            self.end(ended_rows)
        self.logged = {name: float(value) for name, value in self.decisions.logged.items()}


def make_initial_rng(seed: int) -> np.random.Generator:
    """Return the generator of a learner's initial weights and of its draws during training."""
    return make_rng(seed, SPAWN_INITIAL)


def training_key(seed: int) -> np.uint64:
    """Return the 64-bit key that an environment seeded with ``seed`` draws."""
    return draw_key(np.random.default_rng(seed))


def check_counts(games: int, batch: int) -> None:
    """Raise ValueError for invalid numbers of games."""
    check_range("games", games, 0)
    check_range("batch", batch, 1, problem="leaves nothing to play", hint=" games side by side")


def check_memory(size: int, cause: str) -> None:
    """Raise ValueError if a setting, the ``cause``, takes more bytes than are free."""
    free_bytes = usable_memory()
    if size > free_bytes:
        raise Refusal(
            f"{cause} takes {size / 2**30:,.3g} GiB of memory, and {free_bytes / 2**30:,.3g} GiB "
            "are free: choose a lower number"
        )


def check_backup(learner: Learner, self_play: bool) -> None:
    """Raise ValueError if a learner that learns from every ply does not play both seats, or cannot
    see the next ply.
    """
    if learner.backup == "negamax":
        check_opposite_values(learner.game, 'choose backup="agent", or a policy as opponent')
        if not self_play:
            rule = 'backup="negamax" learns from every ply, which only self-play shows'
            raise Refusal(f'{rule}: choose self-play, or backup="agent" against another opponent')


def check_opposite_values(game: AnyGame, remedy: str) -> None:
    """Raise ValueError if the value of a position for one player is not the opposite of the
    other's.
    """
    if isinstance(game, PhantomGame):
        reason = (
            f"learning from every ply needs opposite values, and the players of {game} see "
            "different boards"
        )
        raise Refusal(f"{reason}: {remedy}")
