"""A run in progress, read from its directory: little at a time, and with bounded memory however long it goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ttt_envs.core.files import open_to_read, open_to_write, parse_json, read_bounded
from ttt_envs.game.boards import MOVERS, Boards, to_text, winning_line_cells
from ttt_envs.game.game import MAX_EDGE, Game
from ttt_envs.game.phantom import AnyGame, game_from_dict
from ttt_envs.game.rules import DRAW
from ttt_eval.matches.games import PlayedGame
from ttt_eval.result_store import UNITS
from ttt_eval.run_files import NOW, STOP, WATCHED, RunDirectory, parse_metrics_line

MAX_POINTS = 400
"""Maximum number of points of a curve."""
MAX_MEASURES = 24
"""Maximum number of curves of a run."""
MAX_NAME = 60
"""Maximum length of a measurement's name in characters."""
MAX_NOW_BYTES = 1 << 16
"""Maximum size of ``now.json`` in bytes."""
CHUNK_BYTES = 1 << 20
"""Maximum number of bytes of ``metrics.jsonl`` that are read at once, and maximum length of a line."""
PREFERRED = ("exploitability", "regret", "win rate", "loss")
"""Curves that come first."""
SILENT_S = 15.0
"""Seconds without an update after which a run is said to be silent."""
RATES = {"wins": "win rate", "draws": "draw rate", "losses": "loss rate"}
"""Counts since the start, and the names of their rates since the previous mark."""

State = Literal["starting", "compiling", "training", "evaluation", "silent", "finished", "stopped"]


class Series:
    """Points of a curve, thinned out evenly as they become many; the last one is always there."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._last: tuple[float, float] | None = None
        self._count, self._stride = 0, 1
        self.least = 0.0

    def add(self, games: float, value: float) -> None:
        """Append a point."""
        self._last = (games, value)
        self.least = min(self.least, value)
        if self._count % self._stride == 0:
            self._points.append(self._last)
            if len(self._points) > MAX_POINTS:
                self._points = self._points[::2]
                self._stride *= 2
        self._count += 1

    def points(self) -> list[tuple[float, float]]:
        """Return at most ``MAX_POINTS`` + 1 points, in order of games."""
        points = self._points
        return points if self._last is None or points[-1] == self._last else [*points, self._last]

    @property
    def last(self) -> float | None:
        """The last value."""
        return None if self._last is None else self._last[1]


class MetricsTail:
    """The curves of a growing ``metrics.jsonl``.

    Args:
        path: the file, which may not exist yet.

    Attributes:
        curves: the curves by name.
        games: games at the last mark, 0 without one.
        version: changes with the curves.
        problem: why no more is read; None if nothing is wrong.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.version = 0
        self._restart()

    def _restart(self) -> None:
        self.curves: dict[str, Series] = {}
        self.games = 0.0
        self.problem: str | None = None
        self._position, self._inode = 0, -1
        self._before: Mapping[str, float] = {}
        self.version += 1

    def read(self) -> None:
        """Read new lines, at most ``CHUNK_BYTES``; read from the start if the file is another one."""
        try:
            found = self._path.lstat()
        except OSError:
            if self._inode != -1:
                self._restart()
            return
        if found.st_ino != self._inode or found.st_size < self._position:
            self._restart()
            self._inode = found.st_ino
        if self.problem is not None or found.st_size == self._position:
            return
        try:
            with open_to_read(self._path) as file:
                file.seek(self._position)
                chunk = file.read(CHUNK_BYTES)
            whole = chunk[: chunk.rfind(b"\n") + 1]  # the last line may be written just now
            if not whole and len(chunk) == CHUNK_BYTES:
                raise ValueError("has a line that is too long")
            for line in whole.splitlines():
                row = parse_metrics_line(line)
                if row["games"] < self.games:  # a resumed run has cut the file meanwhile, and written on
                    self._restart()
                    return
                self._add(row)
        except (OSError, ValueError) as problem:
            if self._position:
                self._restart()
            else:
                self.problem = f"{self._path.name} {problem}"
            return
        self._position += len(whole)
        self.version += bool(whole)

    def _add(self, row: Mapping[str, float]) -> None:
        games, before = row["games"], self._before
        measured = {name: value for name, value in row.items() if name not in ("games", *RATES)}
        for name, rate in RATES.items():
            if name in row and games > before.get("games", 0):
                measured[rate] = (row[name] - before.get(name, 0)) / (games - before.get("games", 0))
        for name, value in measured.items():
            if name in self.curves or len(self.curves) < MAX_MEASURES:
                self.curves.setdefault(name[:MAX_NAME], Series()).add(games, value)
        self.games, self._before = games, {name: row[name] for name in ("games", *RATES) if name in row}

    def measures(self) -> list[str]:
        """Return the names of the curves that can be drawn, those that are never negative; the most telling first."""
        names = [name for name, curve in self.curves.items() if curve.least >= 0]
        return sorted(names, key=lambda name: PREFERRED.index(name) if name in PREFERRED else len(PREFERRED))


Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Number = Annotated[float, Field(ge=0, le=1e12)]
Cells = Field(max_length=MAX_EDGE * MAX_EDGE)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class Sample(_Strict):
    """A sample game, and the learner's choice on the empty board."""

    games: Count
    game: dict[str, Any]
    last: Annotated[list[Annotated[int, Field(ge=0, lt=MAX_EDGE * MAX_EDGE)]], Cells]
    probabilities: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Cells]
    values: Annotated[list[Annotated[float, Field(ge=-1e6, le=1e6)]], Cells] | None


