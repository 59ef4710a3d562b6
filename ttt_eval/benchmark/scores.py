"""Scores of submissions, computed again from their tables alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from ttt_eval.benchmark.scoring import TaskScore, combine_scores, large_queries, score_policies
from ttt_eval.benchmark.submission import (
    BENCHMARK,
    RunFolder,
    StoredTable,
    find_runs,
    read_cost,
    read_submission,
    read_table,
    stored_games,
)
from ttt_eval.benchmark.tasks import TASKS, VERSION, Task
from ttt_eval.exact.dynamic_programming import outcome

KIND = "benchmark-scores"


class CheckpointScore(TypedDict):
    """Score of the policy of a run at a checkpoint."""

    task: str
    seed: int
    steps: int
    score: float
    value: float
    """the measure, see ``Task.measure``"""
    random: float
    """the measure that scores 0"""
    best: float
    """the measure that scores 1"""
    sha256: list[str]
    """of each table that was scored"""


class RunScore(TypedDict):
    """Score of a run: of its last checkpoint, or where the opponent changes the mean over its checkpoints."""

    task: str
    seed: int
    steps: int
    score: float
    complete: bool
    """whether all checkpoints of the task are there"""
    win_random: float | None
    """exact probability that the last policy wins against random play, the mean over games and seats; None in the task
    without masks, where a table has illegal moves"""
    cost: dict[str, float] | None
    """``cpu_s``, ``wall_s``, ``peak_rss_bytes`` and ``steps``, as the submission reports them"""


class SubmissionScores(NamedTuple):
    """Scores of a submission."""

    data: dict[str, Any]
    """content of its ``submission.toml``"""
    checkpoints: list[CheckpointScore]
    runs: list[RunScore]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        return {**self.data, "runs": self.runs, "checkpoints": self.checkpoints}


def score_submission(
    folder: Path,
    progress: Callable[[int, int], None] = lambda done, all_: None,
    *,
    last: bool = False,
) -> SubmissionScores:
    """Score the tables of a submission. No code of the submission is run, and no more is read than its folder.

    Args:
        folder: of the submission.
        progress: called with the number of checkpoints done, and the total.
        last: whether to score those tables alone that determine the score of a run: the last, or where the opponent
            changes all.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the folder is no submission, or a file in it is invalid.
    """
    submission = asdict(read_submission(folder))
    # the last table alone determines the score of a run of one stage: see combine_scores
    runs = [
        (run, [max(run.tables)] if last and run.task.num_stages <= 1 else [*run.tables]) for run in find_runs(folder)
    ]
    total = sum(len(steps) for _, steps in runs)
    checkpoints: list[CheckpointScore] = []
    scores: list[RunScore] = []
    known: dict[tuple[str, ...], TaskScore] = {}
    done = 0
    progress(done, total)
    for run, marks in runs:
        found: dict[str, list[CheckpointScore]] = {}
        tables: list[StoredTable] = []
        for steps in marks:
            games = zip(stored_games(run.task), run.tables[steps], strict=True)
            tables = [read_table(run.task, game, path) for game, path in games]
            for task, one in _score_tables(run, steps, tables, known):
                found.setdefault(task.name, []).append(one)
            done += 1
            progress(done, total)
        complete = list(run.tables) == list(run.task.checkpoints)
        about = _AboutRun(complete, _win_rate(run, tables), read_cost(run.folder))
        for task in _tasks_measured_by(run.task):
            if task.name in found:
                checkpoints += found[task.name]
                all_scored = len(found[task.name]) == len(marks)
                scores.append(
                    _run_score(task, run.seed, found[task.name], about._replace(complete=complete and all_scored))
                )
    return SubmissionScores(submission, _sort_rows(checkpoints), _sort_rows(scores))


def _sort_rows(rows: Sequence[Any]) -> list[Any]:
    """Return scores sorted by task, seed and steps, so that runs added to a file stand where scoring all puts them."""
    order = {task.name: place for place, task in enumerate(TASKS)}
    return sorted(rows, key=lambda row: (order[row["task"]], row["seed"], row["steps"]))


def _tasks_measured_by(task: Task) -> list[Task]:
    """Return the tasks that are measured by runs of a task: itself first."""
    return [task, *(other for other in TASKS if other.uses_runs_of == task.name)]


def _score_tables(
    run: RunFolder, steps: int, tables: Sequence[StoredTable], known: dict[tuple[str, ...], TaskScore]
) -> Iterator[tuple[Task, CheckpointScore]]:
    """Yield the scores of a checkpoint on all tasks that measure the run.

    ``known`` are the scores of tables by their hashes: a policy that does not learn is measured once.
    """
    hashes = [table.sha256 for table in tables]
    for task in _tasks_measured_by(run.task):
        if task.measure == "critic-error" and tables[0].policy.values is None:
            continue
        key = task.name, str(task.stage(steps)), *hashes
        try:
            if key not in known:
                known[key] = score_policies(task, _policies(task, tables), steps)
        except ValueError as problem:
            raise ValueError(f"{run.tables[steps][0]} cannot be scored: {problem}") from None
        yield task, _checkpoint_score(task, run.seed, steps, known[key], hashes)


def _policies(task: Task, tables: Sequence[StoredTable]) -> list[Any]:
    """Return a policy for each of the task's games: of an agent that is not shown which one it is, the same."""
    found = [table.policy for table in tables]
    return found if len(found) == len(task.games) else found * len(task.games)


