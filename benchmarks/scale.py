"""Scaling with workers: blocks of work on one and two workers here, and simulations of up to a thousand.

First, the duration of a block of each kind of work is measured, and the cost of handing one to a worker: by joblib's
processes, and by tasks of Ray on a temporary local cluster. Then one worker and two do the same blocks, in turns.
Finally, larger numbers of workers are simulated: a free worker takes the next block, with a duration drawn from the
measured ones, and one process hands out work at the measured cost, short blocks in groups, as joblib and we do. The
simulation excludes the costs of separate machines: each compiles once, and networks are slower.

    python benchmarks/scale.py [--quick] [--rounds N] [--seconds S] [--no-ray] [--json FILE]
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from measuring import to_json
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from learners.value_net import play_training_games
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.parallel import Jobs, map_blocks
from ttt_envs.game.game import Game
from ttt_eval.cost import processor
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score

SKIP_5 = Game(5, 5, 4, 0.1)
SIMULATED = (10, 100, 1_000)
TOGETHER_S = {"joblib": 0.2, "Ray": 0.0}
"""Seconds of work in a group of short blocks."""
JOB_S = 3_600.0
"""CPU seconds of a simulated job."""


def match_block(seed: int) -> Score:
    return play_pairs(SKIP_5, "expectiminimax:depth=2", "win-or-block", 64, seed=seed)


def teacher_block(numbers: range) -> Any:
    return play_training_games(SKIP_5, "expectiminimax:depth=3", 0.0, 0, numbers)


def nothing(number: int) -> int:
    return number


WORK: dict[str, tuple[Callable[[Any], Any], Callable[[int], list[tuple[Any]]]]] = {
    "a match of expectiminimax:depth=2, 64 pairs a block": (
        match_block,
        lambda count: [(seed,) for seed in range(count)],
    ),
    "a teacher's games, expectiminimax:depth=3, 4 a block": (
        teacher_block,
        lambda count: [(range(4 * block, 4 * block + 4),) for block in range(count)],
    ),
}
"""Kinds of work: the function for a block, and a function that returns blocks."""


def seconds(function: Callable[..., Any], blocks: Sequence[Any], jobs: Jobs) -> float:
    """Return the wall seconds of all blocks."""
    start = perf_counter()
    for _ in map_blocks(function, blocks, jobs):
        pass
    return perf_counter() - start


def simulate(
    times: Float64Array, workers: int, hand_out_s: float, together_s: float, rng: np.random.Generator
) -> float:
    """Return the efficiency of workers at a job of ``JOB_S`` seconds: its work, over workers times its wall time.

    Args:
        times: float64[N], measured seconds of blocks.
        workers: number of workers, which take work when free.
        hand_out_s: seconds that the one process needs for each handing out of work.
        together_s: seconds of work in a group, at least one block.
        rng: draws the blocks.
    """
    together = max(1, int(together_s / times.mean()))
    count = max(workers, int(JOB_S / times.mean() / together))
    tasks = rng.choice(times, (count, together)).sum(axis=1)
    free = [0.0] * workers
    handed_out = 0.0
    for task in tasks:
        handed_out = max(handed_out + hand_out_s, free[0])
        heapq.heapreplace(free, handed_out + task)
    return float(tasks.sum() / (workers * max(free)))


class Ray:
    """A Ray cluster on this machine."""

    def __enter__(self) -> Ray:
        import ray
        from ray import cluster_utils

        here = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # workers import this file
        os.environ["PYTHONPATH"] = os.pathsep.join([*here, os.environ.get("PYTHONPATH", "")])
        self._machines = cluster_utils.Cluster(True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        start = perf_counter()
        ray.init(address=self._machines.address, log_to_driver=False)  # once, as a command does
        self.connect_s = perf_counter() - start
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        ray.shutdown()
        self._machines.shutdown()


def measured(cluster: str | None, rounds: int, job_s: float) -> dict[str, Any]:
    """Return all measurements, JSON-ready."""
    kinds: dict[str, Jobs] = {"joblib": 2} | ({} if cluster is None else {"Ray": cluster})
    few, many = [(n,) for n in range(10)], [(n,) for n in range(1_000)]
    overhead: dict[str, float] = {}
    for name, jobs in kinds.items():
        seconds(nothing, few, jobs)  # starts the workers
        overhead[name] = statistics.median(seconds(nothing, many, jobs) / len(many) for _ in range(rounds))
    found: dict[str, Any] = {"cpu": processor(), "hand_out_s": overhead, "work": {}}
    for name, (function, blocks_of) in WORK.items():
        times = []
        for block in blocks_of(12):
            start = perf_counter()
            function(*block)
            times.append(perf_counter() - start)
        times = times[2:]  # the first ones compile
        blocks = blocks_of(max(4, int(job_s / statistics.fmean(times))))
        for jobs in kinds.values():
            seconds(function, blocks[:4], jobs)  # workers compile, or load compiled code
        ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(rounds):
            alone = seconds(function, blocks, 1)
            for kind, jobs in kinds.items():
                ratios[kind].append(alone / seconds(function, blocks, jobs))
        simulated = {
            kind: {
                workers: simulate(
                    np.array(times), workers, overhead[kind], TOGETHER_S[kind], np.random.default_rng(workers)
                )
                for workers in SIMULATED
            }
            for kind in kinds
        }
        found["work"][name] = {
            "block_s": [min(times), statistics.median(times), max(times)],
            "blocks": len(blocks),
            "two_workers": {kind: [min(one), statistics.median(one), max(one)] for kind, one in ratios.items()},
            "simulated": simulated,
        }
    return found


def tables(found: dict[str, Any]) -> list[Table]:
    """Return the tables of measurements."""
    handed = Table("what it costs", "ms", box=MARKDOWN)
    for kind, cost in found["hand_out_s"].items():
        handed.add_row(f"{kind}: handing out work once, and taking its result", f"{1e3 * cost:.2f}")
    if "connect_s" in found:
        handed.add_row("Ray: joining the cluster", f"{1e3 * found['connect_s']:,.0f}")
    work = Table("work", "by", "block, ms", "2 workers are", *(f"{n:,}" for n in SIMULATED), box=MARKDOWN)
    for name, one in found["work"].items():
        for kind, (low, middle, high) in one["two_workers"].items():
            work.add_row(
                name,
                kind,
                " - ".join(f"{1e3 * time:.0f}" for time in one["block_s"]),
                f"{middle:.2f} ({low:.2f}-{high:.2f}) times one",
                *(f"{share:.0%}" for share in one["simulated"][kind].values()),
            )
    return [handed, work]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short jobs, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a job that one worker does, and two")
    parser.add_argument("--no-ray", action="store_true", help="leave the cluster out")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # the other benchmarks have one core
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    rounds, job_s = (1, 2.0) if options.quick else (options.rounds, options.seconds)
    measure = partial(measured, rounds=rounds, job_s=job_s)
    if options.no_ray:
        found = measure(None)
    else:
        with Ray() as machines:
            found = {**measure("auto"), "connect_s": machines.connect_s}
    console = Console(width=160)
    console.print(
        f"{found['cpu']}; simulated: the efficiency of so many workers at a job of {JOB_S / 3600:g} CPU hours"
    )
    for table in tables(found):
        console.print(table)
    if options.json:
        options.json.write_text(json.dumps(to_json(found), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
