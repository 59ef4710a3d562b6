"""Parallel blocks of work, on local cores or on a cluster, in any order; a block whose worker dies is retried.

A block is a pure function of its arguments, so results depend neither on the worker nor on retries.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pickle import PicklingError
from typing import Any, TypeVar

from joblib import Parallel, delayed
from joblib.externals.loky.backend import resource_tracker as loky_resource_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool
from joblib.parallel import LokyBackend, get_active_backend

from ttt_envs.core.extras import install_command
from ttt_envs.core.subprocesses import environment_variables
from ttt_envs.core.threads import MAX_THREADS, share_cores

Result = TypeVar("Result")
Block = Sequence[Any]
"""the arguments of one call"""

MAX_ATTEMPTS = 3
"""Maximum number of consecutive worker deaths, without a finished block in between."""
TASK_S = 0.5
"""Maximum duration in seconds of a task on a cluster that groups short blocks."""
MAX_JOBS = 1024
"""Maximum number of processes; all are started at once, however little work there is."""
STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals of Ctrl-C, for termination, and for a closed terminal."""
PARENT_CHECK_S = 0.5
"""Interval in seconds at which a worker checks whether its parent is alive."""


@dataclass(frozen=True)
class Cluster:
    """Machines that run Ray; ttt_envs must be installed on each of them, in the same version."""

    address: str = "auto"
    """address of the head, ``host:port``; ``"auto"`` is the one started on this machine"""


Jobs = int | Cluster
"""workers: a number of local processes, -1 for one per core, 1 for this process itself; or a cluster"""


def check_jobs(jobs: Jobs) -> None:
    """Raise ValueError for an invalid number of processes."""
    if isinstance(jobs, int) and jobs < 1 and jobs != -1:
        raise ValueError(f"jobs={jobs} gives no worker: choose 1 or more processes, or -1 for one per core")
    if isinstance(jobs, int) and jobs > MAX_JOBS:
        raise ValueError(f"jobs={jobs} is too many: choose {MAX_JOBS} or fewer processes")


def map_blocks(
    function: Callable[..., Result], blocks: Iterable[Block], jobs: Jobs = 1
) -> Generator[tuple[int, Result], None, None]:
    """Run blocks of work in parallel, and yield each result as soon as it is available.

    Args:
        function: computes a block; other processes must be able to import it.
        blocks: the arguments of each call. They are consumed lazily as workers become free, so there may be more than
            needed: close the generator when enough are done.
        jobs: the workers.

    Yields:
        The number of a block and its result, in the order of completion.

    Raises:
        ValueError: there are no workers, the work cannot be pickled, workers die again and again, or the cluster or
            Ray is missing. Exceptions of ``function`` are re-raised here.
    """
    check_jobs(jobs)
    numbered = enumerate(blocks)
    if isinstance(jobs, Cluster):
        return _on_cluster(function, numbered, jobs)
    if jobs == 1 or (jobs == -1 and os.cpu_count() == 1):
        return ((number, function(*block)) for number, block in numbered)
    return _on_cores(function, numbered, jobs)


