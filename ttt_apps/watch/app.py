"""The page of runs in progress: a page, its assets, and its API, behind the explorer's access policy."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ttt_apps.explorer import app as explorer
from ttt_apps.explorer.app import add_route, log_errors, new_app
from ttt_apps.explorer.schemas import BaseRequest, NameRequest, Root, Text
from ttt_apps.explorer.security import AccessPolicy, GuardMiddleware
from ttt_apps.explorer.streams import WorkerPool
from ttt_apps.watch.reader import RunReader
from ttt_envs.version import __version__
from ttt_eval.run_files import RunDirectory

ASSETS = Path(__file__).parent / "assets"
SHARED = ("board.js", "charts.js", "charts.css", "look.css", "icon.svg")
"""Assets of the explorer."""
REFRESH_S = 0.5
"""Minimum seconds between two readings of the runs, however many pages ask."""
SEARCH_S = 5.0
"""Seconds between two searches for new runs."""
MAX_RUNS = 200
"""Maximum number of runs on the page."""


class RunsRequest(BaseRequest):
    """The runs, and one of them in detail."""

    name: Text | None = None
    """the run; by default the first in progress"""
    measure: Text | None = None
    """the curve; by default the most telling"""
    version: Annotated[str, Field(max_length=500)] = ""
    """version of the curve that the page has"""


class WatchApi:
    """Handles requests; every method takes one and returns JSON-ready data.

    Args:
        paths: run directories, and folders of runs; they may appear later.

    Attributes:
        asked_at: time of the last request, in seconds of ``time.monotonic``.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._readers: dict[str, RunReader] = {}
        self._session = secrets.token_hex(4)
        self._searched = self._refreshed = self.asked_at = -float("inf")

    def runs(self, request: RunsRequest) -> dict[str, Any]:
        """Return all runs in a few numbers each, and one of them in detail.

        Raises:
            ValueError: there is no such run.
        """
        with self._lock:
            self._refresh()
            summaries = [reader.summary() for reader in self._readers.values()]
            name = request.name
            if name is None:
                going = [one["name"] for one in summaries if one["state"] not in ("finished", "stopped")]
                name = next(iter([*going, *self._readers]), None)
            if name is None:
                return {"about": __version__, "runs": [], "run": None}
            reader = self._reader(name)
            measures = reader.measures()
            measure = request.measure if request.measure in measures else next(iter(measures), None)
            version = f"{self._session}.{list(self._readers).index(name)}.{reader.version}.{measure}"
            points = None if version == request.version or measure is None else reader.points(measure)
            curve = {"measures": measures, "measure": measure, "version": version, "points": points}
            run = {"name": name, **curve, **reader.detail()}
            return {"about": __version__, "runs": summaries, "run": run}

    def stop(self, request: NameRequest) -> dict[str, Any]:
        """Ask a run to stop.

        Raises:
            ValueError: there is no such run, or it cannot be stopped.
        """
        with self._lock:
            self._reader(request.name).stop()
        return {"name": request.name}

    def _reader(self, name: str) -> RunReader:
        if name not in self._readers:
            raise ValueError(f"there is no run {name[:60]!a} on this page: choose one of the list")
        return self._readers[name]

    def _refresh(self) -> None:
        """Look for new runs, and read all, unless this was done just now."""
        now = self.asked_at = time.monotonic()
        if now - self._searched >= SEARCH_S:
            self._searched = now
            self._search()
        if now - self._refreshed >= REFRESH_S:
            for reader in self._readers.values():
                reader.refresh()
            self._refreshed = time.monotonic()

    def _search(self) -> None:
        for path in self._paths:
            own = RunDirectory(path).exists()
            found = [path] if own else [path / name for name in Root(path.resolve()).runs()] if path.is_dir() else []
            for run in found:
                if str(run) not in self._readers and len(self._readers) < MAX_RUNS:
                    self._readers[str(run)] = RunReader(run, str(run))

    def describe_error(self, problem: BaseException) -> str:
        """Format an error in one line."""
        return (str(problem).partition("\n")[0] or type(problem).__name__)[:400]


class WatchPage(GuardMiddleware):
    """The application, behind its access policy.

    Args:
        access: the access policy.
        paths: as of :class:`WatchApi`.
    """

    def __init__(self, access: AccessPolicy, paths: Sequence[Path]) -> None:
        self.api = WatchApi(paths)
        self.pool = WorkerPool(2)
        app = new_app([*ASSETS.iterdir(), *(explorer.ASSETS / name for name in SHARED)], self.api.describe_error)
        add_route(app, "runs", RunsRequest, self.api.runs, lambda _: self.pool)
        add_route(app, "stop", NameRequest, self.api.stop, lambda _: self.pool)
        super().__init__(log_errors(app), access)

    def close(self) -> None:
        """Accept no more work."""
        self.pool.close()
