"""Training in a fresh process: what a run takes, imports included."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from evaluation.cost import Usage, usage_of
from evaluation.report_parts import read_cost
from learners.checkpoint import CONFIG
from ttt_envs.files import write_json


def repeat(config: dict[str, Any]) -> Usage:
    """What a fresh process takes to learn with these settings, imports included; see :func:`run_apart`.

    Nothing is measured on the way, and no report is written.
    """
    config = {**config, "exact_every": 0, "no_report": True}
    with tempfile.TemporaryDirectory() as folder:
        return run_apart(config, Path(folder, "run"))


def run_apart(config: dict[str, Any], run: Path) -> Usage:
    """Train in a fresh process, into the folder ``run``; where that has a run of these settings, it goes on.

    Returns:
        What the process took, imports included; its peak of memory as it counts that itself.

    Raises:
        ValueError: the process failed.
    """
    run.mkdir(exist_ok=True)
    if not (run / CONFIG).exists():
        write_json(run / CONFIG, config)
    here = str(Path(__file__).parents[1])  # where this is a checkout that is not installed
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    used = usage_of([sys.executable, "-m", "ttt_apps.train", "--resume", str(run)], found)
    phases = read_cost(run)
    return used._replace(peak_rss_bytes=int(max(phase["peak_rss_bytes"] for phase in phases.values())))
