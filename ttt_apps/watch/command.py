"""Serve the page of runs in progress and open it."""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ttt_apps.cli import PageOptions
from ttt_apps.explorer.command import check_server_options, serve

if TYPE_CHECKING:
    import uvicorn

    from ttt_apps.explorer.security import AccessPolicy
    from ttt_apps.watch.app import WatchPage

SHOW_END_S = 2.5
"""Seconds for which an open page is shown the end of a training."""


def serve_runs(
    paths: Sequence[Path], options: PageOptions, *, host: str = "127.0.0.1", with_stdin: bool = False
) -> None:
    """Serve the page until a signal ends it.

    Args:
        paths: run directories, and folders of runs; they may appear later.
        options: the options of the page.
        host: address to serve at.
        with_stdin: whether the end of the standard input ends it too.

    Raises:
        ValueError: invalid options, or missing packages.
        OSError: a port that is taken.
    """
    check_server_options(options.port)
    pages: list[WatchPage] = []

    def make(access: AccessPolicy) -> WatchPage:
        from ttt_apps.watch.app import WatchPage

        pages.append(WatchPage(access, paths))
        return pages[0]

    def wait(server: uvicorn.Server) -> None:
        sys.stdin.buffer.read()
        if time.monotonic() - pages[0].api.asked_at < SHOW_END_S:
            time.sleep(SHOW_END_S)
        server.should_exit = True

    def started(server: uvicorn.Server) -> None:
        if with_stdin:
            threading.Thread(target=wait, args=[server], daemon=True).start()

    serve(
        make,
        host,
        options.port,
        secrets.token_urlsafe(16),  # on every address: the page can stop runs
        text="Watch at {}" if with_stdin else "Watch at {} (Ctrl-C ends the page, and no run)",
        no_browser=options.no_browser,
        started=started,
    )
