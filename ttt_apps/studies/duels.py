"""Two learners that learn from the games between them, measured on the way: what the report on learners did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.exact import Outcome, outcome
from evaluation.match import play_pairs
from evaluation.statistics import Interval, are_samples, of_seeds
from evaluation.study import Claim, Row, Unit
from learners.base import Learner
from learners.checkpoint import build_config
from learners.duel import Duel
from learners.training import Training
from ttt_envs.lockstep import SELF
from ttt_envs.rules import Game

SOURCE = "Vassiliades (2017), Implementation of Tic-Tac-Toe Agents using Reinforcement Learning techniques"
MARKS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000)
"""games of training after which the learners are measured"""
SEEDS = 10
SAMPLED = 1_000
"""test games"""

_REPORT = {"epsilon": 1.0, "epsilon_step": 1e-4, "rewards": "report"}
NAIVE = ("naive-mc", _REPORT)
FORMULA = ("q-learning", {**_REPORT, "step_size": 1.0, "step_size_power": 0.0})
"""as the report's text has it"""
PROGRAM = (
    "q-learning",
    {**_REPORT, "step_size": 0.99, "step_size_power": 0.0, "values": "afterstate", "target": "chosen"},
)
"""as the report's program has it"""
Q_NET = ("q-net", {**_REPORT, "hidden": 20, "learning_rate": 0.001, "gamma": 0.999})

ABOUT = (
    "Two learners play each other and both learn, one game after another, with an update after every move, as in the "
    "report; alpha, the nets' hidden units and exploration are those of its program. In runs of even seeds the first "
    "named moves first, in the others second, which the report does not control; a learner is measured in the seat in "
    "which it learned. Evaluation neither explores nor learns, and moves of equal value share their probability: the "
    f"{SAMPLED:,} test games may differ; the report's were one game repeated. Rates are of the one named "
    "last, exact in every run; the interval is of the mean over seeds (95%, Student's t)."
)


def duels(
    name: str,
    challenger: tuple[str, Mapping[str, Any]],
    benchmark: tuple[str, Mapping[str, Any]],
    marks: Sequence[int],
    seeds: int,
) -> list[Unit]:
    """Runs of a pair of learners, one for each seed."""
    return [
        {"name": name, "challenger": challenger, "benchmark": benchmark, "marks": list(marks), "seed": seed}
        for seed in range(seeds)
    ]


def measure(unit: Unit) -> list[dict[str, Any]]:
    """Train a pair, and measure the challenger after each mark: ``games``, ``exact`` and ``sampled`` results."""
    game = Game()
    seed, marks = unit["seed"], unit["marks"]
    rngs = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,))).spawn(2)
    benchmark, challenger = (
        _build(unit[role], game, rng) for role, rng in zip(("benchmark", "challenger"), rngs, strict=True)
    )
    second = seed % 2 == 0  # where the challenger sits
    players = (benchmark, challenger) if second else (challenger, benchmark)
    training = Training(Duel(*players), SELF, max(marks), seed=seed)
    measured = []
    for mark in marks:
        while training.done.games < mark:
            training.step()
        exact = outcome(game, *players)
        wins, draws, losses = (int(n) for n in play_pairs(game, *players, SAMPLED, seed=seed).table[0])
        measured.append(
            {
                "games": mark,
                "exact": list(exact.turned() if second else exact),
                "sampled": [losses, draws, wins] if second else [wins, draws, losses],
            }
        )
    return measured


def _build(learner: tuple[str, Mapping[str, Any]], game: Game, rng: np.random.Generator) -> Learner:
    name, settings = learner
    return build_config(name, settings).build(game, rng)


class Curve:
    """The runs of one pair: exact results by mark and seed.

    Attributes:
        marks: games of training.
        exact: float64[seeds, marks, 3], the challenger's wins, draws and losses.
        sampled: int64[seeds, marks, 3].
        full: games of training without which nothing is decided.
    """

    def __init__(self, name: str, results: Sequence[tuple[Unit, Any]], full: int = MARKS[-1]) -> None:
        runs = [result for unit, result in results if unit["name"] == name]
        self.name = name
        self.full = full
        self.marks = [point["games"] for point in runs[0]]
        self.exact = np.array([[point["exact"] for point in run] for run in runs])
        self.sampled = np.array([[point["sampled"] for point in run] for run in runs])

    def mean(self, mark: int) -> Outcome:
        """Over seeds."""
        return Outcome(*(float(x) for x in self.exact[:, mark].mean(axis=0)))

    def value(self, mark: int) -> Interval:
        """Wins less losses, over seeds."""
        found = of_seeds([float(x) for x in self.exact[:, mark, 0] - self.exact[:, mark, 2]])
        return Interval(found.mean, max(-1.0, found.low), min(1.0, found.high))

    def rows(self) -> list[Row]:
        """A line for each mark: exact results, and whether the test games agree with them in all runs but few."""
        rows = []
        for mark, games in enumerate(self.marks):
            value = self.value(mark)
            rows.append(
                Row(
                    f"{self.name}, {games:,} games",
                    "",
                    rates(self.sampled[:, mark].sum(axis=0) / self.sampled[:, mark].sum()),
                    f"{rates(self.mean(mark))}; value {value.mean:+.3f} ({value.low:+.3f} to {value.high:+.3f})",
                    are_samples(self.sampled[:, mark].tolist(), self.exact[:, mark].tolist()),
                )
            )
        return rows

    def claim(self, words: str, holds: bool | None, evidence: str) -> Claim:
        """What becomes of a statement; the quick form decides none."""
        return Claim(words, holds if self.marks[-1] >= self.full else None, evidence)

    def to_dict(self) -> dict[str, Any]:
        """All numbers, JSON-ready."""
        return {"games": self.marks, "exact": self.exact.tolist(), "sampled": self.sampled.tolist()}

    def draw(self, axes: Any) -> None:
        """Mean rates by games of training, with their standard errors over seeds."""
        for column, (name, colour) in enumerate((("win", "tab:green"), ("draw", "tab:gray"), ("loss", "tab:red"))):
            share = self.exact[:, :, column]
            error = share.std(axis=0, ddof=1) / np.sqrt(len(share))
            axes.errorbar(self.marks, share.mean(axis=0), error, color=colour, marker="o", label=name)
        axes.set(title=self.name, xlabel="games of training", ylabel="exact rate", ylim=(-0.02, 1.02))
        axes.legend()


def ahead(values: Sequence[Interval]) -> bool | None:
    """Whether all values are above 0; None where their intervals leave it open."""
    if any(value.high < 0 for value in values):
        return False
    return True if all(value.low > 0 for value in values) else None


def rates(result: Any) -> str:
    """Win / draw / loss."""
    return " / ".join(f"{share:.3f}" for share in result)


def shown(interval: Interval) -> str:
    """A value and its interval."""
    return f"{interval.mean:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"
