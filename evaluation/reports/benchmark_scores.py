"""Validated reading of scores of the benchmark."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from evaluation.benchmark.scores import KIND, SCORES, SETTINGS, ScoreRow, Submission
from evaluation.benchmark.tasks import VERSION, find_task
from evaluation.reports.result_reader import MAX_SEED, Record
from ttt_envs.core.files import read_json

MAX_BYTES = 1 << 24
"""Maximum size of a file of scores in bytes."""
MAX_ROWS = 50_000
MAX_NAME = 60
"""Maximum length of a submission's name, in characters."""
MAX_SCORE = 1.0 + 1e-9


def read_scores(path: Path) -> Submission:
    """Read scores, which are not trusted; of a folder, those of its file ``scores.json``.

    Raises:
        OSError: no such file.
        ValueError: damaged content, or scores of another version of the benchmark.
    """
    path = path / SCORES if path.is_dir() else path
    content = read_json(path, MAX_BYTES)
    try:
        if not isinstance(content, dict) or content.get("kind") != KIND or content.get("format") != 1:
            raise ValueError("it is no file of scores")
        data = Record(content)
        if data.text("version") != VERSION:
            raise ValueError(f"its scores are of version {data.text('version')[:20]!r}, and this is {VERSION}")
        rows = [_read_row(row) for row in data.records("rows", MAX_ROWS)]
        if not rows:
            raise ValueError("it has no scores")
        if len({(row.task, row.seed, row.steps) for row in rows}) < len(rows):
            raise ValueError("it has two scores of the same checkpoint")
        setting = data.text("setting")
        if setting not in SETTINGS:
            raise ValueError(f"its setting is {setting[:20]!r}, and must be {' or '.join(SETTINGS)}")
        return Submission(data.text("name")[:MAX_NAME], rows, setting, data.count("tuning_steps"))
    except ValueError as problem:
        raise ValueError(f"{path} cannot be read as scores of the benchmark: {problem}") from None


def _read_row(row: Record) -> ScoreRow:
    return ScoreRow(
        find_task(row.text("task")).name,
        row.count("seed", MAX_SEED),
        row.count("steps"),
        row.number("score", high=MAX_SCORE),
        row.number("value"),
        row.text("sha256"),
        row.optional("cpu_s", partial(Record.number, low=0)),
        row.optional("peak_rss_bytes", Record.count),
        row.optional("win_random", partial(Record.number, low=0, high=MAX_SCORE)),
    )
