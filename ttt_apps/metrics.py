"""Measurements of a run during training: lines of ``metrics.jsonl``, and at its end the same as TensorBoard scalars."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from ttt_envs.core.files import open_to_write
from ttt_eval.run_files import RunDirectory

RATES = ("wins", "draws", "losses")
"""Counts since the start; TensorBoard shows their rates since the last mark."""


@dataclass
class RunLog:
    """Writes a line of ``metrics.jsonl`` for each mark; see :func:`open_log`.

    Attributes:
        file: ``metrics.jsonl``, at its end.
        done: number of games finished before; ``games_per_s`` counts later ones.
    """

    file: IO[bytes]
    done: int
    _began: float = field(default_factory=time.perf_counter)

    def write(self, games: int, measured: Mapping[str, float]) -> None:
        """Append a line of measurements."""
        rate = (games - self.done) / max(1e-9, time.perf_counter() - self._began)
        row = {"games": games, "games_per_s": rate, **measured}
        self.file.write(json.dumps(row).encode() + b"\n")
        self.file.flush()

    def size(self) -> int:
        """Return the size of the file in bytes, after flushing it to disk."""
        os.fsync(self.file.fileno())
        return self.file.tell()


@contextmanager
def open_log(run: RunDirectory, size: int = 0, *, done: int = 0) -> Iterator[RunLog]:
    """Open the log of a run.

    Args:
        run: the run directory.
        size: of a resumed run: bytes of ``metrics.jsonl`` to keep; the rest was not checkpointed.
        done: see :class:`RunLog`.

    Raises:
        ValueError: a link in place of a file, or one that is damaged.
    """
    with open_to_write(run.metrics) as file:
        file.truncate(max(0, min(size, file.seek(0, os.SEEK_END))))
        file.seek(0, os.SEEK_END)
        yield RunLog(file, done)


def write_events(run: RunDirectory) -> None:
    """Write the lines of ``metrics.jsonl`` as TensorBoard events, by tensorboard's own records without TensorFlow.

    Without tensorboard do nothing.

    Raises:
        ValueError: damaged lines.
    """
    rows = run.read_metrics()
    if not all(row.keys() >= {*RATES} for row in rows):
        raise ValueError(f"{run.metrics} is damaged: each line must have {', '.join(RATES)}")
    if not importlib.util.find_spec("tensorboard"):
        return
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    with open_to_write(run.events) as file:
        file.truncate(0)
        records = RecordWriter(file)
        records.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        for last, row in itertools.pairwise([dict[str, float](), *rows]):
            scalars = {name: value for name, value in row.items() if name not in ("games", *RATES)}
            games = max(1, row["games"] - last.get("games", 0))
            scalars |= {f"rate/{name}": (row[name] - last.get(name, 0)) / games for name in RATES}
            values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
            step, summary = int(row.get("iterations", row["games"])), Summary(value=values)
            records.write(Event(wall_time=time.time(), step=step, summary=summary).SerializeToString())
