"""Measurements of a run during training: lines of ``metrics.jsonl``, and the same as TensorBoard scalars.

At exact marks, ``choices.jsonl`` stores snapshots of the policy.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from ttt_envs.agents.policy import Policy
from ttt_envs.core.files import open_to_write
from ttt_envs.game.phantom import AnyGame
from ttt_eval.policy_snapshots import MAX_SNAPSHOT_BYTES, next_due, snapshot_line, take_snapshot
from ttt_eval.run_files import RunDirectory

RATES = ("wins", "draws", "losses")
"""Counts since the start; TensorBoard shows their rates since the last mark."""


class _LineWriter:
    """A file of lines, appended to after its first ``size`` bytes."""

    def __init__(self, path: Path, size: int) -> None:
        self._lines: IO[bytes] = open_to_write(path)
        self._lines.truncate(max(0, min(size, self._lines.seek(0, os.SEEK_END))))
        self._lines.seek(0, os.SEEK_END)

    def _append(self, line: bytes) -> None:
        self._lines.write(line)
        self._lines.flush()

    def size(self) -> int:
        """Return the size of the file in bytes, after flushing it to disk."""
        os.fsync(self._lines.fileno())
        return self._lines.tell()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Metrics(_LineWriter):
    """Writes one line for each mark.

    Args:
        run: the run directory.
        size: number of bytes of ``metrics.jsonl`` to keep in a resumed run; the rest was not checkpointed.
        games: number of games finished before; ``games_per_s`` counts later ones.

    Raises:
        ValueError: a link in place of a file, or a ``metrics.jsonl`` that is damaged.
    """

    def __init__(self, run: RunDirectory, size: int = 0, games: int = 0) -> None:
        self._began, self._games = time.perf_counter(), games
        self._events: _Events | None = None
        super().__init__(run.metrics, size)
        try:
            before = run.read_metrics()
            for row in before:
                if not row.keys() >= set(RATES):
                    raise ValueError(f"{run.metrics} is damaged: each line must have {', '.join(RATES)}")
            self._events = _Events(run.events) if importlib.util.find_spec("tensorboard") else None
            self._last: Mapping[str, float] = {}
            for row in before:
                self._show(row)
        except BaseException:
            self.close()
            raise

    def write(self, games: int, measured: Mapping[str, float]) -> None:
        """Append a line."""
        rate = (games - self._games) / max(1e-9, time.perf_counter() - self._began)
        row = {"games": games, "games_per_s": rate, **measured}
        self._append(json.dumps(row).encode() + b"\n")
        self._show(row)

    def _show(self, row: Mapping[str, float]) -> None:
        if self._events is not None:
            games = row["games"] - self._last.get("games", 0)
            scalars = {name: value for name, value in row.items() if name not in ("games", *RATES)}
            for name in RATES:
                scalars[f"rate/{name}"] = (row[name] - self._last.get(name, 0)) / max(1, games)
            self._events.write(int(row.get("iterations", row["games"])), scalars)
        self._last = row

    def close(self) -> None:
        """Close the files."""
        super().close()
        if self._events is not None:
            self._events.close()


class SnapshotWriter(_LineWriter):
    """Writes snapshots of a learner's policy at exact marks, few in a long run: see :mod:`ttt_eval.policy_snapshots`.

    Args:
        run: the run directory.
        game: the game.
        games: of the whole run; a snapshot at its end is always written.
        size: number of bytes of ``choices.jsonl`` to keep in a resumed run, as of :class:`Metrics`.

    Raises:
        ValueError: a link in place of the file, or one that is damaged.
    """

    def __init__(self, run: RunDirectory, game: AnyGame, games: int, size: int = 0) -> None:
        self._game, self._games = game, games
        super().__init__(run.choices, size)
        try:
            before = run.read_choices(game)
        except BaseException:
            self.close()
            raise
        self._due = next_due(games, before[-1].games if before else 0)

    def write(self, games: int, learner: Policy) -> None:
        """Append a snapshot if one is due and there is room for it."""
        if games < min(self._due, self._games):
            return
        self._due = next_due(self._games, games)
        line = snapshot_line(self._game, take_snapshot(self._game, games, learner))
        if self._lines.tell() + len(line) <= MAX_SNAPSHOT_BYTES:
            self._append(line)


class _Events:
    """A new file of TensorBoard events, written by tensorboard's own records without importing TensorFlow."""

    def __init__(self, path: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event: Any = Event
        self._summary: Any = Summary
        self._file: IO[bytes] = open_to_write(path)
        self._file.truncate(0)
        self._records: Any = RecordWriter(self._file)
        self._records.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        event = self._event(wall_time=time.time(), step=step, summary=self._summary(value=values))
        self._records.write(event.SerializeToString())
        self._file.flush()

    def close(self) -> None:
        self._file.close()
