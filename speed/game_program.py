"""Cost of time checks in a search: the same search to the same depth by the clock and without.

Each row alternates with its peer in one process on one core, for several rounds, by CPU time.

    python speed/game_program.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

from functools import partial
from time import perf_counter

import numpy as np
from measuring import Benchmark, Row, Stretch, rate, run, time_answers

from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTS
from baselines.timed import Timed
from baselines.timed.search import TABLE_MIB
from ttt_envs.agents.policy import Policy
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

AT_LEAST = 0.97
"""Minimum speed relative to a search without time checks, in positions per second."""

SEARCHED = (
    ("7x7", Game(7, 7, 5), 8),
    ("7x7-skip", Game(7, 7, 5, 0.25), 5),
    ("15x15", Game(15, 15, 5), 4),
)
SIMULATED = Game(7, 7, 5)
SIMULATIONS = 100_000


def with_clock(game: Game, policy: Policy, depth: int, amount: float) -> Stretch:
    """Return a search to a depth, with hours left on the clock."""
    position = Boards.start(game).position(0)
    timed = Timed(game, policy, max_depth=depth)

    def search() -> None:
        timed.begin(position, np.uint64(0), perf_counter).run(perf_counter(), 1e4, 1e4)

    return time_answers(search, amount)


def deepening(game: Game, depth: int) -> int:
    """Run the same search without a clock; return the number of visited positions."""
    search = Search(game, Boards.start(game), every_move=False, memory=TABLE_MIB << 20)
    for searched in range(1, depth + 1):
        search.run(searched)
    return int(search.nodes[0])


def simulations() -> None:
    MCTS(SIMULATED).search(Boards.start(SIMULATED), np.zeros(1, np.uint64)).run(SIMULATIONS)


def deepening_row(name: str, game: Game, depth: int) -> Row:
    return Row(
        f"clock-{name}",
        f"{game}, deepening to {depth} by the clock",
        "Search.run to the same depth",
        AT_LEAST,
        lambda: with_clock(game, Expectiminimax(game), depth, deepening(game, depth)),
        lambda: time_answers(partial(deepening, game, depth), deepening(game, depth)),
    )


ROWS = (
    *(deepening_row(*searched) for searched in SEARCHED),
    Row(
        "clock-mcts",
        f"{SIMULATED}, {SIMULATIONS:,} simulations by the clock",
        "MCTSSearch.run of as many, which knows how large its tree will be",
        None,
        partial(with_clock, SIMULATED, MCTS(SIMULATED), SIMULATIONS, SIMULATIONS),
        partial(time_answers, simulations, SIMULATIONS),
    ),
)
if __name__ == "__main__":
    run(
        Benchmark(
            str(__doc__), ("numpy", "numba", "joblib"), rate("positions or simulations/s"), ROWS
        )
    )
