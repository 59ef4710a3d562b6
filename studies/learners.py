"""The report on learners: figures 7 to 14, cost of learners and two learners trained on the games between them."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from learners.base import Learner, Transition
from learners.checkpoint import build_config, new_config
from learners.training import Trainer
from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study, group
from ttt_apps.train_subprocess import measure_training, train_in_subprocess
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.cost import COST_KEYS
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, outcome
from ttt_eval.matches.match import play_pairs
from ttt_eval.reports.plots import RESULTS
from ttt_eval.result_store import Unit
from ttt_eval.run_files import RunDirectory
from ttt_eval.statistics import Interval, are_samples, holds_for_all, interval_from_seeds, is_above, is_within

SOURCE = (
    "Vassiliades (2017), Implementation of Tic-Tac-Toe Agents using Reinforcement Learning techniques "
    "(https://github.com/dimivas/tictactoe)"
)
MARKS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000)
"""Numbers of training games after which the learners are measured."""
SEEDS = 10
TEST_GAMES = 1_000
"""Number of test games."""
LearnerSettings = tuple[str, Mapping[str, Any]]
"""Name and settings of a learner: all relevant ones are given, whatever the defaults are."""
_REPORT = {"epsilon": 1.0, "epsilon_decay": 1e-4, "rewards": "report", "symmetries": "none"}
_Q: dict[str, Any] = {**_REPORT, "backup": "agent"}
_TABLE_Q = {**_Q, "gamma": 1.0, "step_size_power": 0.0}
NAIVE: LearnerSettings = ("naive-mc", _REPORT)
FORMULA: LearnerSettings = ("q-learning", {**_TABLE_Q, "step_size": 1.0, "values": "action", "target": "max"})
"""Settings of the report's text."""
PROGRAM: LearnerSettings = ("q-learning", {**_TABLE_Q, "step_size": 0.99, "values": "afterstate", "target": "sarsa"})
"""Settings of the report's program."""
_NET = {"hidden": 20, "optimizer": "adam", "learning_rate": 0.001, "learning_rate_decay": 0.0, "gamma": 0.999}
Q_NET: LearnerSettings = ("q-net", {**_Q, **_NET, "buffer_size": 0, "gradient_steps": 1, "target_update_interval": 0})

# ---------------------------------------------------------------------------------------------------------------------
# Two learners, trained on the games between them


def duel_units(
    name: str, challenger: LearnerSettings, benchmark: LearnerSettings, marks: Sequence[int], seeds: int
) -> list[Unit]:
    """Return the runs of a pair of learners, one for each seed."""
    pair = {"name": name, "challenger": challenger, "benchmark": benchmark, "marks": list(marks)}
    return [{**pair, "seed": seed} for seed in range(seeds)]


def build_learner(settings: LearnerSettings, game: Game, rng: np.random.Generator) -> Learner:
    """Return an untrained learner that learns from single transitions."""
    learner = build_config(*settings).build(game, rng)
    assert isinstance(learner, Learner), f"{settings[0]} has a loop of its own"
    return learner


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


