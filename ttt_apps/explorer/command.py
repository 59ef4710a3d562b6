"""``play.py --web``: serve the explorer and open it."""

from __future__ import annotations

import importlib.util
import secrets
import socket
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import Count, installed_names, parse, print_output

NEEDED = ("fastapi", "uvicorn")
MISSING = 'the explorer needs fastapi and uvicorn: pip install "ttt_envs[explorer]"'


@dataclass(frozen=True)
class Web:
    """Open a page to play on, to see the value of every move, and to step through games and runs."""

    web: tyro.conf.FlagCreatePairsOff[bool] = False
    """this page instead of the terminal"""
    port: Count = 0
    """port; default: a free one"""
    host: str = "127.0.0.1"
    """address to serve at. Any other than this machine's own lets others connect, who need the printed link with the
    token"""
    runs: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder of the runs and logs of games to show; default: runs, if it exists"""
    no_browser: tyro.conf.FlagCreatePairsOff[bool] = False
    """print the address, and open nothing"""

    def run(self) -> None:
        """Serve until a signal ends it.

        Raises:
            ValueError: invalid options, or missing packages.
            OSError: a port that is taken.
        """
        if any(importlib.util.find_spec(name) is None for name in NEEDED):
            raise ValueError(MISSING)
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"--port {self.port} is no port: choose 0, for a free one, to 65535")
        folder = Path("runs") if self.runs is None and Path("runs").is_dir() else self.runs
        from ttt_apps.explorer.app import Explorer
        from ttt_apps.explorer.protocol import new_server
        from ttt_apps.explorer.schemas import Root
        from ttt_apps.explorer.security import AccessPolicy

        root = Root(None if folder is None else folder.resolve())
        with listening(self.host, self.port) as bound:
            port = bound.getsockname()[1]
            token = None if is_loopback(self.host) else secrets.token_urlsafe(16)
            app = Explorer(AccessPolicy(self.host, port, token), root)
            everywhere = self.host in ("0.0.0.0", "::")
            shown = "127.0.0.1" if everywhere else f"[{self.host}]" if ":" in self.host else self.host
            address = f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
            print_output(f"The explorer is at {address} (Ctrl-C ends it)")
            if everywhere:
                print_output("From elsewhere, write an address of this machine in the place of 127.0.0.1.")
            sys.stdout.flush()  # a reading program waits for this line
            app.api.start_warming()
            if not self.no_browser:
                webbrowser.open(address)
            with suppress(KeyboardInterrupt):  # the usual way to end it
                new_server(app).run(sockets=[bound])
            app.close()


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        OSError: it cannot be bound; the message suggests alternatives.
    """
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        bound = socket.socket(family, kind, protocol)  # without its protocol asyncio delays every response by 40 ms
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)  # from here on early clients wait, and are not refused
    except OSError as problem:
        why = problem.strerror or problem
        raise OSError(f"{host}:{port} cannot be served ({why}): choose another --port or --host") from None
    return bound


def main(words: Sequence[str]) -> None:
    """Serve with the options in ``words``."""
    parse(Web, words, installed_names("play.py --web")).run()
