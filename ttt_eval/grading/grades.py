"""Grades of submissions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttt_eval.checks import Check
from ttt_eval.grading.judges import JUDGES
from ttt_eval.grading.submission import SubmissionError, SubmissionProcess
from ttt_eval.grading.tasks import GradedTask


@dataclass(frozen=True)
class Grade:
    """The grade of a submission."""

    file: str
    score: float
    """0 to 1"""
    points: float
    seconds: float
    """s that its process was waited for"""
    remark: str
    """why it ended, its first error, or the verdict of the check"""
    earned: Mapping[str, float]
    """points of each row of the rubric"""
    check: Check | None = None
    """None if it could not be loaded"""
    is_filtered: bool = True
    """False if it ran, and the kernel did not deny it other processes and connections"""

    def summary(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "file": self.file,
            "points": round(self.points, 2),
            "score": round(self.score, 4),
            "s": self.seconds,
            "remark": self.remark,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        check = None if self.check is None else self.check.to_dict()
        return {**vars(self), "check": check}


def grade(path: Path, task: GradedTask) -> Grade:
    """Grade a submission, whatever it does.

    Args:
        path: a file of Python, which runs in a process of its own.
        task: what it is asked.
    """
    try:
        with SubmissionProcess(path, task.function, task.limits) as submission:
            check = JUDGES[task.judge](submission, **task.options)
    except SubmissionError as error:
        return Grade(path.name, 0.0, 0.0, 0.0, str(error), task.earned(None))
    earned = task.earned(None if submission.problem else check)
    points = round(sum(earned.values()), 9)
    score = points / task.points
    remark = submission.problem or submission.error or _remark(check, task, score)
    return Grade(
        path.name,
        score,
        points,
        round(submission.waited_s, 1),
        remark,
        earned,
        check,
        submission.is_filtered,
    )


def _remark(check: Check, task: GradedTask, score: float) -> str:
    """Return the likeliest error, if one explains the rows; else the rows without their points."""
    if score == 1.0:
        return "no error found"
    holding = {row.name for row in check.rows if row.status == "holds"}
    lacking = [name for name in (*task.needs, *task.weights) if name not in holding]
    text = f"not right yet: {'; '.join(task.texts.get(name, name) for name in lacking)}"
    if check.failed and check.causes:
        text = f"likely: {check.causes[0]}"
    if not holding.issuperset(task.needs):
        text += f" (no points without: {task.texts.get(lacking[0], lacking[0])})"
    return text
