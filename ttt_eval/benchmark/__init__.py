"""The benchmark ``ttt-exact v1``: fixed tasks, and scores of policies that are computed without sampling."""

from __future__ import annotations

from ttt_eval.benchmark.scoring import (
    References,
    TaskScore,
    best_policies,
    combine_scores,
    random_policies,
    references,
    score_policies,
)
from ttt_eval.benchmark.tasks import TASKS, VERSION, Task, find_task, find_tasks

__all__ = [
    "TASKS",
    "VERSION",
    "References",
    "Task",
    "TaskScore",
    "best_policies",
    "combine_scores",
    "find_task",
    "find_tasks",
    "random_policies",
    "references",
    "score_policies",
]
