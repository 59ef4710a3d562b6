"""Speed of the solver of Connect Four, beside the same search in C.

Both sides alternate for several rounds on one core, and the ratio is taken within each round. Times
are CPU times; kernels are warm, tables are empty at the start of each stretch. Both sides must find
the same scores.

The rows count positions visited per second. A table has the time for the values of all moves. The
row empty-board takes minutes and runs only if --only names it.

    python speed/connect_four.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from time import process_time

import numpy as np
from measuring import Benchmark, Done, Part, Row, Spread, Stretch, alone_part, compile_c, rate, run
from rich.box import MARKDOWN
from rich.table import Table

from baselines.connect_four import Solver
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, place

GAME = Game(6, 7, 4, gravity=True)
MEMORY = 1 << 27
"""Bytes of our table."""
C_ENTRIES = MEMORY // 10
"""Entries of C's table, of 10 bytes."""


@cache
def random_positions(stones: int, count: int) -> tuple[Position, ...]:
    """Return positions of random games that are not over, where no player can win at once."""
    rng = np.random.default_rng(stones)
    positions: list[Position] = []
    while len(positions) < count:
        cells = np.zeros(GAME.cells, np.int8)
        placed = 0
        while placed < stones:
            column = int(rng.integers(GAME.columns))
            empty = np.flatnonzero(cells[column :: GAME.columns] == 0)
            if len(empty) == 0:
                continue
            cell = int(empty[-1]) * GAME.columns + column
            if place(cells, placed % 2, cell, placed, GAME.parameters) != NOT_OVER:
                break
            placed += 1
        position = Position(cells, stones % 2)
        if placed == stones and not _wins_at_once(position):
            positions.append(position)
    return tuple(positions)


def _wins_at_once(position: Position) -> bool:
    solver = Solver(GAME, memory=0)
    return solver.score(position, nodes=0).score is not None


def our_stretch(stones: int, count: int) -> Stretch:
    positions = random_positions(stones, count)
    solver = Solver(GAME, memory=MEMORY)

    def stretch() -> Done:
        solver.clear()
        begin = process_time()
        nodes = sum(solver.score(position).nodes for position in positions)
        return Done(nodes, process_time() - begin)

    return stretch


def c_stretch(stones: int, count: int) -> Stretch:
    loaded = compile_c("connect_four.c")
    loaded.prepare.argtypes = [ctypes.c_int64]
    loaded.solve.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]
    loaded.solve.restype = ctypes.c_int64
    loaded.prepare(C_ENTRIES)
    solver = Solver(GAME, memory=MEMORY)
    positions = random_positions(stones, count)
    bits = [solver.to_bits(position) for position in positions]
    expected = [solver.score(position).score for position in positions]
    visited = np.zeros(1, np.int64)

    def stretch() -> Done:
        loaded.clear()
        visited[:] = 0
        begin = process_time()
        scores = [loaded.solve(own, mask, visited.ctypes.data) for own, mask in bits]
        seconds = process_time() - begin
        assert scores == expected, "C found other scores"
        return Done(float(visited[0]), seconds)

    return stretch


ROWS = tuple(
    Row(
        f"stones-{stones}",
        f"{count} positions of {stones} stones",
        "the same search, gcc -O3",
        0.5,
        lambda stones=stones, count=count: our_stretch(stones, count),  # type: ignore[misc]
        lambda stones=stones, count=count: c_stretch(stones, count),  # type: ignore[misc]
    )
    for stones, count in ((20, 200), (16, 30), (12, 4))
)


# --------------------------------------------------------------------------------------------------
# Time for an answer


@dataclass(frozen=True)
class Answers:
    """CPU seconds for the values of all moves in a position, with an empty table."""

    name: str
    stones: int
    positions: int
    seconds: Spread


ANSWERS = {f"moves-{stones}": stones for stones in (8, 10, 12, 16, 20)}
"""number of stones by name"""
NUM_ANSWERS = 12
EMPTY = "empty-board"
EMPTY_WORK = (
    "the score of the empty board, 6 x 7, with a table of 512 MiB",
    "solver.score(position)",
)
EMPTY_BEFORE = """
from baselines.connect_four import Solver
from ttt_envs import Boards, Game
solver = Solver(Game(6, 7, 4, gravity=True), memory=1 << 29)
position = Boards.start(solver.game).position(0)
solver.score(position, nodes=1000)  # compiles
solver.clear()
"""


def measure_answers(name: str, rounds: int, seconds: float) -> Answers:
    stones = ANSWERS[name]
    solver = Solver(GAME, memory=MEMORY)
    positions = random_positions(stones, NUM_ANSWERS)
    times = []
    solver.values(*solver.to_bits(random_positions(20, 1)[0]))  # compiles
    for position in positions:
        solver.clear()
        begin = process_time()
        solver.values(*solver.to_bits(position))
        times.append(process_time() - begin)
    return Answers(name, stones, len(positions), Spread.of(times))


def answers_table(rows: list[Answers]) -> Table:
    table = Table(box=MARKDOWN)
    for header in (
        "values of all moves",
        "stones",
        "random positions",
        "CPU s, median",
        "minimum",
        "maximum",
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        seconds = (
            f"{value:.3f}" for value in (row.seconds.median, row.seconds.low, row.seconds.high)
        )
        table.add_row(row.name, str(row.stones), str(row.positions), *seconds)
    return table


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=("numpy", "numba"),
    unit=rate("positions/s"),
    rows=ROWS,
    parts=(
        Part("answers", tuple(ANSWERS), measure_answers, answers_table),
        alone_part({EMPTY: EMPTY_WORK}, EMPTY_BEFORE),
    ),
    left_out=("moves-8", "moves-10"),
    asked_for=(EMPTY,),
    seconds=(0.1, 1.0),
)


if __name__ == "__main__":
    run(BENCHMARK)
