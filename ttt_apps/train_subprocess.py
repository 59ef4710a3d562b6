"""Training in a separate process: its cost includes imports, and its crash ends nothing else."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ttt_envs.core.packages import ROOT
from ttt_eval.cost import ProcessFailed, Usage, measure_usage
from ttt_eval.run_files import RunDirectory

TRAIN = (
    "import os; from ttt_envs.core.packages import end_with_process; end_with_process(os.getppid()); "
    "from ttt_apps.train import main; main()"
)
"""Code of a process that trains: a killed command leaves no process behind that holds the lock of a run."""


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
        ValueError: a run of other settings is there, or the process failed.
    """
    run.path.mkdir(parents=True, exist_ok=True)
    if not run.exists():
        run.write_config(config)
    stored, asked = run.read_config(), json.loads(json.dumps(config))
    if any(stored.get(name) != value for name, value in asked.items() if name != "no_report"):  # changes no result
        raise ValueError(f"{run} has other settings or versions: choose another --out, or move it away")
    # a crash in machine code prints where it happened
    command = [sys.executable, "-X", "faulthandler", "-c", TRAIN, "--resume", str(run)]
    try:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # of these packages, also in a checkout
        usage = measure_usage(command, {**os.environ, "PYTHONPATH": path})
    except ProcessFailed as problem:
        last = problem.last_line.removeprefix("error: ")
        raise ValueError(f"{run} {problem.ending}: {last}. {run.resume_command} prints all of its output") from None
    peaks = [phase["peak_rss_bytes"] for phase in run.read_cost().values()]
    return usage._replace(peak_rss_bytes=int(max(peaks)))
