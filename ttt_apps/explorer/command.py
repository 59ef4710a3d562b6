"""``play.py --web``: serve the explorer and open it."""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol
from urllib.parse import quote

import tyro

from ttt_apps.cli import DATABASES, Count, parse, print_output
from ttt_apps.messages import installed_names
from ttt_envs.core.extras import install_command

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import Receive, Scope, Send

    from ttt_apps.explorer.security import AccessPolicy

NEEDED = ("fastapi", "uvicorn")
MAX_LINK = 4000
"""Maximum length of a link's part after #."""
LINK_CHARACTERS = "=&./:,"
"""Characters of a link that are not escaped."""


class ServedApp(Protocol):
    """An application that can be served."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""

    def close(self) -> None:
        """Accept no more work."""


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
    open: Annotated[str, tyro.conf.arg(metavar="LINK")] = ""
    """what to show first: the part of a link to this page after its #, such as "skip=0.25&moves=b2.a1"; the boards of
    reports have it"""
    no_browser: tyro.conf.FlagCreatePairsOff[bool] = False
    """print the address, and open nothing"""

    def run(self) -> None:
        """Serve until a signal ends it.

        Raises:
            ValueError: invalid options, or missing packages.
            OSError: a port that is taken.
        """
        check_server_options(self.port)
        check_link(self.open)
        folder = Path("runs") if self.runs is None and Path("runs").is_dir() else self.runs
        from ttt_apps.explorer.app import Explorer
        from ttt_apps.explorer.schemas import Root

        databases = DATABASES.resolve() if DATABASES.is_dir() else None
        root = Root(None if folder is None else folder.resolve(), databases)

        def make(access: AccessPolicy) -> Explorer:
            app = Explorer(access, root)
            app.api.start_warming()
            return app

        token = None if is_loopback(self.host) else secrets.token_urlsafe(16)
        text = "The explorer is at {} (Ctrl-C ends it)"
        serve(make, self.host, self.port, token, text=text, no_browser=self.no_browser, link=self.open)


def check_link(link: str) -> None:
    """Raise ValueError for text that is no part of a link after its #."""
    if len(link) > MAX_LINK or not link.isprintable() or "#" in link:
        raise ValueError(f"--open {link[:80]!r} is no link: write the part after #, as in skip=0.25&moves=b2.a1")


def check_server_options(port: int) -> None:
    """Check beforehand that a page can be served.

    Raises:
        ValueError: missing packages, or an invalid port.
    """
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        raise ValueError(f"a page in the browser needs {' and '.join(NEEDED)}: {install_command('explorer')}")
    if not 0 <= port < 1 << 16:
        raise ValueError(f"--port {port} is no port: choose 0, for a free one, to 65535")


def serve(
    make: Callable[[AccessPolicy], ServedApp],
    host: str,
    port: int,
    token: str | None,
    *,
    text: str,
    no_browser: bool,
    link: str = "",
    started: Callable[[uvicorn.Server], object] = lambda _: None,
) -> None:
    """Serve an application until a signal ends it, print its address, and open it.

    Args:
        make: returns the application.
        host: address to serve at.
        port: port; 0 for a free one.
        token: secret of all clients; None for none.
        text: the printed line, with {} for the address.
        no_browser: open nothing.
        link: part of the address after its #.
        started: called with the server, which its ``should_exit`` ends.

    Raises:
        OSError: a port that is taken.
    """
    from ttt_apps.explorer.protocol import new_server
    from ttt_apps.explorer.security import AccessPolicy

    with listening(host, port) as bound:
        port = bound.getsockname()[1]
        app = make(AccessPolicy(host, port, token))
        everywhere = host in ("0.0.0.0", "::")
        shown = "127.0.0.1" if everywhere else f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
        address += f"#{quote(link, safe=LINK_CHARACTERS)}" if link else ""
        print_output(text.format(address))
        if everywhere:
            print_output("From elsewhere, write an address of this machine in the place of 127.0.0.1.")
        sys.stdout.flush()  # a reading program waits for this line
        if not no_browser:
            open_browser(address)
        server = new_server(app)
        started(server)
        with suppress(KeyboardInterrupt):  # the usual way to end it
            server.run(sockets=[bound])
        app.close()


def open_browser(address: str) -> None:
    """Open an address in the browser of the desktop; without a display do nothing, where a text browser would open."""
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)


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
