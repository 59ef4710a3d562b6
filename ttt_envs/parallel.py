"""Blocks of work, done on the cores here or on a cluster, in any order; a block whose worker died is done again.

A block is a function of its arguments alone, so what comes of the work depends neither on who does a block nor on how
often one is begun.
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

Result = TypeVar("Result")
Block = Sequence[Any]
"""the arguments of one call"""

TRIES = 3
"""how often workers may die, one after the other without a block that gets done, before that is an error"""
TASK_S = 0.5
"""seconds that a task on a cluster is to take at most, where blocks are shorter"""
MOST_JOBS = 1024
"""processes here: all are started at once, however little there is to do"""
PARENT_CHECK_S = 0.5
"""seconds between two looks of a worker at whether its parent lives"""


@dataclass(frozen=True)
class Cluster:
    """Machines on which Ray runs; ttt_envs is installed on each of them, in the same version."""

    address: str = "auto"
    """of its head, ``host:port``; ``"auto"`` is the one that was started on this machine"""


Jobs = int | Cluster
"""who does the work: so many processes here, -1 for one per core, 1 for this process itself; or a cluster"""


def check_jobs(jobs: Jobs) -> None:
    """Raise ValueError for a number of processes that cannot work."""
    if isinstance(jobs, int) and jobs < 1 and jobs != -1:
        raise ValueError(f"jobs={jobs} leaves nobody to work: choose 1 or more processes, or -1 for one per core")
    if isinstance(jobs, int) and jobs > MOST_JOBS:
        raise ValueError(f"jobs={jobs} is more than a machine can have: choose {MOST_JOBS} or fewer processes")


def do_blocks(
    function: Callable[..., Result], blocks: Iterable[Block], jobs: Jobs = 1
) -> Generator[tuple[int, Result], None, None]:
    """Do blocks of work, and hand out each result as soon as it is there.

    Args:
        function: what does a block; other processes must be able to import it.
        blocks: the arguments of each call. They are taken as workers get free, so there may be more than anyone will
            do: close the generator when enough are done.
        jobs: who does them.

    Yields:
        The number of a block and its result, in the order in which blocks get done.

    Raises:
        ValueError: nobody to work; work that cannot be pickled; workers that die again and again; no such cluster, or
            no Ray. What ``function`` raises is raised here.
    """
    check_jobs(jobs)
    numbered = enumerate(blocks)
    if isinstance(jobs, Cluster):
        return _on_cluster(function, numbered, jobs)
    if jobs == 1 or (jobs == -1 and os.cpu_count() == 1):
        return ((number, function(*block)) for number, block in numbered)
    return _on_cores(function, numbered, jobs)


def in_order(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """The results of :func:`do_blocks` in the order of the blocks, each as soon as all before it are done."""
    early: dict[int, Result] = {}
    wanted = 0
    for number, result in results:
        early[number] = result
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


def _numbered(function: Callable[..., Result], number: int, block: Block) -> tuple[int, Result]:
    return number, function(*block)


def _died(problem: BaseException) -> ValueError:
    return ValueError(
        f"workers died {TRIES} times before they had done a block, killed or out of memory "
        f"({type(problem).__name__}): choose fewer jobs, or give them more memory"
    )


def _stays_here(problem: BaseException) -> ValueError:
    """What is said of work that cannot be pickled."""
    why = str(problem.__cause__).strip('"\n ').rpartition("\n")[2] or "it cannot be pickled"
    return ValueError(
        f"the work cannot be handed to other processes ({why}): choose jobs=1, or spec strings for what plays"
    )


# ---------------------------------------------------------------------------------------------------------------------
# On the cores here


class _TiedLokyBackend(LokyBackend):  # type: ignore[misc]
    """Processes of joblib, which leave Ctrl-C to their parent and end when it ends, however it does."""

    def configure(self, n_jobs: int = 1, parallel: Any = None, **settings: Any) -> Any:
        """The number of workers."""
        settings |= {"initializer": _prepare_worker, "initargs": (os.getpid(),)}
        return super().configure(n_jobs, parallel, **settings)


def _prepare_worker(parent: int) -> None:
    """Make this process a worker of ``parent``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    threading.Thread(target=_end_with, args=(parent,), name="parent", daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent has ended."""
    if sys.platform == "win32":  # the number of the parent stays there
        import psutil

        with contextlib.suppress(psutil.Error):
            psutil.Process(parent).wait()
    else:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
    os._exit(1)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Ctrl-C waits for the end of it; processes that are started within do not hear it at all."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    for tracker in (resource_tracker, loky_resource_tracker):  # which would lift the block when they are started
        tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@functools.cache
def _ignore_errors_of_executor() -> None:
    """Print nothing when the thread of joblib that feeds the workers fails: after an interrupt nothing needs it."""
    default = threading.excepthook

    def handle(failure: threading.ExceptHookArgs) -> None:
        if failure.thread is None or not failure.thread.name.startswith("ExecutorManagerThread"):
            default(failure)

    threading.excepthook = handle


def _in_parallel(jobs: int) -> Parallel:
    """Parallel with workers tied to this process; within one of its workers, or another backend, as usual."""
    active, _ = get_active_backend()
    tied = {"backend": _TiedLokyBackend()} if isinstance(active, LokyBackend) else {}
    return Parallel(n_jobs=jobs, return_as="generator_unordered", **tied)


def _on_cores(
    function: Callable[..., Result], numbered: Iterator[tuple[int, Block]], jobs: int
) -> Generator[tuple[int, Result], None, None]:
    """By joblib. When a worker dies its pool is lost: blocks that were on their way are begun again in a new one."""
    under_way: dict[int, Block] = {}
    wanted = True

    def take(blocks: Iterable[tuple[int, Block]]) -> Iterator[Any]:
        for number, block in blocks:
            if not wanted:
                return
            under_way[number] = block
            yield delayed(_numbered)(function, number, block)

    # a worker that has grown by what it keeps, as loky sees it, is replaced by another: nobody needs to know
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    deaths = 0
    while True:
        again = sorted(under_way.items())
        results: Any = None
        try:
            with _interrupts_blocked():  # Python prints a traceback where it is interrupted while it starts
                results = _in_parallel(jobs)(take(itertools.chain(again, numbered)))
            for number, result in results:
                del under_way[number]
                deaths = 0
                yield number, result
            return
        except GeneratorExit:  # the few blocks that are on their way are waited for, and the workers kept
            wanted = False
            with contextlib.suppress(Exception):
                collections.deque(results, maxlen=0)
            raise
        except KeyboardInterrupt:
            _ignore_errors_of_executor()
            raise
        except BrokenProcessPool as problem:
            deaths += 1
            if deaths == TRIES:
                raise _died(problem) from None
        except PicklingError as problem:
            raise _stays_here(problem) from None
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that what nobody wants any more is cancelled
                if results is not None:
                    results.close()


# ---------------------------------------------------------------------------------------------------------------------
# On a cluster


def connect(cluster: Cluster) -> bool:
    """Connect to a cluster, for many calls of :func:`do_blocks`; it stays connected until this process ends.

    Returns:
        Whether it was not connected before.

    Raises:
        ValueError: no such cluster, or no Ray.
    """
    try:
        ray = _import_ray()
    except ImportError:
        raise ValueError('a cluster needs Ray: pip install "ttt_envs[cluster]"') from None
    if ray.is_initialized():
        return False
    try:
        _check_answers(cluster.address)
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as problem:
        raise ValueError(
            f"there is no Ray cluster at {cluster.address!r} ({type(problem).__name__}): start one here with "
            f'"ray start --head", or write the address of its head, host:port'
        ) from None
    return True


def _import_ray() -> Any:
    """Ray, silent on standard output, which is for results.

    A thread of Ray prints there that a worker died, whatever ``log_to_driver`` says. It reads these variables when it
    is imported; who has imported it before decides for themselves.
    """
    silent = {"RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
    before = {name: os.environ.get(name) for name in silent}
    os.environ.update(silent)
    try:
        import ray
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return ray


def _on_cluster(
    function: Callable[..., Result], numbered: Iterator[tuple[int, Block]], cluster: Cluster
) -> Generator[tuple[int, Result], None, None]:
    """By tasks of Ray, twice as many at a time as there are CPUs. Ray itself begins a task again whose worker died.

    A task costs milliseconds to hand out, so that short blocks go several together.
    """
    begun_here = connect(cluster)
    import ray

    task: Any = ray.remote(num_cpus=1, max_retries=TRIES)(_shared)
    under_way: dict[Any, list[int]] = {}
    together = 1
    try:
        shared = _handed(ray.put, function)
        cpus: float = ray.cluster_resources().get("CPU", 1)  # type: ignore[no-untyped-call]
        at_once = max(2, int(2 * cpus))
        while True:
            while len(under_way) < at_once and (some := list(itertools.islice(numbered, together))):
                begun = _handed(task.remote, shared, [block for _, block in some])
                under_way[begun] = [number for number, _ in some]
            if not under_way:
                return
            done, _ = ray.wait(list(under_way), num_returns=1)
            for one in done:
                numbers = under_way.pop(one)
                try:
                    seconds, results = ray.get(one)
                except ray.exceptions.RayTaskError as problem:  # what the function raised there is raised here
                    raise problem.cause from None
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as problem:
                    raise _died(problem) from None
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


def _handed(hand: Callable[..., Any], *what: object) -> Any:
    """What Ray makes of what it is handed."""
    try:
        return hand(*what)
    except TypeError as problem:
        raise _stays_here(problem) from None


def _check_answers(address: str) -> None:
    """Raise OSError where nobody answers at ``host:port``: Ray would go on asking for minutes."""
    host, _, port = address.rpartition(":")
    if host and "://" not in address:
        socket.create_connection((host, int(port)), timeout=10).close()


def _shared(function: Callable[..., Result], blocks: Sequence[Block]) -> tuple[float, list[Result]]:
    """Blocks by the function that Ray has stored once for all of them, and the seconds that they took."""
    begun = time.perf_counter()
    results = [function(*block) for block in blocks]
    return time.perf_counter() - begun, results
