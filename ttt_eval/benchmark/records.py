"""Records of the benchmark: what a submission says of itself and of its runs, and scores. msgspec checks what is read.

A damaged record is one sentence with the place in it, as in ``Expected float <= 1.0 - at
$.submissions[0].runs[0].score``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct, json, to_builtins

from ttt_envs.core.files import read_bounded, write_json
from ttt_eval.benchmark.tasks import find_task

MAX_BYTES = 1 << 26
"""Maximum size of a file of scores in bytes."""
MAX_SEED = 99
_FAR = 1e15

Text = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z")]
"""one line"""
Count = Annotated[int, Meta(ge=0, le=10**15)]
Amount = Annotated[float, Meta(ge=0, le=_FAR)]
Number = Annotated[float, Meta(ge=-_FAR, le=_FAR)]
Share = Annotated[float, Meta(ge=0, le=1 + 1e-9)]
Score = Annotated[float, Meta(ge=-_FAR, le=1 + 1e-9)]
Seed = Annotated[int, Meta(ge=0, le=MAX_SEED)]


class Submission(Struct, frozen=True, forbid_unknown_fields=True):
    """What a submission says of itself."""

    name: Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z")]
    """of the agent, as the leaderboard shows it"""
    library: Text = ""
    code: Text = ""
    """address of the code"""
    machine: Text = ""
    setting: Literal["one", "tuned"] = "one"
    """``one`` setting for all tasks, or ``tuned`` for each"""
    tuning_steps: Count = 0
    """environment steps that were spent on the choice of settings"""
    steps: Count = 0
    """environment steps of runs that are shorter than those of the benchmark, 0 if they are not"""
    versions: Annotated[dict[Text, Text], Meta(max_length=200)] = {}
    """of packages, by name"""
    hyperparameters: Annotated[dict[Text, Any], Meta(max_length=200)] = {}


class Cost(Struct, frozen=True):
    """Cost of a run, as the submission reports it."""

    cpu_s: Amount
    wall_s: Amount | None = None
    peak_rss_bytes: Amount | None = None
    """of the process that did the run"""
    steps: Amount | None = None
    """environment steps"""


class TrainingReturns(Struct, frozen=True):
    """Returns of a run in training, exploration included, from its beginning to each checkpoint."""

    steps: tuple[Count, ...] = ()
    """environment steps of the checkpoints, ascending"""
    episodes: tuple[Count, ...] = ()
    """number of episodes that were finished"""
    returns: tuple[Number, ...] = ()
    """sum of their returns; in self-play those of player 0"""

    def __post_init__(self) -> None:
        if not len(self.steps) == len(self.episodes) == len(self.returns):
            raise ValueError("steps, episodes and returns have different lengths")


class RunRecord(Struct, frozen=True):
    """What a submission says of a run."""

    cost: Cost | None = None
    returns: TrainingReturns | None = None


class ScoreOnTask(Struct, frozen=True):
    """A score of a run of a task."""

    task: str
    seed: Seed
    steps: Count
    """environment steps"""
    score: Score
    """0 for random play, 1 for the best possible"""

    def __post_init__(self) -> None:
        find_task(self.task)


class CheckpointScore(ScoreOnTask, frozen=True):
    """Score of the policy of a run at a checkpoint."""

    value: Number
    """the measure, see ``Task.measure``"""
    sha256: Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=10)]
    """of each table that was scored"""
    random: Number | None = None
    """the measure that scores 0"""
    best: Number | None = None
    """the measure that scores 1"""


class RunScore(ScoreOnTask, frozen=True):
    """Score of a run: of its last checkpoint, or where the opponent changes the mean over its checkpoints."""

    complete: bool = False
    """whether all checkpoints of the task are there"""
    win_random: Share | None = None
    """exact probability that the last policy wins against random play, the mean over games and seats; None in the task
    without masks, where a table has illegal moves"""
    cost: Cost | None = None


class SubmissionScores(Submission, frozen=True, kw_only=True):
    """A submission with all its scores."""

    runs: Annotated[tuple[RunScore, ...], Meta(min_length=1, max_length=2_500)]
    checkpoints: Annotated[tuple[CheckpointScore, ...], Meta(max_length=50_000)] = ()

    def __post_init__(self) -> None:
        if len({(run.task, run.seed) for run in self.runs}) < len(self.runs):
            raise ValueError(f"{self.name} has two scores of the same run")

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds of an average run; None if any is unknown."""
        costs = [run.cost for run in self.runs if find_task(run.task).uses_runs_of is None]
        reported = [cost.cpu_s for cost in costs if cost is not None]
        return float(np.mean(reported)) if reported and len(reported) == len(costs) else None

    @property
    def peak_rss_bytes(self) -> float | None:
        """Highest peak memory of the runs that report it, in bytes."""
        peaks = [run.cost.peak_rss_bytes for run in self.runs if run.cost is not None]
        return max((peak for peak in peaks if peak is not None), default=None)

    def win_random(self, task: str) -> float | None:
        """Return the mean win rate against random play over the runs of a task; None if it is unknown."""
        rates = [run.win_random for run in self.runs if run.task == task and run.win_random is not None]
        return float(np.mean(rates)) if rates else None


class Scores(Struct, frozen=True, kw_only=True):
    """Content of a file of scores."""

    format: Literal[1] = 1
    kind: Literal["benchmark-scores"]
    benchmark: Literal["ttt-exact"] = "ttt-exact"
    version: Literal["v1"]
    submissions: Annotated[tuple[SubmissionScores, ...], Meta(max_length=100)]


def to_json(submissions: Sequence[SubmissionScores]) -> dict[str, Any]:
    """Return the JSON-ready scores of submissions."""
    content = Scores(kind="benchmark-scores", version="v1", submissions=tuple(submissions))
    return dict(to_builtins(content))


def write_scores(path: Path, submissions: Sequence[SubmissionScores]) -> None:
    """Write the scores of submissions, which :func:`read_scores` reads."""
    write_json(path, to_json(submissions))


def read_scores(path: Path) -> tuple[SubmissionScores, ...]:
    """Read scores from a file, which is not trusted.

    Raises:
        OSError: no such file.
        ValueError: damaged content, or scores of another version of the benchmark.
    """
    content = read_bounded(path, MAX_BYTES)
    try:
        return json.decode(content, type=Scores).submissions
    except (ValueError, RecursionError) as problem:
        raise ValueError(
            f"{path} cannot be read as scores of the benchmark, which evaluate.py bench score --out writes: {problem}"
        ) from None
