"""Speed of matches beside OpenSpiel's loop over bots, with corrected luck, of a second worker, of a
torch net, of a placement.

Both sides alternate in one process on one core, for several rounds, and the ratio is taken within
each round. A rate is finished games per second of CPU time; imports, compilation and the first
match are not timed. One worker and two play the same match of about half a minute, in turns and by
wall time, on all cores.

    python speed/matches.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from measuring import (
    Benchmark,
    Part,
    Row,
    SkipRow,
    Spread,
    Stretch,
    alone_part,
    format_goal,
    rate,
    run,
    time_work,
)
from rich.box import MARKDOWN
from rich.table import Table

from ttt_envs.game.game import Game
from ttt_eval.matches.match import play_pairs

PACKAGES = ("numpy", "numba", "joblib", "open_spiel", "torch")
PAIRS = 32 * 2048
"""Number of pairs of a timed match, so that all of its blocks have the maximum size."""


def our_match(a: str, b: str) -> Stretch:
    return time_work(lambda: play_pairs(Game(), a, b, PAIRS).games)


def skip_match(a: str, b: str, luck_correction: str) -> Stretch:
    game = Game(skip_chance=0.25)
    return time_work(lambda: play_pairs(game, a, b, PAIRS, luck_correction=luck_correction).games)


def open_spiel_bots(games: int = 100) -> Stretch:
    """Return two random bots at tic-tac-toe, in OpenSpiel's evaluation of bots."""
    import pyspiel
    from open_spiel.python.algorithms.evaluate_bots import evaluate_bots
    from open_spiel.python.bots.uniform_random import UniformRandomBot

    game = pyspiel.load_game("tic_tac_toe")
    rng = np.random.RandomState(0)
    bots = [UniformRandomBot(player, rng) for player in (0, 1)]

    def work() -> float:
        for _ in range(games):
            evaluate_bots(game.new_initial_state(), bots, rng)
        return games

    return time_work(work)


PLAYERS = (("random", "random"), ("table", "svd:rank=18"), ("optimal", "optimal"))
ROWS = tuple(
    Row(
        f"{a}-{b.partition(':')[0]}",
        f"match of {a} and {b}, 3 x 3",
        "OpenSpiel evaluate_bots, two uniform bots",
        50,
        lambda a=a, b=b: our_match(a, b),
        open_spiel_bots,
    )
    for a, b in PLAYERS
) + tuple(
    Row(
        f"luck-{a}-{b.partition(':')[0]}",
        f"match of {a} and {b} with corrected luck, 3 x 3, skip .25",
        "the same match without correction",
        0.7,
        lambda a=a, b=b: skip_match(a, b, "exact"),
        lambda a=a, b=b: skip_match(a, b, "off"),
    )
    for a, b in (("optimal", "optimal"), ("optimal", "svd:rank=18"))
)


# --------------------------------------------------------------------------------------------------
# Workers

SLOW = Game(5, 5, 4, 0.25)
SLOW_PLAYERS = ("expectiminimax:depth=3", "mcts:simulations=500")
SECONDS = (3.0, 30.0)
"""Wall time of one worker in seconds: in the quick form, and in the full form."""


@dataclass(frozen=True)
class Workers:
    """One match by one worker and by two."""

    name: str
    work: str
    games: int
    one_worker: Spread
    """seconds of wall time"""
    two_workers: Spread
    ratio: Spread
    at_least: float


def measure_workers(name: str, rounds: int, seconds: float) -> Workers:
    """Measure both in turns, after the workers have started and compiled."""
    if not hasattr(os, "sched_setaffinity") or os.cpu_count() == 1:
        raise SkipRow("there is one core, or processes cannot be kept on one")

    def play(pairs: int, jobs: int) -> float:
        begin = perf_counter()
        play_pairs(SLOW, *SLOW_PLAYERS, pairs, jobs=jobs)
        return perf_counter() - begin

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # the other rows are measured on one core
    try:
        for jobs in (1, 2):
            play(16, jobs)
        target_s = SECONDS[seconds >= BENCHMARK.seconds[1]]
        pairs = max(32, round(32 * target_s / play(32, 1)))
        walls = np.array([[play(pairs, jobs) for jobs in (1, 2)] for _ in range(rounds)])
    finally:
        os.sched_setaffinity(0, cores)
    one_worker, two_workers = walls.T
    work = f"match of {' and '.join(SLOW_PLAYERS)}, {SLOW}"
    return Workers(
        name,
        work,
        2 * pairs,
        Spread.of(one_worker),
        Spread.of(two_workers),
        Spread.of(one_worker / two_workers),
        1.7,
    )


def workers_table(rows: Sequence[Workers]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "work", "games", "one worker, s", "two, s", "ratio", "at least"):
        table.add_column(header, no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            row.work,
            f"{row.games:,}",
            *map(str, (row.one_worker, row.two_workers, row.ratio)),
            format_goal(row.ratio.median, row.at_least),
        )
    return table


# --------------------------------------------------------------------------------------------------
# A net of another library, exactly

ALONE = {
    "exploitability-torch": (
        "exploitability of a torch MLP, 3 x 3 (at most 2 s)",
        "exploitability(Game(), policy)",
    ),
    "placement": (
        "svd:rank=18 placed on the ladder 3x3, moves timed (at most 60 s)",
        "rate_policy('svd:rank=18', read_ladder('3x3'), {}).rating.mean",
    ),
}
BEFORE = """
import torch, ttt_envs
from ttt_eval.exact.dynamic_programming import exploitability
from ttt_eval.matches.ladder import rate_policy, read_ladder
from ttt_envs.game.game import Game
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(18, 128), torch.nn.ReLU(), torch.nn.Linear(128, 9)
)
policy = ttt_envs.as_policy(net, Game(), returns="logits")
exploitability(Game(), "random")  # compiles
"""


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("games/s"),
    rows=ROWS,
    parts=(
        Part("workers", ("two-workers",), measure_workers, workers_table),
        alone_part(ALONE, BEFORE),
    ),
)


if __name__ == "__main__":
    run(BENCHMARK)
