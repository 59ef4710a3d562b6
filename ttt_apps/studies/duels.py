"""Two learners trained on the games between them, with measurements, as in the report on learners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from learners.base import Learner, Transition
from learners.checkpoint import build_config
from learners.training import Trainer
from ttt_envs.core.jit import Int64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, outcome
from ttt_eval.matches.match import play_pairs
from ttt_eval.reports.plots import RESULTS, plot_intervals
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, are_samples, interval_from_seeds
from ttt_eval.study import Claim, Row, format_difference, rates

SOURCE = (
    "Vassiliades (2017), Implementation of Tic-Tac-Toe Agents using Reinforcement Learning techniques "
    "(https://github.com/dimivas/tictactoe)"
)
MARKS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000)
"""Numbers of training games after which the learners are measured."""
SEEDS = 10
TEST_GAMES = 1_000
"""Number of test games."""

# all relevant settings are given, whatever the defaults of the learners are
_REPORT = {"epsilon": 1.0, "epsilon_decay": 1e-4, "rewards": "report", "symmetries": "none"}
NAIVE = ("naive-mc", _REPORT)
_Q: dict[str, Any] = {**_REPORT, "backup": "agent", "gamma": 1.0}
FORMULA = ("q-learning", {**_Q, "step_size": 1.0, "step_size_power": 0.0, "values": "action", "target": "max"})
"""Settings of the report's text."""
PROGRAM = (
    "q-learning",
    {**_Q, "step_size": 0.99, "step_size_power": 0.0, "values": "afterstate", "target": "sarsa"},
)
"""Settings of the report's program."""
_NET = {"hidden": 20, "optimizer": "adam", "learning_rate": 0.001, "learning_rate_decay": 0.0}
Q_NET = ("q-net", {**_Q, **_NET, "gamma": 0.999, "buffer_size": 0, "gradient_steps": 1, "target_update_interval": 0})

ABOUT = (
    "Two learners play each other and both learn, one game after another, with an update after every move, as in the "
    "report. Alpha, hidden units and exploration are those of its program. In runs with even seeds the first named "
    "learner moves first, in the others second; the report does not control this. A learner is measured in the seat "
    "in which it learned. Measurements neither explore nor learn, and moves of equal value share their probability, "
    f"so that the {TEST_GAMES:,} test games may differ; the report's test games were one game repeated. Rates are "
    "those of the last named learner, exact in every run. The interval is that of the mean over seeds (95%, Student's "
    "t); it is a point where all runs end alike."
)


def duel_units(
    name: str,
    challenger: tuple[str, Mapping[str, Any]],
    benchmark: tuple[str, Mapping[str, Any]],
    marks: Sequence[int],
    seeds: int,
) -> list[Unit]:
    """Return the runs of a pair of learners, one for each seed."""
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
    second = seed % 2 == 0  # whether the challenger moves second
    players = (benchmark, challenger) if second else (challenger, benchmark)
    training = Trainer(TwoLearners(*players), SELF, max(marks), seed=seed)
    measured = []
    for mark in marks:
        while training.done.games < mark:
            training.step()
        exact = outcome(game, *players)
        sampled = play_pairs(game, *players, TEST_GAMES, seed=seed).table[0].tolist()
        if second:
            exact, sampled = exact.reversed(), sampled[::-1]
        measured.append({"games": mark, "exact": list(exact), "sampled": sampled})
    return measured


class TwoLearners(Learner):
    """One learner for player_0 and another for player_1, combined into a single self-playing learner.

    Each learns from its own moves alone, so both have ``backup="agent"``.
    """

    def __init__(self, first: Learner, second: Learner) -> None:
        self.game = first.game
        self.players = (first, second)
        self.on_policy = first.on_policy or second.on_policy

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return int64[B]: moves of each mover's learner in training."""
        out = np.empty(len(boards.mover), np.int64)
        for learner, rows in self._parts(boards):
            out[rows] = learner.explore(boards.take(rows), rng)
        return out

    def update(self, transition: Transition) -> dict[str, float]:
        """Update each learner from its own moves."""
        parts: tuple[Any, ...] = transition
        for learner, rows in self._parts(transition.boards):
            own = Transition(*(part.take(rows) for part in parts))
            learner.update(own if learner.on_policy else own._replace(next_action=np.full(len(rows), -1)))
        return {}

    def _parts(self, boards: Boards) -> Iterator[tuple[Learner, Int64Array]]:
        """Yield the learners of the players to move, and the rows of their positions."""
        for player, learner in enumerate(self.players):
            rows = np.flatnonzero(boards.mover == player)
            if len(rows):
                yield learner, rows


