"""Grades of homework and of coding agents: submissions in processes with limits, judged exactly."""

from __future__ import annotations

from ttt_eval.grading.grades import COLUMNS, Grade, grade, hash_inputs
from ttt_eval.grading.submission import SubmissionError, SubmissionLimits, SubmissionProcess
from ttt_eval.grading.tasks import TASK_FOLDER, TASKS, GradedTask, load_task

__all__ = [
    "COLUMNS",
    "TASKS",
    "TASK_FOLDER",
    "Grade",
    "GradedTask",
    "SubmissionError",
    "SubmissionLimits",
    "SubmissionProcess",
    "grade",
    "hash_inputs",
    "load_task",
]
