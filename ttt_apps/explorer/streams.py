"""Worker threads of the explorer, and panels that are sent one by one, as they are finished."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

LINES = "application/x-ndjson"
"""Media type of a stream of JSON objects, one a line."""
WORKERS = min(4, os.cpu_count() or 1)
MAX_WAITING = 64
"""Maximum number of waiting requests; more are rejected as busy."""
BUSY = "too many requests at once: try again in a moment"
WAIT_S = 0.4
"""Time in seconds after which a panel that is not finished says what it waits for."""

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


async def stream_panels(
    position: str, kinds: Sequence[str], panels: Sequence[Callable[[], dict[str, Any]]], work: WorkerPool
) -> AsyncIterator[bytes]:
    """Yield JSON lines: the position; then each panel when it is finished, or what it waits for, with its ``number``.

    A panel that is not begun when the client leaves is not computed.

    Args:
        position: as text.
        kinds: of the panels.
        panels: functions that compute them.
        work: threads for them.
    """
    begun: set[int] = set()
    left = threading.Event()

    def compute(number: int) -> dict[str, Any]:
        if left.is_set():
            return {}
        begun.add(number)
        return panels[number]()

    async def answer(number: int) -> dict[str, Any]:
        try:
            return await work.run(compute, number)  # type: ignore[no-any-return]
        except ServerBusyError:
            return {"kind": kinds[number], "error": BUSY}
        except Exception:
            log.exception("a panel could not be computed")
            return {"kind": kinds[number], "error": "this cannot be computed: ask for something else"}

    tasks = {asyncio.create_task(answer(number)): number for number in range(len(panels))}
    said: dict[int, str] = {}
    try:
        yield _line({"position": position})
        pending = set(tasks)
        while pending:
            done, pending = await asyncio.wait(pending, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield _line({"number": tasks[task], **task.result()})
            for task in () if done else pending:
                number = tasks[task]
                words = "computing" if number in begun else "waiting for the other panels"
                if said.get(number) != words:
                    said[number] = words
                    yield _line({"number": number, "kind": kinds[number], "waits": words})
    finally:
        left.set()


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, allow_nan=False).encode() + b"\n"
