"""The explorer as a web application: a page, its assets, and its API."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from ttt_apps.explorer import schemas
from ttt_apps.explorer.api import ExplorerApi
from ttt_apps.explorer.schemas import BaseRequest, Root, read_request
from ttt_apps.explorer.security import AccessPolicy, GuardMiddleware

ASSETS = Path(__file__).parent / "assets"
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
WORKERS = min(4, os.cpu_count() or 1)
QUICK_WORKERS = 8
"""Number of threads for quick requests; the first ones, which compile, occupy only some of them."""
MAX_WAITING = 64
"""Maximum number of waiting requests; more are rejected as busy."""

log = logging.getLogger(__name__)


class ServerBusyError(Exception):
    """The queue of requests is full."""


class WorkerPool:
    """Thread pool with a bounded number of workers and of waiting requests.

    Args:
        workers: number of threads.
        max_waiting: maximum number of waiting requests.
        pool: executor of the threads, possibly shared: with as many threads as all users together.
    """

    def __init__(
        self, workers: int = WORKERS, max_waiting: int = MAX_WAITING, pool: ThreadPoolExecutor | None = None
    ) -> None:
        self._pool = pool or ThreadPoolExecutor(workers, thread_name_prefix="explorer")
        self._free = asyncio.Semaphore(workers)
        self._max_requests = workers + max_waiting
        self._requests = 0

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``work`` in a thread and return its result.

        Raises:
            ServerBusyError: too many requests are waiting.
        """
        if self._requests >= self._max_requests:
            raise ServerBusyError
        self._requests += 1  # only the event loop's thread counts
        try:
            async with self._free:
                return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        finally:
            self._requests -= 1

    def close(self) -> None:
        """Accept no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Explorer(GuardMiddleware):
    """The application, behind its access policy.

    Args:
        access: the access policy.
        root: folder of runs and logs; without it there are none.
        work: workers for requests that may take seconds, because they search, compile, or read files.
        quick: workers for all other requests, such as moves on the board, which never wait for slow ones.
    """

    def __init__(
        self,
        access: AccessPolicy,
        root: Root | None = None,
        work: WorkerPool | None = None,
        quick: WorkerPool | None = None,
    ) -> None:
        self.api = ExplorerApi(root or Root())
        pool = ThreadPoolExecutor(WORKERS + QUICK_WORKERS, thread_name_prefix="explorer")  # threads start on demand
        self.work = work or WorkerPool(WORKERS, pool=pool)
        self.quick = quick or WorkerPool(QUICK_WORKERS, pool=pool)
        super().__init__(_make_routes(self.api, self.work, self.quick), access)

    def close(self) -> None:
        """Accept no more work."""
        self.work.close()
        self.quick.close()


def _is_quick(request: BaseRequest) -> bool:
    """Return whether a request needs only the rules of the game, or values of a solved game."""
    if isinstance(request, schemas.PlayRequest):
        return request.policy is None
    return isinstance(request, schemas.LineRequest) or type(request) is BaseRequest


def _make_routes(api: ExplorerApi, work: WorkerPool, quick: WorkerPool) -> ASGIApp:
    """Return the application without access control."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    def serve(name: str, path: str) -> None:
        async def asset() -> Response:
            return FileResponse(ASSETS / name, media_type=MEDIA_TYPES[Path(name).suffix])

        app.add_api_route(path, asset, methods=["GET", "HEAD"])

    for file in sorted(ASSETS.iterdir()):
        serve(file.name, "/" if file.name == "index.html" else f"/assets/{file.name}")

    def add_route(name: str, kind: type[BaseRequest], answer: Callable[[Any], dict[str, Any]]) -> None:
        def to_json(request: BaseRequest) -> bytes:
            return json.dumps(answer(request), allow_nan=False).encode()

        async def route(http: Request) -> Response:
            if http.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return _error(415, "the request is no JSON: send it as application/json")
            request = read_request(kind, await http.body())
            pool = quick if _is_quick(request) else work
            return Response(await pool.run(to_json, request), media_type="application/json")

        app.add_api_route(f"/api/{name}", route, methods=["POST"])

    add_route("about", BaseRequest, lambda _: api.about())
    add_route("replay", schemas.LineRequest, api.replay)
    add_route("play", schemas.PlayRequest, api.play)
    add_route("values", schemas.ValuesRequest, api.values)
    add_route("log", schemas.NameRequest, api.log)
    add_route("logged", schemas.LogRequest, api.logged)
    add_route("run", schemas.NameRequest, api.run)
    add_route("mark", schemas.SnapshotRequest, api.mark)

    def handle(kind: type[Exception], status: int, why: str = "") -> None:
        async def respond(_: Request, problem: Exception) -> Response:
            code = problem.status_code if isinstance(problem, HTTPException) else status
            return _error(code, why or api.describe_error(problem))

        app.add_exception_handler(kind, respond)

    for kind in (ValueError, TypeError, OSError, MemoryError):
        handle(kind, 400)
    handle(ServerBusyError, 429, "too many requests at once: try again in a moment")
    handle(HTTPException, 404, "there is nothing here: the page is at /")
    handle(Exception, 400, "this cannot be answered: ask for something else")

    async def logged(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception:  # the client has a response; an internal error is logged for the operator
            log.exception("a request could not be answered")

    return logged


def _error(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status)
