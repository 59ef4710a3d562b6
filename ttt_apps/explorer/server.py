"""The server of the explorer: HTTP/1.1 whose requests have to arrive in time."""

from __future__ import annotations

import asyncio

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_S = 10.0
"""Seconds in which a request has to arrive, from the connection or the answer before it."""


class PunctualProtocol(H11Protocol):
    """Closes a connection on which no whole request has arrived within :data:`REQUEST_S`.

    uvicorn itself has such a limit only where not a byte arrives after an answer.
    """

    _timer: asyncio.TimerHandle | None = None

    # uvicorn, as asyncio itself, gives a Transport where asyncio declares a BaseTransport
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait_for_request(None)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        cycle = self.cycle
        super().on_response_complete()
        self._wait_for_request(cycle)

    def _wait_for_request(self, cycle: RequestResponseCycle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(REQUEST_S, self._close_if_late, cycle)

    def _close_if_late(self, cycle: RequestResponseCycle | None) -> None:
        """Close the connection unless a request after the answered one is here as a whole."""
        if self.cycle is cycle or self.cycle.more_body:
            self.transport.close()


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return the server of an application."""
    config = uvicorn.Config(
        app,
        http=PunctualProtocol,
        log_level="critical",
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)
