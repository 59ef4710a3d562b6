"""Blocks of work on threads: order, exceptions, nesting, interrupts, and processes that fork or exit."""

import os
import sys
import threading
import time

import pytest
from processes import run_python

from ttt_envs.core.parallel import map_blocks
from ttt_envs.core.work import MAX_THREADS, count_threads, map_threads

NUMBERS = (1, 2, 3, 7)


def square(number):
    return number * number


@pytest.mark.parametrize("threads", NUMBERS)
def test_results_are_in_the_order_of_blocks(threads):
    assert map_threads(square, range(50), threads) == [number * number for number in range(50)]
    assert map_threads(square, iter(range(3)), threads) == [0, 1, 4]
    assert map_threads(square, [], threads) == []


def test_several_threads_work_at_the_same_time():
    barrier = threading.Barrier(3)

    def meet(block):
        barrier.wait(timeout=60)
        return threading.get_ident()

    assert len(set(map_threads(meet, range(3), 3))) == 3


@pytest.mark.parametrize("threads", NUMBERS)
def test_the_exception_of_the_first_failed_block_reaches_the_caller_and_stops_the_work(threads):
    done = []

    def fail(number):
        done.append(number)
        time.sleep(0.001)
        if number in (5, 6):
            raise ValueError(f"block {number} failed")

    with pytest.raises(ValueError, match="block 5 failed"):
        map_threads(fail, range(1000), threads)
    assert len(done) < 500
    assert map_threads(square, range(5), threads) == [0, 1, 4, 9, 16]


def test_calls_may_be_nested():
    def inner(number):
        return sum(map_threads(square, range(number), 3))

    assert map_threads(inner, range(12), 4) == [sum(i * i for i in range(number)) for number in range(12)]


def test_number_of_threads(monkeypatch):
    assert [count_threads(number) for number in (1, 2, MAX_THREADS)] == [1, 2, MAX_THREADS]
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    assert [count_threads("auto", jobs) for jobs in (1, 2, 3, 8, 100, -1)] == [8, 4, 2, 1, 1, 1]
    for wrong in (0, -1, MAX_THREADS + 1, True, 2.0, "two", None):
        with pytest.raises(ValueError, match=r"is no number of threads: choose 1 to 1024, or auto"):
            count_threads(wrong)


def test_workers_share_the_cores(monkeypatch):
    import joblib

    found = list(map_blocks(count_threads, [("auto",), ("auto",)], 2))
    assert {threads for _, threads in found} == {max(1, joblib.cpu_count() // 2)}


# ---------------------------------------------------------------------------------------------------------------------
# Processes

USES_THREADS = """
import os, signal, sys, time
from baselines.exact.layers import Work, start_value
from ttt_envs import Game
from ttt_envs.core.work import map_threads

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


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
def test_an_interrupt_stops_the_work():
    code = """
import threading
work()  # compile
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    map_threads(start_value, [GAME] * 400, 3)
except KeyboardInterrupt:
    assert work() == work(1)
    sys.exit(0)
sys.exit("not interrupted")
"""
    run(code)
