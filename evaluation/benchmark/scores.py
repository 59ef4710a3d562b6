"""The scores of a submission to the benchmark, as a file: a row for each task, seed and checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evaluation.benchmark.tasks import TASKS, VERSION, find_task
from ttt_envs.core.files import write_json
from ttt_envs.core.jit import Float64Array

SCORES = "scores.json"
KIND = "benchmark-scores"
SETTINGS = ("one", "tuned")


class ScoreRow(NamedTuple):
    """The score of one run at one checkpoint."""

    task: str
    seed: int
    steps: int
    """environment steps before the checkpoint"""
    score: float
    """0 for random play, 1 for the best possible"""
    value: float
    """the measure of the task, see ``Task.measure``"""
    sha256: str
    """of the submitted table; of several, in order of the task's games, separated by spaces"""
    cpu_s: float | None = None
    """CPU seconds of the run up to this checkpoint"""
    peak_rss_bytes: int | None = None
    """peak memory of the process that trained"""
    win_random: float | None = None
    """exact probability that the policy wins against random play, the mean over games and seats"""


@dataclass(frozen=True)
class Submission:
    """All scores of one submission."""

    name: str
    rows: Sequence[ScoreRow]
    setting: str = "one"
    """``one`` setting for all tasks, or ``tuned`` for each"""
    tuning_steps: int = 0
    """environment steps that tuning took"""

    def final_scores(self) -> dict[str, dict[int, float]]:
        """Return the score of each run, by task and seed.

        It is the score at the last checkpoint, or the mean over checkpoints where the opponent changes.
        """
        found = {}
        for task, runs in self._runs().items():
            averaged = find_task(task).num_stages > 1
            found[task] = {
                seed: float(np.mean([row.score for row in rows])) if averaged else rows[-1].score
                for seed, rows in runs.items()
            }
        return found

    def last_rows(self, task: str) -> list[ScoreRow]:
        """Return the last row of each run of a task, by seed."""
        return [rows[-1] for _, rows in sorted(self._runs().get(task, {}).items())]

    def _runs(self) -> Mapping[str, Mapping[int, Sequence[ScoreRow]]]:
        """Return the rows of each run by steps, in the order of the tasks."""
        found: dict[str, dict[int, list[ScoreRow]]] = {}
        for row in self.rows:
            found.setdefault(row.task, {}).setdefault(row.seed, []).append(row)
        return {
            task.name: {seed: sorted(rows, key=lambda row: row.steps) for seed, rows in found[task.name].items()}
            for task in TASKS
            if task.name in found
        }


def write_scores(path: Path, submission: Submission) -> None:
    """Write scores as JSON."""
    content = {
        "format": 1,
        "kind": KIND,
        "version": VERSION,
        "name": submission.name,
        "setting": submission.setting,
        "tuning_steps": submission.tuning_steps,
        "rows": [row._asdict() for row in submission.rows],
    }
    write_json(path, content)


class Comparison(NamedTuple):
    """Final scores of submissions on the tasks that all of them have."""

    tasks: tuple[str, ...]
    scores: Mapping[str, Float64Array]
    """by name of the submission float64[runs, tasks]; runs have the seeds that all tasks have"""
    notes: Sequence[str]


def compare_submissions(submissions: Sequence[Submission]) -> Comparison:
    """Return the scores of submissions on the tasks that they have in common.

    Raises:
        ValueError: two have the same name, no task is common, or a submission has no seed in all of its tasks.
    """
    names = [one.name for one in submissions]
    if len(set(names)) < len(names):
        raise ValueError(f"two submissions have the same name, {max(names, key=names.count)!r}: rename one of them")
    finals = [one.final_scores() for one in submissions]
    everything = [task.name for task in TASKS if any(task.name in final for final in finals)]
    tasks = tuple(name for name in everything if all(name in final for final in finals))
    if not tasks:
        raise ValueError("the submissions have no task in common: run each of them on the same tasks")
    notes = []
    if len(tasks) < len(everything):
        missing = [name for name in everything if name not in tasks]
        notes.append(f"Left out, because a submission lacks them: {', '.join(missing)}.")
    if len(tasks) < len(TASKS):
        notes.append(f"Scores are of {len(tasks)} of the {len(TASKS)} tasks.")
    scores = {}
    for name, final in zip(names, finals, strict=True):
        seeds = sorted(set.intersection(*(set(final[task]) for task in tasks)))
        if not seeds:
            raise ValueError(f"{name} has no seed in all of its tasks: run each task with the same seeds")
        if len(seeds) == 1:
            notes.append(f"{name} has one run of each task: its intervals have no width, and say nothing.")
        scores[name] = np.array([[final[task][seed] for task in tasks] for seed in seeds])
    return Comparison(tasks, scores, notes)
