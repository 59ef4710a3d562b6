"""Grades of submissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from ttt_envs.core.files import hash_json, read_bounded
from ttt_envs.version import __version__
from ttt_eval.checks import Check
from ttt_eval.checks.check import Status
from ttt_eval.grading.judges import JUDGES
from ttt_eval.grading.submission import MAX_SOURCE, SubmissionError, SubmissionProcess
from ttt_eval.grading.tasks import GradedTask

RIGHT = "right"
"""The result of a row that has its points."""
COLUMNS = ("file", "points", "score", "cpu_s", "remark")
"""Fields of a grade that tables show."""


@dataclass(frozen=True)
class Grade:
    """The grade of a submission."""

    file: str
    score: float
    """0 to 1"""
    points: float
    cpu_s: float
    """CPU s of its process, when it was last looked at"""
    remark: str
    """why it ended, its first error, or the verdict of the check"""
    earned: Mapping[str, float]
    """points of each row of the rubric"""
    results: Mapping[str, str]
    """what became of each row of the rubric, in words for the student"""
    hashes: Sequence[str]
    """of the rubric and of the file, see :func:`hash_inputs`"""
    check: Check | None = None
    """None if it could not be loaded"""
    is_filtered: bool = True
    """False if it ran, and the kernel did not deny it other processes and connections"""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        check = None if self.check is None else self.check.to_dict()
        return {**vars(self), "check": check}


def hash_inputs(path: Path, task: GradedTask) -> list[str]:
    """Return what a grade depends on, as two hashes: of the rubric and the version of this package,
    and of the file, or of the reason why it is not read.
    """
    try:
        source = read_bounded(path, MAX_SOURCE)
    except (OSError, ValueError) as problem:
        source = str(problem).encode()
    return [hash_json([__version__, msgspec.to_builtins(task)]), sha256(source).hexdigest()]


def grade(path: Path, task: GradedTask, file: str = "") -> Grade:
    """Grade a submission, whatever it does.

    Args:
        path: a file of Python, which runs in a process of its own.
        task: what it is asked.
        file: its name in the grade, by default that of the file.
    """
    hashes = hash_inputs(path, task)  # before it runs: it may write to its file
    check = Check(task.title, ())
    cpu_s = 0.0
    is_filtered = True
    try:
        with SubmissionProcess(path, task.function, task.limits) as submission:
            check = JUDGES[task.judge](submission, **task.options)
        cpu_s = round(submission.cpu_s, 1)
        is_filtered = submission.is_filtered
        problem = submission.problem or submission.error
        statuses = {row.name: row.status for row in check.rows if not submission.problem}
    except SubmissionError as error:
        problem = str(error)
        statuses = {}
    results = _describe_rows(statuses, task, problem)
    earned = {name: task.worth(name) if text == RIGHT else 0.0 for name, text in results.items()}
    points = round(sum(earned.values()), 2)
    score = round(points / task.points, 4)
    remark = problem or _remark(check, task, results)
    return Grade(
        file or path.name,
        score,
        points,
        cpu_s,
        remark,
        earned,
        results,
        hashes,
        check if check.rows else None,
        is_filtered,
    )


def _describe_rows(
    statuses: Mapping[str, Status], task: GradedTask, problem: str
) -> dict[str, str]:
    """Return what became of each row with a weight: one that holds is :data:`RIGHT` if all rows
    that are needed hold too.

    Args:
        statuses: by row; none if the submission ended early.
        task: what it was asked.
        problem: why it ended, or its first error; else empty.
    """
    names = (*task.needs, *task.weights)
    failures = [task.describe(name) for name in names if statuses.get(name) == "fails"]
    needs = [task.describe(name) for name in task.needs if statuses.get(name) != "holds"]
    reason = f"this is not right yet: {failures[0]}" if failures else "no answer shows it"
    texts = {
        "holds": f"right, but no points without: {needs[0]}" if needs else RIGHT,
        "fails": "not right yet",
        "no evidence": "not measured" if problem else f"not measured: {reason}",
    }
    return {name: texts[statuses.get(name, "no evidence")] for name in task.weights}


def _remark(check: Check, task: GradedTask, results: Mapping[str, str]) -> str:
    """Return the likeliest error, if one explains the rows; else the first row without its points,
    with a position, and the number of the others.
    """
    names = [name for name, text in results.items() if text != RIGHT]
    if not names:
        return "no error found"
    if check.failed and check.causes:
        return f"likely: {task.causes.get(check.causes[0], check.causes[0])}"
    hint = task.hints.get(names[0], "")
    evidence = {row.name: row.evidence[:1] for row in check.rows}
    place = "".join(f" ({position}: {note})" for position, note in evidence.get(names[0], ()))
    others = f"; and {len(names) - 1} more" if names[1:] else ""
    return f"{hint}not right yet: {task.describe(names[0])}{place}{others}"
