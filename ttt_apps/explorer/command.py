"""``play.py web``: serve the explorer and open it."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import tyro

from ttt_apps.cli.options import (
    DATABASES,
    GAME_FIELDS,
    Count,
    Flag,
    GameOptions,
    TextOption,
    check_no_effect,
    print_output,
)
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.packages import install_command

PACKAGES = ("fastapi", "uvicorn")
HOST = "127.0.0.1"
MAX_PORT = 65_535


@dataclass(frozen=True)
class Web(GameOptions):
    """Open a page to play on, to see the value of every move, and to step through games."""

    port: Count = 0
    """port on this machine, 0 for a free one"""
    runs: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder of the runs to play against and to see; default: runs, if it exists"""
    open: Annotated[TextOption, tyro.conf.arg(metavar="LINK")] = ""
    """what to show first: the part of a link to this page after its #, such as
    "skip=0.25&moves=b2.a1"; the boards of reports have it"""
    no_browser: Flag = False
    """print the address, and open nothing"""

    def run(self) -> None:
        """Serve until a signal ends it.

        Raises:
            ValueError: invalid options, or missing packages.
            OSError: a port that is taken.
        """
        from ttt_eval.reports.formats import LINK_CHARACTERS, check_limits, explorer_link

        if any(importlib.util.find_spec(name) is None for name in PACKAGES):
            raise Refusal(
                f"a page in the browser needs {' and '.join(PACKAGES)}: "
                f"{install_command('explorer')}"
            )
        if self.open:
            check_no_effect(self, "with --open, whose game it is", *GAME_FIELDS)
        link = self.open or explorer_link(check_limits(self.game_for()))
        check_range("--port", self.port, 0, MAX_PORT, hint=", where 0 stands for a free one")
        folder = Path("runs") if self.runs is None and Path("runs").is_dir() else self.runs
        from ttt_apps.explorer.api import ExplorerApi
        from ttt_apps.explorer.app import make_app
        from ttt_apps.explorer.root import Root
        from ttt_apps.explorer.server import make_server

        api = ExplorerApi(Root(folder, DATABASES.resolve() if DATABASES.is_dir() else None))
        with listening(self.port) as bound:
            port = bound.getsockname()[1]
            # moves on the board are interpreted meanwhile
            threading.Thread(target=api.warm, name="warm", daemon=True).start()
            address = f"http://{HOST}:{port}/"
            if link:
                address += f"#{quote(link, safe=LINK_CHARACTERS)}"
            print_output(f"The explorer is at {address} (Ctrl-C ends it)")
            sys.stdout.flush()  # a reading program waits for this line
            # without a window, a text browser would open in this terminal
            has_display = {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
            if not self.no_browser and (has_display or sys.platform != "linux"):
                webbrowser.open(address)
            with suppress(KeyboardInterrupt):  # the usual way to end it
                make_server(make_app(api, port)).run(sockets=[bound])


def listening(port: int) -> socket.socket:
    """Return a listening socket of this machine alone.

    Raises:
        OSError: the port is taken.
    """
    try:
        # from here on early clients wait, and are not refused
        bound = socket.create_server((HOST, port), backlog=128)
    except OSError as problem:
        raise OSError(
            f"{HOST}:{port} cannot be served ({problem.strerror}): choose another --port"
        ) from None
    # such a socket names its protocol, else asyncio delays every response by 40 ms
    return socket.socket(fileno=bound.detach())
