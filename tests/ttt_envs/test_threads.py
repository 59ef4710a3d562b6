"""Blocks of work on threads: order, exceptions, nesting, interrupts, and processes that fork or exit."""

import os
import sys
import threading
import time

import pytest
from processes import run_python

from ttt_envs.core import threads as threads_module
from ttt_envs.core.parallel import map_blocks
from ttt_envs.core.threads import MAX_THREADS, count_threads, map_threads, share_cores, split_rows

NUMBERS = (1, 2, 3, 7)


def square(worker, number):
    return number * number


@pytest.mark.parametrize("threads", NUMBERS)
def test_results_are_in_the_order_of_blocks(threads):
    assert map_threads(square, range(50), threads) == [number * number for number in range(50)]
    assert map_threads(square, iter(range(3)), threads) == [0, 1, 4]
    assert map_threads(square, [], threads) == []


def test_several_threads_work_at_the_same_time():
    barrier = threading.Barrier(3)

    def meet(worker, block):
        barrier.wait(timeout=60)
        return worker, threading.get_ident()

    found = map_threads(meet, range(3), 3)
    assert {worker for worker, _ in found} == {0, 1, 2}
    assert len({thread for _, thread in found}) == 3
    assert threading.get_ident() in {thread for _, thread in found}


def test_calls_of_a_worker_never_overlap():
    busy = [0] * 4

    def work(worker, block):
        busy[worker] += 1
        most = busy[worker]
        time.sleep(0.0005)
        busy[worker] -= 1
        return most

    assert max(map_threads(work, range(60), 4)) == 1


def test_blocks_are_taken_lazily_and_by_one_thread_at_a_time():
    inside = []

    def blocks():
        for number in range(40):
            assert not inside
            inside.append(number)
            time.sleep(0.0005)
            inside.pop()
            yield number

    assert map_threads(square, blocks(), 4) == [number * number for number in range(40)]


@pytest.mark.parametrize("threads", NUMBERS)
def test_the_exception_of_the_first_failed_block_reaches_the_caller(threads):
    def fail(worker, number):
        if number in (5, 6):
            raise ValueError(f"block {number} failed")

    with pytest.raises(ValueError, match="block 5 failed"):
        map_threads(fail, range(1000), threads)
    assert map_threads(square, range(5), threads) == [0, 1, 4, 9, 16]


def test_of_two_blocks_that_fail_at_once_the_first_is_reported():
    both = threading.Barrier(2)

    def fail(worker, number):
        both.wait(60)
        raise ValueError(f"block {number} failed")

    with pytest.raises(ValueError, match="block 0 failed"):
        map_threads(fail, range(2), 2)


@pytest.mark.parametrize("threads", NUMBERS)
def test_the_exception_of_an_iterator_reaches_the_caller(threads):
    def blocks():
        yield from range(3)
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        map_threads(square, blocks(), threads)


def test_work_stops_after_a_failure():
    done = []

    def fail(worker, number):
        done.append(number)
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        map_threads(fail, range(10_000), 3)
    assert len(done) <= 3


def test_calls_may_be_nested():
    def inner(worker, number):
        return sum(map_threads(square, range(number), 3))

    assert map_threads(inner, range(12), 4) == [sum(i * i for i in range(number)) for number in range(12)]


def test_calls_may_come_from_several_threads():
    found = {}

    def call(number):
        found[number] = map_threads(square, range(30), 3)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert found == {number: [i * i for i in range(30)] for number in range(6)}


def test_number_of_threads(monkeypatch):
    assert [count_threads(number) for number in (1, 2, MAX_THREADS)] == [1, 2, MAX_THREADS]
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    assert [count_threads("auto", jobs) for jobs in (1, 2, 3, 8, 100, -1)] == [8, 4, 2, 1, 1, 1]
    try:
        share_cores(4)
        assert count_threads("auto") == 2
        assert count_threads(5) == 5
    finally:
        share_cores(1)
    for wrong in (0, -1, MAX_THREADS + 1, True, 2.0, "two", None):
        with pytest.raises(ValueError, match=r"is no number of threads: choose 1 to 1024, or auto"):
            count_threads(wrong)


def test_workers_share_the_cores(monkeypatch):
    import joblib

    found = list(map_blocks(count_threads, [("auto",), ("auto",)], 2))
    assert {threads for _, threads in found} == {max(1, joblib.cpu_count() // 2)}


def test_rows():
    assert split_rows(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert split_rows(0, 3) == []


# ---------------------------------------------------------------------------------------------------------------------
# Processes

USES_THREADS = """
import os, signal, sys, time
from itertools import repeat
from baselines.exact import Work, start_value
from ttt_envs import Game
from ttt_envs.core.threads import map_threads

GAME = Game(3, 4, 3, 0.25)

def work(threads=3):
    return start_value(GAME, work=Work(threads))
"""


def run(code):
    """Run the code after that of ``USES_THREADS`` and return what it prints."""
    done = run_python("-c", USES_THREADS + code)
    return done.stdout, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("also", [(), pytest.param(("torch", "tensorflow"), marks=pytest.mark.slow)])
def test_a_forked_child_has_threads_of_its_own(also):
    for name in also:
        pytest.importorskip(name)
    code = f"""
{"".join(f"import {name}; " for name in also)}
before = work()
child = os.fork()
if child == 0:
    os._exit(0 if work() == before else 3)
until = time.monotonic() + 120
while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
    time.sleep(0.01)
if done[0] == 0:
    os.kill(child, signal.SIGKILL)
    sys.exit("the child hangs")
assert os.waitstatus_to_exitcode(done[1]) == 0 and work() == before
"""
    run(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_threads_work():
    code = """
import threading
before = work(1)
other = threading.Thread(target=lambda: [work() for _ in range(20)])
other.start()
children = []
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(0 if work() == before else 3)
    children.append(child)
    time.sleep(0.01)
assert all(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in children)
other.join()
"""
    run(code)


def test_spawned_processes_use_threads():
    code = """
import multiprocessing
if __name__ == "__main__":
    before = work()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(start_value, (GAME,), {"work": Work(3)}) == before
"""
    run(code)


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
def test_an_interrupt_stops_the_work():
    code = """
import threading
work()  # compile
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    map_threads(lambda _, game: start_value(game), repeat(GAME), 3)
except KeyboardInterrupt:
    assert work() == work(1)
    sys.exit(0)
sys.exit("not interrupted")
"""
    run(code)


def test_a_process_ends_while_idle_threads_wait():
    assert run("work()\nprint('done')") == ("done\n", "")


def test_one_thread_uses_no_pool(monkeypatch):
    monkeypatch.setattr(threads_module, "_pool", lambda: pytest.fail("a pool was made"))
    assert map_threads(square, range(4), 1) == [0, 1, 4, 9]
