"""Cost and benefit of the parts of a game program: time checks in a search, look-ups, and timed matches.

Each row alternates with its peer in one process on one core, for several rounds, by CPU time: the same search to the
same depth with and without time checks. Games of timed matches are counted by wall time, on one core and on two, in
turns.

    python benchmarks/game_program.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from measuring import Benchmark, Part, Row, SkipRow, Spread, Stretch, measure_rounds, rate, run, time_work
from rich.box import MARKDOWN
from rich.table import Table

from baselines.exact import build, open_layers
from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTS
from baselines.opening_book import OpeningBook, PlayedMoves, make_book
from baselines.timed import Clock, Timed
from baselines.timed.search import TABLE_MIB
from ttt_envs.agents.policy import Policy
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.rules import NOT_OVER, terminal_outcome
from ttt_eval.matches.match import MatchSettings
from ttt_eval.matches.openings import Openings
from ttt_eval.matches.timed_match import play_timed_pairs

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

# ---------------------------------------------------------------------------------------------------------------------
# Timed matches

CLOCK = Clock(1, 0.01)
MATCHES = "timed-matches"


@dataclass(frozen=True)
class Jobs:
    """Games per second of wall time, by number of processes."""

    games: int
    one: Spread
    two: Spread
    ratio: Spread
    lost_on_time: int
    """games lost on time, of all games"""


def measure_matches(name: str, rounds: int, seconds: float) -> Jobs:
    """Play games for some seconds, in turns on one core and on two.

    Raises:
        SkipRow: there is one core.
    """
    cores = os.cpu_count() or 1
    if cores < 2 or not hasattr(os, "sched_setaffinity"):
        raise SkipRow("it needs two cores")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(cores))
    game, pairs, rates, lost = Game(7, 7, 5), max(2, math.ceil(8 * seconds)), [], 0
    try:
        for round_ in range(rounds + 1):
            of_round = []
            for jobs in (1, 2):
                start = perf_counter()
                match = MatchSettings(game, "timed", "timed", round_, Openings.from_text("random:3", game), CLOCK)
                played = play_timed_pairs(match, pairs, jobs=jobs)
                of_round.append(2 * pairs / (perf_counter() - start))
                lost += sum(times.lost for times in played.times)
            if round_:  # the first round starts the workers and compiles
                rates.append(of_round)
    finally:
        os.sched_setaffinity(0, before)
    one, two = zip(*rates, strict=True)
    return Jobs(2 * pairs, Spread.of(one), Spread.of(two), Spread.of(b / a for a, b in rates), lost)


def matches_table(found: list[Jobs]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("timed against itself", "games/s, one job", "two jobs", "ratio", "lost on time"):
        table.add_column(header, no_wrap=True)
    for each in found:
        what = f"{each.games} games of 7 x 7, 5 to win, {CLOCK}"
        table.add_row(what, str(each.one), str(each.two), str(each.ratio), f"{each.lost_on_time}")
    return table


# ---------------------------------------------------------------------------------------------------------------------
# Look-ups


@dataclass(frozen=True)
class Rate:
    """Amount of work per second of CPU time."""

    name: str
    work: str
    rate: Spread


BOOK_GAME, PROBED = Game(5, 5, 4), Game(4, 5, 4)
PROBED_FROM, AT_ONCE = 12, 4096


@cache
def random_book() -> OpeningBook:
    """Return a book of moves of random games, with random results."""
    rng = np.random.default_rng(0)
    parts = []
    for seed in range(50):
        seen = random_boards(BOOK_GAME, seed, 8)
        moves = rng.random(seen.cells.shape) * (seen.cells == 0)
        parts.append(
            PlayedMoves(seen, moves.argmax(axis=1), np.eye(3, dtype=np.int64)[rng.integers(0, 3, len(seen.mover))])
        )
    with TemporaryDirectory() as folder:
        path = Path(folder, "book")
        make_book(BOOK_GAME, parts, plies=8).write(path)
        policy = OpeningBook(BOOK_GAME, str(path), then="random")
        policy.book_probabilities(Boards.start(BOOK_GAME))  # opens the book
        return policy


@cache
def build_database() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory()
    build(PROBED, Path(folder.name), stones=PROBED_FROM)
    return folder


def random_boards(game: Game, seed: int, most: int, least: int = 0) -> Boards:
    """Return unfinished positions with ``least`` to ``most`` - 1 stones at random places, by turns."""
    rng = np.random.default_rng(seed)
    cells = np.zeros((2 * AT_ONCE, game.cells), np.int8)
    order = rng.permuted(np.tile(np.arange(game.cells), (len(cells), 1)), axis=1)
    stones = rng.integers(least, most, len(cells))
    for ply in range(most - 1):
        rows = np.flatnonzero(stones > ply)
        cells[rows, order[rows, ply]] = 1 + ply % 2
    goes_on = np.array([terminal_outcome(board, game.parameters) == NOT_OVER for board in cells])
    return Boards(cells, (stones % 2).astype(np.int8)).take(np.flatnonzero(goes_on)[:AT_ONCE])


def book_lookups(at_once: int) -> Stretch:
    policy, boards = random_book(), random_boards(BOOK_GAME, 0, 8)
    parts = [boards.take(np.arange(start, start + at_once)) for start in range(0, min(1024, AT_ONCE) // at_once)]

    def work() -> float:
        for part in parts:
            policy.book_probabilities(part)
        return len(parts) * at_once

    return time_work(work)


def probe(cold: bool, at_once: int) -> Stretch:
    folder = Path(build_database().name)
    boards = random_boards(PROBED, 0, PROBED.cells, PROBED_FROM)
    parts = [boards.take(np.arange(start, start + at_once)) for start in range(0, 1024, at_once)]
    opened = open_layers(PROBED, folder)

    def work() -> float:
        table = opened
        if cold:
            for file in folder.iterdir():
                with file.open("rb") as descriptor:
                    os.posix_fadvise(descriptor.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            table = open_layers(PROBED, folder)
        for part in parts:
            table.values(part)
        return len(parts) * at_once

    return time_work(work)


RATES: dict[str, tuple[str, Callable[[], Stretch]]] = {
    "book": (f"{BOOK_GAME}: look-ups in a book, one by one", partial(book_lookups, 1)),
    "book-1024": ("the same, 1,024 positions at once", partial(book_lookups, 1024)),
    "probe": (
        f"{PROBED}: values from a database of {PROBED_FROM} stones and more, one by one",
        partial(probe, False, 1),
    ),
    "probe-1024": ("the same, 1,024 positions at once", partial(probe, False, 1024)),
    "probe-cold": (
        "the same, from files that are no more in memory: opened, each layer read and its hash checked",
        partial(probe, True, 1024),
    ),
}


def measure_rate(name: str, rounds: int, seconds: float) -> Rate:
    work, stretch = RATES[name]
    (done,) = measure_rounds([stretch()], rounds, seconds)
    return Rate(name, work, Spread.of(one.amount / one.seconds for one in done))


def rates_table(found: list[Rate]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "work", "positions/s"):
        table.add_column(header, no_wrap=True)
    for each in found:
        table.add_row(each.name, each.work, str(each.rate))
    return table


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("positions or simulations/s"),
    rows=ROWS,
    parts=(
        Part("rates", tuple(RATES), measure_rate, rates_table),
        Part("matches", (MATCHES,), measure_matches, matches_table),
    ),
    left_out=(MATCHES,),
)


if __name__ == "__main__":
    run(BENCHMARK)
