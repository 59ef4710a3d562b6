"""The process of a page that ends with its standard input: of ``train.py --watch``, see ``ttt_apps.watch_page``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from ttt_apps.cli import PageOptions, command_words, parse, run_command
from ttt_apps.watch.command import serve_runs


@dataclass(frozen=True)
class ServeTraining(PageOptions):
    """Serve the page of a training until the standard input ends."""

    path: tyro.conf.Positional[Path] = tyro.MISSING
    """a run directory, or a folder of runs"""

    def run(self) -> None:
        """Serve."""
        serve_runs([self.path], self, with_stdin=True)


if __name__ == "__main__":
    run_command(lambda: parse(ServeTraining, command_words(None), "python -m ttt_apps.watch").run())
