"""Scores of submissions, computed again from their tables alone, and files of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, json, to_builtins
from msgspec.structs import asdict

from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.files import read_bounded
from ttt_envs.envs.config import SELF
from ttt_eval.benchmark.scoring import (
    TaskScore,
    combine_scores,
    measured_moves,
    score_policies,
)
from ttt_eval.benchmark.submission import (
    Amount,
    Cost,
    Count,
    StoredRun,
    Submission,
    SubmissionFile,
    Text,
    open_submission,
)
from ttt_eval.benchmark.tasks import (
    NUM_CHECKPOINTS,
    TASKS,
    Version,
    find_task,
    version_of,
)
from ttt_eval.exact.dynamic_programming import expected_losses
from ttt_eval.store.result_store import no_progress

NOT_LEARNED = "not learned"
"""kind of submissions with a run that was not learned"""
MAX_BYTES = 1 << 26
"""Maximum size of a file of scores in bytes."""
TOLERANCE = 1e-9
"""Maximum loss of value of best play, and maximum difference of equal scores, by rounding."""
CPU_BUDGET_S = 10.0
"""CPU seconds of learning after which runs are compared at equal cost."""
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Score = Annotated[float, Meta(ge=-1e15, le=1 + 1e-9)]


class CheckpointScore(Struct, frozen=True):
    """Score of the policy of a run at a checkpoint."""

    steps: Count
    """environment steps"""
    score: Score
    """0 for random play, 1 for the best possible"""
    value: Number
    """the measure, see ``Task.measure``"""
    random: Number
    """the measure that scores 0"""
    best: Number
    """the measure that scores 1"""
    cpu_s: Amount | UnsetType = UNSET
    """CPU seconds of learning until then: not in v1, nor if the last alone is scored"""


class RunScore(Struct, frozen=True):
    """Score of a run on a task: of its last checkpoint, or where the opponent changes the mean over
    its checkpoints.
    """

    task: str
    seed: Annotated[int, Meta(ge=0, le=99)]
    score: Score
    complete: bool
    """whether the submission has all checkpoints of the task"""
    checkpoints: Annotated[
        tuple[CheckpointScore, ...], Meta(min_length=1, max_length=NUM_CHECKPOINTS)
    ]
    """those that were scored, ascending, the last at the end"""
    cost: Cost | None = None
    """None for a task without runs of its own"""
    known: tuple[Text, ...] | bool | None = None
    """see :func:`why_not_learned`; in an older file whether it was not learned, or None"""

    def __post_init__(self) -> None:
        task = find_task(self.task)
        scores = [TaskScore(row.value, row.random, row.best).score for row in self.checkpoints]
        stored_scores = [self.score, *(row.score for row in self.checkpoints)]
        if not np.allclose([combine_scores(task, scores), *scores], stored_scores, 0, TOLERANCE):
            raise Refusal(
                f"a score of {self.task} with the seed {self.seed} is not (value - random) / "
                "(best - random): score its submission again"
            )

    @property
    def steps(self) -> int:
        """Environment steps of the run."""
        return self.checkpoints[-1].steps

    @property
    def score_in_budget(self) -> float | None:
        """The score if learning stops after ``CPU_BUDGET_S``: each later checkpoint has the score
        of the last one before, or 0, that of random play. None if CPU seconds are unknown.
        """
        scores = [0.0]
        for mark in self.checkpoints:
            if mark.cpu_s is UNSET:
                return None
            scores.append(mark.score if mark.cpu_s <= CPU_BUDGET_S else scores[-1])
        return combine_scores(find_task(self.task), scores[1:])


class SubmissionScores(Submission, frozen=True, kw_only=True):
    """A submission with all its scores."""

    runs: Annotated[tuple[RunScore, ...], Meta(min_length=1, max_length=2_500)]

    def __post_init__(self) -> None:
        if len({(run.task, run.seed) for run in self.runs}) < len(self.runs):
            raise Refusal(f"{self.name} has two scores of the same run")

    @property
    def kind(self) -> str:
        """The setting, whether it says ``knows_rules``, and the steps of tuning; or ``NOT_LEARNED``
        if a run was not; or "unknown" if it is not known, see ``RunScore.known``.
        """
        known = {run.known for run in self.runs}
        if any(known):
            return NOT_LEARNED
        words: list[str] = ["unknown" if None in known else self.setting]
        if self.hyperparameters.get("knows_rules"):
            words.append("knows rules")
        if self.tuning_steps:
            words.append(f"{self.tuning_steps:,} steps of tuning")
        return ", ".join(words)

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds of an average run; None if they are unknown."""
        seconds = [run.cost.cpu_s for run in self.runs if run.cost is not None]
        return fmean(seconds) if seconds else None

    @property
    def task_means(self) -> dict[str, float]:
        """Mean score of all its runs of each task that it has."""
        return {
            name: fmean(run.score for run in self.runs if run.task == name)
            for name in {run.task: None for run in self.runs}
        }