class Duel(Study):
    """Two learners play each other and both learn, one game after another, with an update after every move, as in the
    report. Alpha, hidden units and exploration are those of its program. In runs with even seeds the first named
    learner moves first, in the others second; the report does not control this. A learner is measured in the seat
    in which it learned. Measurements neither explore nor learn, and moves of equal value share their probability,
    so that the 1,000 test games may differ; the report's test games were one game repeated. Rates are those of the
    last named learner, exact in every run. The interval is that of the mean over seeds (95%, Student's t); it is a
    point where all runs end alike.
    """

    def measure(self, unit: Unit) -> list[dict[str, Any]]:
        """Train a pair, and measure the challenger after each mark: ``games``, ``exact`` and ``sampled`` results."""
        game, seed, marks = Game(), unit["seed"], unit["marks"]
        rngs = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,))).spawn(2)
        benchmark, challenger = (
            build_learner(unit[role], game, rng) for role, rng in zip(("benchmark", "challenger"), rngs, strict=True)
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


class LearningCurve:
    """The runs of one pair: exact results by mark and seed.

    Attributes:
        name: of the pair.
        marks: numbers of training games.
        exact: float64[seeds, marks, 3], the challenger's wins, draws and losses.
        sampled: int64[seeds, marks, 3].
    """

    def __init__(self, name: str, runs: Sequence[Any]) -> None:
        self.name = name
        self.marks = [point["games"] for point in runs[0]]
        self.exact = np.array([[point["exact"] for point in run] for run in runs])
        self.sampled = np.array([[point["sampled"] for point in run] for run in runs])

    def shares(self, weights: Sequence[float], games: Iterable[int] | None = None) -> dict[int, Interval]:
        """Return by games the mean over seeds of results weighted by ``weights`` of wins, draws and losses."""
        values, bounds = self.exact @ np.asarray(weights), (min(0.0, *weights), 1.0)
        chosen = self.marks if games is None else [mark for mark in self.marks if mark in games]
        return {mark: interval_from_seeds(values[:, self.marks.index(mark)].tolist(), bounds=bounds) for mark in chosen}

    def lead(self, games: Iterable[int] | None = None) -> dict[int, Interval]:
        """Return by games the wins minus losses, over seeds."""
        return self.shares((1, 0, -1), games)

    def rows(self) -> list[Row]:
        """Return a row for each mark: exact results, and whether the test games agree with them in all runs but few."""
        rows = []
        for mark, (games, lead) in enumerate(self.lead().items()):
            sampled, exact = self.sampled[:, mark], self.exact[:, mark]
            agrees = are_samples(sampled.tolist(), exact.tolist())
            means = {"": OutcomeProbabilities(*exact.mean(axis=0).tolist()), "value": lead}
            rows.append(Row(f"{self.name}, {games:,} games", None, sampled.sum(axis=0) / sampled.sum(), means, agrees))
        return rows

    def claim(self, words: str, holds: bool | None, numbers: Mapping[Any, Any], full: int = MARKS[-1]) -> Claim:
        """Return the verdict on a statement; trainings of fewer than ``full`` games give none."""
        named = {f"{name:,} games" if isinstance(name, int) else name: value for name, value in numbers.items()}
        return Claim(words, holds if self.marks[-1] >= full else None, named)

    def panel(self) -> Panel:
        """Return mean rates by games of training, and 95% intervals of the means over runs."""
        series = [
            Series(name, np.arange(len(self.marks)) + 0.16 * (column - 1), self.shares(weights).values(), form, colour)
            for column, (name, weights, form, colour) in enumerate(
                zip(("wins", "draws", "losses"), np.eye(3).tolist(), ("o-", "s-", "^-"), RESULTS, strict=True)
            )
        ]
        title = f"{self.name}: rates of the last named (95%, n = {len(self.exact)} runs)"
        return Panel(series, "games of training", "rate, exact", title, limits=(-0.02, 1.02), ticks=self.marks)


RATES = (0.0001, 0.001, 0.01, 0.1)
"""Learning rates; the report's text names only the best, 0.001 of Adam."""
BEST = "adam 0.001"


class Optimizer(Duel):
    """The Q-net learns with two optimizers and four learning rates."""

    title = "Optimizer and learning rate of the Q-net, against Q-learning"
    source = f"{SOURCE}, figures 7 and 8"
    left_out = f"two seeds in place of three, two rates in place of {len(RATES)}, 500 games in place of 10,000"

    def units(self, quick: bool) -> list[Unit]:
        """Return all runs."""
        games, seeds, rates = (500, 2, (0.001, 0.1)) if quick else (10_000, 3, RATES)
        name, settings = Q_NET
        units = []
        for optimizer in ("sgd", "adam"):
            for rate in rates:
                challenger = name, {**settings, "optimizer": optimizer, "learning_rate": rate}
                units += duel_units(f"{optimizer} {rate:g}", challenger, PROGRAM, (games,), seeds)
        return units

    def analyse(self, results: Results) -> Report:
        """Report results by optimizer and rate, and whether the report's best is ours."""
        curves = {name: LearningCurve(name, runs) for name, runs in group(results, "name").items()}
        [games] = curves[BEST].marks
        leads = {name: curve.lead()[games] for name, curve in curves.items()}
        runs = {name: curve.exact[:, 0, 0] - curve.exact[:, 0, 2] for name, curve in curves.items()}
        ahead = {
            name: interval_from_seeds((runs[BEST] - values).tolist(), bounds=(-2.0, 2.0))
            for name, values in runs.items()
            if name != BEST
        }
        words = "The optimal combination of optimizer and learning rate is AdamOptimizer and 0.001"
        claim = curves[BEST].claim(
            words, is_above(ahead.values()), {"wins less losses": leads, f"{BEST} less": ahead}, 10_000
        )
        rows = [
            row._replace(what=name, published="best" if name == BEST else None)
            for name, curve in curves.items()
            for row in curve.rows()
        ]
        series = []
        for index, optimizer in enumerate(("sgd", "adam")):
            names = [name for name in curves if name.startswith(optimizer)]
            places = [list(curves).index(name) for name in names]
            series.append(Series(optimizer, places, [leads[name] for name in names], "os"[index], index))
            singles = [
                (place, value) for place, name in zip(places, names, strict=True) for value in runs[name].tolist()
            ]
            x, y = zip(*singles, strict=True)
            series.append(Series("", x, y, "|", index, 0.9))
        panel = Panel(series, f"the q-net's wins less losses after {games:,} games, exact", places=list(curves))
        wide = sum(value.high - value.low > 1 for value in leads.values())
        figure = Figure(
            "Which optimizer and learning rate are best for the Q-net?",
            "Dashes are single runs, marks their means with 95% intervals.",
            [panel],
            {"adam with 0.001 is": claim.holds, "intervals wider than half the scale": f"{wide} of {len(leads)}"},
        )
        return Report(rows, [claim], {"learners-optimizer": figure}, ours="1,000 test games a run")


CHALLENGERS = {
    "naive-mc - q-learning": PROGRAM,
    "naive-mc - q-learning by the formula": FORMULA,
    "naive-mc - q-net": Q_NET,
}
FORMULA_SEEDS = 4
"""Number of seeds for the formula, which differs from the report's program."""
VERY_HIGH = 0.9
"""Share taken for "a very high number" of games."""


class AgainstNaive(Duel):
    """Q-learning is that of the report's program, and that of the formula in its text."""

    title = "Learners against the naive learner"
    source = f"{SOURCE}, figures 12 and 13"
    left_out = f"two seeds in place of {SEEDS}, and 1,000 games of training in place of {MARKS[-1]:,}"

    def units(self, quick: bool) -> list[Unit]:
        """Return all runs."""
        marks, seeds = ((0, 250, 500, 1_000), 2) if quick else (MARKS, SEEDS)
        units = []
        for name, learner in CHALLENGERS.items():
            count = min(seeds, FORMULA_SEEDS) if learner is FORMULA else seeds
            units += duel_units(name, learner, NAIVE, marks, count)
        return units

    def analyse(self, results: Results) -> Report:
        """Report curves, and verdicts on the report's three statements."""
        curves = [LearningCurve(name, runs) for name, runs in group(results, "name").items()]
        program, formula, net = curves
        claims = []
        for curve, words in (
            (program, "The Q-Learning algorithm has a very high number of wins and draws against the Naive algorithm"),
            (formula, "the same, of the formula in the report's text"),
            (net, "The Tensorflow algorithm has also a very high number of wins and draws against the Naive algorithm"),
        ):
            shares = curve.shares((1, 1, 0), curve.marks[1:])
            least = min(shares.items(), key=lambda item: item[1].mean)
            numbers = {"wins and draws at least": least[1], "after games": least[0], "read as: above": VERY_HIGH}
            claims.append(curve.claim(words, is_above(shares.values(), VERY_HIGH), numbers))
        more = net.shares((1, -1, 0), range(1, 10_000))
        words = "Under 10,000 training games the wins of the Tensorflow algorithm are significantly more than the draws"
        claims.append(net.claim(words, is_above(more.values()), more))
        last = program.marks[-1]
        ends = {curve.name: curve.lead()[last] for curve in (program, net)}
        words = "Both algorithms outperform the Naive algorithm"
        claims.append(net.claim(words, is_above(ends.values()), ends))
        draws = min(curve.exact[:, -1, 1].mean() for curve in curves)
        figure = Figure(
            "Do learners outperform the naive learner that learns beside them?",
            "Wins, draws and losses are drawn side by side, with 95% intervals over runs.",
            [curve.panel() for curve in curves],
            {f"wins less losses after {last:,} games": ends, "draws at least": draws},
            columns=1,
        )
        rows = [row for curve in curves for row in curve.rows()]
        return Report(rows, claims, {"learners-naive": figure}, ours="1,000 test games a run")


EQUAL = 0.9
"""Share of draws above which play is taken for equal."""


class QLearningAgainstNet(Duel):
    """Q-learning is that of the report's program."""

    title = "Q-learning against the Q-net"
    source = f"{SOURCE}, figure 14"
    left_out = AgainstNaive.left_out

    def units(self, quick: bool) -> list[Unit]:
        """Return all runs."""
        marks, seeds = ((0, 250, 500, 1_000), 2) if quick else (MARKS, SEEDS)
        return duel_units("q-net - q-learning", PROGRAM, Q_NET, marks, seeds)

    def analyse(self, results: Results) -> Report:
        """Report the curve, and verdicts on the report's two statements."""
        [(name, runs)] = group(results, "name").items()
        curve = LearningCurve(name, runs)
        leads, draws = curve.lead(range(1, 20_000)), curve.shares((0, 1, 0), range(20_000, MARKS[-1] + 1))
        claims = [
            curve.claim(
                "For training sets under 20,000, the Q-Learning algorithm outperforms the Tensorflow algorithm",
                is_above(leads.values()),
                leads,
            ),
            curve.claim(
                "After the 20,000 training sets, both algorithms perform equally (draw)",
                is_above(draws.values(), EQUAL),
                {**draws, "share of draws read as: above": EQUAL},
            ),
        ]
        figure = Figure(
            "Which of Q-learning and the Q-net learns faster?",
            "Wins, draws and losses are drawn side by side, with 95% intervals over runs.",
            [curve.panel()],
            {
                "Q-learning leads after games": [games for games, lead in curve.lead().items() if lead.low > 0]
                or "none",
                "the Q-net": [games for games, lead in curve.lead().items() if lead.high < 0] or "none",
                "least share of draws from 20,000 games on": min((draw.mean for draw in draws.values()), default=None),
            },
        )
        return Report(curve.rows(), claims, {"learners-qnet": figure}, ours="1,000 test games a run")


# ---------------------------------------------------------------------------------------------------------------------
# Cost

LEARNERS = dict((NAIVE, PROGRAM, Q_NET))
COST_GAMES: dict[int, Mapping[str, Sequence[int]]] = {
    1: dict.fromkeys(LEARNERS, (0, 2_000, 6_000, 10_000)),
    0: dict.fromkeys(LEARNERS, (0, 400_000, 1_200_000, 2_000_000)) | {"q-net": (0, 100_000, 200_000, 300_000)},
}
"""Numbers of games by batch and learner, large enough to exceed the startup cost; the report plays one at a time, and 0
is the learner's own batch."""
QUICK_GAMES: dict[int, Mapping[str, Sequence[int]]] = {
    1: dict.fromkeys(LEARNERS, (0, 100, 600)),
    0: dict.fromkeys(LEARNERS, (0, 20_000, 100_000)),
}
REPEATS = 5
MAX_BEND = 0.1
"""Tolerance of linearity: relative deviation of the cost of half the games from half the cost."""
MAX_GROWTH = 0.2
"""Tolerance of stable memory: growth after the first games, relative to the peak."""
MIB = 2**20


class Cost(Study):
    """Every run is a separate process, imports included, with one seed per repeat. The CPU time of a game is the
    slope over numbers of games, which excludes the startup. The system's share is that of the largest number of
    games, without the startup. Intervals (95%, Student's t) are over repeats. A ratio is the geometric mean of
    the ratios within each repeat, whose processes share the load of the machine. The report used the command
    time, one game at a time, in Python and TensorFlow before 1.0; here tables are compiled. Training runs games
    side by side by default.
    """

    title = "What learners cost against random"
    source = f"{SOURCE}, figures 9 to 11"
    left_out = "most games, and all repeats but one: no intervals"
    alone = True

    def units(self, quick: bool) -> list[Unit]:
        """Return the processes to run, repeats in the outer loop, so that a slow moment affects all alike."""
        return [
            {"learner": name, "settings": settings, "batch": batch, "games": games[name][step], "repeat": repeat}
            for repeat in range(1 if quick else REPEATS)
            for batch, games in (QUICK_GAMES if quick else COST_GAMES).items()
            for step in range(len(games["q-net"]))
            for name, settings in LEARNERS.items()
        ]

    def measure(self, unit: Unit) -> dict[str, float]:
        """Measure the cost of a new process that trains against random, imports included."""
        _warm(unit["learner"])
        return _measure_process(unit)

    def analyse(self, results: Results) -> Report:
        """Report CPU per game beyond the startup, and memory, beside the report's ratios."""
        costs = {key: ProcessCost(results, *key) for key in group(results, "batch", "learner")}
        decided = len(results) == len(self.units(False))
        labels = {
            key: f"{key[1]}, {'one game at a time' if key[0] == 1 else f'{_batch(key[1]):,} side by side'}"
            for key in costs
        }
        rows, claims, ratios = [], [], dict[str, Any]()
        for key, cost in costs.items():
            numbers: dict[str, Any] = {
                "us CPU a game": interval_from_seeds((1e6 * cost.per_game).tolist()),
                "system's share": interval_from_seeds(cost.system.tolist()),
                "MiB": interval_from_seeds((cost.peak / MIB).tolist()),
                "MiB above the first games": interval_from_seeds((cost.above / MIB).tolist()),
            }
            rows.append(Row(labels[key], None, numbers))
        for words, over, under, low, high in (
            ("Tensorflow requires 15 to 20 times more CPU time than Naive", "q-net", "naive-mc", 15, 20),
            ("Tensorflow requires 10 times more CPU than Q-Learning", "q-net", "q-learning", 8, 12),
            ("Q-Learning requires 2 times more CPU than Naive", "q-learning", "naive-mc", 1.6, 2.4),
        ):
            single, many = (_ratio(costs[batch, over].per_game, costs[batch, under].per_game) for batch in COST_GAMES)
            ratios[f"{over}'s CPU, in times that of {under}"] = single
            numbers = {
                "times, one game at a time": single,
                "side by side": many,
                "read as": f"{low} to {high}, one at a time",
            }
            claims.append(Claim(words, is_within(single, low, high) if decided else None, numbers))
        for words, under, low, high in (
            ("The memory of Tensorflow is 7 to 8 times bigger than Naive's", "naive-mc", 7, 8),
            ("approximately 9 times bigger than Q-Learning's", "q-learning", 8, 10),
        ):
            net = costs[1, "q-net"]
            ratios[f"q-net's memory, in times that of {under}"] = times = _ratio(net.peak, costs[1, under].peak)
            start = interval_from_seeds((net.start / net.peak).tolist())
            numbers = {"times": times, "share of q-net's before a game": start, "read as": f"{low} to {high}"}
            claims.append(Claim(words, is_within(times, low, high) if decided else None, numbers))
        for words, values, bounds in (
            (
                "For all algorithms, the CPU time has a linear increase as the number of games increases",
                {key: cost.bend for key, cost in costs.items()},
                (-MAX_BEND, MAX_BEND),
            ),
            (
                "The memory usage remains almost stable as the number of games increases",
                {key: cost.above / cost.peak for key, cost in costs.items()},
                (-1.0, MAX_GROWTH),
            ),
        ):
            intervals = {labels[key]: interval_from_seeds(value.tolist()) for key, value in values.items()}
            holds = holds_for_all(is_within(interval, *bounds) for interval in intervals.values())
            claims.append(Claim(words, holds if decided else None, {**intervals, "read as: at most": bounds[1]}))
        ratios["memory is stable"] = claims[-1].holds
        figure = Figure(
            "What do learners cost in CPU time and memory?",
            "Marks are single processes, lines connect their means.",
            [_cost_panel(costs, *panel) for panel in ((1, "cpu"), (0, "cpu"), (1, "memory"), (0, "memory"))],
            ratios,
        )
        heading = f"mean of {len(costs[1, 'q-net'].peak)} processes, and its 95% interval"
        return Report(rows, claims, {"learners-cost": figure}, heading)


def _batch(learner: str) -> int:
    return build_config(learner, LEARNERS[learner]).batch


@cache
def _warm(name: str) -> None:
    """Compile the learner's kernels, or load compiled ones, before anything is measured."""
    _measure_process({"learner": name, "settings": LEARNERS[name], "batch": 1, "games": 20, "repeat": 0})


def _measure_process(unit: Unit) -> dict[str, float]:
    name = unit["learner"]
    training = {
        "opponent": "random",
        "seat": "alternate",
        "games": unit["games"],
        "batch": unit["batch"] or _batch(name),
    }
    config = new_config(Game(), unit["settings"], learner=name, **training, seed=unit["repeat"])
    return dict(zip(COST_KEYS, measure_training(config), strict=True))


def _ratio(over: Float64Array, under: Float64Array) -> Interval:
    """Return the ratio, repeat by repeat: the geometric mean and its interval.

    It is unknown if noise exceeds a cost, so that the measured cost of games is not positive.
    """
    if min(over.min(), under.min()) <= 0:
        return Interval(math.nan, 0.0, math.inf)
    return Interval(*(float(np.exp(end)) for end in interval_from_seeds(np.log(over / under).tolist())))


def _cost_panel(costs: Mapping[tuple[int, str], ProcessCost], batch: int, what: str) -> Panel:
    series = []
    for index, learner in enumerate(LEARNERS):
        cost = costs[batch, learner]
        values = cost.cpu if what == "cpu" else cost.memory / MIB
        games = np.broadcast_to(cost.games / 1000, values.shape)
        series.append(Series("", games.ravel(), values.ravel(), "os^"[index], index, 0.9))
        series.append(Series(learner, games[0], values.mean(axis=0), "-", index))
    label = "CPU of the process, s" if what == "cpu" else "peak memory, MiB"
    title = "one game at a time" if batch == 1 else "side by side"
    return Panel(series, "thousands of games", label, title, limits=(0, None))


class ProcessCost:
    """Cost of one learner, by repeat.

    Attributes:
        games: int64[N], rising from 0.
        cpu: float64[repeats, N], seconds of user and system.
        memory: float64[repeats, N], bytes at the peak.
        per_game: float64[repeats], CPU seconds: the slope of the straight line through all numbers of games.
        system: float64[repeats], the system's share of the CPU above startup, at the largest number of games.
        bend: float64[repeats], how far a parabola through all numbers of games is from the straight line through its
            ends, half way, as a share of what all games cost.
        start, peak, above: float64[repeats], bytes: without a game, at most, and above the fewest games.
    """

    def __init__(self, results: Results, batch: int, name: str) -> None:
        own = {
            (unit["repeat"], unit["games"]): result
            for unit, result in results
            if (unit["batch"], unit["learner"]) == (batch, name)
        }
        repeats, self.games = sorted({repeat for repeat, _ in own}), np.array(sorted({games for _, games in own}))

        def column(name: str) -> Float64Array:
            return np.array([[own[repeat, int(games)][name] for games in self.games] for repeat in repeats])

        system = column("cpu_system_s")
        self.cpu, self.memory = column("cpu_user_s") + system, column("peak_rss_bytes")
        games, cpu = self.games[1:], self.cpu[:, 1:]  # without a game no kernel is loaded
        self.per_game = np.polyfit(games, cpu.T, 1)[0]
        self.system = (system[:, -1] - system[:, 0]) / (self.cpu[:, -1] - self.cpu[:, 0])
        square = np.polyfit(games, cpu.T, 2)[0] if len(games) > 2 else np.zeros(len(repeats))
        self.bend = square * (float(games[-1] - games[0]) / 2) ** 2 / (cpu[:, -1] - cpu[:, 0])
        self.start, self.peak = self.memory[:, 0], self.memory.max(axis=1)
        self.above = self.peak - self.memory[:, 1]


# ---------------------------------------------------------------------------------------------------------------------
# Learning curves of our own learners

POINTS = 20
_SLOW, _PROGRAM = {**_REPORT, "epsilon_decay": 1e-6}, _REPORT
_TABLE = {
    "backup": "negamax", "symmetries": "none", "step_size": 1.0, "step_size_power": 0.7, "gamma": 1.0,
    "epsilon": 0.3, "epsilon_decay": 0.0, "target": "max", "values": "action", "rewards": "unit",
}  # fmt: skip
_OWN_NET = {
    "backup": "negamax", "symmetries": "all", "hidden": 128, "optimizer": "adam", "learning_rate": 0.003,
    "learning_rate_decay": 0.001, "gamma": 1.0, "rewards": "unit", "epsilon": 0.5, "epsilon_decay": 0.0,
    "buffer_size": 50_000, "batch_size": 128, "gradient_steps": 4, "target_update_interval": 0,
}  # fmt: skip
NUM_GAMES = 1_000_000
CURVES: tuple[tuple[str, str, dict[str, Any], int, float, str], ...] = (
    ("naive-mc", "epsilon-decay 1e-6", _SLOW, NUM_GAMES, 0.0, SELF),
    ("naive-mc", "epsilon-decay 1e-4, as the program has it", _PROGRAM, NUM_GAMES, 0.0, SELF),
    ("naive-mc", "epsilon-decay 1e-6, skip 0.25", _SLOW, NUM_GAMES, 0.25, SELF),
    ("q-learning", "backup negamax", _TABLE, NUM_GAMES, 0.0, SELF),
    ("q-learning", "backup negamax, skip 0.25", _TABLE, NUM_GAMES, 0.25, SELF),
    ("q-learning", "backup negamax, all symmetries, skip 0.25", {**_TABLE, "symmetries": "all"}, NUM_GAMES, 0.25, SELF),
    ("q-net", "ply to ply, replay, all symmetries", _OWN_NET, 80_000, 0.0, SELF),
    ("q-net", "ply to ply, replay, all symmetries, skip 0.25", _OWN_NET, 100_000, 0.25, SELF),
    ("sb3-maskable-ppo", "against random", {}, 200_000, 0.0, "random"),
)
"""Curves: learner, label, settings, games, skip chance, opponent."""


class LearningCurves(Study):
    """Exact exploitability of the greedy policy during training on 3 x 3. Thin lines are seeds, the thick line is
    their median. CPU time is that of the training, exact measurements included.
    """

    title = "Learning curves"
    left_out = "the nets, two of three seeds, and all but a twentieth of the games"
    alone = True

    def units(self, quick: bool) -> list[Unit]:
        """Return all runs; the quick form omits the long ones."""
        names = ("learner", "curve", "settings", "games", "skip_chance", "opponent")
        curves: list[dict[str, Any]] = [dict(zip(names, curve, strict=True)) for curve in CURVES]
        return [
            {**curve, "games": curve["games"] // 20 if quick else curve["games"], "batch": 256, "seed": seed}
            for curve in curves
            for seed in range(1 if quick else 3)
            if not quick or curve["learner"] in ("naive-mc", "q-learning")
        ]

    def measure(self, unit: Unit) -> dict[str, Any]:
        """Train in a separate process with exact measurements; CPU time without these measurements is unknown."""
        every = max(1, unit["games"] // POINTS)
        config = new_config(
            Game(skip_chance=unit["skip_chance"]),
            unit["settings"],
            **{name: unit[name] for name in ("learner", "games", "batch", "opponent", "seed")},
            seat="alternate",
            log_every=every,
            exact_every=every,
            no_report=True,
        )
        with tempfile.TemporaryDirectory() as folder:
            run = RunDirectory(Path(folder, "run"))
            train_in_subprocess(config, run)
            rows = [json.loads(line) for line in run.metrics.read_text("utf-8").splitlines()]
            phases = run.read_cost()
        spent = [phases[phase] for phase in ("training", "evaluation") if phase in phases]
        rows = [row for row in rows if "exploitability" in row]
        return {
            "games": [row["games"] for row in rows],
            "exploitability": [row["exploitability"] for row in rows],
            "loses": [row.get("exact_loss") for row in rows],
            "cpu_s": sum(phase["cpu_user_s"] + phase["cpu_system_s"] for phase in spent),
            "peak_rss_bytes": max(phase["peak_rss_bytes"] for phase in spent),
        }

    def analyse(self, results: Results) -> Report:
        """Report the ends of all curves, with a figure for each learner."""
        rows, figures = [], {}
        for learner in group(results, "learner"):
            series, worst = [], {}
            curves = group([(unit, result) for unit, result in results if unit["learner"] == learner], "curve")
            for index, (label, runs) in enumerate(curves.items()):
                ends = {"exploitability": [run["exploitability"][-1] for run in runs]}
                if runs[0]["loses"][-1] is not None:
                    ends["losses against its opponent"] = [run["loses"][-1] for run in runs]
                worst[label] = {name: max(values) for name, values in ends.items()}
                cost = {
                    "games": runs[0]["games"][-1],
                    "CPU s": [run["cpu_s"] for run in runs],
                    "MiB": max(run["peak_rss_bytes"] for run in runs) / MIB,
                }
                rows.append(Row(f"{learner}, {label}", None, cost, ends))
                games, values = runs[0]["games"], [run["exploitability"] for run in runs]
                series += [Series("", games, curve, "-", index, 0.9) for curve in values]
                series.append(Series(label, games, np.median(values, axis=0), f"{'os^'[index]}-", index, 2.0))
            subject = "does learning from random opponents leave" if learner.startswith("sb3") else "is"
            verb = "" if learner.startswith("sb3") else " while it learns"
            panel = Panel(series, "games of training", "exploitability, exact", scales=("linear", "symlog"))
            question = f"How exploitable {subject} {learner}{verb}?"
            figures[learner] = Figure(question, "Thin lines are seeds, thick lines their medians.", [panel], worst)
        return Report(rows, figures=figures, ours="cost")
