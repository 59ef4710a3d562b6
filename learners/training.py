"""Training loops: many games in lockstep, or any two-player PettingZoo AEC environment on cells.

With one game at a time and the same seed both train the same learner, bit for bit: skips, the opponent's moves and
seats come from the number of the game, and the learner's exploration from a stream of its own.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from learners.base import (
    AdaptiveOpponent,
    Arrays,
    Checkpointable,
    Learner,
    PendingTransitions,
    Seat,
    check_bootstrap,
    seen_from,
)
from ttt_envs.agents.policy import Policy, act_in_episodes
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Int64Array
from ttt_envs.core.random import draw_key, splitmix64, uniform
from ttt_envs.envs.config import SELF, EnvConfig, SeatChoice, game_keywords
from ttt_envs.envs.engine import NumbaGames
from ttt_envs.envs.kernels import TRUNCATED
from ttt_envs.game.actions import cells_to_actions
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.game.rules import NOT_OVER, STREAM_SEAT

Callback = Callable[[int, Policy], dict[str, float]]
"""Called with the number of finished games and the learner; its return value is logged."""

SPAWN_EXPLORATION, SPAWN_INITIAL, SPAWN_TEACHER, SPAWN_REPLAY = range(4)
"""Spawn keys of a training's seed, so that its uses share no random numbers: a learner's exploration, of
Stable-Baselines3 the seeds of games; initial weights and the learner's draws; and with a number of games as the second
part of the key, games of a teacher, draws from a replay buffer, and sample games. Results of seeds depend on the
values."""

Marks = Callable[[int], int]
"""Maps the number of games at the last mark, where a training is measured and logged, to that of the next mark."""


def dense_first(games: int) -> Marks:
    """Return geometric marks, dense at first, when learning is fastest: each 25% later, by at most a fiftieth of all
    games.
    """
    return lambda marked: marked + max(1, min(marked // 4, games // 50))


def make_marks(every: int | Marks) -> Marks:
    """Return the marks themselves, or one at every multiple of a number of games."""
    return every if callable(every) else lambda marked: (marked // every + 1) * every


@dataclass
class Progress:
    """Progress of a training, counted for the learner's seat; in self-play for player_0."""

    games: int = 0
    """Number of finished games."""
    wins: int = 0
    draws: int = 0
    losses: int = 0

    def count(self, results: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        """Add finished games with these rewards."""
        self.games += len(results)
        self.wins += int((results > 0).sum())
        self.losses += int((results < 0).sum())
        self.draws += int((results == 0).sum())


@dataclass(frozen=True)
class Task:
    """A training task for a learner with its own loop: see :class:`~learners.config.FitLearnerConfig`."""

    game: AnyGame
    opponent: str
    """a spec string, or ``"self"``"""
    seat: SeatChoice
    games: int
    """Minimum number of games to finish."""
    batch: int
    """Number of games in parallel."""
    seed: int
    run: Path
    """The run directory, for the learner's own files."""
    every: int | Marks
    """Number of games between two lines of the log."""
    callbacks: tuple[Callable[[int, Policy], dict[str, float]], ...]
    """Measurements made at each line of the log."""
    log: Callable[[int, dict[str, float]], None]
    """Takes the number of games and all numbers measured since."""
    progress: Callable[[Progress], None]
    """Called periodically with the progress."""
    cluster: str = ""
    """Address of a cluster on which a teacher plays, "" for none."""


def make_rng(seed: int, *key: int) -> np.random.Generator:
    """Return a generator of a training: ``key`` begins with one of the spawn keys, such as :data:`SPAWN_REPLAY`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def make_exploration_rng(seed: int) -> np.random.Generator:
    """Return the generator of a learner's exploration."""
    return make_rng(seed, SPAWN_EXPLORATION)


class ResumableTraining(ABC):
    """A training that advances in steps, and can be saved and restored between two steps.

    Attributes:
        learner: the learner, trained in place.
        games: total number of games.
        done: progress so far.
        marked: number of finished games at the last measurement and log line.
        steps: number of moves made by the learner; None if unknown, after a checkpoint of an older version.
    """

    learner: Checkpointable
    games: int
    done: Progress
    marked: int
    steps: int | None

    @property
    @abstractmethod
    def logged(self) -> dict[str, float]:
        """Metrics of the last step."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether games are still played."""

    @abstractmethod
    def step(self) -> None:
        """Make the next step."""

    @abstractmethod
    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all state between two steps that determines the rest, except the learner's own arrays."""

    @abstractmethod
    def from_arrays(self, arrays: Arrays) -> None:
        """Restore the state from the arrays of :meth:`to_arrays`, of the same settings; ``games`` may have increased.

        Raises:
            ValueError: arrays of a training with other settings, or damaged ones.
        """

    def run(
        self,
        *,
        every: int | Marks | None = None,
        callbacks: Iterable[Callback] = (),
        log: Callable[[int, dict[str, float]], None] | None = None,
        progress: Callable[[Progress], None] | None = None,
        after_step: Callable[[ResumableTraining], bool] | None = None,
    ) -> Progress:
        """Run to the end.

        Args:
            every: number of games between calls of the callbacks and the log, or marks; never by default.
            callbacks: measurements to log; they must not draw from the learner's randomness.
            log: takes the number of games and all numbers measured since.
            progress: called after every step, with the same object.
            after_step: called after every step; False stops.

        Returns:
            The progress.
        """
        following = make_marks(self.games + 1 if every is None else every)
        continues = True
        while continues and self.running:
            self.step()
            done = self.done
            if progress is not None:
                progress(done)
            if done.games >= following(self.marked) or (done.games == self.games and done.games > self.marked):
                self.marked = done.games
                measured = {**self.logged, "wins": done.wins, "draws": done.draws, "losses": done.losses}
                if self.steps is not None:
                    measured["steps"] = self.steps
                for callback in callbacks:
                    measured |= callback(done.games, self.learner)
                if log is not None:
                    log(done.games, measured)
            if after_step is not None:
                continues = after_step(self)
        return self.done


def steps_to_arrays(steps: int | None) -> dict[str, np.ndarray[Any, Any]]:
    """Return the stored form of a number of moves; nothing if it is unknown."""
    return {} if steps is None else {"steps": np.array([steps], np.int64)}


def steps_from_arrays(arrays: Arrays) -> int | None:
    """Return the number of moves that :func:`steps_to_arrays` stored.

    Raises:
        ValueError: a damaged number.
    """
    stored = arrays.get("steps")
    if stored is None:
        return None
    if stored.shape != (1,) or stored.dtype != np.int64 or stored[0] < 0:
        raise ValueError("the state of the training is damaged: its number of moves is none")
    return int(stored[0])


class Training(ResumableTraining):
    """Training on games in lockstep, which can be saved and restored.

    Games are numbered when they start, and every started game is finished and counted: stopping at a number of finished
    games would favour short games.

    Args:
        learner: the learner, trained in place.
        opponent: a spec string, a policy, or ``"self"``: the learner plays both seats.
        games: total number of games.
        batch: number of games in parallel.
        seed: seed of skips, opponent, seats and exploration.
        seat: the learner's, ``"first"``, ``"second"``, ``"random"`` or ``"alternate"``.

    Attributes:
        done: progress so far.
        marked: number of finished games at the last measurement and log line.

    Raises:
        ValueError: numbers out of range, an unknown opponent, a learner that cannot learn in this way.
    """

    learner: Learner

    def __init__(
        self,
        learner: Learner,
        opponent: str | Policy,
        games: int,
        *,
        batch: int = 1,
        seed: int = 0,
        seat: SeatChoice = "alternate",
    ) -> None:
        check_counts(games, batch)
        self._both = opponent == SELF
        check_bootstrap(learner, self._both)
        count = min(batch, max(1, games))
        self.learner = learner
        self.opponent = opponent
        self._adaptive = opponent if isinstance(opponent, AdaptiveOpponent) else None
        self.games = games
        self.done = Progress()
        self.marked = 0
        self.steps = 0
        config = EnvConfig(**game_keywords(learner.game), opponent=opponent, seat=seat, illegal_action="raise")
        self._games = NumbaGames(config, count, observes=False)
        self._pending = PendingTransitions(learner, count, make_exploration_rng(seed))
        self._games.seed(np.arange(count), np.full(count, training_key(seed)))
        self._started = 0
        self._live = np.zeros(count, np.bool_)
        self._actions = np.zeros(count, np.int64)
        self._output = self._games.output()
        self._begin(np.arange(count))

    @property
    def logged(self) -> dict[str, float]:
        """Metrics of the learner's last update."""
        return self._pending.logged

    @property
    def running(self) -> bool:
        """Whether games are still played."""
        return bool(self._live.any())

    def step(self) -> None:
        """Make one step of all games."""
        rows = np.flatnonzero(self._live & (self._games.column("outcome") == NOT_OVER))
        if len(rows):
            cells = self._pending.take(rows, self._games.views(rows))
            self._actions[rows] = cells_to_actions(self._games.game, cells)
            self.steps = None if self.steps is None else self.steps + len(rows)
        self._games.step(self._actions, self._output)
        ended = np.flatnonzero(self._live & self._games.over)
        if len(ended):
            rewards, seats = self._output.rewards[ended], self._games.column("seat", ended)
            self._pending.end(ended, seats.astype(np.int8), rewards)
            self.done.count(np.where(self._both & (seats == 1), -rewards, rewards))
            self._live[ended] = False
            self._begin(ended)

    def _begin(self, slots: Int64Array) -> None:
        """Start the next games in these slots, while games remain."""
        slots = slots[: self.games - self._started]
        if not len(slots):
            return
        numbers = self._started + np.arange(len(slots))
        if self._adaptive is not None:
            running = int(self._games.column("episode", self._live).min(initial=numbers[0]))
            self._adaptive.begin(int(numbers[0]), int(numbers[-1]), running, self.learner)
        self._games.set_column("episode", slots, numbers - 1)
        self._started += len(slots)
        self._live[slots] = True
        self._games.reset(slots, self._output)

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """See :meth:`ResumableTraining.to_arrays`."""
        state = self._games.clone(include_rng=True)
        del state["games"]
        counts = (self.games, self._started, self.marked, *dataclasses.astuple(self.done))
        arrays = {
            "counts": np.array(counts, np.int64),
            "live": self._live,
            **steps_to_arrays(self.steps),
            **{f"board.{name}": array for name, array in state.items()},
            **{f"turns.{name}": array for name, array in self._pending.to_arrays().items()},
        }
        stored = {} if self._adaptive is None else self._adaptive.to_arrays()
        return arrays | {f"opponent.{name}": array for name, array in stored.items()}

    def from_arrays(self, arrays: Arrays) -> None:
        """See :meth:`ResumableTraining.from_arrays`."""
        self.steps = steps_from_arrays(arrays)
        mine = self.to_arrays()
        for name, array in mine.items():
            other = arrays.get(name)
            free = name.startswith(("opponent.", "turns.rng", "turns.logged"))  # of no fixed size
            if other is None or other.dtype != array.dtype or not (free or other.shape == array.shape):
                if name.startswith("opponent.") and "opponent.made" in arrays:
                    continue
                raise ValueError(f"the state of the training lacks {name!r}, or it is another training's")
        last_cell = self.learner.game.cells - 1
        highest = {  # larger numbers would make kernels write out of bounds
            "board.cells": 2, "board.mover": 1, "board.seat": 1, "board.stones": last_cell + 1, "board.symmetry": 0,
            "board.outcome": TRUNCATED, "turns.cells": 2, "turns.mover": 1, "turns.action": last_cell,
        }  # fmt: skip
        if isinstance(self.learner.game, PhantomGame):
            highest["board.found"] = 1
        for name, most in highest.items():
            least = NOT_OVER if name == "board.outcome" else 0
            if ((arrays[name] < least) | (arrays[name] > most)).any():
                raise ValueError(
                    f"{name!r} of the state of the training is not within {least} to {most}: it is damaged"
                )
        if int(arrays["counts"][0]) > self.games:
            raise ValueError(f"games={self.games} is fewer than the {int(arrays['counts'][0])} that were to be played")
        try:
            planned, self._started, self.marked, *done = (int(count) for count in arrays["counts"])
            running = int(np.count_nonzero(arrays["live"]))
            if min(self.marked, *done) < 0 or not self.marked <= done[0] == sum(done[1:]) == self._started - running:
                raise ValueError("its counts of games do not fit together")  # below 0 it would play for ever
            if self._started > planned:
                raise ValueError("it has started more games than there are")
            self.done = Progress(*done)
            self._live[...] = arrays["live"]
            self._games.restore({"games": self._games.config.games, **_with_prefix("board.", arrays)})
            self._pending.from_arrays(_with_prefix("turns.", arrays))
            if self._adaptive is not None:
                self._adaptive.from_arrays(_with_prefix("opponent.", arrays))
        except (KeyError, TypeError, ValueError, IndexError) as problem:
            raise ValueError(f"the state of the training is damaged: {problem}") from None
        self._begin(np.flatnonzero(~self._live))


def _with_prefix(prefix: str, arrays: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def train(
    learner: Learner,
    opponent: str | Policy,
    games: int,
    *,
    batch: int = 1,
    seed: int = 0,
    seat: SeatChoice = "alternate",
) -> Progress:
    """Train a learner on games in lockstep, from start to end.

    :class:`Training` has the same arguments, and its ``run`` measures and logs a learner while it trains.
    """
    return Training(learner, opponent, games, batch=batch, seed=seed, seat=seat).run()


def train_in(
    env: Any, learner: Learner, opponent: str | Policy, games: int, *, seed: int = 0, seat: SeatChoice = "alternate"
) -> Progress:
    """Train a learner in a PettingZoo AEC environment, one game after another.

    Args:
        env: an environment with two agents of which the first moves first, planes (rows, columns, 2) with own stones
            first, and one action per cell.
        learner: the learner, trained in place; its game's board must be the environment's.
        opponent: a spec string, a policy, or ``"self"``.
        games: total number of games.
        seed: seed of a single reset of the environment, and of opponent, seats and exploration.
        seat: the learner's.

    Raises:
        ValueError: numbers out of range, an unknown opponent or one that peeks, an unknown seat, a learner that cannot
            learn so.
    """
    check_counts(games, 1)
    check_choice("seat", seat, get_args(SeatChoice))
    both = opponent == SELF
    other = None if both else make_policy(opponent, learner.game)
    if other is not None and other.peeks:
        raise ValueError(f"{other} needs to see hidden stones, and an agent of {env} sees its own view: choose another")
    rng = make_exploration_rng(seed)
    key = training_key(seed)
    seats = {players: Seat(learner, rng, players) for players in (((0, 1),) if both else ((0,), (1,)))}
    done = Progress()
    for number in range(games):
        episode_key = np.uint64(splitmix64(key, number))
        players = (0, 1) if both else (_seat_in(seat, number, episode_key),)
        learner_seat = seats[players]
        env.reset(seed=seed if number == 0 else None)
        rewards = [0.0, 0.0]
        for agent in env.agent_iter():
            player = env.possible_agents.index(agent)
            observation, reward, terminated, truncated, _ = env.last()
            if terminated or truncated:
                rewards[player] = float(reward)
                env.step(None)
            elif player in players:
                env.step(learner_seat.turn(observation, player))
            else:
                assert other is not None
                boards = seen_from(observation, player)
                stones = np.array([np.count_nonzero(boards.cells)])
                env.step(int(act_in_episodes(other, boards, np.array([episode_key]), stones)[0]))
        learner_seat.end((rewards[0], rewards[1]))
        done.count(np.array([rewards[players[0]]]))
    return done


def make_initial_rng(seed: int) -> np.random.Generator:
    """Return the generator of a learner's initial weights and of its draws during training."""
    return make_rng(seed, SPAWN_INITIAL)


def training_key(seed: int) -> np.uint64:
    """Return the 64-bit key that an environment seeded with ``seed`` draws."""
    return draw_key(np.random.default_rng(seed))


def _seat_in(seat: SeatChoice, number: int, episode_key: np.uint64) -> int:
    """Return the learner's seat in game ``number``, as :class:`NumbaGames` chooses it."""
    if seat == "random":
        return int(uniform(episode_key, STREAM_SEAT, 0) * 2)
    return {"first": 0, "second": 1, "alternate": number % 2}[seat]


def check_counts(games: int, batch: int) -> None:
    """Raise ValueError for invalid numbers of games."""
    if games < 0:
        raise ValueError(f"games={games} is negative: choose how many games to play, 0 or more")
    if batch < 1:
        raise ValueError(f"batch={batch} leaves nothing to play: choose 1 or more games side by side")
