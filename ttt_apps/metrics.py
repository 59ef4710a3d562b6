"""Measurements of a run during training: lines of ``metrics.jsonl``, and the same as TensorBoard scalars.

At exact marks, ``choices.jsonl`` stores snapshots of the policy.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any, Self

from ttt_envs.agents.policy import Policy
from ttt_envs.core.files import open_to_write
from ttt_envs.game.phantom import AnyGame
from ttt_eval.policy_snapshots import MAX_SNAPSHOT_BYTES, next_due, snapshot_line, take_snapshot
from ttt_eval.run_files import RunDirectory

RATES = ("wins", "draws", "losses")
"""Counts since the start; TensorBoard shows their rates since the last mark."""


class RunLog:
    """Writes a line for each mark, and at exact marks snapshots of the policy, few in a long run.

    Args:
        run: the run directory.
        game: the game.
        games: number of games of the whole run.
        sizes: of a resumed run: bytes of ``metrics.jsonl`` (``size``) and ``choices.jsonl`` (``choices``) to keep; the
            rest was not checkpointed.
        done: number of games finished before; ``games_per_s`` counts later ones.
        exact: whether there are exact marks.

    Raises:
        ValueError: a link in place of a file, or one that is damaged.
    """

    def __init__(
        self,
        run: RunDirectory,
        game: AnyGame,
        games: int,
        sizes: Mapping[str, int],
        *,
        done: int = 0,
        exact: bool = False,
    ) -> None:
        self._began, self._done, self._game, self._games = time.perf_counter(), done, game, games
        self._last: Mapping[str, float] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._events: _Events | None = None
        with ExitStack() as stack:
            self._files["size"] = stack.enter_context(_open_lines(run.metrics, sizes.get("size", 0)))
            rows = run.read_metrics()
            if not all(row.keys() >= {*RATES} for row in rows):
                raise ValueError(f"{run.metrics} is damaged: each line must have {', '.join(RATES)}")
            if importlib.util.find_spec("tensorboard"):
                self._events = stack.enter_context(closing(_Events(run.events)))
            for row in rows:
                self._show(row)
            if exact:
                self._files["choices"] = stack.enter_context(_open_lines(run.choices, sizes.get("choices", 0)))
                snapshots = run.read_choices(game)
                self._due = next_due(games, snapshots[-1].games if snapshots else 0)
            self._stack = stack.pop_all()

    def write(self, games: int, measured: Mapping[str, float]) -> None:
        """Append a line of measurements."""
        rate = (games - self._done) / max(1e-9, time.perf_counter() - self._began)
        row = {"games": games, "games_per_s": rate, **measured}
        self._append("size", json.dumps(row).encode() + b"\n")
        self._show(row)

    def write_snapshot(self, games: int, learner: Policy) -> None:
        """Append a snapshot if one is due, as at the end, and there is room for it."""
        if games >= min(self._due, self._games):
            self._due = next_due(self._games, games)
            line = snapshot_line(self._game, take_snapshot(self._game, games, learner))
            if self._files["choices"].tell() + len(line) <= MAX_SNAPSHOT_BYTES:
                self._append("choices", line)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the files in bytes, as the argument, after flushing them to disk."""
        for file in self._files.values():
            os.fsync(file.fileno())
        return {name: file.tell() for name, file in self._files.items()}

    def _append(self, name: str, line: bytes) -> None:
        self._files[name].write(line)
        self._files[name].flush()

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


@contextmanager
def _open_lines(path: Path, size: int) -> Iterator[IO[bytes]]:
    """Open a file of lines to append to it after its first ``size`` bytes."""
    with open_to_write(path) as file:
        file.truncate(max(0, min(size, file.seek(0, os.SEEK_END))))
        file.seek(0, os.SEEK_END)
        yield file


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
