"""Tasks: a folder with ``task.md``, ``starter.py`` and ``task.toml``, the rubric."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import msgspec

from ttt_envs.core.checks import Refusal, check_range, find_named, name_place, quote
from ttt_envs.core.files import read_bounded
from ttt_eval.checks import PROBES
from ttt_eval.checks.wrong_targets import PREDICTED_ERRORS
from ttt_eval.grading.judges import JUDGES, ROWS, TABLES
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
    """name of the function that a submission has, by judge in ``judges.toml``"""
    judge: str
    """of :data:`ttt_eval.grading.judges.JUDGES`"""
    weights: Mapping[str, float]
    """of rows of the check, by name, see :data:`ttt_eval.grading.judges.ROWS`"""
    texts: Mapping[str, str] = field(default_factory=dict)
    """what rows are for, as ``task.md`` says it, by name"""
    causes: Mapping[str, str] = field(default_factory=dict)
    """the task's own words for errors of learners, by their name in
    :data:`ttt_eval.checks.wrong_targets.PREDICTED_ERRORS`"""
    hints: Mapping[str, str] = field(default_factory=dict)
    """what may be wrong where no error explains the rows, by the first row without points"""
    unjudged: str = ""
    """what no row asks for, in a sentence for students"""
    needs: tuple[str, ...] = ()
    """rows without which the score is 0"""
    points: float = 10.0
    """points of the score 1"""
    limits: SubmissionLimits = field(default_factory=SubmissionLimits)
    options: Mapping[str, Any] = field(default_factory=dict)
    """of the judge"""

    def describe(self, name: str) -> str:
        """Return what a row is for, in words."""
        return self.texts.get(name, name)

    def worth(self, name: str) -> float:
        """Return the points of a row that holds."""
        return self.points * self.weights[name] / sum(self.weights.values())


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
        data = msgspec.toml.decode(read_bounded(path, 1 << 20))
        _check_names("key", data, (field.name for field in fields(GradedTask)))
        task = msgspec.convert(data, GradedTask)
        judge = find_named("judge", task.judge, JUDGES)
        _check_names("function", [task.function], [TABLES["functions"][task.judge]])
        _check_names("limit", data.get("limits", ()), (field.name for field in fields(task.limits)))
        installed = {module.name for module in iter_modules()} - sys.stdlib_module_names
        missing = set(task.limits.allowed).difference(installed)
        misspelt = [name for name in missing if get_close_matches(name, installed, cutoff=0.8)]
        _check_names("package", misspelt, installed)
        _check_names("cause", task.causes, PREDICTED_ERRORS)
        _check_names("option", task.options, list(inspect.signature(judge).parameters)[1:])
        _check_names(
            "row", [*task.weights, *task.needs, *task.texts, *task.hints], ROWS[task.judge]
        )
        check_range("points", task.points, 0, above=True)
        for name, weight in task.weights.items():
            check_range(name, weight, 0, problem="is no weight")
        if "limits" in task.options:
            _check_learner_options(task)
    if not sum(task.weights.values()) > 0:
        raise Refusal(f"{path} has no weights: give rows of the check numbers above 0")
    return task


def _check_learner_options(task: GradedTask) -> None:
    """Raise ValueError for limits of unknown probes, and for weights of rows that nothing fills."""
    limits = task.options["limits"]
    _check_names("probe", limits, PROBES)
    for name, limit in limits.items():
        check_range(name, limit, -1, 1, problem="is no score")
    values = task.options.get("values", False)
    if not isinstance(values, bool):
        raise Refusal(f"values={quote(values)} is no truth value: write true or false")
    rows = [*limits, "values"] if values else limits
    _check_names("row with a limit", [*task.weights, *task.needs], rows)


def _check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for an unknown name, with the nearest one."""
    known_names = dict.fromkeys(known)
    for name in names:
        find_named(kind, name, known_names)