def results_in_order(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Yield the results of :func:`map_blocks` in the order of blocks, each once all earlier ones are done."""
    early: dict[int, Result] = {}
    wanted = 0
    for number, result in results:
        early[number] = result
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


def _with_number(function: Callable[..., Result], number: int, block: Block) -> tuple[int, Result]:
    return number, function(*block)


def _worker_died_error(problem: BaseException) -> ValueError:
    return ValueError(
        f"workers died {MAX_ATTEMPTS} times before they had done a block, killed or out of memory "
        f"({type(problem).__name__}): choose fewer jobs, or give them more memory"
    )


def _not_picklable_error(problem: BaseException) -> ValueError:
    """Return the error for work that cannot be pickled."""
    why = str(problem.__cause__).strip('"\n ').rpartition("\n")[2] or "it cannot be pickled"
    return ValueError(
        f"the work cannot be handed to other processes ({why}): choose jobs=1, or spec strings for the players"
    )


# ---------------------------------------------------------------------------------------------------------------------
# On local cores


class _TiedLokyBackend(LokyBackend):  # type: ignore[misc]
    """joblib processes that leave Ctrl-C to their parent, and exit when it exits in any way."""

    def configure(self, n_jobs: int = 1, parallel: Any = None, **settings: Any) -> Any:
        """Return the number of workers."""
        settings |= {"initializer": _prepare_worker, "initargs": (os.getpid(), self.effective_n_jobs(n_jobs))}
        return super().configure(n_jobs, parallel, **settings)


def _prepare_worker(parent: int, workers: int) -> None:
    """Initialise this process as one of the workers of ``parent``."""
    share_cores(workers)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    threading.Thread(target=_exit_with_parent, args=(parent,), name="parent", daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    """Exit this process once its parent has exited."""
    if sys.platform == "win32":  # getppid does not change there
        import psutil

        with contextlib.suppress(psutil.Error):
            psutil.Process(parent).wait()
    else:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
    os._exit(1)


def _start_trackers() -> None:
    """Start the processes that clean up after workers, without warnings of what an interrupt left behind."""
    with environment_variables({"PYTHONWARNINGS": "ignore"}):
        for tracker in (resource_tracker, loky_resource_tracker):
            tracker.ensure_running()


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Defer stop signals to the end of the context; processes started within ignore Ctrl-C.

    Any thread of this process may receive a signal, such as that of a progress bar, so blocking it in this one is not
    enough: its handler is deferred, too.
    """
    received: list[int] = []

    def raise_received() -> None:
        if received:
            signal.raise_signal(received[0])

    with contextlib.ExitStack() as stack:
        stack.callback(raise_received)  # after the others
        if hasattr(signal, "pthread_sigmask"):
            _start_trackers()  # before the block, which they would lift
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if callable(handler := signal.getsignal(number)):
                    signal.signal(number, lambda number, _: received.append(number))
                    stack.callback(signal.signal, number, handler)
        yield


@functools.cache
def _ignore_errors_of_executor() -> None:
    """Print nothing when the thread of joblib that feeds the workers fails: after an interrupt nothing needs it."""
    default = threading.excepthook

    def handle(failure: threading.ExceptHookArgs) -> None:
        if failure.thread is None or not failure.thread.name.startswith("ExecutorManagerThread"):
            default(failure)

    threading.excepthook = handle


def _in_parallel(jobs: int) -> Parallel:
    """Return a Parallel with workers tied to this process; within its workers or another backend, a default one."""
    active, _ = get_active_backend()
    tied = {"backend": _TiedLokyBackend()} if isinstance(active, LokyBackend) else {}
    return Parallel(n_jobs=jobs, return_as="generator_unordered", **tied)


def _on_cores(
    function: Callable[..., Result], numbered: Iterator[tuple[int, Block]], jobs: int
) -> Generator[tuple[int, Result], None, None]:
    """Run blocks with joblib. A dead worker breaks its pool: unfinished blocks are restarted in a new one."""
    under_way: dict[int, Block] = {}
    wanted = True

    def take(blocks: Iterable[tuple[int, Block]]) -> Iterator[Any]:
        for number, block in blocks:
            if not wanted:
                return
            under_way[number] = block
            yield delayed(_with_number)(function, number, block)

    # loky replaces a worker whose memory has grown, and warns; the replacement is harmless
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    deaths = 0
    while True:
        again = sorted(under_way.items())
        results: Any = None
        try:
            with _interrupts_deferred():  # an interrupt during Python's start-up would print a traceback
                results = _in_parallel(jobs)(take(itertools.chain(again, numbered)))
            for number, result in results:
                del under_way[number]
                deaths = 0
                yield number, result
            return
        except GeneratorExit:  # wait for the few unfinished blocks, and keep the workers
            wanted = False
            with contextlib.suppress(Exception):
                collections.deque(results, maxlen=0)
            raise
        except KeyboardInterrupt:
            _ignore_errors_of_executor()
            raise
        except BrokenProcessPool as problem:
            deaths += 1
            if deaths == MAX_ATTEMPTS:
                raise _worker_died_error(problem) from None
        except PicklingError as problem:
            raise _not_picklable_error(problem) from None
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about cancelled blocks, whose results are not needed
                if results is not None:
                    results.close()


# ---------------------------------------------------------------------------------------------------------------------
# On a cluster


def connect(cluster: Cluster) -> bool:
    """Connect to a cluster, for several calls of :func:`map_blocks`; the connection lasts until this process exits.

    Returns:
        Whether this call made the connection.

    Raises:
        ValueError: the cluster or Ray is missing.
    """
    try:
        ray = _import_ray()
    except ImportError:
        raise ValueError(f"a cluster needs Ray: {install_command('cluster')}") from None
    if ray.is_initialized():
        return False
    try:
        _check_reachable(cluster.address)
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as problem:
        raise ValueError(
            f"there is no Ray cluster at {cluster.address!r} ({type(problem).__name__}): start one here with "
            f'"ray start --head", or write the address of its head, host:port'
        ) from None
    return True


def _import_ray() -> Any:
    """Import Ray so that it prints nothing on standard output, which is reserved for results.

    A thread of Ray reports dead workers there despite ``log_to_driver``. Ray reads these variables on import; an import
    before this one is not affected.
    """
    with environment_variables({"RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "^"}):
        import ray
    return ray


def _on_cluster(
    function: Callable[..., Result], numbered: Iterator[tuple[int, Block]], cluster: Cluster
) -> Generator[tuple[int, Result], None, None]:
    """Run blocks as Ray tasks, twice as many at a time as there are CPUs. Ray itself retries tasks of dead workers.

    Submitting a task takes milliseconds, so short blocks are grouped.
    """
    begun_here = connect(cluster)
    import ray

    task: Any = ray.remote(num_cpus=1, max_retries=MAX_ATTEMPTS - 1)(_shared)
    under_way: dict[Any, list[int]] = {}
    together = 1
    try:
        shared = _submit_to_ray(ray.put, function)
        cpus: float = ray.cluster_resources().get("CPU", 1)  # type: ignore[no-untyped-call]
        at_once = max(2, int(2 * cpus))
        while True:
            while len(under_way) < at_once and (some := list(itertools.islice(numbered, together))):
                future = _submit_to_ray(task.remote, shared, [block for _, block in some])
                under_way[future] = [number for number, _ in some]
            if not under_way:
                return
            done, _ = ray.wait(list(under_way), num_returns=1)
            for one in done:
                numbers = under_way.pop(one)
                try:
                    seconds, results = ray.get(one)
                except ray.exceptions.RayTaskError as problem:  # re-raise the function's own exception
                    raise problem.cause from None
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as problem:
                    raise _worker_died_error(problem) from None
                except ray.exceptions.RayError as problem:
                    raise ValueError(f"the cluster at {cluster.address!r} failed: {type(problem).__name__}") from None
                together = max(1, min(2 * together, int(TASK_S * len(numbers) / max(seconds, 1e-9))))
                yield from zip(numbers, results, strict=True)
    finally:
        for one in under_way:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.cancel(one, force=True)
        if begun_here:
            ray.shutdown()


def _submit_to_ray(hand: Callable[..., Any], *what: object) -> Any:
    """Submit to Ray, with a clear error for work that cannot be pickled."""
    try:
        return hand(*what)
    except TypeError as problem:
        raise _not_picklable_error(problem) from None


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing answers at ``host:port``, because Ray would retry for minutes."""
    host, _, port = address.rpartition(":")
    if host and "://" not in address:
        socket.create_connection((host, int(port)), timeout=10).close()


def _shared(function: Callable[..., Result], blocks: Sequence[Block]) -> tuple[float, list[Result]]:
    """Run blocks with the function stored once in Ray, and return the elapsed seconds and the results."""
    share_cores(MAX_THREADS)  # a task has one core
    start = time.perf_counter()
    results = [function(*block) for block in blocks]
    return time.perf_counter() - start, results
