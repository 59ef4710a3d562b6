"""The explorer as a web application: its page, its API, and who may ask.

Any page in a browser can send requests to a server on this machine, and so can a foreign name that resolves to it (DNS
rebinding). So the Host must be this machine's, and an Origin must be the same.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ttt_apps.explorer.api import ExplorerApi

ASSETS = Path(__file__).parent / "assets"
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
mimetypes.add_type("text/javascript", ".js")  # on Windows the registry may have another


def make_app(api: ExplorerApi, port: int) -> ASGIApp:
    """Return the application of an API, for this machine only.

    Args:
        api: whose methods are ``POST /api/NAME``; FastAPI calls them in its thread pool.
        port: of the server.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    for endpoint in (api.about, api.review, api.move, api.values, api.puzzles):
        app.post(f"/api/{endpoint.__name__}")(endpoint)
    app.mount("/", StaticFiles(directory=ASSETS, html=True))

    async def refuse(_: Request, problem: Exception) -> JSONResponse:
        if isinstance(problem, HTTPException):
            return _error(problem.status_code, "there is nothing here for this request: the page is at /")
        if isinstance(problem, RequestValidationError):
            first = problem.errors()[0]
            where = ".".join(map(str, first["loc"][1:])) or "the request"
            return _error(400, f"{where[:60]!a} cannot be taken: {first['msg'][0].lower()}{first['msg'][1:]}")
        return _error(400, str(problem).partition("\n")[0] or type(problem).__name__)

    async def fail(_: Request, problem: Exception) -> JSONResponse:
        return _error(500, "this cannot be answered because of an error of the server: see its log")

    for kind in (HTTPException, RequestValidationError, ValueError, TypeError, OSError, MemoryError):
        app.add_exception_handler(kind, refuse)
    app.add_exception_handler(Exception, fail)
    return LocalMiddleware(app, port)


class LocalMiddleware:
    """Answers requests from this machine's own page only, with security headers.

    Starlette's ``TrustedHostMiddleware`` is no substitute: it ignores the port, and the Origin.

    Args:
        app: the application.
        port: of the server.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        names = ("127.0.0.1", "localhost")
        self.hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or respond with an error."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        if scope["type"] == "http":
            app = self._refusal(Headers(scope=scope)) or self.app
            await app(scope, receive, send_guarded)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        """Return the response to a request that is not passed on; the rest of it is not read."""
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return _error(421, "the Host of the request is not this page's: open the address that was printed")
        origins = {origin.lower() for origin in headers.getlist("origin")}
        if origins - {f"http://{hosts[0]}"}:
            return _error(403, "the request comes from another site's page: open this page's own address")
        return None


def _error(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status, {"connection": "close"} if status in (403, 421) else None)
