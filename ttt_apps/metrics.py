"""Measurements of a run during training: lines of ``metrics.jsonl``, and at its end the same as TensorBoard scalars.

At exact marks, ``choices.jsonl`` stores snapshots of the policy.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ttt_envs.agents.policy import Policy
from ttt_envs.core.files import open_to_write
from ttt_envs.game.phantom import AnyGame
from ttt_eval.policy_snapshots import MAX_SNAPSHOT_BYTES, next_due, snapshot_line, take_snapshot
from ttt_eval.run_files import RunDirectory

RATES = ("wins", "draws", "losses")
"""Counts since the start; TensorBoard shows their rates since the last mark."""


@dataclass
class RunLog:
    """Writes a line for each mark, and at exact marks snapshots of the policy, few in a long run; see :func:`open_log`.

    Attributes:
        game: the game.
        games: number of games of the whole run.
        done: number of games finished before; ``games_per_s`` counts later ones.
        files: ``metrics.jsonl``, as ``size``, and ``choices.jsonl``, as ``choices``.
        due: number of games at which a snapshot is due.
    """

    game: AnyGame
    games: int
    done: int
    files: dict[str, IO[bytes]]
    due: int = 0
    _began: float = field(default_factory=time.perf_counter)

    def write(self, games: int, measured: Mapping[str, float]) -> None:
        """Append a line of measurements."""
        rate = (games - self.done) / max(1e-9, time.perf_counter() - self._began)
        row = {"games": games, "games_per_s": rate, **measured}
        self._append("size", json.dumps(row).encode() + b"\n")

    def write_snapshot(self, games: int, learner: Policy) -> None:
        """Append a snapshot if one is due, as at the end, and there is room for it."""
        if games >= min(self.due, self.games):
            self.due = next_due(self.games, games)
            line = snapshot_line(self.game, take_snapshot(self.game, games, learner))
            if self.files["choices"].tell() + len(line) <= MAX_SNAPSHOT_BYTES:
                self._append("choices", line)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the files in bytes, after flushing them to disk."""
        for file in self.files.values():
            os.fsync(file.fileno())
        return {name: file.tell() for name, file in self.files.items()}

    def _append(self, name: str, line: bytes) -> None:
        self.files[name].write(line)
        self.files[name].flush()


@contextmanager
def open_log(
    run: RunDirectory, game: AnyGame, games: int, sizes: Mapping[str, int], *, done: int = 0, exact: bool = False
) -> Iterator[RunLog]:
    """Open the log of a run.

    Args:
        run: the run directory.
        game, games, done: see :class:`RunLog`.
        sizes: of a resumed run: bytes of ``metrics.jsonl`` (``size``) and ``choices.jsonl`` (``choices``) to keep; the
            rest was not checkpointed.
        exact: whether there are exact marks.

    Raises:
        ValueError: a link in place of a file, or one that is damaged.
    """
    with ExitStack() as stack:
        files = {"size": stack.enter_context(_open_lines(run.metrics, sizes.get("size", 0)))}
        if exact:
            files["choices"] = stack.enter_context(_open_lines(run.choices, sizes.get("choices", 0)))
        snapshots = run.read_choices(game) if exact else []
        yield RunLog(game, games, done, files, next_due(games, snapshots[-1].games if snapshots else 0))


@contextmanager
def _open_lines(path: Path, size: int) -> Iterator[IO[bytes]]:
    """Open a file of lines to append to it after its first ``size`` bytes."""
    with open_to_write(path) as file:
        file.truncate(max(0, min(size, file.seek(0, os.SEEK_END))))
        file.seek(0, os.SEEK_END)
        yield file


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
