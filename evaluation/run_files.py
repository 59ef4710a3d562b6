"""The files of a finished run: a check for missing ones, and validated reading."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evaluation.cost import is_number
from evaluation.policy_snapshots import CHOICES
from learners.base import Arrays
from learners.checkpoint import (
    CHECKPOINT,
    CONFIG,
    COST,
    METRICS,
    MODEL,
    build_config,
    load_checkpoint,
    read_training,
)
from learners.config import FitLearnerConfig
from learners.training import Progress
from ttt_envs.core.files import parse_json, read_bounded

REPORT = "report.html"
"""Page of a run or of an evaluation."""
EVENTS = "events.out.tfevents.run"
"""TensorBoard's file in a run."""
RUN_FILES = (CONFIG, CHECKPOINT, MODEL, METRICS, CHOICES, COST, EVENTS, REPORT)
"""Files of a run; a learner with a teacher also has a folder of its games."""
DERIVED_FILES = (EVENTS, REPORT)
"""Files that are derived from the others and can be regenerated."""


class RunState(NamedTuple):
    """State of a run, as read from its files."""

    config: dict[str, Any]
    """its ``config.json``"""
    checkpoint: dict[str, dict[str, np.ndarray[Any, Any]]] | None
    """the parts of its ``checkpoint.npz``; None if there is none"""
    progress: Progress | None
    """progress at that checkpoint; None if an old version did not store it"""
    missing: tuple[str, ...]
    """files that a finished run of these settings has, and this one lacks"""

    def is_trained(self, games: int | None = None) -> bool:
        """Return whether the training is finished, with ``games`` games or as many as the settings say."""
        return self.progress is not None and self.progress.games >= (self.config["games"] if games is None else games)


def read_state(run: Path) -> RunState:
    """Read the state of a run. A run is finished when its training is over and no file is missing.

    Raises:
        ValueError: no run, or one with a damaged ``config.json`` or ``checkpoint.npz``.
    """
    config = read_training(run)
    fits = isinstance(build_config(config["learner"], config["settings"]), FitLearnerConfig)
    checkpoint = load_checkpoint(run) if (run / CHECKPOINT).exists() else None
    wanted = {
        CONFIG: True,
        CHECKPOINT: True,
        MODEL: fits,
        METRICS: True,
        CHOICES: checkpoint is not None and "choices" in checkpoint.get("metrics", {}),
        COST: True,
        EVENTS: importlib.util.find_spec("tensorboard") is not None,
        REPORT: not config.get("no_report", False),
    }
    least = {
        METRICS: size_in_checkpoint(run, checkpoint, "size"),
        CHOICES: size_in_checkpoint(run, checkpoint, "choices"),
    }
    missing = tuple(name for name in RUN_FILES if wanted[name] and not _is_whole(run / name, least.get(name, 0)))
    return RunState(config, checkpoint, _progress(run, checkpoint), missing)


def check_trained(run: Path) -> RunState:
    """Return the state of a run whose training is over.

    Raises:
        ValueError: no run, a damaged one, or one with unfinished training.
    """
    state = read_state(run)
    if not state.is_trained():
        games, played = state.config["games"], state.progress
        far = "it has no checkpoint yet" if played is None else f"{played.games:,} of its {games:,} games are played"
        raise ValueError(f"{run} is not finished, {far}: go on with train.py --resume {run}")
    return state


def progress_arrays(done: Progress) -> dict[str, np.ndarray[Any, Any]]:
    """Return the part ``progress`` of a checkpoint: int64[4], games, wins, draws and losses."""
    return {"counts": np.array([done.games, done.wins, done.draws, done.losses], np.int64)}


def size_in_checkpoint(run: Path, checkpoint: Mapping[str, Arrays] | None, name: str) -> int:
    """Return the valid size of a file in bytes according to a checkpoint; 0 without a checkpoint.

    Args:
        run: the run directory, for messages.
        checkpoint: its parts.
        name: ``size`` for ``metrics.jsonl``, or ``choices`` for ``choices.jsonl``, which may be missing.

    Raises:
        ValueError: the stored value is not a number.
    """
    if checkpoint is None or "metrics" not in checkpoint:
        return 0
    size = checkpoint["metrics"].get(name)
    if size is None and name == "choices":
        return 0
    if size is None or size.shape != (1,) or size.dtype.kind != "i":
        raise ValueError(f"{run / CHECKPOINT} does not say how long the run's files were: it is damaged")
    return int(size[0])


def _is_whole(path: Path, least: int) -> bool:
    """Return whether a file exists and has at least ``least`` bytes."""
    return path.is_file() and path.stat().st_size >= least


def _progress(run: Path, checkpoint: Mapping[str, Arrays] | None) -> Progress | None:
    counts = None if checkpoint is None else checkpoint.get("progress", {}).get("counts")
    if counts is None:
        return None
    if counts.shape != (4,) or counts.dtype != np.int64 or (counts < 0).any() or counts[0] != counts[1:].sum():
        raise ValueError(f"{run / CHECKPOINT} does not say how many games were played: it is damaged")
    return Progress(*counts.tolist())


def read_metrics(run: Path) -> list[Mapping[str, float]]:
    """Read the lines of a run's ``metrics.jsonl``, in order of games; empty if there is no file.

    Raises:
        ValueError: a line that is no object of finite numbers including ``games``.
    """
    path = run / METRICS
    rows: list[Mapping[str, float]] = []
    try:
        content = read_bounded(path)
    except FileNotFoundError:
        return rows
    for count, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        try:
            row = parse_json(line)
        except ValueError as problem:
            raise ValueError(f"line {count} of {path} cannot be read: {problem}") from None
        if not isinstance(row, dict) or not all(map(is_number, row.values())) or "games" not in row:
            raise ValueError(
                f"line {count} of {path} is no mark: it must be a JSON object of numbers, games among them"
            )
        if row["games"] < (rows[-1]["games"] if rows else 0):
            raise ValueError(f"line {count} of {path} has fewer games than there were before: they only grow")
        rows.append(row)
    return rows