def _checkpoint_score(task: Task, seed: int, steps: int, measured: TaskScore, hashes: list[str]) -> CheckpointScore:
    return {
        "task": task.name,
        "seed": seed,
        "steps": steps,
        "score": measured.score,
        "value": measured.value,
        "random": measured.references.random,
        "best": measured.references.best,
        "sha256": hashes,
    }


class _AboutRun(NamedTuple):
    """The fields of :class:`RunScore` that are the same for all tasks that measure a run."""

    complete: bool
    win_random: float | None
    cost: dict[str, float] | None


def _win_rate(run: RunFolder, tables: Sequence[StoredTable]) -> float | None:
    """See ``RunScore.win_random``; ``tables`` are those of the last checkpoint."""
    if run.task.hides_masks:
        return None
    won = []
    for game, policy in zip(run.task.games, _policies(run.task, tables), strict=True):
        for seat in run.task.seats:
            players = (policy, "random") if seat == 0 else ("random", policy)
            result = outcome(game, *players, work=large_queries(game))
            won.append(result.win if seat == 0 else result.loss)
    return sum(won) / len(won)


def _run_score(task: Task, seed: int, found: list[CheckpointScore], about: _AboutRun) -> RunScore:
    return {
        "task": task.name,
        "seed": seed,
        "steps": found[-1]["steps"],
        "score": combine_scores(task, [one["score"] for one in found]),
        "complete": about.complete,
        "win_random": about.win_random,
        "cost": about.cost,
    }


def add_runs(scores: SubmissionScores, earlier: Mapping[str, Any]) -> SubmissionScores:
    """Return scores with those runs of earlier scores of the same agent that they lack.

    Args:
        scores: of a submission.
        earlier: JSON data of scores, checked by ``ttt_eval.reports.benchmark_scores``.

    Raises:
        ValueError: the earlier scores are of another agent, or of one with other settings.
    """
    known = [one for one in earlier["submissions"] if one["name"] == scores.data["name"]]
    if len(known) != 1 or len(earlier["submissions"]) != 1:
        raise ValueError(f"the earlier scores are not those of {scores.data['name']} alone")
    [other] = known
    for name in ("library", "setting", "tuning_steps", "steps", "hyperparameters"):
        if json.loads(json.dumps(scores.data[name])) != other.get(name):
            raise ValueError(f"the earlier scores of {scores.data['name']} are of runs with another value of {name}")
    has = {(run["task"], run["seed"]) for run in scores.runs}

    def merge(new: Sequence[Any], old: Sequence[Any]) -> list[Any]:
        return _sort_rows([*new, *(row for row in old if (row["task"], row["seed"]) not in has)])

    machines = dict.fromkeys(f"{other.get('machine', '')}; {scores.data['machine']}".split("; "))
    data = {**scores.data, "machine": "; ".join(filter(None, machines))}
    return SubmissionScores(data, merge(scores.checkpoints, other["checkpoints"]), merge(scores.runs, other["runs"]))


def to_json(submissions: Sequence[SubmissionScores]) -> dict[str, Any]:
    """Return the JSON-ready scores of submissions."""
    return {
        "format": 1,
        "kind": KIND,
        "benchmark": BENCHMARK,
        "version": VERSION,
        "submissions": [one.to_dict() for one in submissions],
    }
