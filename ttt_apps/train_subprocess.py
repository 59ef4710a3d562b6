"""Training in a separate process, to measure its cost including imports."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from evaluation.cost import ProcessFailed, Usage, measure_usage
from evaluation.run_files import RunDirectory
from ttt_apps.signals import INTERRUPTED
from ttt_envs.core.files import write_atomically


class TrainingStopped(ValueError):  # noqa: N818  # what happened
    """A training was asked to stop, by its watch page or by a signal, and can be resumed."""


def measure_training(config: dict[str, Any]) -> Usage:
    """Measure the cost of training with these settings in a new process, imports included; see
    :func:`train_in_subprocess`.

    It makes no exact measurements and writes no report.
    """
    config = {**config, "exact_every": 0, "no_report": True}
    with tempfile.TemporaryDirectory() as folder:
        return train_in_subprocess(config, RunDirectory(Path(folder, "run")))


def train_in_subprocess(config: dict[str, Any], run: RunDirectory) -> Usage:
    """Train in a new process, into the directory ``run``; resume a run of these settings that is there.

    Returns:
        The resource usage of the process, imports included; peak memory is measured by the process itself.

    Raises:
        TrainingStopped: the process was asked to stop.
        ValueError: the process failed; its output is in the file that the message names, beside the run.
    """
    run.path.mkdir(exist_ok=True)
    if not run.exists():
        run.write_config(config)
    here = str(Path(__file__).parents[1])  # the root, in case of a checkout that is not installed
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    log = run.path.with_name(f"{run.path.name}.log")
    log.unlink(missing_ok=True)  # of an earlier failure
    # a crash in machine code prints where it happened
    command = [sys.executable, "-X", "faulthandler", "-m", "ttt_apps.train", "--resume", str(run)]
    try:
        used = measure_usage(command, found)
    except ProcessFailed as problem:
        if problem.code == INTERRUPTED:
            raise TrainingStopped(f"{run} was stopped {_describe_progress(run, config['games'])}") from None
        output, last = problem.output.encode(), problem.last_line.removeprefix("error: ")
        write_atomically(log, lambda file: file.write(output))
        where = _describe_progress(run, config["games"])
        ends = "" if problem.code < 0 else f", and ends with: {last}"
        raise ValueError(f"{run} {problem.ending} {where}; its output is in {log}{ends}") from None
    peaks = [phase["peak_rss_bytes"] for phase in run.read_cost().values()]
    return used._replace(peak_rss_bytes=int(max(peaks)))


def _describe_progress(run: RunDirectory, games: int) -> str:
    """Describe how far a failed run of so many games had come."""
    try:
        rows = run.read_metrics()
    except ValueError as problem:
        return f"while training ({problem})"
    if not rows:
        return "before the first line of its metrics"
    done = rows[-1]["games"]
    return f"while training, after {done:,.0f} of {games:,} games" if done < games else "after its training"
