"""Access control and request limits, enforced before parsing.

Any other page in a browser can send requests to a page on this machine, and so can a foreign name that resolves to it
(DNS rebinding). So the Host must be ours, an Origin must match the Host, and if others can reach the machine they need
the token. Requests are read whole here; their size is limited to ``BODY`` and their duration to ``REQUEST_S``.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from ttt_apps.explorer.schemas import BODY

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE, HEADER = "ttt_token", b"x-ttt-token"
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


class RequestRejectedError(Exception):  # not an internal error
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

    def check(self, scope: Scope) -> None:
        """Check a request.

        Raises:
            Refused: it must not be answered.
        """
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise RequestRejectedError(
                421, "the Host of the request is not this explorer's: open the address that it has printed"
            )
        for name, value in headers:
            if name == b"origin" and value.decode("latin-1").lower() != f"http://{hosts[0]}".lower():
                raise RequestRejectedError(
                    403, "the request comes from a page of somebody else: open the explorer's own"
                )
            if name == b"sec-fetch-site" and scope["method"] == "POST" and value not in (b"same-origin", b"none"):
                raise RequestRejectedError(
                    403, "the request comes from a page of somebody else: open the explorer's own"
                )
        if scope["method"] not in METHODS:
            raise RequestRejectedError(405, "only GET and POST are answered")

    def knows_token(self, scope: Scope) -> bool:
        """Return whether a request has the token, in a header or a cookie; True if no token is needed."""
        if self.token is None:
            return True
        given = []
        for name, value in scope["headers"]:
            if name == HEADER:
                given.append(value)
            elif name == b"cookie":
                given.append(_cookie(value.decode("latin-1")).encode("latin-1", "replace"))
        return any(hmac.compare_digest(one, self.token.encode()) for one in given)

    def brings_token(self, scope: Scope) -> bool:
        """Return whether a request is the first link, with the token in its address."""
        if self.token is None or scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self.token.encode())

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


def _cookie(text: str) -> str:
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


class GuardMiddleware:
    """Middleware that enforces an access policy.

    Args:
        app: the application.
        door: the access policy.
    """

    def __init__(self, app: App, door: AccessPolicy) -> None:
        self.app = app
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or respond with an error."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            self.door.check(scope)
            if self.door.brings_token(scope):
                await _let_in(self.door, answer)
                return
            if not self.door.knows_token(scope):
                raise RequestRejectedError(401, "this explorer wants its token: open the link that it has printed")
            try:
                async with asyncio.timeout(REQUEST_S):
                    body = await _read(scope, receive)
            except TimeoutError:
                raise RequestRejectedError(408, "the rest of the request did not come in time: send it again") from None
        except RequestRejectedError as refused:
            await say(answer, refused.status, str(refused))
            return
        await self.app(scope, _replay_body(body, receive), answer)


async def say(send: Send, status: int, why: str) -> None:
    """Send an error response."""
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status in (401, 403, 405, 408, 413, 421):
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _let_in(door: AccessPolicy, send: Send) -> None:
    """Set the cookie, and redirect to the same page without the token in its address."""
    cookie = f"{COOKIE}={door.token}; Path=/; HttpOnly; SameSite=Strict"
    headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _read(scope: Scope, receive: Receive) -> bytes:
    """Read the body of a request.

    Raises:
        Refused: it is too long, checked while it arrives.
    """
    too_long = RequestRejectedError(413, f"the request is longer than {BODY:,} bytes")
    for name, value in scope["headers"]:
        if name == b"content-length" and not (value.isdigit() and len(value) < 10 and int(value) <= BODY):
            raise too_long
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > BODY:
            raise too_long
        if not message.get("more_body", False):
            return bytes(body)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that replays the body read."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> MutableMapping[str, Any]:
        return waiting.pop() if waiting else await receive()

    return given
