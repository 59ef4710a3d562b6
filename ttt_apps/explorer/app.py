"""The explorer as a web application: its page, its API, and who may ask.

Any page in a browser can send requests to a server on this machine, and so can a foreign name that
resolves to it (DNS rebinding). So the Host must be this machine's, and an Origin must be the same.
Requests are short and at most :data:`MAX_REQUESTS` at once, so that none fills the memory.
"""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Container, Iterator
from pathlib import Path
from threading import Event

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from msgspec import json
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ttt_apps.explorer.api import ExplorerApi
from ttt_apps.explorer.panels import REFUSALS, to_sentence
from ttt_apps.explorer.schemas import ValuesRequest
from ttt_envs.core.checks import Refusal

MAX_BYTES = 16 << 10
"""Maximum size of a request's body in bytes."""
MAX_REQUESTS = 64
"""Maximum number of requests that are answered at the same time."""
ASSETS = Path(__file__).parent / "assets"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
        "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
mimetypes.add_type("text/javascript", ".js")  # on Windows the registry may have another


def make_app(api: ExplorerApi, port: int) -> Guard:
    """Return the application of an API, for this machine only.

    Args:
        api: whose methods are ``POST /api/NAME``; FastAPI calls them in its thread pool. The answer
            to values is a line for each panel, which is sent when the panel is computed.
        port: of the server.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    for endpoint in (api.about, api.review, api.move, api.puzzles):
        app.post(f"/api/{endpoint.__name__}")(endpoint)

    def values(request: ValuesRequest) -> StreamingResponse:
        abandonment = Event()
        answers = api.values(request, abandonment.is_set)
        return StreamingResponse(_stream(answers, abandonment), media_type="application/x-ndjson")

    app.post("/api/values")(values)
    app.mount("/", StaticFiles(directory=ASSETS, html=True))

    async def refuse(_: Request, problem: Exception) -> JSONResponse:
        if isinstance(problem, RequestValidationError):
            error = problem.errors()[0]
            field = ".".join(map(str, error["loc"][1:])) or "the request"
            reason = error.get("ctx", {}).get("error", error["msg"][0].lower() + error["msg"][1:])
            problem = Refusal(f"{field[:60]!a} is not valid: {reason}")
        if isinstance(problem, HTTPException):  # no such page or method, or a body that is no JSON
            return _error(problem.status_code, problem.detail)
        return _error(400 if isinstance(problem, REFUSALS) else 500, to_sentence(problem))

    for kind in (RequestValidationError, HTTPException, *REFUSALS, Exception):
        app.add_exception_handler(kind, refuse)
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
    if port == 80:  # browsers leave out the port of the scheme
        hosts |= {"127.0.0.1", "localhost"}
    return Guard(app, hosts)


async def _stream(answers: Iterator[dict[str, object]], abandonment: Event) -> AsyncIterator[bytes]:
    """Yield answers as lines, each computed in a thread; set the event if the visitor goes, which
    ends the thread.
    """
    try:
        while True:
            answer = await to_thread.run_sync(next, answers, None, abandon_on_cancel=True)
            if answer is None:
                break
            yield json.encode(answer) + b"\n"
    finally:
        abandonment.set()


class Guard:
    """The application around another one: it refuses requests, and adds the headers to all
    responses.

    Starlette's ``BaseHTTPMiddleware`` would pass every line of a response through a queue and a
    task of its own, and Starlette answers an error of the server outside of its middleware.
    """

    def __init__(self, app: ASGIApp, hosts: Container[str]) -> None:
        self.app = app
        self.hosts = hosts
        self.requests = 0
        """number of requests that are being answered"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = _refusal(scope["method"], Headers(scope=scope), self.hosts)
        if self.requests >= MAX_REQUESTS:
            refusal = _error(503, f"{MAX_REQUESTS} other requests are being answered: try again")
        self.requests += 1
        try:
            await (refusal or self.app)(scope, receive, send_with_headers)
        finally:
            self.requests -= 1


def _refusal(method: str, headers: Headers, own_hosts: Container[str]) -> Response | None:
    """Return the response to a request that is too long, or that another site's page or another
    name of this machine has sent. Pages of others may link to this one, which is a GET.

    Starlette's ``TrustedHostMiddleware`` is no substitute: it ignores the port, and the Origin.
    """
    hosts = [host.lower() for host in headers.getlist("host")]
    if len(hosts) != 1 or hosts[0] not in own_hosts:
        return _error(
            421, "the Host of the request is not this page's: open the address that was printed"
        )
    is_foreign = method != "GET" and headers.get("sec-fetch-site", "same-origin") != "same-origin"
    origins = {origin.lower() for origin in headers.getlist("origin")}
    if is_foreign or origins - {f"http://{hosts[0]}"}:
        return _error(
            403, "the request comes from another site's page: open this page's own address"
        )
    if "transfer-encoding" in headers or int(headers.get("content-length", 0)) > MAX_BYTES:
        return _error(
            413,
            f"the request is too long, or does not tell its length: send at most {MAX_BYTES:,} "
            "bytes",
        )
    return None


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)
