"""The files of the explorer: runs below one folder, and databases in another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from learners.registry import CONFIG
from ttt_envs.core.checks import closest_names
from ttt_eval.run_files import RunDirectory

MAX_RUNS, MAX_DEPTH = 200, 3
"""Maximum number of listed runs, and maximum depth of their folders below the root."""


@dataclass(frozen=True)
class Root:
    """Root folder of runs; paths outside it and links are invisible.

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
            raise ValueError(f"--runs {self.folder} is no folder: choose one that holds runs")

    def runs(self) -> list[str]:
        """Return the names of the runs."""
        if self.folder is None:
            return []
        paths = [path.parent for depth in range(MAX_DEPTH + 1) for path in self.folder.glob("*/" * depth + CONFIG)]
        names = (path.relative_to(self.folder).as_posix() for path in paths)
        return sorted(name for name in names if self._path(name) is not None)[:MAX_RUNS]

    def run(self, name: str) -> RunDirectory:
        """Return a run.

        Raises:
            ValueError: there is none of that name.
        """
        path = self._path(name) if name.isprintable() else None
        if path is None:
            names = self.runs()
            way = closest_names(name[:60], names) if names else "start the explorer with --runs FOLDER"
            raise ValueError(f"there is no run {name[:60]!a}: {way}")
        return RunDirectory(path)

    def describe_error(self, problem: BaseException) -> str:
        """Format an error without paths of this machine."""
        text = str(problem).partition("\n")[0] or type(problem).__name__
        for folder, what in ((self.folder, "the folder of runs"), (self.databases, "the folder of databases")):
            if folder is not None:
                text = text.replace(f"{folder}/", "").replace(str(folder), what)
        return text[:400]

    def _path(self, name: str) -> Path | None:
        """Return the folder of a run; None if there is none, or only by links, by ``..`` or outside of the root."""
        if self.folder is None or any(part.startswith(".") for part in Path(name).parts):
            return None
        config = self.folder / name / CONFIG
        is_own = config.is_relative_to(self.folder) and config.resolve() == self.folder.resolve() / name / CONFIG
        return config.parent if is_own and RunDirectory(config.parent).exists() else None
