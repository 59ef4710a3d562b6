"""How fast searches are, each beside a peer that finds the same; and how much of a tree they need to look at.

Ours and the peer take turns in one process on one core, for several rounds, and the ratio is taken within each round,
so that a slow moment of the machine hits both. What is measured is CPU time; kernels are warm. Both answers are
compared before anything is timed. Positions looked at are counted, not timed: they are the same on every machine.

    python benchmarks/search.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import NamedTuple

import numpy as np
import tyro
from measuring import (
    Alone,
    Arguments,
    SkipRow,
    Spread,
    compile_c,
    cpu,
    measure_alone,
    table_of_alone,
    versions,
)
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from baselines.expectiminimax import Pruning, Search
from ttt_envs.boards import Boards
from ttt_envs.rules import Game, windows

PACKAGES = ("numpy", "numba")

Ask = Callable[[], int]
"""searches once and returns how many positions were looked at"""

SKIP_3 = Game(skip_chance=0.25)
SKIP_5 = Game(5, 5, 4, 0.25)
SKIP_7 = Game(7, 7, 5, 0.25)

# ---------------------------------------------------------------------------------------------------------------------
# Expectiminimax beside the same in C

C_SOURCE = r"""
// Expectiminimax as it is written down: every move, either turn. Stones in windows are counted as they come and go.
#include <stdint.h>

typedef struct {
    int64_t cells, compared, length, through, empty, nodes;  // the first windows are compared at the horizon
    double skip;
    const int64_t *lists;  // [cells][through]: the windows through a cell, -1 after the last
    int8_t board[361];
    int8_t stones[2][2048];  // of either player in each window
    int32_t open[2][20];  // compared windows that are open to a player, by the number of stones in them
} Search;

static int put(Search *s, int64_t cell, int mover) {
    int full = 0;
    for (int64_t i = 0; i < s->through && s->lists[cell * s->through + i] >= 0; i++) {
        int64_t window = s->lists[cell * s->through + i];
        int mine = s->stones[mover][window]++, theirs = s->stones[1 - mover][window];
        full |= mine + 1 == s->length;
        if (window < s->compared) {
            if (theirs == 0) s->open[mover][mine]--, s->open[mover][mine + 1]++;
            if (mine == 0) s->open[1 - mover][theirs]--;
        }
    }
    s->board[cell] = mover + 1, s->empty--, s->nodes++;
    return full;
}

static void take(Search *s, int64_t cell, int mover) {
    for (int64_t i = 0; i < s->through && s->lists[cell * s->through + i] >= 0; i++) {
        int64_t window = s->lists[cell * s->through + i];
        int mine = --s->stones[mover][window], theirs = s->stones[1 - mover][window];
        if (window < s->compared) {
            if (theirs == 0) s->open[mover][mine]++, s->open[mover][mine + 1]--;
            if (mine == 0) s->open[1 - mover][theirs]++;
        }
    }
    s->board[cell] = 0, s->empty++;
}

static int best(const Search *s, int player) {
    int most = s->length;
    while (most > 0 && s->open[player][most] == 0) most--;
    return most;
}

static double value(Search *s, int mover, int64_t depth) {  // to the mover
    double highest = -1e9;
    for (int64_t cell = 0; cell < s->cells; cell++) {
        if (s->board[cell]) continue;
        double found = 0;
        if (put(s, cell, mover)) {
            found = depth;
        } else if (s->empty == 0) {
            found = 0;
        } else if (depth == 1) {
            int mine = best(s, mover), theirs = best(s, 1 - mover);
            found = 0.5 * ((mine > theirs) - (mine < theirs));
        } else {
            found = -(1 - s->skip) * value(s, 1 - mover, depth - 1);
            if (s->skip > 0) found += s->skip * value(s, mover, depth - 1);
        }
        take(s, cell, mover);
        if (found > highest) highest = found;
    }
    return highest;
}

