"""Work on threads: the same results with any number, order, exceptions, nesting, interrupts, and
forks.
"""

import sys
import time

import numpy as np
import plain
import pytest
from numpy.testing import assert_array_equal
from processes import run_python
from small_games import SKIP_GAME

from baselines.exact import Work, build, solve
from baselines.mcts import MCTS, MCTSSearch, gumbel_search, search
from learners.alpha_zero import AlphaZeroConfig
from learners.alpha_zero.self_play import play_games
from ttt_envs import Game, make_policy
from ttt_envs.core import work as work_module
from ttt_envs.core.parallel import map_blocks
from ttt_envs.core.work import MAX_THREADS, count_threads, map_threads
from ttt_envs.graph import numbering

pytestmark = pytest.mark.more

NUMBERS = (1, 2, 7)


def square(number):
    return number * number


@pytest.mark.parametrize("threads", NUMBERS)
def test_results_are_in_the_order_of_blocks_and_the_first_exception_stops_the_work(threads):
    assert map_threads(square, iter(range(50)), threads) == [
        number * number for number in range(50)
    ]
    assert map_threads(square, [], threads) == []
    done = []

    def fail(number):
        done.append(number)
        time.sleep(0.001)
        if number in (5, 6):
            raise ValueError(f"block {number} failed")

    with pytest.raises(ValueError, match="block 5 failed"):
        map_threads(fail, range(1000), threads)
    assert len(done) < 500


def test_number_of_threads(monkeypatch):
    import joblib

    shared = list(map_blocks(count_threads, [("auto",), ("auto",)], 2))  # workers share the cores
    assert {threads for _, threads in shared} == {max(1, joblib.cpu_count() // 2)}
    assert [count_threads(number) for number in (1, 2, MAX_THREADS)] == [1, 2, MAX_THREADS]
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    assert [count_threads("auto", jobs) for jobs in (1, 2, 3, 8, 100, -1)] == [8, 4, 2, 1, 1, 1]


@pytest.mark.parametrize("threads", [0, MAX_THREADS + 1, True, 1.5, "two"])
def test_numbers_of_threads_that_cannot_work_are_refused(threads):
    for call in (
        lambda: solve(SKIP_GAME, cache=False, work=Work(threads)),
        lambda: AlphaZeroConfig(threads=threads),
        lambda: make_policy(f"mcts:threads={threads}", SKIP_GAME),
    ):
        with pytest.raises(ValueError, match="threads"):
            call()


# --------------------------------------------------------------------------------------------------
# The same results


def learner(game):
    return AlphaZeroConfig(hidden=(8,)).build(game, np.random.default_rng(0))


def search_positions(threads):
    results = []
    for game in (SKIP_GAME, Game(4, 4, 4)):
        boards = plain.positions_of_random_play(game, 30)
        net = learner(game)
        keys = np.arange(30, dtype=np.uint64)
        for leaf in (None, net):
            tree = MCTSSearch(
                game, boards, keys, **({} if leaf is None else {"leaf": leaf}), threads=threads
            )
            tree.run(20)
            results += [*tree.root_moves, tree.tree.counts]
        results.append(
            MCTS(game, 25, threads=threads).probabilities(boards, np.random.default_rng(1))
        )
        gumbel = gumbel_search(game, boards, net, simulations=20, threads=threads)
        results += [gumbel.improved, gumbel.scores, gumbel.improved_values]
    return results


def play_training_games(threads):
    results = []
    for rule in ("gumbel", "puct"):
        config = AlphaZeroConfig(hidden=(8,), simulations=16, search=rule, threads=threads)
        results += play_games(config, SKIP_GAME, learner(SKIP_GAME), np.uint64(5), range(3, 30))
    return results


def build_layers(threads):
    results = []
    for game in (Game(3, 4, 3, 0.25), Game(3, 4, 4), Game(3, 4, 3, 0.25, gravity=True)):
        table = build(game, work=Work(threads))
        results += [table.layer(stones) for stones in range(game.cells + 1)]
    return results


@pytest.mark.parametrize(
    "work", [search_positions, play_training_games, build_layers], ids=lambda work: work.__name__
)
def test_results_do_not_depend_on_threads(work, monkeypatch):
    """Also where small work is cut into blocks."""
    monkeypatch.setattr(search, "MIN_BLOCK_SIMULATIONS", 8)
    monkeypatch.setattr(search, "CHUNK_SIZE", 64)
    monkeypatch.setattr(numbering, "MIN_BLOCK_SETS", 1)
    expected = work(1)
    spread = []
    pool = work_module.ThreadPoolExecutor
    monkeypatch.setattr(
        work_module, "ThreadPoolExecutor", lambda threads: spread.append(threads) or pool(threads)
    )
    for threads in NUMBERS[1:]:
        for result, other in zip(work(threads), expected, strict=True):
            assert_array_equal(result, other, strict=isinstance(result, np.ndarray))
        assert spread, "no work was spread over threads"
        spread.clear()


# --------------------------------------------------------------------------------------------------
# Processes


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
def test_an_interrupt_stops_the_work():
    code = """
import os, signal, sys, threading
from baselines.exact.layers import Work, start_value
from ttt_envs import Game
from ttt_envs.core.work import map_threads

game = Game(3, 4, 3, 0.25)
before = start_value(game, work=Work(3))
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    map_threads(start_value, [game] * 400, 3)
except KeyboardInterrupt:
    assert start_value(game) == before
    sys.exit(0)
sys.exit("not interrupted")
"""
    run_python("-c", code)
