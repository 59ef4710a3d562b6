"""How cost grows: speed by the number of threads, of games or positions at once, and of cells of
the board.

Speeds by threads are wall times, measured in turns: each round does the same work with each number
of threads, and the ratio to one thread is taken within the round. Speeds by batch and board size
are of one thread, in CPU time. The memory is that of the arrays that the work allocates, at its
peak.

    python speed/scaling.py [--quick] [--rounds N] [--only threads,batch,cells] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

ALL_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

from measuring import to_json  # noqa: E402  # it takes all cores but one away
from rich.box import MARKDOWN  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from baselines import exact  # noqa: E402
from baselines.mcts import MCTSSearch  # noqa: E402
from learners.alpha_zero import AlphaZeroConfig  # noqa: E402
from learners.alpha_zero.self_play import play_games  # noqa: E402
from ttt_envs.envs.vector_env import MNKVectorEnv  # noqa: E402
from ttt_envs.game.boards import Boards  # noqa: E402
from ttt_envs.game.game import Game  # noqa: E402
from ttt_eval.store.cost import processor  # noqa: E402

if ALL_CORES:  # threads must not share one core
    os.sched_setaffinity(0, ALL_CORES)

SKIP_3 = Game(3, 3, 3, 0.25)
SKIP_4 = Game(4, 4, 4, 0.1)


class Work(NamedTuple):
    """Work that several threads can do."""

    name: str
    item: str
    """what is counted"""
    run: Callable[[int], float]
    """does the work with a number of threads and returns the number of items"""


class Point(NamedTuple):
    """A speed and the memory for it."""

    name: str
    at: int
    """threads, batch or cells"""
    per_second: float
    memory: int
    """bytes"""


# --------------------------------------------------------------------------------------------------
# Work


def play_steps(game: Game, count: int, steps: int) -> Callable[[], float]:
    """Return a function that makes random steps in a vector environment and returns their number in
    all games.

    Actions are drawn without regard to the mask, because masks cost as much as steps; an occupied
    cell loses.
    """
    env = MNKVectorEnv(
        count,
        (game.rows, game.columns),
        game.win_length,
        game.skip_chance,
        opponent="random",
        dtype="int8",
    )
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, game.cells, (16, count))

    def step() -> float:
        for number in range(steps):
            env.step(actions[number % 16])
        return float(count * steps)

    return step


def run_uct(game: Game, count: int, simulations: int, threads: int = 1) -> float:
    """Search empty boards; return the number of simulations."""
    search = MCTSSearch(
        game, Boards.start(game, count), np.arange(count, dtype=np.uint64), threads=threads
    )
    search.run(simulations)
    return float(count * simulations)


def play_itself(games: int, threads: int) -> float:
    """Play a batch of self-play games; return the number of positions."""
    config = AlphaZeroConfig(threads=threads)
    net = config.build(SKIP_4, np.random.default_rng(0))
    return float(len(play_games(config, SKIP_4, net, np.uint64(1), range(games)).obs))


def fill_layers(game: Game, threads: int) -> float:
    """Solve a game by layers in memory; return the number of entries."""
    table = exact.build(game, work=exact.Work(threads))
    return float(sum(len(table.layer(stones)) for stones in range(game.cells + 1)))


def works(quick: bool) -> list[Work]:
    """Return the work that is spread over threads."""
    layered = Game(3, 4, 3, 0.25) if quick else Game(4, 5, 4, 0.25)
    sims, count, played = (20, 32, 8) if quick else (200, 256, 256)
    return [
        Work(
            f"MCTS of {count} positions, 3x3",
            "simulations",
            lambda n: run_uct(SKIP_3, count, sims, n),
        ),
        Work(f"self-play of {played} games, 4x4", "positions", lambda n: play_itself(played, n)),
        Work(
            f"layers, {layered.rows}x{layered.columns}",
            "entries",
            lambda n: fill_layers(layered, n),
        ),
    ]


# --------------------------------------------------------------------------------------------------
# Measurements


def measure_threads(work: Work, numbers: Sequence[int], rounds: int) -> dict[str, Any]:
    """Measure work with each number of threads, in turns."""
    for threads in numbers:
        work.run(threads)  # compiles
    speeds: dict[int, list[float]] = {threads: [] for threads in numbers}
    for _ in range(rounds):
        for threads in numbers:
            begin = perf_counter()
            items = work.run(threads)
            speeds[threads].append(items / (perf_counter() - begin))
    ratios = {
        n: [fast / single for fast, single in zip(speeds[n], speeds[1], strict=True)]
        for n in numbers
    }
    return {
        "name": work.name,
        "item": work.item,
        "per_second": {n: statistics.median(of_threads) for n, of_threads in speeds.items()},
        "ratio": {
            n: [min(values), statistics.median(values), max(values)] for n, values in ratios.items()
        },
    }


def measure_point(name: str, at: int, work: Callable[[], float], seconds: float) -> Point:
    """Measure work of one thread by CPU time, and the peak of its arrays."""
    tracemalloc.start()
    work()  # compiles, too
    tracemalloc.clear_traces()
    tracemalloc.reset_peak()
    work()
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    items = 0.0
    begin = process_time()
    while items == 0 or process_time() - begin < seconds:
        items += work()
    return Point(name, at, items / (process_time() - begin), memory)


def measure_batches(quick: bool, seconds: float) -> list[Point]:
    """Measure speeds by the number of games or positions at once."""
    points = []
    for count in (1, 64) if quick else (4**power for power in range(9)):
        steps = max(2, min(2_000, (1 << 16) // count))
        points.append(
            measure_point(
                "steps, vector environment 3x3", count, play_steps(SKIP_3, count, steps), seconds
            )
        )
        if count <= 4_096:
            points.append(
                measure_point(
                    "simulations, MCTS 3x3", count, lambda c=count: run_uct(SKIP_3, c, 100), seconds
                )
            )
    return points


def measure_boards(quick: bool, seconds: float) -> list[Point]:
    """Measure speeds by the number of cells."""
    points = []
    for edge in (3, 5) if quick else (3, 4, 5, 7, 9, 13, 19):
        game = Game.of_size(edge)
        points += [
            measure_point(
                "steps, vector environment of 1,024",
                game.cells,
                play_steps(game, 1_024, 20),
                seconds,
            ),
            measure_point(
                "simulations, MCTS of 16", game.cells, lambda g=game: run_uct(g, 16, 100), seconds
            ),
        ]
    for size in ((3, 3), (3, 4)) if quick else ((3, 3), (3, 4), (3, 5), (4, 4), (3, 6)):
        game = Game(*size, 3, 0.25)
        points.append(
            measure_point("entries, layers", game.cells, lambda g=game: fill_layers(g, 1), seconds)
        )
    return points


# --------------------------------------------------------------------------------------------------
# Output


def format_speed(value: float) -> str:
    scale, unit = next(
        ((s, u) for s, u in ((1e9, " G"), (1e6, " M"), (1e3, " k")) if value >= s), (1.0, "")
    )
    return f"{value / scale:.3g}{unit}"


def tables(results: dict[str, Any]) -> list[Table]:
    """Return the tables of measurements."""
    made = []
    if results.get("threads"):
        numbers = list(results["threads"][0]["ratio"])
        more = [f"{n} threads, times one" for n in numbers if n > 1]
        table = Table("work", "items", "a second, one thread", *more, box=MARKDOWN)
        for row in results["threads"]:
            ratios = [
                "{1:.2f} ({0:.2f} - {2:.2f})".format(*row["ratio"][n]) for n in numbers if n > 1
            ]
            table.add_row(row["name"], row["item"], format_speed(row["per_second"][1]), *ratios)
        made.append(table)
    for key, header in (("batch", "at once"), ("cells", "cells")):
        if results.get(key):
            table = Table("items", header, "a second", "arrays, MiB", box=MARKDOWN)
            for point in sorted(results[key]):
                memory = f"{point.memory / 2**20:,.2f}"
                table.add_row(point.name, f"{point.at:,}", format_speed(point.per_second), memory)
            made.append(table)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small work, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="threads,batch,cells", help="parts, separated by commas")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # the other benchmarks have one core
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    parts = options.only.split(",")
    unknown = set(parts) - {"threads", "batch", "cells"}
    if unknown:
        raise SystemExit(
            f"there is no part {', '.join(sorted(unknown))}: choose among threads, batch, cells"
        )
    rounds, seconds = (1, 0.0) if options.quick else (options.rounds, 0.3)
    numbers = (
        [1, 2]
        if options.quick
        else sorted({1, 2, *(2**n for n in range(11) if 2**n <= (os.cpu_count() or 1))})
    )
    results: dict[str, Any] = {"cpu": processor(), "rounds": rounds, "cores": os.cpu_count()}
    if "threads" in parts:
        results["threads"] = [
            measure_threads(work, numbers, rounds) for work in works(options.quick)
        ]
    if "batch" in parts:
        results["batch"] = measure_batches(options.quick, seconds)
    if "cells" in parts:
        results["cells"] = measure_boards(options.quick, seconds)
    console = Console(width=160)
    console.print(f"{results['cpu']}, {os.cpu_count()} cores; medians of {rounds} rounds")
    for table in tables(results):
        console.print(table)
    if options.json:
        data = {
            key: [p._asdict() for p in value] if key in ("batch", "cells") else value
            for key, value in results.items()
        }
        options.json.write_text(json.dumps(to_json(data), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
