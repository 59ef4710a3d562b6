"""How often a leaderboard calls equal agents different, as in docs/benchmark/index.md.

``python tests/equal_agents.py SCORES...`` makes leaderboards of equal agents, whose runs are
drawn from those of one submission, and counts those with a false difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from ttt_eval.benchmark.comparison import Comparison, compare_submissions
from ttt_eval.benchmark.scores import SubmissionScores, read_scores
from ttt_eval.benchmark.tasks import SEEDS, TASKS
from ttt_eval.reports.formats import format_interval, percent
from ttt_eval.store.statistics import wilson

AGENTS = 8
TABLES = 400


def draw_equals(
    source: SubmissionScores, agents: int, rng: np.random.Generator
) -> list[SubmissionScores]:
    """Return submissions of equal agents: each run is one of ``source`` on its task, at random."""
    runs = [
        [run for run in source.runs if run.task == task.name]
        for task in TASKS
        if task.uses_runs_of is None
    ]

    def draw(agent: int) -> SubmissionScores:
        drawn_runs = [
            replace(of_task[number], seed=seed)
            for of_task in filter(None, runs)
            for seed, number in enumerate(rng.integers(len(of_task), size=len(SEEDS)))
        ]
        return SubmissionScores(name=f"agent {agent}", runs=tuple(drawn_runs))

    return [draw(agent) for agent in range(agents)]


def has_difference(comparison: Comparison) -> bool:
    """Return whether a comparison calls two submissions different: by a probability of improvement,
    or by intervals of an aggregate that are disjoint.
    """
    columns = zip(*((row.interquartile_mean, row.mean) for row in comparison.entries), strict=True)
    is_disjoint = [
        max(value.low for value in column) > min(value.high for value in column)
        for column in columns
    ]
    probabilities = [value for row in comparison.improvement.values() for value in row.values()]
    return any(is_disjoint) or any(value.low > 0.5 for value in probabilities)


def count_false(source: SubmissionScores, agents: int, tables: int, seed: int = 0) -> int:
    """Return how many of so many leaderboards of equal agents have a difference."""
    rng = np.random.default_rng(seed)
    return sum(
        has_difference(compare_submissions(draw_equals(source, agents, rng))) for _ in range(tables)
    )


def main(paths: list[str]) -> None:
    """Print a table of the submissions."""
    print("| runs of | leaderboards with a false difference |\n|---|---|")
    for source in [source for path in paths for source in read_scores(Path(path))]:
        share = wilson(count_false(source, AGENTS, TABLES) / TABLES, TABLES)
        print(f"| {source.name} | {format_interval(share, percent)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
