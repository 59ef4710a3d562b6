"""``evaluate.py watch RUN...``: show runs in progress on a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import PageOptions
from ttt_envs.core.files import path_hint


@dataclass(frozen=True)
class Watch(PageOptions):
    """Open a page that shows runs while they learn, with buttons that stop them as Ctrl-C does.

    It reads the folders of the runs: they may have been started in any terminal, by a sweep, or on another machine that
    shares the folder. Runs that have ended are shown too. The page needs pip install "ttt_envs[explorer]".
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = (Path("runs"),)
    """run directories, and folders of runs, such as that of a sweep"""
    host: str = "127.0.0.1"
    """address to serve at. Any other than this machine's own lets others connect, who need the printed link with the
    token"""

    def run(self) -> None:
        """Serve until a signal ends it.

        Raises:
            ValueError: invalid options, missing packages, or a path that is no folder.
            OSError: a port that is taken.
        """
        from ttt_apps.watch.command import serve_runs

        for path in self.runs:
            if not path.is_dir():
                hint = path_hint(path, "name run directories, or folders of runs")
                raise ValueError(f"there is no folder {path}: {hint}")
        serve_runs(self.runs, self, host=self.host)
