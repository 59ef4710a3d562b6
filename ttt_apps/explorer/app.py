"""The explorer as a web application: a page, its assets, and its API."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from ttt_apps.explorer import schemas
from ttt_apps.explorer.api import ExplorerApi
from ttt_apps.explorer.schemas import BaseRequest, Root, read_request
from ttt_apps.explorer.security import AccessPolicy, GuardMiddleware
from ttt_apps.explorer.streams import BUSY, LINES, WORKERS, ServerBusyError, WorkerPool, stream_panels

ASSETS = Path(__file__).parent / "assets"
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
QUICK_WORKERS = 8
"""Number of threads for quick requests; the first ones, which compile, occupy only some of them."""

log = logging.getLogger(__name__)


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
        self.api.close()
        self.work.close()
        self.quick.close()


def _is_quick(request: BaseRequest) -> bool:
    """Return whether a request needs only the rules of the game, or values of a solved game."""
    if isinstance(request, schemas.PlayRequest):
        return request.policy is None
    if isinstance(request, schemas.ReviewRequest):
        return False
    return isinstance(request, schemas.LineRequest) or type(request) is BaseRequest


def _make_routes(api: ExplorerApi, work: WorkerPool, quick: WorkerPool) -> ASGIApp:
    """Return the application without access control."""
    app = new_app(ASSETS.iterdir(), api.root.describe_error)

    def route(name: str, kind: type[BaseRequest], answer: Callable[[Any], dict[str, Any]], stream: Any = None) -> None:
        add_route(app, name, kind, answer, lambda request: quick if _is_quick(request) else work, stream)

    async def stream_values(request: schemas.ValuesRequest) -> AsyncIterator[bytes]:
        position, panels = await quick.run(api.plan_panels, request)
        return stream_panels(position, [one.kind for one in request.panels], panels, work)

    route("about", BaseRequest, lambda _: api.about())
    route("replay", schemas.LineRequest, api.replay)
    route("play", schemas.PlayRequest, api.play)
    route("review", schemas.ReviewRequest, api.review)
    route("solve", schemas.SolveRequest, api.solve)
    route("values", schemas.ValuesRequest, api.values, stream_values)
    route("log", schemas.NameRequest, api.log)
    route("logged", schemas.LogRequest, api.logged)
    route("run", schemas.NameRequest, api.run)
    route("mark", schemas.SnapshotRequest, api.mark)
    route("puzzles", schemas.PuzzlesRequest, api.puzzles)
    return log_errors(app)


# ---------------------------------------------------------------------------------------------------------------------
# Any page with an API


def new_app(assets: Iterable[Path], describe_error: Callable[[BaseException], str]) -> FastAPI:
    """Return an application that serves a page, and answers an error with one sentence.

    Args:
        assets: the files of the page, served below ``/assets/``; ``index.html`` at ``/``.
        describe_error: formats an error without paths of this machine.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    def serve(file: Path, path: str) -> None:
        async def asset() -> Response:
            return FileResponse(file, media_type=MEDIA_TYPES[file.suffix])

        app.add_api_route(path, asset, methods=["GET", "HEAD"])

    for file in sorted(assets):
        serve(file, "/" if file.name == "index.html" else f"/assets/{file.name}")

    def handle(kind: type[Exception], status: int, why: str = "") -> None:
        async def respond(_: Request, problem: Exception) -> Response:
            code = problem.status_code if isinstance(problem, HTTPException) else status
            return _error(code, why or describe_error(problem))

        app.add_exception_handler(kind, respond)

    for kind in (ValueError, TypeError, OSError, MemoryError):
        handle(kind, 400)
    handle(ServerBusyError, 429, BUSY)
    handle(HTTPException, 404, "there is nothing here: the page is at /")
    handle(Exception, 500, "this cannot be answered because of an error of the server: see its log")
    return app


def add_route(
    app: FastAPI,
    name: str,
    kind: type[BaseRequest],
    answer: Callable[[Any], dict[str, Any]],
    choose_pool: Callable[[BaseRequest], WorkerPool],
    stream: Callable[[Any], Awaitable[AsyncIterator[bytes]]] | None = None,
) -> None:
    """Answer ``POST /api/NAME`` with JSON, made by ``answer`` in a thread of the pool chosen for the request.

    A client that accepts lines of JSON gets those of ``stream``, if there is one.
    """

    def to_json(request: BaseRequest) -> bytes:
        return json.dumps(answer(request), allow_nan=False).encode()

    async def route(http: Request) -> Response:
        if http.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _error(415, "the request is no JSON: send it as application/json")
        request = read_request(kind, await http.body())
        if stream is not None and LINES in http.headers.get("accept", ""):
            return StreamingResponse(await stream(request), media_type=LINES)
        return Response(await choose_pool(request).run(to_json, request), media_type="application/json")

    app.add_api_route(f"/api/{name}", route, methods=["POST"])


def log_errors(app: ASGIApp) -> ASGIApp:
    """Log errors whose client has a response already."""

    async def logged(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception:  # the client has a response; an internal error is logged for the operator
            log.exception("a request could not be answered")

    return logged


def _error(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status)
