"""Blocks of work: the same whoever does them, also where workers die."""

import contextlib
import itertools
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from ttt_envs.parallel import TRIES, Cluster, check_jobs, do_blocks, in_order


def square(number, folder=None):
    """``number`` squared; in a folder it dies the first time, as by the system when memory runs out."""
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


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


SQUARES = [n * n for n in range(20)]


@pytest.mark.parametrize("jobs", [1, 2, -1])
def test_all_blocks_are_done_whoever_does_them(jobs):
    assert sorted(do_blocks(square, [(n,) for n in range(20)], jobs)) == list(enumerate(SQUARES))
    assert list(in_order(do_blocks(square, ((n,) for n in range(20)), jobs))) == SQUARES
    assert list(do_blocks(square, [], jobs)) == []


def test_results_are_put_in_order_as_soon_as_they_can_be():
    seen = []

    def results():
        for number in (1, 0, 3, 2):
            seen.append(number)
            yield number, number

    ordered = in_order(results())
    assert next(ordered) == 0
    assert seen == [1, 0]
    assert list(ordered) == [1, 2, 3]


@pytest.mark.parametrize("jobs", [1, 2])
def test_whoever_has_seen_enough_stops_the_work(jobs):
    asked = []

    def blocks():
        for number in itertools.count():
            asked.append(number)
            yield (number,)

    work = do_blocks(square, blocks(), jobs)
    found = [next(work) for _ in range(5)]
    work.close()
    assert {number for number, _ in found} <= set(asked)
    count = len(asked)
    time.sleep(0.1)
    assert len(asked) == count  # nobody asks for more


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_the_work_raises_is_raised(jobs):
    with pytest.raises(ValueError, match=r"^5 is at fault$"):
        list(do_blocks(fail, [(n,) for n in range(20)], jobs))


def test_the_blocks_of_a_worker_that_died_are_done_again(tmp_path):
    assert list(in_order(do_blocks(square, [(n, tmp_path) for n in range(20)], 2))) == SQUARES
    assert {path.name for path in tmp_path.iterdir()} == {"3", "11"}


def test_workers_that_die_again_and_again_are_an_error():
    with pytest.raises(ValueError, match=f"^workers died {TRIES} times before they had done a block"):
        list(do_blocks(die, [(n,) for n in range(4)], 2))


@pytest.mark.parametrize("jobs", [0, -2])
def test_a_number_of_jobs_that_cannot_work_is_refused(jobs):
    with pytest.raises(ValueError, match=f"^jobs={jobs} leaves nobody to work: choose"):
        check_jobs(jobs)


@pytest.mark.needs("ray")
def test_a_cluster_does_the_same(cluster, tmp_path):
    assert sorted(do_blocks(square, [(n,) for n in range(20)], cluster)) == list(enumerate(SQUARES))
    assert list(in_order(do_blocks(square, [(n, str(tmp_path)) for n in range(20)], cluster))) == SQUARES
    assert {path.name for path in tmp_path.iterdir()} == {"3", "11"}
    with pytest.raises(ValueError, match=r"^5 is at fault$"):
        list(do_blocks(fail, [(n,) for n in range(20)], cluster))
    work = do_blocks(square, ((n,) for n in itertools.count()), cluster)
    assert next(work)[1] in SQUARES
    work.close()
    stays = r"^the work cannot be handed to other processes \(.*lock.*\): choose jobs=1"
    for function, block in ((partial(square, threading.Lock()), ()), (square, (threading.Lock(),))):
        with pytest.raises(ValueError, match=stays):
            list(do_blocks(function, [block], cluster))


@pytest.mark.needs("ray")
def test_a_cluster_that_is_not_there_is_one_sentence():
    with pytest.raises(ValueError, match=r"^there is no Ray cluster at '127\.0\.0\.1:1' "):
        list(do_blocks(square, [(1,)], Cluster("127.0.0.1:1")))
