"""Access control and request limits, enforced before parsing.

Any other page in a browser can send requests to a page on this machine, and so can a foreign name that resolves to it
(DNS rebinding). So the Host must be ours, an Origin must match the Host, and if others can reach the machine they need
the token. Requests are read whole here; their size is limited to ``MAX_BODY`` and their duration to ``REQUEST_S``.

Starlette's ``TrustedHostMiddleware`` is no substitute: it ignores the port, and accepts several Host headers.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ttt_apps.explorer.schemas import MAX_BODY

COOKIE, HEADER = "ttt_token", "x-ttt-token"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
METHODS = ("GET", "HEAD", "POST")
REQUEST_S = 10.0
"""Timeout for the head of a request, and for its body, in seconds."""
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)


class RequestRejectedError(Exception):
    """A rejected request: the status, and the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class AccessPolicy:
    """The access policy.

    Args:
        host: address of the server.
        port: its port.
        token: secret of all clients; None if only this machine can connect.
    """

    host: str
    port: int
    token: str | None = None

    @property
    def cookie(self) -> str:
        """Name of the cookie with the token: browsers send a cookie to all ports of a host."""
        return f"{COOKIE}_{self.port}"

    def check(self, request: Request) -> None:
        """Check where a request comes from.

        Raises:
            RequestRejectedError: it must not be answered.
        """
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise RequestRejectedError(
                421, "the Host of the request is not this page's: open the address that was printed"
            )
        origins = {origin.lower() for origin in request.headers.getlist("origin")}
        sites = set(request.headers.getlist("sec-fetch-site")) if request.method == "POST" else set()
        if origins - {f"http://{hosts[0]}".lower()} or sites - {"same-origin", "none"}:
            raise RequestRejectedError(403, "the request comes from another site's page: open this page's own address")
        if request.method not in METHODS:
            raise RequestRejectedError(405, "only GET and POST are answered")

    def is_authorized(self, request: Request) -> bool:
        """Return whether a request has the token, in a header or a cookie; True if no token is needed."""
        given = [*request.headers.getlist(HEADER), request.cookies.get(self.cookie, "")]
        return self.token is None or any(map(self._is_token, given))

    def has_token_link(self, request: Request) -> bool:
        """Return whether a request is the first link, with the token in its address."""
        if self.token is None or request.url.path != "/" or request.method != "GET":
            return False
        return self._is_token(request.query_params.get("token", ""))

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def _is_ours(self, host: str) -> bool:
        name, port = _split(host.lower())
        if port != str(self.port) and not (port == "" and self.port == 80):
            return False
        if name in LOOPBACK or name == self.host.lower() or name == f"[{self.host.lower()}]":
            return True
        if self.token is None:
            return False
        try:  # bound to all addresses, any of them may be used; accepting names would allow rebinding
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return self.host in ("0.0.0.0", "::")


def _split(host: str) -> tuple[str, str]:
    """Split a host into name and port."""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and not host.endswith("]") else (host, "")


class GuardMiddleware:
    """Middleware that enforces an access policy.

    Args:
        app: the application.
        access: the access policy.
    """

    def __init__(self, app: ASGIApp, access: AccessPolicy) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or respond with an error."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            response = await self._check(Request(scope, receive))
        except ClientDisconnect:
            return
        except RequestRejectedError as problem:
            # the rest of the request is not read
            response = JSONResponse({"error": str(problem)}, problem.status, {"connection": "close"})
        if isinstance(response, Response):
            await response(scope, receive, send_guarded)
        else:
            await self.app(scope, _replay_body(response, receive), send_guarded)

    async def _check(self, request: Request) -> Response | bytes:
        """Return the response to a link with the token, or the body of any other request.

        Raises:
            RequestRejectedError: it must not be answered.
        """
        self.access.check(request)
        if self.access.has_token_link(request):
            # the same page without the token in its address
            response = RedirectResponse("/", 303)
            response.set_cookie(self.access.cookie, self.access.token or "", httponly=True, samesite="strict")
            return response
        if not self.access.is_authorized(request):
            raise RequestRejectedError(401, "this page wants its token: open the link that was printed")
        try:
            async with asyncio.timeout(REQUEST_S):
                return await _read_body(request)
        except TimeoutError:
            raise RequestRejectedError(408, "the rest of the request did not come in time: send it again") from None


async def _read_body(request: Request) -> bytes:
    """Read the body of a request.

    Raises:
        RequestRejectedError: it is too long, checked while it arrives.
    """
    too_long = RequestRejectedError(413, f"the request is longer than {MAX_BODY:,} bytes")
    for length in request.headers.getlist("content-length"):
        if not (length.isdecimal() and len(length) < 10 and int(length) <= MAX_BODY):
            raise too_long
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise too_long
    return bytes(body)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that replays the body read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