class Scores(Struct, frozen=True, kw_only=True):
    """Content of a file of scores."""

    format: Literal[1] = 1
    kind: Literal["benchmark-scores"]
    benchmark: Literal["ttt-exact"] = "ttt-exact"
    version: Version
    submissions: Annotated[tuple[SubmissionScores, ...], Meta(max_length=100)]


def score_submission(
    path: Path,
    progress: Callable[[int, int], None] = no_progress,
    *,
    last: bool = False,
) -> SubmissionScores:
    """Score the tables of a submission. No code of the submission is run, and no more is read than
    its file.

    Args:
        path: of the submission.
        progress: called with the number of runs done, and the total.
        last: whether to score those tables alone that determine the score of a run, without CPU
            seconds: the last, or where the opponent changes all.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is no submission, or something in it is invalid.
    """
    scores: list[RunScore] = []
    with open_submission(path) as stored:
        pairs = [
            (task, run)
            for task, run in product(TASKS, stored.runs)
            if run.task.name == task.training
        ]
        progress(0, len(pairs))
        for number, (task, run) in enumerate(pairs, start=1):
            record = stored.read_run(run)
            marks = run.checkpoints[-1:] if last and len(task.stages) == 1 else run.checkpoints
            cpu_s = {} if last or stored.version == "v1" else record.cpu_s
            rows: list[CheckpointScore] = []
            for steps in marks:
                tables = stored.read_tables(run, steps)
                if task.measure == "critic-error" and tables[0].values is None:
                    continue
                # an agent that is not shown the game has the same policy in all of them
                result = score_policies(task, tables * (len(task.games) // len(tables)), steps)
                rows.append(CheckpointScore(steps, result.score, *result, cpu_s.get(steps, UNSET)))
            if rows:
                is_complete = run.checkpoints == task.checkpoints and len(rows) == len(marks)
                cost = record.cost if task == run.task else None
                scores.append(
                    RunScore(
                        task.name,
                        run.seed,
                        combine_scores(task, [row.score for row in rows]),
                        is_complete,
                        tuple(rows),
                        cost,
                        why_not_learned(stored, run),
                    )
                )
            progress(number, len(pairs))
    return SubmissionScores(**asdict(stored.submission), runs=tuple(scores))


def why_not_learned(stored: SubmissionFile, run: StoredRun) -> tuple[str, ...]:
    """Return why a run was not learned, () if it was.

    The agent took no step, or the run has the tables of another seed, or in self-play the policy of
    the first of several checkpoints loses nothing in any position.
    """
    cost = stored.read_run(run).cost
    causes = {
        "the agent took no step": cost is not None and cost.steps == 0,
        # a learner may never have seen one of few positions
        "another seed has the same tables": stored.copies[stored.fingerprint(run)] > 1
        and not run.task.positions,
        "in self-play the first table loses nothing": _is_solution(stored, run),
    }
    return tuple(cause for cause, holds in causes.items() if holds)


def _is_solution(stored: SubmissionFile, run: StoredRun) -> bool:
    """Return whether a run begins with best play in all positions."""
    task = replace(run.task, holds_out_openings=False)
    if task.opponent != SELF or task.phantom or len(run.checkpoints) < 2:
        return False
    return all(
        expected_losses(values, table.probabilities(boards)).max() < TOLERANCE
        for table in stored.read_tables(run, run.checkpoints[0])
        for boards, values, _ in [measured_moves(task, table.game)]
    )


def to_json(submissions: Sequence[SubmissionScores]) -> dict[str, object]:
    """Return the JSON-ready scores of submissions, which :func:`read_scores` reads from a file.

    Raises:
        ValueError: they are submissions to different versions.
    """
    version = version_of({run.task for row in submissions for run in row.runs})
    return dict(
        to_builtins(
            Scores(kind="benchmark-scores", version=version, submissions=tuple(submissions))
        )
    )


def read_scores(path: Path) -> tuple[SubmissionScores, ...]:
    """Read scores from a file, which is not trusted.

    Raises:
        OSError: no such file.
        ValueError: damaged content, or scores of another version of the benchmark.
    """
    content = read_bounded(path, MAX_BYTES)
    with name_place(
        f"{path} cannot be read as scores of the benchmark, which evaluate.py bench score --out "
        "writes"
    ):
        return json.decode(content, type=Scores).submissions
