"""Speed of searches, each beside a peer with the same results; and the number of positions that
they visit.

Both sides alternate in one process on one core, for several rounds. The ratio is taken within each
round, so that a slow moment of the machine affects both. Times are CPU times; kernels are warm.
Both results are compared before the timing. Visited positions are counted, not timed: they are the
same on every machine.

    python speed/search.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import NamedTuple

import numpy as np
from measuring import Benchmark, Part, Row, alone_part, compile_c, format_goal, rate, run, time_work
from rich.box import MARKDOWN
from rich.table import Table

from baselines.expectiminimax import Pruning, Search
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

PACKAGES = ("numpy", "numba")

Ask = Callable[[], int]
"""Searches once and returns the number of visited positions."""

SKIP_3 = Game(skip_chance=0.25)
SKIP_5 = Game(5, 5, 4, 0.25)
SKIP_7 = Game(7, 7, 5, 0.25)

# --------------------------------------------------------------------------------------------------
# Expectiminimax beside the same in C


@cache
def load_c() -> ctypes.CDLL:
    loaded = compile_c("expectiminimax.c")
    integers = ctypes.c_int64
    pointer = ctypes.c_void_p
    loaded.search.argtypes = [*[integers] * 4, pointer, ctypes.c_double, integers, pointer]
    loaded.search.restype = ctypes.c_double
    return loaded


def lines_in_comparison_order(game: Game) -> tuple[list[list[int]], int]:
    """Return all lines, first the rows, columns and main diagonals of a square board; and the
    number of these.
    """
    edge = game.rows
    main = (
        {cell * (edge + 1) for cell in range(edge)},
        {(cell + 1) * (edge - 1) for cell in range(edge)},
    )

    def is_compared(window: list[int]) -> bool:
        step = window[1] - window[0]
        return step in (1, edge) or any(set(window) <= diagonal for diagonal in main)

    ordered = sorted(game.line_cells.tolist(), key=lambda window: not is_compared(window))
    return ordered, sum(map(is_compared, ordered))


def c_search(game: Game, depth: int) -> Ask:
    ordered, compared = lines_in_comparison_order(game)
    of_cell = [
        [i for i, window in enumerate(ordered) if cell in window] for cell in range(game.cells)
    ]
    lists = np.full((game.cells, max(map(len, of_cell))), -1)
    for cell, numbers in enumerate(of_cell):
        lists[cell, : len(numbers)] = numbers
    nodes = np.zeros(1, np.int64)

    def search() -> float:
        size = game.cells, compared, game.win_length, lists.shape[1], lists.ctypes.data
        value: float = load_c().search(*size, game.skip_chance, depth, nodes.ctypes.data)
        return value

    def ask() -> int:
        search()
        return int(nodes[0])

    ours = our_search(game, depth, "none")
    assert search() == np.nanmax(ours.move_values), "C found another value"
    assert nodes[0] == ours.nodes[0], "C looked at other positions"
    return ask


def our_search(
    game: Game, depth: int, pruning: Pruning, memory: int = 1 << 28, every_move: bool = True
) -> Search:
    """Search the empty board."""
    search = Search(game, Boards.start(game), pruning=pruning, memory=memory, every_move=every_move)
    search.run(depth)
    return search


def plain(game: Game, depth: int) -> Ask:
    return lambda: int(our_search(game, depth, "none").nodes[0])


# --------------------------------------------------------------------------------------------------
# Rows


ROWS = (
    Row(
        "expectiminimax-3x3",
        "expectiminimax without pruning, 3 x 3, depth 9",
        "the same recursion, gcc -O3",
        0.5,
        lambda: time_work(plain(SKIP_3, 9)),
        lambda: time_work(c_search(SKIP_3, 9)),
    ),
    Row(
        "expectiminimax-5x5",
        "expectiminimax without pruning, 5 x 5, 4 to win, depth 4",
        "the same recursion, gcc -O3",
        0.5,
        lambda: time_work(plain(SKIP_5, 4)),
        lambda: time_work(c_search(SKIP_5, 4)),
    ),
)


class CountRow(NamedTuple):
    """A row that counts visited positions."""

    name: str
    game: Game
    depth: int
    at_least: float | None
    """minimum reduction factor of visited positions by pruning and a table, if there is a goal"""


COUNT_ROWS = (
    CountRow("pruning-3x3", SKIP_3, 9, None),
    CountRow("pruning-5x5", SKIP_5, 4, 50),
    CountRow("pruning-7x7", SKIP_7, 3, None),
)
SEARCHES: tuple[tuple[str, Pruning, int], ...] = (
    ("nothing pruned", "none", 0),
    ("alpha-beta", "alpha-beta", 0),
    ("star1", "star1", 0),
    ("star1, table", "star1", 1 << 28),
)
CHOSEN = "star1, table"
"""Search of the default policy."""


TEACHER = "teacher-6x6"
"""Row of the work that took the report about 8 hours."""


TEACHER_WORK = (
    "25 games of expectiminimax:depth=3,width=15 on 6 x 6, 4 to win, skip 0.25; the report: about "
    "8 hours",
    "f'{len(ask(25).value)} positions'",
)
TEACHER_BEFORE = """
from learners.value_net import play_training_games
from ttt_envs.game.game import Game
game, teacher = Game(6, 6, 4, 0.25), 'expectiminimax:depth=3,width=15'
ask = lambda count: play_training_games(game, teacher, 0.0, 0, range(count))
ask(1)  # compiles
"""


# --------------------------------------------------------------------------------------------------
# Measurement


@dataclass(frozen=True)
class SearchCounts:
    """A row of counts."""

    name: str
    game: str
    depth: int
    nodes: dict[str, int]
    """visited positions for the best moves of the empty board, by kind of search"""
    ms: dict[str, float]
    """CPU time of one search"""
    at_least: float | None

    @property
    def fewer(self) -> float:
        """Reduction factor of visited positions by the chosen search."""
        return self.nodes[SEARCHES[0][0]] / self.nodes[CHOSEN]


def count(name: str, rounds: int, seconds: float) -> SearchCounts:
    row = next(row for row in COUNT_ROWS if row.name == name)
    nodes = {}
    ms = {}
    values = set()
    our_search(SKIP_3, 9, "star1")  # compiles, the growth of a table included
    for kind, pruning, memory in SEARCHES:
        begin = process_time()
        search = our_search(row.game, row.depth, pruning, memory, every_move=False)
        ms[kind] = 1e3 * (process_time() - begin)
        nodes[kind] = int(search.nodes[0])
        values.add(float(np.nanmax(search.move_values)))
    assert len(values) == 1, f"searches found {values}"
    return SearchCounts(row.name, str(row.game), row.depth, nodes, ms, row.at_least)


def counts_table(counted: list[SearchCounts]) -> Table:
    table = Table(box=MARKDOWN)
    table.add_column("positions looked at", no_wrap=True)
    for c in counted:
        table.add_column(f"{c.name}, depth {c.depth}", justify="right", no_wrap=True)
    for name, _, _ in SEARCHES:
        table.add_row(name, *(f"{c.nodes[name]:,} ({c.ms[name]:,.1f} ms)" for c in counted))
    goals = []
    for c in counted:
        missed = format_goal(c.fewer, c.at_least)
        goals.append(f"{c.fewer:,.0f}" + (f", at least {missed}" if missed else ""))
    table.add_row(f"times fewer, {CHOSEN}", *goals)
    return table


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("positions/s"),
    rows=ROWS,
    parts=(
        Part("counts", tuple(row.name for row in COUNT_ROWS), count, counts_table),
        alone_part({TEACHER: TEACHER_WORK}, TEACHER_BEFORE),
    ),
    seconds=(0.1, 1.0),
)


if __name__ == "__main__":
    run(BENCHMARK)
