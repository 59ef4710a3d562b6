"""The directory of a run: its files, its lock and its state, and validated reading."""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from types import GenericAlias
from typing import NamedTuple

import numpy as np
from msgspec import convert, defstruct
from numpy.typing import NDArray

from learners import CONFIG, is_run
from learners.base import MAX_COUNT, Arrays, ArraySpec, check_arrays
from learners.checkpoint import (
    CHECKPOINT,
    COST,
    METRICS,
    TrainingConfig,
    is_recorded,
    load_checkpoint,
    policy_name,
    read_config,
    save_checkpoint,
)
from learners.training import Progress
from ttt_envs.agents.specs import parse_spec
from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.files import delete_temporary_files, locked, read_json, write_json
from ttt_envs.game.boards import coordinate
from ttt_envs.game.phantom import AnyGame, game_from_dict
from ttt_eval.store.cost import COST_KEYS, MAX_COST_BYTES
from ttt_eval.store.metrics import read_rows
from ttt_eval.store.result_store import Data

FIRST = "first/"
"""Prefix of the keys of the probabilities of first moves, such as ``first/b2``, in a line of
measurements.
"""
REPORT = "report.html"
"""Page of a run or of an evaluation."""
EVENTS = "events.out.tfevents.run"
"""TensorBoard's file in a run."""
RUN_FILES = (CONFIG, CHECKPOINT, METRICS, COST, EVENTS, REPORT)
"""Files of a run."""
DERIVED_FILES = (EVENTS, REPORT)
"""Files that are derived from the others and can be regenerated."""


_Phase = defstruct("_Phase", [(name, float) for name in COST_KEYS])
_Cost = defstruct("_Cost", [("phases", GenericAlias(dict, (str, _Phase)))])


def first_move_names(game: AnyGame) -> list[str]:
    """Return the keys of the probabilities of first moves, by cell."""
    return [f"{FIRST}{coordinate(cell, game)}" for cell in range(game.cells)]


class RunState(NamedTuple):
    """State of a run, as read from its files."""

    config: Data
    """its ``config.json``"""
    checkpoint: dict[str, dict[str, NDArray[np.generic]]] | None
    """the parts of its ``checkpoint.npz``; None if there is none"""
    progress: Progress | None
    """progress at that checkpoint"""
    size: int
    """valid bytes of ``metrics.jsonl`` at that checkpoint"""
    missing: tuple[str, ...]
    """files that a finished run of these settings has, and this one lacks"""
    running: bool
    """whether the training was not finished at that checkpoint"""

    def is_trained(self, games: int | None = None) -> bool:
        """Return whether the training is finished, with ``games`` games or as many as the settings
        say.
        """
        enough = self.config["games"] if games is None else games
        return self.progress is not None and not self.running and self.progress.games >= enough


def run_folder(spec: str) -> Path | None:
    """Return the folder of the run that a spec string names; None for any other spec."""
    parts = parse_spec(spec)
    path = parts.unkeyed or parts.keyed.get("path")
    return Path(path) if parts.name == "run" and path else None


def list_run_folders(spec: str) -> list[Path]:
    """Return the folders of the runs that a spec string names, itself or in its arguments at any
    depth, as in ``leaf=(run:PATH)``.

    Raises:
        ValueError: the string does not parse.
    """
    folder = run_folder(spec)
    if folder is not None:
        return [folder]
    parts = parse_spec(spec)
    values = (parts.unkeyed or "", *parts.keyed.values())
    return [folder for value in values if "run:" in value for folder in list_run_folders(value)]


