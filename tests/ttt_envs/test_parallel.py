"""Blocks of work: the same results with any workers, also where workers die."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from ttt_envs.core.parallel import MAX_ATTEMPTS, MAX_JOBS, check_jobs, map_blocks, results_in_order

pytestmark = pytest.mark.more

ROOT = Path(__file__).resolve().parents[2]
GIVE_UP_S = 120
"""a way out where what is waited for never happens; workers that are left alone live for 300 s"""


def square(number, folder=None):
    """``number`` squared; in a folder it dies the first time, as by the system when memory runs
    out.
    """
    if folder is not None and number in (3, 11):
        once = Path(folder, str(number))
        with contextlib.suppress(FileExistsError):
            once.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def fail(number):
    if number == 5:
        raise ValueError(f"{number} is at fault")
    return number


def die(number, folder=None):
    if folder is not None:
        Path(folder, f"attempt-{os.getpid()}").touch()
    os.kill(os.getpid(), signal.SIGKILL)


def stay(folder):
    """Write down which process this is, and work for ever."""
    Path(folder, f"{os.getpid()}.pid").touch()
    while True:
        time.sleep(1)


@contextlib.contextmanager
def two_workers(folder):
    """A process whose two workers stay, in a group of their own."""
    lines = [
        "import threading, time",
        "from test_parallel import map_blocks, stay",
        "from ttt_apps.cli.options import run_command",
        # as of a progress bar
        "threading.Thread(target=time.sleep, args=[300], daemon=True).start()",
        "print('begun', flush=True)",
        f"run_command(lambda: list(map_blocks(stay, [({str(folder)!r},)] * 4, 2)))",
    ]
    path = os.pathsep.join(map(str, (ROOT, Path(__file__).parent)))
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(event):
    """Return the result of ``event`` as soon as it is true, or after a long time."""
    until = time.monotonic() + GIVE_UP_S
    result = event()
    while not result and time.monotonic() < until:
        time.sleep(0.02)
        result = event()
    return result


def workers_of(process):
    """The processes of joblib that a process has begun."""
    results = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                results += [child] if "popen_loky" in " ".join(child.cmdline()) else []
    return results


SQUARES = [n * n for n in range(20)]


def check_work_that_cannot_be_pickled(jobs):
    for function, block in ((partial(square, threading.Lock()), ()), (square, (threading.Lock(),))):
        with pytest.raises(
            ValueError, match=r"\(.*cannot pickle '_thread.lock' object\): choose jobs=1"
        ):
            list(map_blocks(function, [block], jobs))


@pytest.mark.parametrize("jobs", [1, 2, -1])
def test_results_do_not_depend_on_the_workers(jobs):
    assert sorted(map_blocks(square, [(n,) for n in range(20)], jobs)) == list(enumerate(SQUARES))
    assert list(results_in_order(map_blocks(square, ((n,) for n in range(20)), jobs))) == SQUARES
    assert list(map_blocks(square, [], jobs)) == []
    with pytest.raises(ValueError, match=r"^5 is at fault$"):
        list(map_blocks(fail, [(n,) for n in range(20)], jobs))
    if jobs != 1:
        check_work_that_cannot_be_pickled(jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_closing_the_generator_stops_the_work(jobs):
    numbers = []

    def blocks():
        for number in itertools.count():
            numbers.append(number)
            yield (number,)

    work = map_blocks(square, blocks(), jobs)
    results = [next(work) for _ in range(5)]
    work.close()
    assert {number for number, _ in results} <= set(numbers)
    count = len(numbers)
    time.sleep(0.1)
    assert len(numbers) == count  # nobody asks for more


def test_blocks_of_dead_workers_are_retried(tmp_path):
    assert (
        list(results_in_order(map_blocks(square, [(n, tmp_path) for n in range(20)], 2))) == SQUARES
    )
    assert {path.name for path in tmp_path.iterdir()} == {"3", "11"}
    with pytest.raises(ValueError, match="workers died"):
        list(map_blocks(die, [(n,) for n in range(4)], 2))


def test_numbers_of_jobs_that_cannot_work_are_refused():
    """joblib starts all of them, and from 2**31 on it fails with an OverflowError."""
    check_jobs(MAX_JOBS)
    for jobs in (0, -2, MAX_JOBS + 1, 10**30):
        for call in (check_jobs, partial(map_blocks, square, [])):
            with pytest.raises(ValueError, match="jobs="):
                call(jobs)


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL and groups of processes")
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    with two_workers(tmp_path) as process:
        assert wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        workers = workers_of(process)
        assert {int(path.stem) for path in tmp_path.glob("*.pid")} == {
            worker.pid for worker in workers
        }
        process.kill()
        process.wait()
        assert wait_for(lambda: not any(worker.is_running() for worker in workers))


@pytest.mark.skipif(os.name != "posix", reason="groups of processes")
@pytest.mark.parametrize("delay_s", [0, 0.15])
def test_interrupts_while_workers_start_print_no_traceback(delay_s, tmp_path):
    with two_workers(tmp_path) as process:
        workers = wait_for(lambda: workers_of(process))
        time.sleep(delay_s)
        os.killpg(process.pid, signal.SIGINT)
        _, output = process.communicate()
        assert output == "stopped\n"
        assert process.returncode == 130
        assert wait_for(lambda: not any(worker.is_running() for worker in workers))


@pytest.mark.needs("ray")
def test_a_missing_cluster_is_an_error():
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:1"):
        list(map_blocks(square, [(1,)], "127.0.0.1:1"))


@pytest.mark.needs("ray")
def test_results_on_a_cluster_are_the_same(cluster, tmp_path):
    assert sorted(map_blocks(square, [(n,) for n in range(20)], cluster)) == list(
        enumerate(SQUARES)
    )
    assert (
        list(results_in_order(map_blocks(square, [(n, str(tmp_path)) for n in range(20)], cluster)))
        == SQUARES
    )
    assert {path.name for path in tmp_path.iterdir()} == {"3", "11"}
    with pytest.raises(ValueError, match=r"^5 is at fault$"):
        list(map_blocks(fail, [(n,) for n in range(20)], cluster))
    work = map_blocks(square, ((n,) for n in itertools.count()), cluster)
    assert next(work)[1] in SQUARES
    work.close()
    check_work_that_cannot_be_pickled(cluster)
    with pytest.raises(ValueError, match=r"the cluster at .* failed"):
        list(map_blocks(die, [(0, str(tmp_path))], cluster))
    assert len(list(tmp_path.glob("attempt-*"))) == MAX_ATTEMPTS
