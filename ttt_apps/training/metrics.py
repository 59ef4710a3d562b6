"""Measurements of a run during training: lines of ``metrics.jsonl``, and the same as TensorBoard
scalars.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import open_to_write, rewrite
from ttt_eval.runs.run_files import RunDirectory
from ttt_eval.store.metrics import COUNTS


@dataclass
class RunLog:
    """Writes a line of ``metrics.jsonl`` for each mark; see :func:`open_log`.

    Attributes:
        file: ``metrics.jsonl``, at its end.
        first_games: number of games finished before; ``games_per_s`` counts later ones.
        show: writes the scalars of a step as an event.
    """

    file: IO[bytes]
    first_games: int
    show: Callable[[int, Mapping[str, float]], None]
    _last: Mapping[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.perf_counter)

    def write(self, games: int, numbers: Mapping[str, float]) -> None:
        """Append a line of measurements."""
        rate = (games - self.first_games) / max(1e-9, time.perf_counter() - self._began)
        row = {"games": games, "games_per_s": rate, **numbers}
        self.file.write(json.dumps(row).encode() + b"\n")
        self.file.flush()
        self.show_row(row)

    def size(self) -> int:
        """Return the size of the file in bytes, after flushing it to disk."""
        os.fsync(self.file.fileno())
        return self.file.tell()

    def show_row(self, row: Mapping[str, float]) -> None:
        """Write a line's numbers as an event, counts as their rates since the last mark."""
        games = row["games"] - self._last.get("games", 0)
        scalars = {name: value for name, value in row.items() if name not in ("games", *COUNTS)}
        for name in COUNTS:
            scalars[f"rate/{name}"] = (row[name] - self._last.get(name, 0)) / max(1, games)
        self.show(int(row.get("iterations", row["games"])), scalars)
        self._last = row


@contextmanager
def open_log(run: RunDirectory, size: int = 0, *, games: int = 0) -> Iterator[RunLog]:
    """Open the log of a run.

    Args:
        run: the run directory.
        size: of a resumed run: bytes of ``metrics.jsonl`` to keep; the rest was not checkpointed.
        games: number of games finished before.

    Raises:
        ValueError: a link in place of a file, or one that is damaged.
    """
    rewrite(run.metrics, size)
    with open_to_write(run.metrics) as file:
        file.seek(0, os.SEEK_END)
        rows = run.read_metrics()
        if not all(row.keys() >= {*COUNTS} for row in rows):
            raise Refusal(f"{run.metrics} is damaged: each line must have {', '.join(COUNTS)}")
        with _open_events(run.events) as show:
            log = RunLog(file, games, show)
            for row in rows:
                log.show_row(row)
            yield log


@contextmanager
def _open_events(path: Path) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Open a new file of TensorBoard events, by tensorboard's own records without importing
    TensorFlow.

    Yield a function that writes the scalars of a step; nothing without tensorboard.
    """
    if not importlib.util.find_spec("tensorboard"):
        yield lambda step, scalars: None
        return
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    rewrite(path)
    with open_to_write(path) as file:
        records = RecordWriter(file)

        def write(step: int, scalars: Mapping[str, float]) -> None:
            values = [
                Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()
            ]
            event = Event(wall_time=time.time(), step=step, summary=Summary(value=values))
            records.write(event.SerializeToString())
            file.flush()

        records.write(
            Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString()
        )
        yield write
