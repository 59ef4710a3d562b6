"""Cost of time checks in a search: the same search to the same depth by the clock and without.

Each row alternates with its peer in one process on one core, for several rounds, by CPU time.

    python benchmarks/game_program.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

from functools import partial
from time import perf_counter

import numpy as np
from measuring import Benchmark, Row, Stretch, rate, run, time_work

from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTS
from baselines.timed import Timed
from baselines.timed.search import TABLE_MIB
from ttt_envs.agents.policy import Policy
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

PACKAGES = ("numpy", "numba", "joblib")
AT_LEAST = 0.97
"""Minimum speed relative to a search without time checks, in positions per second."""

# ---------------------------------------------------------------------------------------------------------------------
# Time checks


def search_with_clock(game: Game, policy: Policy, depth: int, amount: float) -> Stretch:
    """Return a search to a depth, with hours left on the clock."""
    position, timed = Boards.start(game).position(0), Timed(game, policy, max_depth=depth)

    def work() -> float:
        timed.begin(position, np.uint64(0), perf_counter).run(perf_counter(), 1e4, 1e4)
        return amount

    return time_work(work)


def deepening(game: Game, depth: int) -> Search:
    """Run the same search without a clock."""
    search = Search(game, Boards.start(game), every_move=False, memory=TABLE_MIB << 20)
    for one in range(1, depth + 1):
        search.run(one)
    return search


def search_without_clock(game: Game, depth: int, amount: float) -> Stretch:
    def work() -> float:
        deepening(game, depth)
        return amount

    return time_work(work)


def simulations(game: Game, count: int) -> Stretch:
    policy, boards = MCTS(game), Boards.start(game)

    def work() -> float:
        policy.search(boards, np.zeros(1, np.uint64)).run(count)
        return count

    return time_work(work)


def our_deepening(game: Game, depth: int) -> Stretch:
    return search_with_clock(game, Expectiminimax(game), depth, float(deepening(game, depth).nodes[0]))


def plain_deepening(game: Game, depth: int) -> Stretch:
    return search_without_clock(game, depth, float(deepening(game, depth).nodes[0]))


SEARCHED = (("7x7", Game(7, 7, 5), 8), ("7x7-skip", Game(7, 7, 5, 0.25), 5), ("15x15", Game(15, 15, 5), 4))
SIMULATED = Game(7, 7, 5), 100_000
ROWS = (
    *(
        Row(
            f"clock-{name}",
            f"{game}, deepening to {depth} by the clock",
            "Search.run to the same depth",
            AT_LEAST,
            partial(our_deepening, game, depth),
            partial(plain_deepening, game, depth),
        )
        for name, game, depth in SEARCHED
    ),
    Row(
        "clock-mcts",
        f"{SIMULATED[0]}, {SIMULATED[1]:,} simulations by the clock",
        "MCTSSearch.run of as many, which knows how large its tree will be",
        None,
        partial(search_with_clock, SIMULATED[0], MCTS(SIMULATED[0]), SIMULATED[1], SIMULATED[1]),
        partial(simulations, *SIMULATED),
    ),
)

BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("positions or simulations/s"),
    rows=ROWS,
)


if __name__ == "__main__":
    run(BENCHMARK)
