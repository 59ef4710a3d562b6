"""``evaluate.py report RUN...``: regenerate the pages of finished runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import TrustOptions, print_output, slow_status


@dataclass(frozen=True)
class Report(TrustOptions):
    """Regenerate the report.html of finished runs, each from the files of its run alone.

    An unfinished run is rejected, and so are all that are named beside it: train.py --resume RUN finishes it.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = tyro.MISSING
    """run directories"""

    def run(self) -> None:
        """Check all runs, then write.

        Raises:
            ValueError: no runs, folders without runs, unfinished runs.
        """
        from ttt_apps.runs import report_run
        from ttt_eval.run_files import RunDirectory

        for run in self.runs:
            RunDirectory(run).check_trained()
        for run in self.runs:
            with slow_status(f"writing the report of {run}"):
                page = report_run(run)
            print_output(f"a report to look at: {page}")