double search(int64_t cells, int64_t compared, int64_t length, int64_t through, const int64_t *lists, double skip,
              int64_t depth, int64_t *nodes) {
    static Search s;
    s = (Search){cells, compared, length, through, cells, 0, skip, lists};
    s.open[0][0] = s.open[1][0] = compared;
    double found = value(&s, 0, depth);
    *nodes = s.nodes;
    return found;
}
"""


@cache
def compiled_c() -> ctypes.CDLL:
    loaded = compile_c(C_SOURCE)
    integers, pointer = ctypes.c_int64, ctypes.c_void_p
    loaded.search.argtypes = [*[integers] * 4, pointer, ctypes.c_double, integers, pointer]
    loaded.search.restype = ctypes.c_double
    return loaded


def compared_first(game: Game) -> tuple[list[list[int]], int]:
    """All windows, first those in rows, columns and main diagonals of a square board; and how many these are."""
    edge = game.rows
    main = ({cell * (edge + 1) for cell in range(edge)}, {(cell + 1) * (edge - 1) for cell in range(edge)})

    def is_compared(window: list[int]) -> bool:
        step = window[1] - window[0]
        return step in (1, edge) or any(set(window) <= diagonal for diagonal in main)

    ordered = sorted(windows(game).tolist(), key=lambda window: not is_compared(window))
    return ordered, sum(map(is_compared, ordered))


def c_search(game: Game, depth: int) -> Ask:
    ordered, compared = compared_first(game)
    of_cell = [[i for i, window in enumerate(ordered) if cell in window] for cell in range(game.cells)]
    lists = np.full((game.cells, max(map(len, of_cell))), -1)
    for cell, numbers in enumerate(of_cell):
        lists[cell, : len(numbers)] = numbers
    nodes = np.zeros(1, np.int64)

    def search() -> float:
        size = game.cells, compared, game.win_length, lists.shape[1], lists.ctypes.data
        found: float = compiled_c().search(*size, game.skip_chance, depth, nodes.ctypes.data)
        return found

    def ask() -> int:
        search()
        return int(nodes[0])

    ours = our_search(game, depth, "none")
    assert search() == np.nanmax(ours.move_values), "C found another value"
    assert nodes[0] == ours.nodes[0], "C looked at other positions"
    return ask


def our_search(game: Game, depth: int, pruning: Pruning, memory: int = 1 << 28, every_move: bool = True) -> Search:
    """The empty board, searched."""
    search = Search(game, Boards.start(game), pruning=pruning, memory=memory, every_move=every_move)
    search.run(depth)
    return search


def plain(game: Game, depth: int) -> Ask:
    return lambda: int(our_search(game, depth, "none").nodes[0])


# ---------------------------------------------------------------------------------------------------------------------
# Rows


class Row(NamedTuple):
    """Ours beside a peer."""

    name: str
    ours: str
    beside: str
    at_least: float
    """how many times as fast ours must be"""
    our_ask: Ask
    peer_ask: Callable[[], Ask]


ROWS = (
    Row(
        "expectiminimax-3x3",
        "expectiminimax without pruning, 3 x 3, depth 9",
        "the same recursion, gcc -O3",
        0.5,
        plain(SKIP_3, 9),
        lambda: c_search(SKIP_3, 9),
    ),
    Row(
        "expectiminimax-5x5",
        "expectiminimax without pruning, 5 x 5, 4 to win, depth 4",
        "the same recursion, gcc -O3",
        0.5,
        plain(SKIP_5, 4),
        lambda: c_search(SKIP_5, 4),
    ),
)


class CountRow(NamedTuple):
    """How much of a tree is looked at."""

    name: str
    game: Game
    depth: int
    at_least: float | None
    """how many times fewer positions pruning and a table must leave, where that is asked"""


COUNT_ROWS = (
    CountRow("pruning-3x3", SKIP_3, 9, None),
    CountRow("pruning-5x5", SKIP_5, 4, 50),
    CountRow("pruning-7x7", SKIP_7, 3, None),
)
SEARCHES: tuple[tuple[str, Pruning, int], ...] = (
    ("nothing pruned", "none", 0),
    ("alpha-beta", "alpha-beta", 0),
    ("star1", "star1", 0),
    ("star2", "star2", 0),
    ("star1, table", "star1", 1 << 28),
    ("star2, table", "star2", 1 << 28),
)
CHOSEN = "star1, table"
"""what the policy does"""


TEACHER = "teacher-6x6"
"""a row: what the report spent about 8 hours on"""


def teacher_data() -> Alone:
    """25 games of the tree against itself, with kernels that are compiled."""
    return measure_alone(
        TEACHER,
        "25 games of expectiminimax:depth=3,width=15 on 6 x 6, 4 to win, skip 0.25; the report: about 8 hours",
        "from learners.value_net import lesson_of\nfrom ttt_envs.rules import Game\n"
        "ask = lambda count: lesson_of(Game(6, 6, 4, 0.25), 'expectiminimax:depth=3,width=15', range(count))\nask(1)",
        "f'{len(ask(25).value)} positions'",
    )


# ---------------------------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True)
class Comparison:
    """A measured row."""

    name: str
    ours: str
    beside: str
    our_per_s: Spread
    peer_per_s: Spread
    ratio: Spread
    at_least: float


@dataclass(frozen=True)
class Counted:
    """A row of counts."""

    name: str
    game: str
    depth: int
    nodes: dict[str, int]
    """positions looked at for the best moves of the empty board, by kind of search"""
    ms: dict[str, float]
    """CPU time of one search"""
    at_least: float | None

    @property
    def fewer(self) -> float:
        """How many times fewer the chosen search looks at."""
        return self.nodes[SEARCHES[0][0]] / self.nodes[CHOSEN]


def rate(ask: Ask, least: float) -> float:
    """Positions per CPU second, over at least ``least`` seconds."""
    begin = process_time()
    nodes = 0
    while nodes == 0 or process_time() - begin < least:
        nodes += ask()
    return nodes / (process_time() - begin)


def compare(row: Row, rounds: int, least: float) -> Comparison:
    """Measure a row.

    Raises:
        SkipRow: the peer is not there.
    """
    peer = row.peer_ask()
    row.our_ask()
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(rate(row.our_ask, least))
        theirs.append(rate(peer, least))
    ratios = (our / their for our, their in zip(ours, theirs, strict=True))
    return Comparison(
        row.name, row.ours, row.beside, Spread.of(ours), Spread.of(theirs), Spread.of(ratios), row.at_least
    )


def count(row: CountRow) -> Counted:
    nodes, ms, values = {}, {}, set()
    our_search(SKIP_3, 9, "star1")  # compiles, the growth of a table included
    for name, pruning, memory in SEARCHES:
        begin = process_time()
        search = our_search(row.game, row.depth, pruning, memory, every_move=False)
        ms[name] = 1e3 * (process_time() - begin)
        nodes[name] = int(search.nodes[0])
        values.add(float(np.nanmax(search.move_values)))
    assert len(values) == 1, f"searches found {values}"
    return Counted(row.name, str(row.game), row.depth, nodes, ms, row.at_least)


def table_of(comparisons: list[Comparison]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "ours", "beside"):
        table.add_column(header, no_wrap=True)
    for header in ("ours, positions/s", "beside, positions/s", "ratio", "at least"):
        table.add_column(header, justify="right", no_wrap=True)
    for c in comparisons:
        goal = f"{c.at_least:g}" if c.ratio.median >= c.at_least else f"{c.at_least:g} missed"
        table.add_row(c.name, c.ours, c.beside, str(c.our_per_s), str(c.peer_per_s), str(c.ratio), goal)
    return table


def table_of_counts(counted: list[Counted]) -> Table:
    table = Table(box=MARKDOWN)
    table.add_column("positions looked at", no_wrap=True)
    for c in counted:
        table.add_column(f"{c.name}, depth {c.depth}", justify="right", no_wrap=True)
    for name, _, _ in SEARCHES:
        table.add_row(name, *(f"{c.nodes[name]:,} ({c.ms[name]:,.1f} ms)" for c in counted))
    goals = []
    for c in counted:
        goal = "" if c.at_least is None else f", at least {c.at_least:g}" + (" missed" if c.fewer < c.at_least else "")
        goals.append(f"{c.fewer:,.0f}{goal}")
    table.add_row(f"times fewer, {CHOSEN}", *goals)
    return table


def main(arguments: Arguments) -> None:
    chosen = arguments.chosen([*(row.name for row in ROWS), *(row.name for row in COUNT_ROWS), TEACHER])
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    console = Console()
    console.width = max(console.width, 200)  # a row is a line, in a file too
    comparisons: list[Comparison] = []
    skipped = {}
    for row in ROWS:
        if row.name in chosen:
            with console.status(row.name):
                try:
                    comparisons.append(compare(row, rounds, 0.1 if arguments.quick else 1.0))
                except SkipRow as reason:
                    skipped[row.name] = str(reason)
    with console.status("counting"):
        counted = [count(row) for row in COUNT_ROWS if row.name in chosen]
    with console.status(TEACHER):
        alone = [teacher_data()] if TEACHER in chosen else []

    here = versions(PACKAGES)
    console.print(f"{cpu()}, one core; " + ", ".join(" ".join(pair) for pair in here.items()))
    if comparisons:
        console.print(f"Medians (min - max) of {rounds} rounds; ratios are taken within each round.")
        console.print(table_of(comparisons))
    if counted:
        console.print(table_of_counts(counted))
    if alone:
        console.print(table_of_alone(alone))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped, {reason}", markup=False)
    if arguments.json is not None:
        rows = {
            "rows": list(map(dataclasses.asdict, comparisons)),
            "counts": list(map(dataclasses.asdict, counted)),
            "alone": list(map(dataclasses.asdict, alone)),
        }
        data = {"cpu": cpu(), "versions": here, "rounds": rounds, **rows, "skipped": skipped}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
