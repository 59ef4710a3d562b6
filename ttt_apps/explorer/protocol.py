"""HTTP as the explorer speaks it: uvicorn's, with a time limit and a bound for requests that do not come.

uvicorn has limits for what comes behind a response, and none for a connection that sends half a request. Such a
connection costs a file descriptor before anybody has been asked for the token.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ttt_apps.explorer.guards import REQUEST_S, App

MAX_INCOMPLETE = 64
"""connections that may be without a whole head at a time; the oldest of more is closed"""
MAX_CONNECTIONS = 256
"""connections, above which requests are answered with 503"""
MAX_HEAD = 1 << 14
"""bytes of a request up to its body"""
KEEP_ALIVE_S, SHUTDOWN_S = 30, 3


class BoundedH11Protocol(H11Protocol):
    """One connection, which is closed where the head of a request takes longer than ``REQUEST_S``."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give it time for a request; where too many have none, the oldest is closed."""
        super().connection_made(transport)
        self._start_deadline()
        incomplete = {each: each._deadline for each in self.connections if isinstance(each, BoundedH11Protocol)}
        since = {each: deadline.when() for each, deadline in incomplete.items() if deadline is not None}
        if len(since) > MAX_INCOMPLETE:
            min(since, key=lambda each: since[each])._give_up()

    def data_received(self, data: bytes) -> None:
        """Take bytes; more of an unfinished head brings no more time."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_deadline()
        elif self._deadline is None:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_S, self._give_up)

    def _give_up(self) -> None:
        self._cancel_deadline()
        self.transport.abort()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def new_server(app: App) -> uvicorn.Server:
    """A server of an application, with bounds on all that a connection may take."""
    settings: dict[str, Any] = {"log_level": "critical", "access_log": False, "lifespan": "off", "ws": "none"}
    config = uvicorn.Config(
        app,
        http=BoundedH11Protocol,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD,
        **settings,
    )
    return uvicorn.Server(config)
