"""Figures 9 to 11 of the report on learners: what they cost in CPU and memory."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from evaluation.cost import Usage
from evaluation.study import Claim, Findings, Row, Study, Unit
from learners.checkpoint import build_config
from ttt_apps.evaluate.cost import NAMES, repeat
from ttt_apps.studies.duels import NAIVE, PROGRAM, Q_NET, SOURCE
from ttt_apps.train import BATCH
from ttt_envs.rules import Game

LEARNERS = (NAIVE, PROGRAM, Q_NET)
DEFAULT = 0
"""stands for the batch that suits the learner"""
GAMES = {1: (0, 1_000, 20_000, 50_000), DEFAULT: (0, 50_000, 100_000, 300_000, 500_000)}
"""by games side by side: ten times as many where a game takes microseconds; the report plays one at a time"""
REPEATS = {1: 1, DEFAULT: 3}
BATCHES = {name: getattr(build_config(name, settings), "batch", BATCH) for name, settings in LEARNERS}
MIB = 2**20


def units(quick: bool) -> list[Unit]:
    """Processes to run, repeats in the outer loop, so that a slow moment hits all alike."""
    games = {1: (100, 600), DEFAULT: (50_000, 300_000)} if quick else GAMES
    return [
        {"learner": name, "settings": settings, "batch": batch, "games": number, "repeat": again}
        for batch in (1, DEFAULT)
        for again in range(1 if quick else REPEATS[batch])
        for number in games[batch]
        for name, settings in LEARNERS
    ]


def measure(unit: Unit) -> dict[str, float]:
    """What a fresh process takes that trains against random, imports included."""
    _warm(unit["learner"])
    return dict(zip(NAMES, _repeated(unit), strict=True))


@cache
def _warm(name: str) -> None:
    """Let the learner's kernels be compiled, or found compiled, before anything is measured."""
    _repeated({"learner": name, "settings": dict(LEARNERS)[name], "batch": 1, "games": 20, "repeat": 0})


def _repeated(unit: Unit) -> Usage:
    name = unit["learner"]
    config = {
        "format": 1,
        "game": Game().to_dict(),
        "learner": name,
        "settings": unit["settings"],
        "opponent": "random",
        "seat": "alternate",
        "games": unit["games"],
        "batch": unit["batch"] or BATCHES[name],
        "seed": unit["repeat"],
    }
    return repeat(config)


def conclude(results: Sequence[tuple[Unit, Any]]) -> Findings:
    """CPU of each game beyond the start, and memory, beside the report's ratios."""
    costs = {(batch, name): _Cost(results, batch, name) for batch in (1, DEFAULT) for name, _ in LEARNERS}
    decided = len(results) == len(units(False))
    rows = []
    for (batch, name), cost in costs.items():
        label = f"{name}, {'one game at a time' if batch == 1 else f'{BATCHES[name]:,} side by side'}"
        rows.append(
            Row(
                label,
                "",
                f"{1e6 * cost.per_game:,.1f} us CPU a game, {100 * cost.system:.0f}% of it system; "
                f"{cost.peak / MIB:,.0f} MiB, {cost.above / MIB:,.0f} above the first games",
                "",
            )
        )
    claims = []
    for words, over, under, low, high in (
        ("Tensorflow requires 15 to 20 times more CPU time than Naive", "q-net", "naive-mc", 15, 20),
        ("Tensorflow requires 10 times more CPU than Q-Learning", "q-net", "q-learning", 8, 12),
        ("Q-Learning requires 2 times more CPU than Naive", "q-learning", "naive-mc", 1.6, 2.4),
    ):
        one, many = (costs[batch, over].per_game / costs[batch, under].per_game for batch in (1, DEFAULT))
        found = f"{one:.1f} times one game at a time, {many:.1f} times side by side"
        holds = low <= one <= high if decided else None
        claims.append(Claim(words, holds, f"{found}; taken as {low} to {high} for one at a time"))
    for words, over, under, low, high in (
        ("The memory of Tensorflow is 7 to 8 times bigger than Naive's", "q-net", "naive-mc", 7, 8),
        ("approximately 9 times bigger than Q-Learning's", "q-net", "q-learning", 8, 10),
    ):
        times = costs[1, over].peak / costs[1, under].peak
        holds = low <= times <= high if decided else None
        claims.append(Claim(words, holds, f"{times:.1f} times, of which most is there before a game"))
    straight = min(cost.linear for cost in costs.values())
    claims.append(
        Claim(
            "For all algorithms, the CPU time has a linear increase as the number of games increases",
            straight > 0.98 if decided else None,
            f"a straight line explains at least {straight:.1%} of the variance",
        )
    )
    grown = max(cost.above / cost.peak for cost in costs.values())
    claims.append(
        Claim(
            "The memory usage remains almost stable as the number of games increases",
            grown < 0.2 if decided else None,
            f"at most {grown:.0%} of the peak is more than after the first games",
        )
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(10, 6)
        grid = figure.subplots(2, 3, sharex="row")
        for row, batch in zip(grid, (1, DEFAULT), strict=True):
            for axes, (column, name, unit) in zip(row, _COLUMNS, strict=True):
                for learner, _ in LEARNERS:
                    cost = costs[batch, learner]
                    axes.plot(
                        [games / 1000 for games in cost.games], cost.medians[column] / unit, marker="o", label=learner
                    )
                axes.set(title=f"{name}, {'one at a time' if batch == 1 else 'side by side'}", ylim=(0, None))
        for axes in grid.flat:
            axes.set_xlabel("thousands of games")
        grid[0, 0].legend()

    return Findings(
        rows,
        claims,
        {"learners-cost": draw},
        ours="medians",
        data=[{**unit, **result} for unit, result in results],
    )


_COLUMNS = (
    ("cpu_user_s", "CPU user, s", 1.0),
    ("cpu_system_s", "CPU system, s", 1.0),
    ("peak_rss_bytes", "peak RSS, MiB", MIB),
)


class _Cost:
    """Medians over repeats, by number of games, of one learner."""

    def __init__(self, results: Sequence[tuple[Unit, Any]], batch: int, name: str) -> None:
        mine = [
            (unit["games"], result) for unit, result in results if (unit["batch"], unit["learner"]) == (batch, name)
        ]
        self.games = sorted({games for games, _ in mine})
        self.medians = {
            column: np.array([statistics.median(r[column] for g, r in mine if g == games) for games in self.games])
            for column in NAMES
        }
        played = [index for index, games in enumerate(self.games) if games]  # without a game no kernel is loaded
        games = np.array(self.games)[played]
        user, system, peak = (
            self.medians[column][played] for column in ("cpu_user_s", "cpu_system_s", "peak_rss_bytes")
        )
        self.per_game = float(np.polyfit(games, user + system, 1)[0])
        """CPU seconds: the slope of the straight line through all numbers of games"""
        self.linear = float(np.corrcoef(games, user + system)[0, 1] ** 2)
        self.system = float(np.polyfit(games, system, 1)[0]) / self.per_game
        self.peak, self.above = float(peak.max()), float(peak.max() - peak[0])


STUDY = Study(
    title="What learners cost against random",
    source=f"{SOURCE}, figures 9 to 11",
    about=(
        "Every run is a process of its own, imports included; CPU of a game is the slope over numbers of games, which "
        "leaves the start out. The report measured with the command time, one game at a time, in Python and "
        "TensorFlow before 1.0; here tables are compiled. Side by side is how training runs by default."
    ),
    units=units,
    measure=measure,
    conclude=conclude,
    left_out="600 games one at a time, and fewer repeats side by side: noisy",
    alone=True,
)
