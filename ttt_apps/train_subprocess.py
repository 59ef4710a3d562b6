"""Training and measuring in a separate process: its cost includes imports, and its crash ends nothing else."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ttt_envs.core.files import delete_temporary_files, read_json, write_atomically
from ttt_envs.core.packages import subprocess_environment
from ttt_eval.cost import ProcessFailed, Usage, measure_usage
from ttt_eval.run_files import RunDirectory

TRAIN = "from ttt_apps.train import main; main()"
"""Code of a process that trains."""
MEASURE = "import sys; from ttt_apps.sweep import write_numbers; write_numbers(*sys.argv[1:])"
"""Code of a process that measures an agent."""
END_WITH_PARENT = "from ttt_envs.core.packages import end_with_stdin; end_with_stdin()"
"""Code that comes before: a killed command leaves no process behind that holds the lock of a run."""


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
        ValueError: the process failed; its output is in the file that the message names, beside the run.
    """
    run.path.mkdir(exist_ok=True)
    if not run.exists():
        run.write_config(config)
    log = run.path.with_name(f"{run.path.name}.log")
    try:
        used = _run_python(TRAIN, ("--resume", str(run)), log)
    except ProcessFailed as problem:
        progress = _describe_progress(run, config["games"])
        raise ValueError(_describe_failure(str(run), problem, progress, log)) from None
    peaks = [phase["peak_rss_bytes"] for phase in run.read_cost().values()]
    return used._replace(peak_rss_bytes=int(max(peaks)))


def measure_in_subprocess(unit: Mapping[str, Any], log: Path) -> dict[str, float]:
    """Measure an agent of a sweep in a new process, see :func:`ttt_apps.sweep.write_numbers`.

    Args:
        unit: of the sweep.
        log: file for the output of a process that fails.

    Raises:
        ValueError: the process failed; the message names the agent and the log.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, found = Path(folder, "unit.json"), Path(folder, "numbers.json")
        asked.write_text(json.dumps(unit), encoding="utf-8")
        try:
            _run_python(MEASURE, (str(asked), str(found)), log)
        except ProcessFailed as problem:
            raise ValueError(
                _describe_failure(f"agent {unit['agent']}", problem, "while it was measured", log)
            ) from None
        numbers: dict[str, float] = read_json(found)
        return numbers


def _run_python(code: str, words: tuple[str, ...], log: Path) -> Usage:
    """Run code of Python, and measure its usage; the output of a process that fails is written to ``log``."""
    log.unlink(missing_ok=True)  # of an earlier failure
    delete_temporary_files(log.parent, [log.name])
    try:
        # a crash in machine code prints where it happened
        command = [sys.executable, "-X", "faulthandler", "-c", f"{END_WITH_PARENT}; {code}", *words]
        return measure_usage(command, subprocess_environment())
    except ProcessFailed as problem:
        output = problem.output.encode()
        log.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(log, lambda file: file.write(output))
        raise


def _describe_failure(name: str, problem: ProcessFailed, where: str, log: Path) -> str:
    """Return the message for a process that failed."""
    last = problem.last_line.removeprefix("error: ")
    ends = "" if problem.code < 0 else f", and ends with: {last}"
    return f"{name} {problem.ending} {where}; its output is in {log}{ends}"


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
