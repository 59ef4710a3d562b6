"""Validated reading of scores of the benchmark, as ``evaluate.py bench score --out FILE`` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ttt_envs.core.files import read_json
from ttt_eval.benchmark.comparison import ScoredCheckpoint, ScoredRun, ScoredSubmission
from ttt_eval.benchmark.scores import KIND
from ttt_eval.benchmark.tasks import VERSION, find_task
from ttt_eval.reports.result_reader import MAX_SEED, Record

MAX_BYTES = 1 << 26
"""Maximum size of a file of scores in bytes."""
MAX_SUBMISSIONS, MAX_RUNS, MAX_CHECKPOINTS = 100, 2_500, 50_000
MAX_TABLES = 10
"""Maximum number of tables of a checkpoint."""
MAX_NAME = 60
"""Maximum length of a submission's name, in characters."""
MAX_SCORE = 1.0 + 1e-9


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
        data = Record(content)
        if data.text("version") != VERSION:
            raise ValueError(f"its scores are of version {data.text('version')[:20]!r}, and this is {VERSION}")
        return [_read_submission(one) for one in data.records("submissions", MAX_SUBMISSIONS)]
    except ValueError as problem:
        raise ValueError(f"{source} cannot be read as scores of the benchmark: {problem}") from None


def _read_submission(data: Record) -> ScoredSubmission:
    name = data.text("name")[:MAX_NAME]
    runs = [_read_run(row) for row in data.records("runs", MAX_RUNS)]
    checkpoints = [_read_checkpoint(row) for row in data.records("checkpoints", MAX_CHECKPOINTS)]
    if not runs:
        raise ValueError(f"{name} has no runs")
    if len({(run.task, run.seed) for run in runs}) < len(runs):
        raise ValueError(f"{name} has two scores of the same run")
    setting = data.text("setting")
    if setting not in ("one", "tuned"):
        raise ValueError(f"setting is {setting[:20]!r}, and must be one or tuned")
    return ScoredSubmission(name, runs, checkpoints, setting, data.count("tuning_steps"))


def _read_run(row: Record) -> ScoredRun:
    cost = row.optional("cost", Record.record)
    return ScoredRun(
        find_task(row.text("task")).name,
        row.count("seed", MAX_SEED),
        row.count("steps"),
        row.number("score", high=MAX_SCORE),
        row.get("complete") is True,
        None if cost is None else cost.number("cpu_s", 0),
        row.optional("win_random", partial(Record.number, low=0, high=MAX_SCORE)),
        None if cost is None else cost.optional("peak_rss_bytes", partial(Record.number, low=0)),
    )


def _read_checkpoint(row: Record) -> ScoredCheckpoint:
    hashes = row.entries("sha256", MAX_TABLES)
    return ScoredCheckpoint(
        find_task(row.text("task")).name,
        row.count("seed", MAX_SEED),
        row.count("steps"),
        row.number("score", high=MAX_SCORE),
        row.number("value"),
        " ".join(Record(sha256=one).text("sha256")[:64] for one in hashes),
    )