class Now(_Strict):
    """The content of ``now.json``."""

    heartbeat: Count
    phase: Literal["compiling", "training", "evaluation"]
    games: Count
    total: Count
    games_per_s: Number | None
    seconds_left: Number | None
    stopping: bool
    resumes: bool
    sample: Sample | None


class RunReader:
    """Reads a run, and tells it that it is watched.

    Args:
        path: the run directory.
        name: name for those who watch.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._run = RunDirectory(path)
        self._metrics = MetricsTail(self._run.metrics)
        self._config: dict[str, Any] = {}
        self._game: AnyGame = Game()
        self._config_time = self._choices_time = self._beat = -1
        self._now: Now | None = None
        self._heard = time.monotonic()
        self._live = False
        self._shown: dict[str, Any] | None = None
        self._first: dict[str, Any] | None = None
        self._problem: str | None = None

    def refresh(self) -> None:
        """Read what is new, and tell the run that it is watched."""
        try:
            self._read_config()
            self._metrics.read()
            live = self._run.live.is_dir() and not self._run.live.is_symlink()
            if live:
                if not self._live:  # it has begun, and has a while to answer
                    self._heard, self._now = time.monotonic(), None
                self._touch_watched()
                self._read_now()
            self._live = live
            if not live:
                self._read_choices()
            self._problem = self._metrics.problem
        except (OSError, ValueError, TypeError) as problem:
            self._problem = str(problem).partition("\n")[0]

    def _read_config(self) -> None:
        changed = self._run.config.stat().st_mtime_ns
        if changed != self._config_time:
            config = self._run.read_config()
            self._game = game_from_dict(config["game"])
            self._config, self._config_time = config, changed
            self._now = self._shown = self._first = None
            self._choices_time = -1

    def _touch_watched(self) -> None:
        """Tell the run that it is watched; a folder that may not be written shows what is stored nevertheless."""
        path = self._run.live / WATCHED
        with suppress(OSError, ValueError), open_to_write(path) as file:
            os.utime(file.fileno() if os.utime in os.supports_fd else path)

    def _read_now(self) -> None:
        try:
            content = read_bounded(self._run.live / NOW, MAX_NOW_BYTES)
        except FileNotFoundError:
            return
        now = Now.model_validate(parse_json(content, MAX_NOW_BYTES))
        if self._now is not None and now.heartbeat == self._now.heartbeat:
            return
        self._heard = time.monotonic()
        if now.sample is not None and (self._now is None or now.sample != self._now.sample):
            self._shown = self._sample_json(now.sample)
            self._first = self._first_json(now.sample.games, now.sample.probabilities, now.sample.values)
        self._now = now

    def _sample_json(self, sample: Sample) -> dict[str, Any]:
        """Return a sample game, replayed by the rules."""
        played = PlayedGame.from_dict(sample.game)
        if played.game != self._game:
            raise ValueError(f"{NOW} has a game on another board")
        end = played.end()
        return {
            "games": sample.games,
            "players": [name[:100] for name in played.players],
            "position": to_text(end, played.game),
            "moves": sample.game["moves"],
            "movers": "".join(MOVERS[position.mover] for position, _, _ in played.positions()),
            "last": sample.last,
            "line": winning_line_cells(played.game, end.cells, played.result),
            "result": None if played.result is None else "draw" if played.result == DRAW else MOVERS[played.result],
        }

    def _read_choices(self) -> None:
        """Read the first move from the stored snapshots, where no run tells it."""
        try:
            changed = self._run.choices.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if changed == self._choices_time:
            return
        self._choices_time = changed
        snapshots = self._run.read_choices(self._game)
        start = to_text(Boards.start(self._game).position(0), self._game)
        for choice in snapshots[-1].choices if snapshots else []:
            if to_text(choice.position, self._game) == start:
                values = None if choice.own is None else choice.own.tolist()
                self._first = self._first_json(snapshots[-1].games, choice.probabilities.tolist(), values)

    def _first_json(self, games: int, probabilities: list[float], values: list[float] | None) -> dict[str, Any]:
        for numbers in (probabilities, values):
            if numbers is not None and len(numbers) != self._game.cells:
                raise ValueError(f"{NOW} has a first move on another board")
        return {"games": games, "probabilities": probabilities, "values": values}

    @property
    def state(self) -> State:
        """What the run does."""
        if not self._live:
            total = self._config.get("games")
            done = isinstance(total, int) and self._metrics.games >= total
            return "finished" if done else "stopped"
        if time.monotonic() - self._heard > SILENT_S:
            return "silent"
        return "starting" if self._now is None else self._now.phase

    def summary(self) -> dict[str, Any]:
        """Return the run in a few numbers, JSON-ready."""
        now, state = self._now, self.state
        last = self._metrics.curves.get("exploitability")
        going = now is not None and self._live
        return {
            "name": self.name,
            "state": state,
            "learner": str(self._config.get("learner", ""))[:100],
            "opponent": str(self._config.get("opponent", ""))[:100],
            "games": max(int(self._metrics.games), now.games if now is not None else 0),
            "total": now.total if now is not None and self._live else self._total(),
            "games_per_s": now.games_per_s if now is not None and going and state == "training" else None,
            "seconds_left": now.seconds_left if now is not None and going and state == "training" else None,
            "exploitability": None if last is None else last.last,
            "problem": self._problem,
        }

    def _total(self) -> int:
        total = self._config.get("games")
        return total if isinstance(total, int) and 0 <= total < 1 << 53 else 0

    def detail(self) -> dict[str, Any]:
        """Return the rest of the run, without its curves, JSON-ready."""
        now, game = self._now, self._game
        return {
            "game": {**game.to_dict(), "text": str(game)},
            "seed": str(self._config.get("seed", ""))[:20],
            "silent_s": round(time.monotonic() - self._heard) if self.state == "silent" else None,
            "stopping": (self._run.live / STOP).exists(),
            "stoppable": self.state in ("starting", "compiling", "training", "silent"),
            "resumes": now is None or now.resumes,
            "in_sweep": (self._run.path.resolve().parents[1] / UNITS).is_file(),
            "sample": self._shown,
            "first": self._first,
        }

    @property
    def version(self) -> int:
        """Changes with the curves."""
        return self._metrics.version

    def measures(self) -> list[str]:
        """Return the names of the curves."""
        return self._metrics.measures()

    def points(self, measure: str) -> list[tuple[float, float]]:
        """Return the points of a curve: games, and values with six digits."""
        return [(games, float(f"{value:.6g}")) for games, value in self._metrics.curves[measure].points()]

    def stop(self) -> None:
        """Ask the run to stop, as after Ctrl-C.

        Raises:
            ValueError: it is not in progress, or its folder may not be written.
        """
        if not self._run.live.is_dir():
            raise ValueError(f"{self.name} is not in progress: there is nothing to stop")
        try:
            open_to_write(self._run.live / STOP).close()
        except OSError as problem:
            raise ValueError(
                f"{self.name} cannot be stopped from here ({problem.strerror}): press Ctrl-C where it runs"
            ) from None