def _build(learner: tuple[str, Mapping[str, Any]], game: Game, rng: np.random.Generator) -> Learner:
    name, settings = learner
    config = build_config(name, settings)
    built = config.build(game, rng)
    assert isinstance(built, Learner), f"{name} has a loop of its own"
    return built


class LearningCurve:
    """The runs of one pair: exact results by mark and seed.

    Attributes:
        marks: numbers of training games.
        exact: float64[seeds, marks, 3], the challenger's wins, draws and losses.
        sampled: int64[seeds, marks, 3].
        full: minimum number of training games for a verdict.
    """

    def __init__(self, name: str, results: Sequence[tuple[Unit, Any]], full: int = MARKS[-1]) -> None:
        runs = [result for unit, result in results if unit["name"] == name]
        self.name = name
        self.full = full
        self.marks = [point["games"] for point in runs[0]]
        self.exact = np.array([[point["exact"] for point in run] for run in runs])
        self.sampled = np.array([[point["sampled"] for point in run] for run in runs])

    def mean(self, mark: int) -> OutcomeProbabilities:
        """Return the mean over seeds."""
        return OutcomeProbabilities(*(float(x) for x in self.exact[:, mark].mean(axis=0)))

    def share(self, mark: int, weights: Sequence[float], bounds: tuple[float, float] = (0.0, 1.0)) -> Interval:
        """Return the mean over seeds of results weighted by ``weights`` of wins, draws and losses."""
        return interval_from_seeds((self.exact[:, mark] @ np.asarray(weights)).tolist(), bounds=bounds)

    def value(self, mark: int) -> Interval:
        """Return wins minus losses, over seeds."""
        return self.share(mark, (1, 0, -1), (-1.0, 1.0))

    def rows(self) -> list[Row]:
        """Return a row for each mark: exact results, and whether the test games agree with them in all runs but few."""
        rows = []
        for mark, games in enumerate(self.marks):
            sampled, exact = self.sampled[:, mark], self.exact[:, mark]
            agrees = are_samples(sampled.tolist(), exact.tolist())
            ours, value = rates(sampled.sum(axis=0) / sampled.sum()), format_difference(self.value(mark))
            rows.append(
                Row(f"{self.name}, {games:,} games", "", ours, f"{rates(self.mean(mark))}; value {value}", agrees)
            )
        return rows

    def claim(self, words: str, holds: bool | None, evidence: str) -> Claim:
        """Return the verdict on a statement; the quick form gives none."""
        return Claim(words, holds if self.marks[-1] >= self.full else None, evidence)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, JSON-ready."""
        return {"games": self.marks, "exact": self.exact.tolist(), "sampled": self.sampled.tolist()}

    def draw(self, axes: Any) -> None:
        """Draw mean rates by games of training, and 95% intervals of the means over runs."""
        places = np.arange(len(self.marks))
        for column, (name, colour) in enumerate(zip(("wins", "draws", "losses"), RESULTS, strict=True)):
            shares = [self.share(mark, np.eye(3)[column].tolist()) for mark in range(len(self.marks))]
            style: dict[str, Any] = {"color": colour, "marker": "os^"[column], "label": name}
            plot_intervals(axes, places + 0.16 * (column - 1), shares, ms=5, lw=1, capsize=3, **style)
        axes.set_xticks(places, [f"{games:,}" for games in self.marks])
        axes.set_title(f"{self.name}: rates of the last named (95%, n = {len(self.exact)} runs)", fontsize="medium")
        axes.set(ylabel="rate, exact", ylim=(-0.02, 1.02))