class RunDirectory:
    """The directory of a run.

    Args:
        path: the directory, which may not exist yet.

    Attributes:
        path: the directory; the other attributes are the paths of its files, which may not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        paths = [self.path / name for name in RUN_FILES]
        self.config, self.checkpoint, self.metrics, self.cost, self.events, self.report = paths

    def __str__(self) -> str:
        return str(self.path)

    @property
    def policy(self) -> str:
        """The spec string of the trained policy."""
        return policy_name(self.path)

    @property
    def resume_command(self) -> str:
        """The command that continues the run, with its path quoted where a shell would split or
        expand it.
        """
        return f"train.py resume {shlex.quote(str(self))}"

    def exists(self) -> bool:
        """Return whether there is a run in the directory."""
        return is_run(self.path)

    def read_config(self) -> Data:
        """Return ``config.json``: the game, the learner and its settings.

        Raises:
            ValueError: no run, or a damaged file.
        """
        return read_config(self.path)

    def read_training(self) -> Data:
        """Return ``config.json``, with all fields needed to resume or repeat the training.

        Raises:
            ValueError: no run, or a damaged file.
        """
        if is_recorded(self.path, self.read_config()):
            draw = f"evaluate.py plot {shlex.quote(str(self))} draws it"
            raise Refusal(f"{self} is a recorded curve, without settings of a training: {draw}")
        return read_config(self.path, TrainingConfig)

    def read_game(self) -> AnyGame:
        """Return the game of the training.

        Raises:
            ValueError: no run, or a damaged file.
        """
        return game_from_dict(self.read_config()["game"])

    def write_config(self, config: Mapping[str, object]) -> None:
        """Write ``config.json``."""
        write_json(self.config, config)

    def read_cost(self) -> dict[str, Mapping[str, float]]:
        """Return the phases of ``cost.json``; empty if there is no file.

        Raises:
            ValueError: a file that holds anything else.
        """
        if not self.cost.exists():
            return {}
        data = read_json(self.cost, MAX_COST_BYTES)
        with name_place(f"{self.cost} holds no cost by phase"):
            convert(data, _Cost)
        phases: dict[str, Mapping[str, float]] = data["phases"]
        return phases

    def read_metrics(self) -> Sequence[Mapping[str, float]]:
        """Return the lines of ``metrics.jsonl``, in order of games; empty if there is no file.

        Raises:
            ValueError: a line that is no object of finite numbers including ``games``.
        """
        return read_rows(self.metrics, "games")

    def write_cost(self, phases: Mapping[str, Mapping[str, float]]) -> None:
        """Write ``cost.json``."""
        write_json(self.cost, {"format": 1, "phases": phases})

    def save_checkpoint(self, done: Progress, running: bool, size: int, **parts: Arrays) -> None:
        """Write ``checkpoint.npz`` atomically.

        Args:
            done: the progress.
            running: whether the training is not finished.
            size: of the lines on disk in bytes, see :class:`RunState`.
            parts: the arrays of the learner and of its training.
        """
        progress = {"counts": np.array(astuple(done), np.int64), "running": np.array([running])}
        save_checkpoint(self.path, **parts, progress=progress, metrics={"size": np.array([size])})

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock out other processes, and remove leftovers of killed writers.

        Raises:
            ValueError: another process holds the lock.
        """
        with locked(self.path):
            delete_temporary_files(self.path, RUN_FILES)
            yield

    def clear(self) -> None:
        """Remove the files of a run, ``config.json`` first: without it the rest is no run."""
        for name in RUN_FILES:
            (self.path / name).unlink(missing_ok=True)

    def read_state(self) -> RunState:
        """Return the state of the run. A run is finished when its training is over and no file is
        missing.

        Raises:
            ValueError: no run, or one with a damaged ``config.json`` or ``checkpoint.npz``.
        """
        config = self.read_training()
        checkpoint = None
        progress = None
        running = False
        size = 0
        if self.checkpoint.exists():
            checkpoint = load_checkpoint(self.path)
            stored = checkpoint.get("progress", {})
            lines = checkpoint.get("metrics", {})
            count = ArraySpec.like([0]).within(0, MAX_COUNT)
            progress_specs = {
                "counts": count._replace(shape=(4,)),
                "running": ArraySpec.like([False]),
            }
            check_arrays(progress_specs, stored, str(self.checkpoint))
            check_arrays({"size": count}, lines, str(self.checkpoint))
            progress = Progress(*stored["counts"].tolist())
            running = bool(stored["running"][0])
            size = int(lines["size"][0])
        absent = {
            EVENTS: importlib.util.find_spec("tensorboard") is None,
            REPORT: config.get("no_report", False),
        }
        missing = [
            name for name in RUN_FILES if not absent.get(name) and not (self.path / name).is_file()
        ]
        if METRICS not in missing and self.metrics.stat().st_size < size:
            missing.insert(0, METRICS)
        return RunState(config, checkpoint, progress, size, tuple(missing), running)

    def check_trained(self) -> RunState:
        """Return the state of a run whose training is over.

        Raises:
            ValueError: no run, a damaged one, or one with unfinished training.
        """
        state = self.read_state()
        if not state.is_trained():
            games = state.config["games"]
            progress = state.progress
            text = "it has no checkpoint yet"
            if progress is not None:
                text = f"{progress.games:,} of its {games:,} games are played"
            raise Refusal(f"{self} is not finished, {text}: continue with {self.resume_command}")
        return state
