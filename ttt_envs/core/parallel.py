"""Parallel blocks of work, on local cores or on a cluster, in any order; a block whose worker dies
is retried.

A block is a pure function of its arguments, so results depend neither on the worker nor on retries.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import signal
import socket
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pickle import PicklingError
from typing import Any, TypeVar

from ttt_envs.core.checks import Refusal
from ttt_envs.core.packages import end_with_process, environment_variables, install_command
from ttt_envs.core.work import count_threads

Result = TypeVar("Result")
Block = Sequence[object]
"""the arguments of one call"""

MAX_ATTEMPTS = 3
"""Maximum number of consecutive worker deaths, without a finished block in between.

Two blocks that each kill their worker once may do so one after the other."""
MAX_JOBS = 1024
"""Maximum number of processes; all are started at once, however little work there is."""

Jobs = int | str
"""workers: a number of local processes, -1 for one per core, 1 for this process itself; or a
cluster of machines that run Ray, by the address of its head, ``host:port``, or ``"auto"`` for the
one started on this machine. ttt_envs must be installed on each of them, in the same version"""


def check_jobs(jobs: Jobs) -> None:
    """Raise ValueError for an invalid number of processes."""
    if isinstance(jobs, int) and not (jobs == -1 or 1 <= jobs <= MAX_JOBS):
        raise Refusal(
            f"jobs={jobs} is no number of processes: choose 1 to {MAX_JOBS}, or -1 for one per core"
        )


def map_blocks(
    function: Callable[..., Result], blocks: Iterable[Block], jobs: Jobs = 1
) -> Generator[tuple[int, Result], None, None]:
    """Run blocks of work in parallel, and yield each result as soon as it is available.

    Args:
        function: computes a block; other processes must be able to import it.
        blocks: the arguments of each call. They are consumed lazily as workers become free, so
            there may be more than needed: close the generator when enough are done.
        jobs: the workers.

    Yields:
        The number of a block and its result, in the order of completion.

    Raises:
        ValueError: there are no workers, the work cannot be pickled, workers die again and again,
            or the cluster or Ray is missing. Exceptions of ``function`` are re-raised here.
    """
    check_jobs(jobs)
    pairs = enumerate(blocks)
    if isinstance(jobs, str):
        return _on_cluster(function, pairs, jobs)
    if jobs == 1 or (jobs == -1 and os.cpu_count() == 1):
        return ((number, function(*block)) for number, block in pairs)
    return _on_cores(function, pairs, jobs)


def results_in_order(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Yield the results of :func:`map_blocks` in the order of blocks, each once all earlier ones
    are done.
    """
    buffer: dict[int, Result] = {}
    next_number = 0
    for number, result in results:
        buffer[number] = result
        while next_number in buffer:
            yield buffer.pop(next_number)
            next_number += 1


_NOT_PICKLABLE = (
    "the work cannot be handed to other processes (%s): choose jobs=1, or spec strings for the "
    "players"
)


# --------------------------------------------------------------------------------------------------
# On local cores


