"""How fast exact answers are had, each beside a peer that finds the same.

Ours and the peer take turns in one process on one core, for several rounds, and the ratio is taken within each round,
so that a slow moment of the machine hits both. What is measured is CPU time; kernels are warm, and no table is kept on
disk or read from there. Both answers are compared before anything is timed. Work without a peer runs in a process of
its own, for the sake of its peak memory.

    python benchmarks/exact.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

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
    not_installed,
    seconds_of,
    table_of_alone,
    versions,
)
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from baselines.solver import solve
from evaluation.exact import exploitability
from ttt_envs.rules import Game, windows

PACKAGES = ("numpy", "numba", "open_spiel")
os.environ["TTT_ENVS_CACHE_BYTES"] = "0"  # no table is kept or read

Ask = Callable[[], Any]
"""computes the answer once"""

SKIP_3 = Game(skip_chance=0.25)
SKIP_4 = Game(4, 4, 4, 0.25)


def close(ours: float, theirs: float) -> None:
    """Raises AssertionError where two answers differ."""
    assert abs(ours - theirs) < 1e-9, f"two answers: {ours} and {theirs}"


# ---------------------------------------------------------------------------------------------------------------------
# Peers


def open_spiel_values() -> Ask:
    """Value iteration over all states of tic-tac-toe; it has no skips, so the answers to compare are those without."""
    import pyspiel
    from open_spiel.python.algorithms import value_iteration

    game = pyspiel.load_game("tic_tac_toe")

    def ask() -> Any:
        return value_iteration.value_iteration(game, depth_limit=-1, threshold=1e-9)

    close(solve(Game(), cache=False).value, ask()[str(game.new_initial_state())])
    return ask


def open_spiel_nash_conv() -> Ask:
    """NashConv of the uniform policy, as OpenSpiel's Python computes it."""
    import pyspiel
    from open_spiel.python import policy
    from open_spiel.python.algorithms import exploitability as peer

    game = pyspiel.load_game("tic_tac_toe")
    uniform = policy.UniformRandomPolicy(game)

    def ask() -> Any:
        return peer.nash_conv(game, uniform)

    close(exploitability(Game(), "random"), ask() / 2)
    return ask


def open_spiel_nash_conv_cpp() -> Ask:
    """The same in C++."""
    import pyspiel

    game = pyspiel.load_game("tic_tac_toe")
    uniform = pyspiel.UniformRandomPolicy(game)

    def ask() -> Any:
        return pyspiel.nash_conv(game, uniform, True)

    close(exploitability(Game(), "random"), ask() / 2)
    return ask


C_SOURCE = r"""
// All values of a game, one board after another from the highest base-3 key to the lowest.
#include <stdint.h>

void sweep(int64_t size, int64_t lines, const int64_t *masks, double skip, double *after) {
    int64_t powers[18] = {1}, stones[2] = {0, 0};
    for (int64_t cell = 0; cell < size; cell++) powers[cell + 1] = 3 * powers[cell];
    double *by_first = after, *by_second = after + powers[size];
    int8_t cells[17];
    for (int64_t cell = 0; cell < size; cell++) cells[cell] = 2, stones[1] |= (int64_t)1 << cell;
    for (int64_t key = powers[size] - 1; key >= 0; key--) {
        int won = 0, lost = 0;
        for (int64_t i = 0; i < lines; i++) {
            won |= (stones[0] & masks[i]) == masks[i];
            lost |= (stones[1] & masks[i]) == masks[i];
        }
        if (won || lost || (stones[0] | stones[1]) == ((int64_t)1 << size) - 1) {
            by_first[key] = by_second[key] = won - lost;
        } else {
            double best = -2, worst = 2;
            for (int64_t cell = 0; cell < size; cell++)
                if (cells[cell] == 0) {
                    double first = by_first[key + powers[cell]], second = by_second[key + 2 * powers[cell]];
                    if (first > best) best = first;
                    if (second < worst) worst = second;
                }
            by_first[key] = skip * best + (1 - skip) * worst;
            by_second[key] = skip * worst + (1 - skip) * best;
        }
        for (int64_t cell = 0; cell < size; cell++) {  // count down in base 3
            int64_t bit = (int64_t)1 << cell;
            if (cells[cell] == 2) { cells[cell] = 1; stones[1] ^= bit; stones[0] ^= bit; break; }
            if (cells[cell] == 1) { cells[cell] = 0; stones[0] ^= bit; break; }
            cells[cell] = 2; stones[1] ^= bit;
        }
    }
}
"""


@cache
def compiled_c() -> ctypes.CDLL:
    loaded = compile_c(C_SOURCE)
    loaded.sweep.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p]
    loaded.sweep.restype = None
    return loaded


