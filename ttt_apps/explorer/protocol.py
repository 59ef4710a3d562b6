"""HTTP protocol of the explorer: uvicorn's, with a timeout and a limit for incomplete requests.

uvicorn limits keep-alive connections, but not connections that send half a request. Such a connection costs a file
descriptor before the token is checked.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ttt_apps.explorer.security import REQUEST_S

MAX_INCOMPLETE = 64
"""Maximum number of connections without a complete head; the oldest of more is closed."""
MAX_CONNECTIONS = 256
"""Maximum number of connections; beyond it requests get status 503."""
MAX_HEAD = 1 << 14
"""Maximum size of a request's head in bytes."""
KEEP_ALIVE_S, SHUTDOWN_S = 30, 3


class BoundedH11Protocol(H11Protocol):
    """A connection that is closed if the head of a request takes longer than ``REQUEST_S``."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of a request; if too many connections are incomplete, close the oldest."""
        super().connection_made(transport)
        self._start_deadline()
        incomplete = {each: each._deadline for each in self.connections if isinstance(each, BoundedH11Protocol)}
        since = {each: deadline.when() for each, deadline in incomplete.items() if deadline is not None}
        if len(since) > MAX_INCOMPLETE:
            min(since, key=lambda each: since[each])._give_up()

    def data_received(self, data: bytes) -> None:
        """Process data; more of an incomplete head does not extend the timeout."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_deadline()
        elif self._deadline is None:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
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


def new_server(app: ASGIApp) -> uvicorn.Server:
    """Return a server of an application, with limits on each connection."""
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
