"""The files of the explorer: runs below one folder, and databases in another."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from learners.registry import CONFIG
from ttt_envs.core.checks import Refusal, closest_names
from ttt_envs.game.game import Game
from ttt_eval.runs.run_files import RunDirectory

MAX_RUNS = 200
"""Maximum number of listed runs."""
MAX_DEPTH = 3
"""Maximum depth of the folders of runs below the root."""


@dataclass(frozen=True)
class Root:
    """Root folder of runs; a request can name those below it, and nothing else, not even by a link.

    Args:
        folder: the root; None for none.
        databases: folder of endgame databases, which no request can name.

    Raises:
        ValueError: not a folder.
    """

    folder: Path | None = None
    databases: Path | None = None

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            raise Refusal(f"--runs {self.folder} is no folder: choose one that holds runs")

    def runs(self) -> list[str]:
        """Return the names of the runs, which are their paths below the root."""
        if self.folder is None:
            return []
        root = self.folder.resolve()
        names = []
        for depth in range(MAX_DEPTH + 1):
            for path in self.folder.glob("*/" * depth + CONFIG):
                run = path.parent
                # all files of a run are below the root, where no link leads elsewhere
                if all(file.resolve().is_relative_to(root) for file in run.iterdir()):
                    names.append(run.relative_to(self.folder).as_posix())
        return sorted(names)[:MAX_RUNS]

    def games(self) -> dict[str, Game | None]:
        """Return the game of every run by its name; None if stones are hidden in it, or its
        settings cannot be read.
        """
        games: dict[str, Game | None] = {}
        for name in self.runs():
            games[name] = None
            with suppress(ValueError, OSError):
                game = RunDirectory(cast("Path", self.folder) / name).read_game()
                games[name] = game if isinstance(game, Game) else None
        return games

    def run(self, name: str) -> RunDirectory:
        """Return a run.

        Raises:
            ValueError: there is none of that name.
        """
        names = self.runs()
        if self.folder is None or name not in names:
            remedy = "start the explorer with --runs FOLDER"
            if names:
                remedy = closest_names(name[:60], names)
            raise Refusal(f"there is no run {name[:60]!a}: {remedy}")
        return RunDirectory(self.folder / name)
