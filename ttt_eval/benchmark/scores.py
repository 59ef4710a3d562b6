"""Scores of submissions, computed again from their tables alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import asdict, replace

from ttt_envs.agents.policy import Policy
from ttt_eval.benchmark.policy_table import PolicyTable
from ttt_eval.benchmark.records import CheckpointScore, RunScore, SubmissionScores
from ttt_eval.benchmark.scoring import TaskScore, combine_scores, result_against, score_policies
from ttt_eval.benchmark.submission import Run, SubmissionFile, open_submission
from ttt_eval.benchmark.tasks import TASKS, Task

Row = TypeVar("Row", CheckpointScore, RunScore)


def score_submission(
    path: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    last: bool = False,
) -> SubmissionScores:
    """Score the tables of a submission. No code of the submission is run, and no more is read than its file.

    Args:
        path: of the submission.
        progress: called with the number of checkpoints done, and the total.
        last: whether to score those tables alone that determine the score of a run: the last, or where the opponent
            changes all.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is no submission, or something in it is invalid.
    """
    checkpoints: list[CheckpointScore] = []
    scores: list[RunScore] = []
    known: dict[tuple[str, ...], TaskScore] = {}
    with open_submission(path) as stored:
        is_whole = {run: not last or len(run.task.stages) > 1 for run in stored.runs}  # see combine_scores
        marks = [(run, steps) for run in stored.runs for steps in run.checkpoints[0 if is_whole[run] else -1 :]]
        progress(0, len(marks))
        for done, (run, steps) in enumerate(marks, start=1):
            tables = stored.read_tables(run, steps)
            try:
                checkpoints += _score_tables(run, steps, tables, known)
            except ValueError as problem:
                raise ValueError(f"{stored.path}, {run.record}, {steps} steps, cannot be scored: {problem}") from None
            progress(done, len(marks))
            if steps == run.checkpoints[-1]:
                scores += _score_run(stored, run, checkpoints, tables)
        submission = asdict(stored.submission)
    return SubmissionScores(**submission, runs=_sort_rows(scores), checkpoints=_sort_rows(checkpoints))


def _score_run(
    stored: SubmissionFile, run: Run, checkpoints: Sequence[CheckpointScore], tables: Sequence[PolicyTable]
) -> Iterator[RunScore]:
    """Yield the scores of a run on all tasks that it measures; ``tables`` are those of its last checkpoint."""
    cost, wins, is_whole = stored.read_run(run).cost, _win_rate(run, tables), run.checkpoints == run.task.checkpoints
    own = [row for row in checkpoints if row.seed == run.seed]
    rows_of = {task: [row for row in own if row.task == task.name] for task in _tasks_measured_by(run.task)}
    for task, rows in rows_of.items():
        if rows:  # the task critic has none where there are no values
            complete = is_whole and len(rows) == len(rows_of[run.task])
            score = combine_scores(task, [row.score for row in rows])
            yield RunScore(task.name, run.seed, rows[-1].steps, score, complete, wins, cost)


def _sort_rows(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return scores sorted by task, seed and steps, so that runs added to a file stand where scoring all puts them."""
    order = {task.name: place for place, task in enumerate(TASKS)}
    return tuple(sorted(rows, key=lambda row: (order[row.task], row.seed, row.steps)))


def _tasks_measured_by(task: Task) -> list[Task]:
    """Return the tasks that are measured by runs of a task: itself first."""
    return [other for other in TASKS if task.name in (other.name, other.uses_runs_of)]


def _score_tables(
    run: Run, steps: int, tables: Sequence[PolicyTable], known: dict[tuple[str, ...], TaskScore]
) -> Iterator[CheckpointScore]:
    """Yield the scores of a checkpoint on all tasks that measure the run.

    ``known`` are the scores of tables by their hashes: a policy that does not learn is measured once.
    """
    hashes = tuple(table.sha256 for table in tables)
    for task in _tasks_measured_by(run.task):
        if task.measure == "critic-error" and tables[0].values is None:
            continue
        key = task.name, str(task.stage(steps)), *hashes
        if key not in known:
            known[key] = score_policies(task, _policies(task, tables), steps)
        value, *ends = known[key]
        yield CheckpointScore(task.name, run.seed, steps, known[key].score, value, hashes, *ends)


def _policies(task: Task, tables: Sequence[PolicyTable]) -> list[Policy]:
    """Return a policy for each of the task's games: of an agent that is not shown which one it is, the same."""
    policies: list[Policy] = list(tables)
    return policies if len(policies) == len(task.games) else policies * len(task.games)


def _win_rate(run: Run, tables: Sequence[PolicyTable]) -> float | None:
    """See ``RunScore.win_random``; ``tables`` are those of the last checkpoint."""
    if run.task.hides_masks:
        return None
    pairs = zip(run.task.games, _policies(run.task, tables), strict=True)
    wins = [result_against(game, policy, "random", seat).win for game, policy in pairs for seat in run.task.seats]
    return sum(wins) / len(wins)


def add_runs(scores: SubmissionScores, earlier: Sequence[SubmissionScores]) -> SubmissionScores:
    """Return scores with those runs of earlier scores of the same agent that they lack.

    Raises:
        ValueError: the earlier scores are of another agent, or of one with other settings.
    """
    if [one.name for one in earlier] != [scores.name]:
        raise ValueError(f"the earlier scores are not those of {scores.name} alone")
    [other] = earlier
    for name in ("library", "setting", "tuning_steps", "steps", "hyperparameters"):
        if getattr(scores, name) != getattr(other, name):
            raise ValueError(f"the earlier scores of {scores.name} are of runs with another value of {name}")
    has = {(run.task, run.seed) for run in scores.runs}
    runs = [*scores.runs, *(row for row in other.runs if (row.task, row.seed) not in has)]
    rows = [*scores.checkpoints, *(row for row in other.checkpoints if (row.task, row.seed) not in has)]
    machines = dict.fromkeys(f"{other.machine}; {scores.machine}".split("; "))
    machine = "; ".join(filter(None, machines))
    return replace(scores, machine=machine, runs=_sort_rows(runs), checkpoints=_sort_rows(rows))
