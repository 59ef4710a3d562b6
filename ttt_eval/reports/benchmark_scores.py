"""Validated reading of scores of the benchmark, as ``evaluate.py bench score --out FILE`` writes them.

A damaged file is one sentence with the place in the file, as in ``Expected float <= 1.0 - at
$.submissions[0].runs[0].score``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert

from ttt_envs.core.files import read_json
from ttt_eval.benchmark.comparison import ScoredCheckpoint, ScoredRun, ScoredSubmission
from ttt_eval.benchmark.scores import KIND
from ttt_eval.benchmark.tasks import VERSION, find_task
from ttt_eval.reports.results import Amount, Count, Number, Seed

MAX_BYTES = 1 << 26
"""Maximum size of a file of scores in bytes."""
MAX_NAME = 60
"""Maximum length of a submission's name, in characters."""
Score = Annotated[float, Meta(le=1.0 + 1e-9)]


class _Cost(Struct):
    cpu_s: Amount
    peak_rss_bytes: Amount | None = None


class _Run(Struct):
    task: str
    seed: Seed
    steps: Count
    score: Score
    complete: bool = False
    cost: _Cost | None = None
    win_random: Annotated[float, Meta(ge=0, le=1.0 + 1e-9)] | None = None


class _Checkpoint(Struct):
    task: str
    seed: Seed
    steps: Count
    score: Score
    value: Number
    sha256: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(max_length=10)]


class _Submission(Struct):
    name: str
    runs: Annotated[list[_Run], Meta(min_length=1, max_length=2_500)]
    checkpoints: Annotated[list[_Checkpoint], Meta(max_length=50_000)]
    setting: Literal["one", "tuned"]
    tuning_steps: Count

    def scored(self) -> ScoredSubmission:
        """Return what is compared.

        Raises:
            ValueError: an unknown task, or two scores of the same run.
        """
        if len({(run.task, run.seed) for run in self.runs}) < len(self.runs):
            raise ValueError(f"{self.name[:MAX_NAME]} has two scores of the same run")
        runs, checkpoints = [], []
        for run in self.runs:
            cpu, memory = (run.cost.cpu_s, run.cost.peak_rss_bytes) if run.cost else (None, None)
            name, facts = find_task(run.task).name, (run.seed, run.steps, run.score, run.complete)
            runs.append(ScoredRun(name, *facts, cpu, run.win_random, memory))
        for row in self.checkpoints:
            name, hashes = find_task(row.task).name, " ".join(row.sha256)
            checkpoints.append(ScoredCheckpoint(name, row.seed, row.steps, row.score, row.value, hashes))
        return ScoredSubmission(self.name[:MAX_NAME], runs, checkpoints, self.setting, self.tuning_steps)


def read_scores(path: Path) -> list[ScoredSubmission]:
    """Read scores from a file, which is not trusted.

    Raises:
        OSError: no such file.
        ValueError: damaged content, or scores of another version of the benchmark.
    """
    return parse_scores(read_json(path, MAX_BYTES), str(path))


def read_content(path: Path) -> dict[str, Any]:
    """Return the JSON data of a file of scores after all checks of :func:`read_scores`, and with its errors."""
    content: dict[str, Any] = read_json(path, MAX_BYTES)
    parse_scores(content, str(path))
    return content


def parse_scores(content: Mapping[str, Any], source: str) -> list[ScoredSubmission]:
    """Return the submissions of the JSON data of scores.

    Args:
        content: the data.
        source: where they are from, for messages.

    Raises:
        ValueError: damaged content, or scores of another version of the benchmark.
    """
    try:
        if not isinstance(content, dict) or content.get("kind") != KIND or content.get("format") != 1:
            raise ValueError("it is no file of scores; evaluate.py bench score FOLDER --out FILE writes one")
        if content.get("version") != VERSION:
            raise ValueError(f"its scores are of version {str(content.get('version'))[:20]!r}, and this is {VERSION}")
        submissions = convert(content.get("submissions"), Annotated[list[_Submission], Meta(max_length=100)])
        return [one.scored() for one in submissions]
    except ValueError as problem:
        raise ValueError(f"{source} cannot be read as scores of the benchmark: {problem}") from None
