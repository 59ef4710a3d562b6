"""Files in the folder ``live`` of a run in progress: its state for a page that watches it, and requests to stop.

The folder exists while the run is in progress. A page touches ``watched`` there every few seconds, and only then the
run writes ``now.json`` about once a second. A process with write access can make ``stop``: the run then ends as after
Ctrl-C. Files reach runs of other terminals, sweeps and machines that share the folder, and name no process by its
number, which another one may have by now.

Nothing here changes what is learned: the learner is asked for its moves as at an exact measurement, and all random
numbers are of a generator of their own.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import deque
from contextlib import suppress
from typing import Any, Self

import numpy as np

from learners.training import SPAWN_SAMPLE, Progress, make_rng
from ttt_apps.board import LiveGame
from ttt_apps.train_options import Options
from ttt_envs.agents.policy import Policy, act
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import write_atomically
from ttt_envs.core.random import draw_key
from ttt_envs.game.phantom import AnyGame, refuse_hidden
from ttt_eval.exact.strength import first_choice
from ttt_eval.run_files import NOW, STOP, WATCHED, RunDirectory

POLL_S = 0.5
"""Seconds between two looks at the files of those who watch."""
UPDATE_S = 1.0
"""Seconds between two updates for those who watch."""
WATCHED_S = 10.0
"""Seconds after the last touch for which a run counts as watched."""
SAMPLE_S = 2.0
"""Minimum seconds between two sample games."""
SAMPLE_SHARE = 0.01
"""Maximum share of the time that sample games take."""
RATE_POINTS = 20
"""Number of looks over which games per second are measured."""
PLACES = 4
"""Number of decimal places of probabilities and values."""


class LiveRun:
    """A context in which a run can be watched.

    Problems with the files do not disturb the run.

    Args:
        directory: the locked run directory.
        options: the options of the training.
        game: its game.
        resumes: whether the run continues from its checkpoint after a stop.

    Attributes:
        stop_asked: whether somebody who watches has asked the run to stop.
    """

    def __init__(self, directory: RunDirectory, options: Options, game: AnyGame, resumes: bool) -> None:
        self.stop_asked = False
        self._folder, self._options, self._game = directory.live, options, game
        self._resumes = resumes
        self._sampler = _Sampler(game, options)
        self._done, self._phase, self._heartbeat = Progress(), "", 0
        self._looked_at, self._touched, self._touched_at = 0.0, 0, -np.inf
        self._rate: deque[tuple[float, int]] = deque(maxlen=RATE_POINTS)
        self._written_at = -np.inf

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def begin(self, phase: str, learner: Policy | None = None) -> None:
        """Begin a phase of the run; while the learner changes in place, sample games are played by ``learner``."""
        self._look()
        watched = self._is_watched()
        if watched:
            self._sampler.play(self._done.games, at_once=True)  # by the learner of the last phase, as it is at its end
        self._phase = phase
        self._rate.clear()
        self._sampler.learner = learner
        if watched:
            self._write()

    def update(self, done: Progress) -> None:
        """Take the progress after a step, and tell it about once a second if the run is watched."""
        self._done = done
        now = time.monotonic()
        if now - self._looked_at < POLL_S:
            return
        self._rate.append((now, done.games))
        self._look()
        if self._is_watched() and now - self._written_at >= UPDATE_S:
            self._sampler.play(done.games)
            self._write()

    def show_learner(self, games: int, learner: Policy) -> dict[str, float]:
        """Play a sample game at a mark, by a learner that cannot be asked at any time; measure nothing."""
        if self._is_watched():
            self._sampler.learner = learner
            self._sampler.play(games)
            self._sampler.learner = None
        return {}

    def _look(self) -> None:
        """Look for those who watch, and for a request to stop."""
        self._looked_at = time.monotonic()
        with suppress(OSError):
            self.stop_asked = self.stop_asked or (self._folder / STOP).exists()
            # a change is looked for, because the clocks of two machines may differ
            touched = (self._folder / WATCHED).stat().st_mtime_ns
            if touched != self._touched:
                self._touched, self._touched_at = touched, self._looked_at

    def _is_watched(self) -> bool:
        return time.monotonic() - self._touched_at < WATCHED_S

    def _games_per_s(self) -> float | None:
        if len(self._rate) < 2:
            return None
        (began, first), (now, last) = self._rate[0], self._rate[-1]
        return (last - first) / (now - began)

    def _write(self) -> None:
        """Write ``now.json``; docs/files.md documents the keys."""
        self._written_at = time.monotonic()
        self._heartbeat += 1
        done, total, rate = self._done, self._options.games, self._games_per_s()
        data = {
            "format": 1,
            "heartbeat": self._heartbeat,
            "phase": self._phase,
            "games": done.games,
            "total": total,
            "wins": done.wins,
            "draws": done.draws,
            "losses": done.losses,
            "games_per_s": rate,
            "seconds_left": max(0, total - done.games) / rate if rate else None,
            "stopping": self.stop_asked,
            "resumes": self._resumes,
            "sample": self._sampler.found,
        }
        content = json.dumps(data).encode()
        with suppress(OSError):
            write_atomically(self._folder / NOW, lambda file: file.write(content), durable=False)


class _Sampler:
    """Plays a game now and then, and holds it with the learner's choice on the empty board.

    Args:
        game: the game.
        options: the options of the training.

    Attributes:
        learner: the learner; None while it cannot be asked.
        found: the last game, JSON-ready; None before the first.
    """

    def __init__(self, game: AnyGame, options: Options) -> None:
        self.learner: Policy | None = None
        self.found: dict[str, Any] | None = None
        self._game, self._options = game, options
        self._opponent: Policy | None = None
        self._number = 0
        self._due = -np.inf

    def play(self, games: int, *, at_once: bool = False) -> None:
        """Play a game after ``games`` games of the training, if one is due or wanted at once."""
        if self.learner is None or (time.monotonic() < self._due and not at_once):
            return
        began = time.process_time()  # a busy machine must not make games rarer
        try:
            self.found = self._play(self.learner, games)
        except ValueError:  # a learner that has diverged: its training reports it
            self.learner = None
        self._due = time.monotonic() + max(SAMPLE_S, (time.process_time() - began) / SAMPLE_SHARE)

    def _play(self, learner: Policy, games: int) -> dict[str, Any]:
        options = self._options
        if self._number == 0 and options.met is not None:
            met = make_policy(options.met, self._game)
            self._opponent = met if met.pure else None  # others may be programs, or take long
        seat = {"first": 0, "second": 1}.get(options.seat, self._number % 2)
        self._number += 1
        rng = make_rng(options.seed, SPAWN_SAMPLE, games)
        live = LiveGame(refuse_hidden(self._game), draw_key(rng), 0)
        while live.outcome is None:
            mover = learner if self._opponent is None or live.mover == seat else self._opponent
            live.move(int(act(mover, live.boards, rng)[0]))
        names = [options.learner if self._opponent is None else str(options.met)] * 2
        names[seat] = options.learner
        first = first_choice(self._game, learner, solution=None)
        own = None if first.own is None else first.own.round(PLACES) + 0.0
        return {
            "games": games,
            "game": live.played((names[0], names[1]), options.seed, {}).to_dict(),
            "last": live.last_cells(),
            "probabilities": [round(float(share), PLACES) for share in first.probabilities],
            "values": None if own is None or not np.isfinite(own).all() else own.tolist(),
        }