def c_values() -> Ask:
    """The same values by a plain loop in C."""
    masks = np.array([sum(1 << cell for cell in line) for line in windows(SKIP_4).tolist()], np.int64)

    def ask() -> Any:
        after = np.empty((2, 3**SKIP_4.cells))
        compiled_c().sweep(SKIP_4.cells, len(masks), masks.ctypes.data, SKIP_4.skip_chance, after.ctypes.data)
        return after

    assert np.array_equal(solve(SKIP_4, cache=False).after, ask()), "C found other values"
    return ask


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
        "solve-3x3",
        "solve, 3 x 3, skip .25",
        "OpenSpiel value_iteration, no skips",
        300,
        lambda: solve(SKIP_3, cache=False),
        open_spiel_values,
    ),
    Row(
        "exploitability-3x3",
        "exploitability of random, 3 x 3",
        "OpenSpiel nash_conv, Python",
        1000,
        lambda: exploitability(Game(), "random"),
        open_spiel_nash_conv,
    ),
    Row(
        "exploitability-3x3-cpp",
        "exploitability of random, 3 x 3",
        "OpenSpiel nash_conv, C++",
        1,
        lambda: exploitability(Game(), "random"),
        open_spiel_nash_conv_cpp,
    ),
    Row(
        "solve-4x4",
        "solve, 4 x 4, skip .25",
        "a plain loop, gcc -O3",
        0.33,
        lambda: solve(SKIP_4, cache=False),
        c_values,
    ),
)

PROOFS = ((5, 5, 4), (5, 6, 4), (6, 6, 5))
ALONE: dict[str, str] = {
    "solve-4x4-alone": "solve(Game(4, 4, 4, 0.25)).value",
    "outcome-4x4": 'outcome(Game(4, 4, 4), "optimal", "random")',
    **{f"prove-{m}x{n}-{k}": f"prove(Game({m}, {n}, {k}))" for m, n, k in PROOFS},
}
"""what has no peer, as Python"""

BEFORE = """
from baselines.proof import prove
from baselines.solver import solve
from evaluation.exact import outcome
from ttt_envs.rules import Game
solve(Game()), outcome(Game(), "optimal", "random"), prove(Game())  # compiles
"""


# ---------------------------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True)
class Comparison:
    """A measured row."""

    name: str
    ours: str
    beside: str
    our_ms: Spread
    peer_ms: Spread
    ratio: Spread
    """the peer's time over ours"""
    at_least: float


def compare(row: Row, rounds: int, least: float) -> Comparison:
    """Measure a row.

    Raises:
        SkipRow: the peer is not there.
    """
    try:
        peer = row.peer_ask()
    except ImportError as problem:
        raise not_installed(problem) from None
    row.our_ask()
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(seconds_of(row.our_ask, least))
        theirs.append(seconds_of(peer, least))
    ratios = (their / our for our, their in zip(ours, theirs, strict=True))
    spreads = Spread.of(1e3 * time for time in ours), Spread.of(1e3 * time for time in theirs), Spread.of(ratios)
    return Comparison(row.name, row.ours, row.beside, *spreads, row.at_least)


def table_of(comparisons: list[Comparison]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "ours", "beside"):
        table.add_column(header, no_wrap=True)
    for header in ("ours, ms", "beside, ms", "ratio", "at least"):
        table.add_column(header, justify="right", no_wrap=True)
    for c in comparisons:
        goal = f"{c.at_least:g}" if c.ratio.median >= c.at_least else f"{c.at_least:g} missed"
        table.add_row(c.name, c.ours, c.beside, str(c.our_ms), str(c.peer_ms), str(c.ratio), goal)
    return table


def main(arguments: Arguments) -> None:
    known = [*(row.name for row in ROWS), *ALONE]
    chosen = arguments.chosen(known)
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    console = Console()
    console.width = max(console.width, 200)  # a row is a line, in a file too
    comparisons: list[Comparison] = []
    by_itself: list[Alone] = []
    skipped = {}
    for name in chosen:
        with console.status(name):
            try:
                if name in ALONE:
                    by_itself.append(measure_alone(name, ALONE[name], BEFORE, ALONE[name]))
                else:
                    row = next(row for row in ROWS if row.name == name)
                    comparisons.append(compare(row, rounds, 0.1 if arguments.quick else 0.4))
            except SkipRow as reason:
                skipped[name] = str(reason)

    here = versions(PACKAGES)
    console.print(f"{cpu()}, one core; " + ", ".join(" ".join(pair) for pair in here.items()))
    console.print(f"Medians (min - max) of {rounds} rounds; ratios are taken within each round.")
    if comparisons:
        console.print(table_of(comparisons))
    if by_itself:
        console.print(table_of_alone(by_itself))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped, {reason}", markup=False)
    if arguments.json is not None:
        rows = {"rows": list(map(dataclasses.asdict, comparisons)), "alone": list(map(dataclasses.asdict, by_itself))}
        data = {"cpu": cpu(), "versions": here, "rounds": rounds, **rows, "skipped": skipped}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
