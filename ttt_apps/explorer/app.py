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

from ttt_apps.explorer import schemas
from ttt_apps.explorer.api import Answers
from ttt_apps.explorer.schemas import BaseRequest, Root, read_request
from ttt_apps.explorer.security import AccessPolicy, App, GuardMiddleware, Receive, Scope, Send

ASSETS = Path(__file__).parent / "assets"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
WORKERS = min(4, os.cpu_count() or 1)
QUICK_WORKERS = 8
"""Number of threads for quick requests; the first ones, which compile, occupy only some of them."""
WAITING = 64
"""Maximum number of waiting requests; more are rejected as busy."""

log = logging.getLogger(__name__)


class ServerBusyError(Exception):
    """The queue of requests is full."""


class Work:
    """Thread pool with a bounded number of workers and of waiting requests.

    Args:
        workers: number of threads.
        waiting: maximum number of waiting requests.
        pool: executor of the threads, possibly shared: with as many threads as all users together.
    """

    def __init__(self, workers: int = WORKERS, waiting: int = WAITING, pool: ThreadPoolExecutor | None = None) -> None:
        self._pool = pool or ThreadPoolExecutor(workers, thread_name_prefix="explorer")
        self._free = asyncio.Semaphore(workers)
        self._most = workers + waiting
        self._now = 0

    async def do(self, work: Callable[..., Any], *given: Any) -> Any:
        """Run ``work`` in a thread and return its result.

        Raises:
            Busy: too many requests are waiting.
        """
        if self._now >= self._most:
            raise ServerBusyError
        self._now += 1  # only the event loop's thread counts
        try:
            async with self._free:
                return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)
        finally:
            self._now -= 1

    def close(self) -> None:
        """Accept no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Explorer(GuardMiddleware):
    """The application, behind its access policy.

    Args:
        door: the access policy.
        root: folder of runs and logs; without it there are none.
        work: workers for requests that may take seconds, because they search, compile, or read files.
        quick: workers for all other requests, such as moves on the board, which never wait for slow ones.
    """

    def __init__(
        self, door: AccessPolicy, root: Root | None = None, work: Work | None = None, quick: Work | None = None
    ) -> None:
        self.answers = Answers(root or Root())
        pool = ThreadPoolExecutor(WORKERS + QUICK_WORKERS, thread_name_prefix="explorer")  # threads start on demand
        self.work = work or Work(WORKERS, pool=pool)
        self.quick = quick or Work(QUICK_WORKERS, pool=pool)
        super().__init__(_make_routes(self.answers, self.work, self.quick), door)

    def close(self) -> None:
        """Accept no more work."""
        self.work.close()
        self.quick.close()


def _is_quick(asked: BaseRequest) -> bool:
    """Return whether a request needs only the rules of the game, or values of a solved game."""
    if isinstance(asked, schemas.PlayRequest):
        return asked.policy is None
    return isinstance(asked, schemas.LineRequest) or type(asked) is BaseRequest


def _make_routes(answers: Answers, work: Work, quick: Work) -> App:
    """Return the application without access control."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    def serve(name: str, path: str) -> None:
        kind = KINDS[Path(name).suffix]

        async def asset() -> Response:
            return FileResponse(ASSETS / name, media_type=kind)

        app.add_api_route(path, asset, methods=["GET", "HEAD"])

    for file in sorted(ASSETS.iterdir()):
        serve(file.name, "/" if file.name == "index.html" else f"/assets/{file.name}")

    def offer(name: str, kind: type[BaseRequest], answer: Callable[[Any], dict[str, Any]]) -> None:
        def answered(asked: BaseRequest) -> bytes:
            return json.dumps(answer(asked), allow_nan=False).encode()

        async def route(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return _error(415, "the request is no JSON: send it as application/json")
            asked = read_request(kind, await request.body())
            done_by = quick if _is_quick(asked) else work
            return Response(await done_by.do(answered, asked), media_type="application/json")

        app.add_api_route(f"/api/{name}", route, methods=["POST"])

    offer("about", BaseRequest, lambda _: answers.about())
    offer("replay", schemas.LineRequest, answers.replay)
    offer("play", schemas.PlayRequest, answers.play)
    offer("values", schemas.ValuesRequest, answers.values)
    offer("log", schemas.NameRequest, answers.log)
    offer("logged", schemas.LogRequest, answers.logged)
    offer("run", schemas.NameRequest, answers.run)
    offer("mark", schemas.SnapshotRequest, answers.mark)

    async def wrong(request: Request, problem: Exception) -> Response:
        return _error(400, answers.sentence(problem))

    async def busy(request: Request, problem: Exception) -> Response:
        return _error(429, "too much is asked at once: ask again in a moment")

    async def unknown(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        return _error(problem.status_code, "there is nothing here: the page is at /")

    async def failed(request: Request, problem: Exception) -> Response:
        return _error(400, "this cannot be answered: ask for something else")

    for kind in (ValueError, TypeError, OSError, MemoryError):
        app.add_exception_handler(kind, wrong)
    app.add_exception_handler(ServerBusyError, busy)
    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(Exception, failed)

    async def whole(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception:  # the client has a response; an internal error is logged for the operator
            log.exception("a request could not be answered")

    return whole


def _error(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status)
