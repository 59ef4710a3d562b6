"""Measurements of a run during training: lines of ``metrics.jsonl``, and the same as TensorBoard scalars."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Any, Self

from ttt_envs.core.files import open_to_write
from ttt_eval.run_files import RunDirectory

RATES = ("wins", "draws", "losses")
"""Counts since the start; TensorBoard shows their rates since the last mark."""


class RunLog:
    """Writes a line for each mark.

    Args:
        run: the run directory.
        size: of a resumed run: bytes of ``metrics.jsonl`` to keep; the rest was not checkpointed.
        done: number of games finished before; ``games_per_s`` counts later ones.

    Raises:
        ValueError: a link in place of a file, or one that is damaged.
    """

    def __init__(self, run: RunDirectory, size: int = 0, *, done: int = 0) -> None:
        self._began, self._done = time.perf_counter(), done
        self._last: Mapping[str, float] = {}
        self._events: _Events | None = None
        with ExitStack() as stack:
            self._file = stack.enter_context(open_to_write(run.metrics))
            self._file.truncate(max(0, min(size, self._file.seek(0, os.SEEK_END))))
            self._file.seek(0, os.SEEK_END)
            rows = run.read_metrics()
            if not all(row.keys() >= {*RATES} for row in rows):
                raise ValueError(f"{run.metrics} is damaged: each line must have {', '.join(RATES)}")
            if importlib.util.find_spec("tensorboard"):
                self._events = stack.enter_context(closing(_Events(run.events)))
            for row in rows:
                self._show(row)
            self._stack = stack.pop_all()

    def write(self, games: int, measured: Mapping[str, float]) -> None:
        """Append a line of measurements."""
        rate = (games - self._done) / max(1e-9, time.perf_counter() - self._began)
        row = {"games": games, "games_per_s": rate, **measured}
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        self._show(row)

    def size(self) -> int:
        """Return the size of the file in bytes, as the argument, after flushing it to disk."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def _show(self, row: Mapping[str, float]) -> None:
        if self._events is not None:
            games = row["games"] - self._last.get("games", 0)
            scalars = {name: value for name, value in row.items() if name not in ("games", *RATES)}
            for name in RATES:
                scalars[f"rate/{name}"] = (row[name] - self._last.get(name, 0)) / max(1, games)
            self._events.write(int(row.get("iterations", row["games"])), scalars)
        self._last = row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


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
