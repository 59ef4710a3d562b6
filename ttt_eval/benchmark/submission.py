"""Submissions to the benchmark: a file of tables of policies, which anybody can score again.

A submission is a file ``NAME.npz`` of ``numpy.savez_compressed``, or a folder with one named ``submission.npz``::

    submission                                 uint8: JSON text, who learned, and how: see Head
    TASK/seed-S/run                            uint8: JSON text, cost and returns of a run: see RunRecord
    TASK/seed-S/steps-NNNNNN/probabilities     [N, cells]: the policy after so many environment steps
    TASK/seed-S/steps-NNNNNN/values            float[N]: its values for the mover, if it has them

A table has a row for each position of :func:`~ttt_eval.benchmark.policy_table.list_positions`, and probabilities are
float[N, cells], or unsigned numbers in proportion to them. Where a task shows the skip chance, there is a table for
each skip chance that is scored: ``TASK/seed-S/steps-NNNNNN/skip-0.1/probabilities``. What is read here is not trusted:
nothing is executed, links are refused, and sizes are bounded.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, json
from numpy.typing import NDArray

from ttt_envs.core.checks import quote
from ttt_envs.core.files import open_to_read, write_atomically
from ttt_envs.game.game import Game
from ttt_eval.benchmark.policy_table import PARTS, PolicyTable, position_codes
from ttt_eval.benchmark.records import RunRecord, Submission
from ttt_eval.benchmark.tasks import TASKS, Task, find_task

FILE = "submission.npz"
"""The submission in a folder."""
HEAD, RECORD = "submission", "run"
MAX_FILE_BYTES, MAX_TEXT_BYTES, MAX_ARRAYS = 1 << 33, 1 << 16, 20_000
BYTES_PER_NUMBER = 8
_ARRAY = re.compile(r"([\w-]+)/seed-(0|[1-9]\d?)/(?:run|steps-(\d{6})(?:/skip-[\d.]+)?/(?:probabilities|values))")
Record = TypeVar("Record")


class Head(Struct, frozen=True):
    """The version of the benchmark, and what a submission says of itself."""

    submission: Submission
    benchmark: Literal["ttt-exact"]
    version: Literal["v1"]


class Run(NamedTuple):
    """A run in a submission."""

    task: Task
    seed: int
    checkpoints: tuple[int, ...]
    """the numbers of steps after which its policy is stored, ascending"""

    def tables(self, steps: int) -> dict[str, Game]:
        """Return the tables after so many steps: for each game that is scored if it is shown, else for the first."""
        name = f"{self.task.name}/seed-{self.seed}/steps-{steps:06d}"
        if not self.task.observe_skip_chance:
            return {name: self.task.games[0]}
        return {f"{name}/skip-{game.skip_chance:g}": game for game in self.task.games}

    @property
    def record(self) -> str:
        """The name of its record."""
        return f"{self.task.name}/seed-{self.seed}/{RECORD}"


@dataclass(frozen=True)
class SubmissionFile:
    """An open submission; its arrays are read when they are asked for.

    Raises:
        ValueError: it has something that no submission has, or lacks what all have.
    """

    path: Path
    archive: zipfile.ZipFile

    @cached_property
    def submission(self) -> Submission:
        """What it says of itself."""
        return self._read_record(HEAD, Head).submission

    @cached_property
    def _entries(self) -> dict[str, zipfile.ZipInfo]:
        entries = self.archive.infolist()
        if len(entries) > MAX_ARRAYS:
            raise ValueError(f"{self.path} has more than {MAX_ARRAYS:,} arrays: a submission has fewer")
        named = {entry.filename.removesuffix(".npy"): entry for entry in entries}
        if len(named) < len(entries):
            raise ValueError(f"{self.path} has two arrays of the same name: remove one")
        return named

    @cached_property
    def runs(self) -> Sequence[Run]:
        """Its runs, by task and seed; their arrays are not read."""
        steps: dict[tuple[str, int], set[int]] = {}
        for match in filter(None, map(_ARRAY.fullmatch, self._entries)):
            steps.setdefault((match[1], int(match[2])), set()).update([int(match[3])] if match[3] else [])
        runs = [Run(find_task(task), seed, tuple(sorted(marks))) for (task, seed), marks in steps.items()]
        allowed = {HEAD}
        for run in runs:
            self._check_run(run)
            tables = (name for marks in run.checkpoints for name in run.tables(marks))
            allowed |= {run.record, *(f"{name}/{part}" for name in tables for part in PARTS)}
        if others := self._entries.keys() - allowed:
            raise ValueError(f"{self.path} has {quote(min(others))}, which is no array of a submission: remove it")
        return sorted(runs, key=lambda run: (TASKS.index(run.task), run.seed))

    def _check_run(self, run: Run) -> None:
        """Raise ValueError if it has no checkpoint, too many, later ones than its task, or lacks a table of one."""
        task, marks = run.task, run.checkpoints
        if task.uses_runs_of is not None:
            raise ValueError(f"{self.path} has runs of {task.name}, which is scored from those of {task.uses_runs_of}")
        if not 1 <= len(marks) <= len(task.checkpoints) or marks[0] < 1 or marks[-1] > task.steps:
            raise ValueError(
                f"{self.path} has {len(marks)} checkpoints of {run.record}, and the task has {len(task.checkpoints)} "
                f"within {task.steps:,} steps: store policies at those"
            )
        for name in (name for steps in marks for name in run.tables(steps)):
            if f"{name}/probabilities" not in self._entries:
                raise ValueError(f"{self.path} lacks {name}/probabilities: add it")

    def read_run(self, run: Run) -> RunRecord:
        """Return what the submission says of a run; nothing if it has no record.

        Raises:
            ValueError: an invalid record.
        """
        return self._read_record(run.record, RunRecord) if run.record in self._entries else RunRecord()

    def read_tables(self, run: Run, steps: int) -> list[PolicyTable]:
        """Read the tables of a checkpoint.

        Raises:
            ValueError: they are no tables of policies for the games of the task.
        """
        return [self._read_table(run.task, name, game) for name, game in run.tables(steps).items()]

    def _read_table(self, task: Task, name: str, game: Game) -> PolicyTable:
        most = len(position_codes(game, task.seats)) * game.cells * BYTES_PER_NUMBER
        stored = [part for part in PARTS if f"{name}/{part}" in self._entries]
        arrays = {part: self._read_array(f"{name}/{part}", most) for part in stored}
        try:
            return PolicyTable(game, **arrays, seats=task.seats, masked=not task.hides_masks)
        except ValueError as problem:
            raise ValueError(f"{name} of {self.path} is no table of a policy: {problem}") from None

    def _read_record(self, name: str, kind: type[Record]) -> Record:
        if name not in self._entries:
            raise ValueError(f"{self.path} is no submission: it has no array {name}")
        try:
            return json.decode(self._read_array(name, MAX_TEXT_BYTES).tobytes(), type=kind)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"{name} of {self.path} cannot be read: {problem}") from None

    def _read_array(self, name: str, most: int) -> NDArray[Any]:
        """Return an array of at most so many bytes.

        Raises:
            ValueError: a larger or malformed one.
        """
        entry = self._entries[name]
        try:
            if entry.file_size > most + MAX_TEXT_BYTES:
                raise ValueError(f"it unpacks to {entry.file_size:,} bytes, and at most {most:,} are read")
            with self.archive.open(entry) as part:
                array: NDArray[Any] = np.lib.format.read_array(part, allow_pickle=False)
            return array
        except Exception as problem:  # a malformed zip or array header can raise many exceptions
            why = str(problem).partition("\n")[0][:200] or type(problem).__name__
            raise ValueError(f"{name} of {self.path} cannot be read: {why}") from None


@contextmanager
def open_submission(path: Path) -> Iterator[SubmissionFile]:
    """Open a submission, a file or a folder that has one.

    Raises:
        OSError: it cannot be opened.
        ValueError: there is none, or it is a link, too large, or no file of arrays.
    """
    path = path / FILE if path.is_dir() else path
    try:
        file = open_to_read(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        raise ValueError(f"{path} is no submission: there is no such file") from None
    with file:
        try:
            archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as problem:
            raise ValueError(f"{path} is no submission, a file of arrays: {problem}") from None
        yield SubmissionFile(path, archive)


def check_submission(stored: SubmissionFile) -> None:
    """Read all arrays.

    Raises:
        ValueError: something in the submission is invalid.
    """
    _ = stored.submission
    if not stored.runs:
        raise ValueError(f"{stored.path} has no run: evaluate.py bench run makes some")
    for run in stored.runs:
        stored.read_run(run)
        for steps in run.checkpoints:
            stored.read_tables(run, steps)


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def encode_record(record: Submission | RunRecord) -> NDArray[np.uint8]:
    """Return the array of a record.

    Raises:
        ValueError: it cannot be read again: a value is out of range, is no line of text, or is too long.
    """
    content = Head(record, "ttt-exact", "v1") if isinstance(record, Submission) else record
    try:
        text = json.encode(content)
    except (OverflowError, TypeError) as problem:  # such as of an integer of more than 64 bits
        raise ValueError(f"the submission cannot be written: {problem}") from None
    if len(text) > MAX_TEXT_BYTES:
        raise ValueError(f"a submission says at most {MAX_TEXT_BYTES:,} bytes: give it fewer hyperparameters")
    json.decode(text, type=type(content))
    return np.frombuffer(text, np.uint8)


def join_runs(path: Path, submission: Submission, runs: Sequence[Path]) -> None:
    """Write a submission of the arrays in the files of runs."""

    def write(file: Any) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:  # entries opened here have no date
            with archive.open(f"{HEAD}.npy", "w") as entry:
                np.lib.format.write_array(entry, encode_record(submission), allow_pickle=False)
            for run in runs:
                with zipfile.ZipFile(run) as part:
                    for name in part.namelist():
                        with archive.open(name, "w") as entry:
                            entry.write(part.read(name))

    write_atomically(path, write)
