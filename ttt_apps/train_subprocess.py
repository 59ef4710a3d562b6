"""Training in a separate process, to measure its cost including imports."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from evaluation.cost import Usage, measure_usage
from evaluation.run_files import RunDirectory


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
        ValueError: the process failed.
    """
    run.path.mkdir(exist_ok=True)
    if not run.exists():
        run.write_config(config)
    here = str(Path(__file__).parents[1])  # the root, in case of a checkout that is not installed
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    used = measure_usage([sys.executable, "-m", "ttt_apps.train", "--resume", str(run)], found)
    peaks = [phase["peak_rss_bytes"] for phase in run.read_cost().values()]
    return used._replace(peak_rss_bytes=int(max(peaks)))