def _on_cores(
    function: Callable[..., Result], numbered: Iterator[tuple[int, Block]], jobs: int
) -> Generator[tuple[int, Result], None, None]:
    """Run blocks with joblib. A dead worker breaks its pool: unfinished blocks are restarted in a
    new one.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    under_way: dict[int, Block] = {}
    run = delayed(functools.partial(_run, os.getpid(), jobs, function))

    def take() -> Iterator[Any]:
        for number, block in itertools.chain(sorted(under_way.items()), numbered):
            under_way[number] = block
            yield run(number, block)

    # a worker whose memory has grown is replaced, and results of cancelled blocks are not needed:
    # both are harmless
    warnings.filterwarnings("ignore", r"A worker stopped|\d+ tasks ", UserWarning)
    deaths = 0
    while True:
        try:
            _start_workers(jobs)
            with closing(Parallel(jobs, return_as="generator_unordered")(take())) as results:
                for number, result in results:
                    del under_way[number]
                    deaths = 0
                    yield number, result
            return
        except BrokenProcessPool:
            deaths += 1
            if deaths == MAX_ATTEMPTS:
                raise Refusal(
                    "workers died, killed or out of memory: choose fewer jobs, or more memory"
                ) from None
        except (
            PicklingError
        ) as problem:  # its cause is a traceback as text, whose last line says why
            raise Refusal(
                _NOT_PICKLABLE % str(problem.__cause__).strip('"\n ').rpartition("\n")[2]
            ) from None


def _run(
    parent: int, workers: int, function: Callable[..., Result], number: int, block: Block
) -> tuple[int, Result]:
    """Run a block in a worker of a process, or, if that is 0, of Ray."""
    if parent != os.getpid():
        _prepare_worker(parent, workers)
    return number, function(*block)


@functools.cache
def _prepare_worker(parent: int, workers: int) -> None:
    """Make this process a worker: it leaves Ctrl-C to its parent, and exits when it exits in any
    way.
    """
    os.environ["LOKY_MAX_CPU_COUNT"] = str(count_threads("auto", workers))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent:
        end_with_process(parent)


def _start_workers(jobs: int) -> None:
    """Start the workers in a thread, where no handler of signals runs, and which leaves them
    without Ctrl-C.

    Otherwise a worker that is interrupted, or loses its parent, before it has its work prints a
    traceback.
    """
    from multiprocessing import resource_tracker

    from joblib import Parallel, delayed
    from joblib.externals.loky.backend import resource_tracker as loky_resource_tracker

    def start() -> None:
        if hasattr(signal, "pthread_sigmask"):
            with environment_variables(
                {"PYTHONWARNINGS": "ignore"}
            ):  # of what an interrupt leaves behind
                resource_tracker.ensure_running()  # these would lift the block
                loky_resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        Parallel(jobs)([delayed(os.getpid)()])

    with ThreadPoolExecutor(1) as pool:
        pool.submit(start).result()


# --------------------------------------------------------------------------------------------------
# On a cluster


def connect(address: str) -> Any:
    """Connect to a cluster until this process exits, unless it is connected already, and return the
    module ``ray``.

    Raises:
        ValueError: the cluster or Ray is missing.
    """
    try:
        # Ray reads these when it is imported: its threads print on standard output, which is
        # reserved for results
        os.environ.update(RAY_DEDUP_LOGS="1", RAY_DEDUP_LOGS_SKIP_REGEX="^")
        import ray
    except ImportError:
        raise Refusal(f"a cluster needs Ray: {install_command('cluster')}") from None
    try:
        if not ray.is_initialized():
            host, _, port = address.rpartition(":")
            if host and "://" not in host:
                socket.create_connection(
                    (host, int(port)), timeout=10
                ).close()  # Ray itself would retry for minutes
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as problem:
        raise Refusal(
            f"there is no Ray cluster at {address!r} ({type(problem).__name__}): start one here "
            "with "
            f'"ray start --head", or write the address of its head, host:port'
        ) from None
    return ray


def _on_cluster(
    function: Callable[..., Result], numbered: Iterator[tuple[int, Block]], address: str
) -> Generator[tuple[int, Result], None, None]:
    """Run blocks as Ray tasks, twice as many at a time as there are CPUs. Ray itself retries tasks
    of dead workers.
    """
    ray = connect(address)
    task = ray.remote(num_cpus=1, max_retries=MAX_ATTEMPTS - 1)(_run)
    under_way: list[Any] = []
    try:
        function_ref = ray.put(function)
        at_once = max(2, int(2 * ray.cluster_resources().get("CPU", 1)))
        while True:
            blocks = itertools.islice(numbered, at_once - len(under_way))
            under_way += [
                task.remote(0, -1, function_ref, number, block) for number, block in blocks
            ]
            if not under_way:
                return
            [future], under_way = ray.wait(under_way)
            yield ray.get(future)
    except ray.exceptions.RayError as problem:
        cause = getattr(problem, "cause", None)  # the function's own exception
        raise cause or Refusal(
            f"the cluster at {address!r} failed ({type(problem).__name__}): give each task more "
            "memory"
        ) from None
    except TypeError as problem:  # of Ray, whose cause is that of pickle
        raise Refusal(_NOT_PICKLABLE % problem.__cause__) from None
    finally:
        for future in under_way:
            ray.cancel(future, force=True)
