"""The page of ``--watch``: another process serves it while a training goes on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ttt_apps.cli import WatchOptions, inherited_options, print_output
from ttt_envs.core.subprocesses import subprocess_environment

MAX_SHUTDOWN_S = 15.0
"""Maximum seconds for which the page's process may show the end of the training."""


@contextmanager
def watch_page(path: Path, options: WatchOptions) -> Iterator[None]:
    """Show a run, or the runs in a folder, on a page, if the options ask for it.

    The page's process ends with its standard input, and so with this process, however it ends. Ctrl-C reaches only this
    process.

    Args:
        path: a run directory, or a folder of runs; it may appear later.
        options: the options of the page.

    Raises:
        ValueError: the page cannot be served.
    """
    if not options.watch:
        yield
        return
    command = [sys.executable, "-m", "ttt_apps.watch", str(path), "--port", str(options.port), *inherited_options()]
    process = subprocess.Popen(
        command + ["--no-browser"] * options.no_browser,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=subprocess_environment(),
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        rest = threading.Thread(target=_forward, args=[process.stdout], daemon=True)
        try:  # from here on: Ctrl-C may come at once, and `with` would wait for a process that still serves its page
            line = process.stdout.readline().strip()
            if not line.startswith("Watch at"):
                raise ValueError(
                    line.removeprefix("error: ") or "the page of --watch could not be served: leave it out"
                )
            print_output(line)
            sys.stdout.flush()
            rest.start()
            yield
        finally:
            process.stdin.close()
            try:
                process.wait(MAX_SHUTDOWN_S)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.kill()
            if rest.ident is not None:
                rest.join()


def _forward(lines: IO[str]) -> None:
    """Print what the page's process reports, so that it never waits for a reader."""
    for line in lines:
        print(line, end="", file=sys.stderr)
