"""Tasks: a folder with ``task.md``, ``starter.py`` and ``task.toml``, the rubric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ttt_envs.core.checks import Refusal, find_named, name_place
from ttt_envs.core.files import read_bounded
from ttt_eval.checks import Check
from ttt_eval.grading.judges import JUDGES
from ttt_eval.grading.submission import SubmissionLimits

TASK_FOLDER = Path(__file__).with_name("tasks")
RUBRIC = "task.toml"
TASKS = tuple(sorted(path.parent.name for path in TASK_FOLDER.glob(f"*/{RUBRIC}")))
"""Names of the tasks."""


@dataclass(frozen=True)
class GradedTask:
    """What a submission is asked, and what its answers are worth."""

    title: str
    function: str
    """name of the function that a submission has"""
    judge: str
    """of :data:`ttt_eval.grading.judges.JUDGES`"""
    weights: Mapping[str, float]
    """of rows of the check, by name; a row that is missing does not hold"""
    needs: tuple[str, ...] = ()
    """rows without which the score is 0"""
    points: float = 10.0
    """points of the score 1"""
    limits: SubmissionLimits = field(default_factory=SubmissionLimits)
    options: Mapping[str, Any] = field(default_factory=dict)
    """of the judge"""

    def score(self, check: Check) -> float:
        """Return the share of the weights whose rows hold, 0 to 1."""
        holding = {row.name for row in check.rows if row.status == "holds"}
        if not holding.issuperset(self.needs):
            return 0.0
        total = sum(self.weights.values())
        return sum(self.weights[name] for name in holding & set(self.weights)) / total


def load_task(name: str) -> GradedTask:
    """Return a task.

    Args:
        name: of :data:`TASKS`, or the path of a folder with a rubric.

    Raises:
        ValueError: there is no such task, or its rubric is invalid.
    """
    folder = Path(name)
    if not (folder / RUBRIC).is_file():
        folder = TASK_FOLDER / find_named("task", name, dict.fromkeys(TASKS, name))
    path = folder / RUBRIC
    with name_place(f"{path} is no rubric"):
        task = msgspec.toml.decode(read_bounded(path, 1 << 20), type=GradedTask)
    find_named("judge", task.judge, JUDGES)
    if not sum(task.weights.values()) > 0:
        raise Refusal(f"{path} has no weights: give rows of the check numbers above 0")
    return task
