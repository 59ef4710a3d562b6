"""The report on learners: figures 7 to 14, cost of learners and two learners trained on the games
between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations, product

import numpy as np

from learners.base import Learner, Transition
from learners.checkpoint import build_config, new_config
from learners.training import Trainer
from studies.frame import (
    RESULT_VALUES,
    Claim,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyReport,
    Value,
    group,
    judge_claims,
    read_data,
    train_to,
)
from studies.verdicts import is_within
from ttt_apps.training.sweep import measure_training
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, outcome
from ttt_eval.reports.plots import RESULTS
from ttt_eval.store.cost import COST_KEYS, cpu_seconds
from ttt_eval.store.result_store import Data, Unit
from ttt_eval.store.statistics import Interval, interval_from_seeds

MARKS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000)
"""Numbers of training games after which the learners are measured."""
ROLES = ("benchmark", "challenger")
DATA = read_data("learners")

# --------------------------------------------------------------------------------------------------
# Two learners, trained on the games between them


def build_learner(
    name: str, settings: Mapping[str, object], game: Game, rng: np.random.Generator
) -> Learner:
    """Return an untrained learner that learns from single transitions."""
    learner = build_config(name, settings).build(game, rng)
    assert isinstance(learner, Learner), f"{name} has a loop of its own"
    return learner


class TwoLearners(Learner):
    """One learner for player_0 and another for player_1, combined into a single self-playing
    learner.

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
        for learner, rows in self._parts(transition.boards):
            own = Transition._make(field.take(rows) for field in transition)
            if not learner.on_policy:
                own = own._replace(next_action=np.full(len(rows), -1))
            learner.update(own)
        return {}

    def _parts(self, boards: Boards) -> Iterator[tuple[Learner, Int64Array]]:
        """Yield the learners of the players to move, and the rows of their positions."""
        for player, learner in enumerate(self.players):
            rows = np.flatnonzero(boards.mover == player)
            if len(rows):
                yield learner, rows


class DuelStudy(Study):
    """Two learners play each other and both learn, one game after another, with an update after
    every move, as in the report. Alpha, hidden units and exploration are those of its program. In
    runs with even seeds the first named learner moves first, in the others second; the report does
    not control this. A learner is measured in the seat in which it learned. Measurements neither
    explore nor learn, and moves of equal value share their probability; the report's 1,000 test
    games were one game repeated. Rates are those of the last named learner, exact in every run. The
    interval is that of the mean over seeds (95%, Student's t); it is a point where all runs end
    alike.
    """

    name: str
    """of the figure"""
    marks: Sequence[int] = MARKS

    def pairs(self) -> dict[str, Data]:
        """Return pairs by name: learners with settings, ``challenger`` and ``benchmark``; and the
        number of seeds.
        """
        pairs = {}
        for name, pair in DATA["pairs"][self.name].items():
            players = {role: DATA["learners"][pair[role]] for role in ROLES}
            challenger = players["challenger"]
            settings = challenger["settings"] | pair.get("changes", {})
            pairs[name] = {**pair, **players, "challenger": {**challenger, "settings": settings}}
        return pairs

    def units(self, quick: bool) -> list[Unit]:
        """Return all runs, one for each pair and seed."""
        marks = [0, 200] if quick else list(self.marks)
        return [
            {
                "name": name,
                **{role: pair[role] for role in ROLES},
                "marks": marks,
                "seed": seed,
            }
            for name, pair in self.pairs().items()
            for seed in range(2 if quick else pair["seeds"])
        ]

    def measure(self, unit: Unit) -> list[dict[str, object]]:
        """Train a pair, and measure the challenger after each mark: ``games`` and ``exact``
        results.
        """
        game = Game()
        seed = unit["seed"]
        marks = unit["marks"]
        rngs = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,))).spawn(2)
        benchmark, challenger = (
            build_learner(unit[role]["learner"], unit[role]["settings"], game, rng)
            for role, rng in zip(ROLES, rngs, strict=True)
        )
        moves_second = seed % 2 == 0  # the challenger
        players = (benchmark, challenger) if moves_second else (challenger, benchmark)
        training = Trainer(TwoLearners(*players), SELF, max(marks), seed=seed)
        points = []
        for mark, _ in zip(marks, train_to(training, marks), strict=True):
            exact = outcome(game, *players)
            own_exact = exact.reversed() if moves_second else exact
            points.append({"games": mark, "exact": list(own_exact)})
        return points

    def analyse(self, results: Results) -> StudyReport:
        """Report curves, and verdicts on the report's statements."""
        curves = _learning_curves(results)
        claims = []
        for claim in DATA["claims"][self.name]:
            first, last = claim["games"]
            shares = curves[claim["pair"]].shares(claim["weights"], range(first, last + 1))
            numbers = {f"{games:,} games": share for games, share in shares.items()}
            holds = is_within(shares, claim["above"], math.inf)
            claims.append(
                Claim(claim["words"], holds, {**numbers, "read as: above": claim["above"]})
            )
        figure = self.figure([curve.panel() for curve in curves.values()], columns=1)
        rows = [row for curve in curves.values() for row in curve.rows()]
        return StudyReport(rows, claims, {self.name: figure})


class LearningCurve:
    """The runs of one pair: exact results by mark and seed.

    Attributes:
        name: of the pair.
        marks: numbers of training games.
        exact: float64[seeds, marks, 3], the challenger's wins, draws and losses.
    """

    def __init__(self, name: str, runs: Sequence[Sequence[Data]]) -> None:
        self.name = name
        self.marks = [point["games"] for point in runs[0]]
        self.exact = np.array([[point["exact"] for point in run] for run in runs])

    def shares(
        self, weights: Sequence[float], games: Iterable[int] | None = None
    ) -> dict[int, Interval]:
        """Return by games the mean over seeds of results weighted by ``weights`` of wins, draws and
        losses.
        """
        values = self.exact @ np.asarray(weights)
        bounds = (min(0.0, *weights), 1.0)
        return {
            mark: interval_from_seeds(column.tolist(), bounds=bounds)
            for mark, column in zip(self.marks, values.T, strict=True)
            if games is None or mark in games
        }

    def rows(self) -> list[ResultRow]:
        """Return a row for each mark."""
        means = [OutcomeProbabilities(*rates) for rates in self.exact.mean(axis=0).tolist()]
        leads = zip(means, self.shares(RESULT_VALUES).items(), strict=True)
        return [
            ResultRow(f"{self.name}, {games:,} games", exact={"": rates, "value": lead})
            for rates, (games, lead) in leads
        ]

    def panel(self) -> Panel:
        """Return mean rates by games of training, and 95% intervals of the means over runs."""
        series = []
        for column, name in enumerate(("wins", "draws", "losses")):
            x = np.arange(len(self.marks)) + 0.16 * (column - 1)
            shares = self.shares(np.eye(3)[column].tolist()).values()
            series.append(Series(name, x, shares, f"{'os^'[column]}-", RESULTS[column]))
        title = f"{self.name}: rates of the last named (95%, n = {len(self.exact)} runs)"
        return Panel(
            series,
            "games of training",
            "rate, exact",
            title,
            limits=(-0.02, 1.02),
            ticks=self.marks,
        )


def _learning_curves(results: Results) -> dict[str, LearningCurve]:
    """Return the curves of all pairs, by name."""
    return {name: LearningCurve(name, runs) for name, runs in group(results, "name").items()}


BEST = "adam 0.001"
"""The only pair of optimizer and learning rate that the report's text names."""


class Optimizer(DuelStudy):
    """The Q-net learns with two optimizers and four learning rates."""

    name = "learners-optimizer"
    marks = (10_000,)

    def analyse(self, results: Results) -> StudyReport:
        """Report results by optimizer and rate, and whether the report's best is ours."""
        curves = _learning_curves(results)
        values = {name: curve.exact[:, -1] @ RESULT_VALUES for name, curve in curves.items()}
        leads = {
            name: curve.shares(RESULT_VALUES)[curve.marks[-1]] for name, curve in curves.items()
        }
        gains = {
            name: interval_from_seeds((values[BEST] - of_runs).tolist(), bounds=(-2.0, 2.0))
            for name, of_runs in values.items()
            if name != BEST
        }
        numbers = {"leads": {"wins less losses": leads}, "gains": {f"{BEST} less": gains}}
        rows = [
            curve.rows()[-1]._replace(what=name, published="best" if name == BEST else None)
            for name, curve in curves.items()
        ]
        places = np.repeat(np.arange(len(values)), [len(of_runs) for of_runs in values.values()])
        series = [
            Series("", range(len(leads)), leads.values(), "o"),
            Series("", places, np.concatenate(list(values.values())), "|", 1, 0.9),
        ]
        panel = Panel(series, "the q-net's wins less losses, exact", places=list(curves))
        claims = judge_claims(DATA["best"], numbers)
        return StudyReport(rows, claims, {self.name: self.figure([panel])})


class AgainstNaive(DuelStudy):
    """Q-learning is that of the report's program, and that of the formula in its text."""

    name = "learners-naive"


class QLearningAgainstNet(DuelStudy):
    """Q-learning is that of the report's program."""

    name = "learners-qnet"


# --------------------------------------------------------------------------------------------------
# Cost

LEARNERS = {
    DATA["learners"][name]["learner"]: DATA["learners"][name]["settings"]
    for name in ("naive", "program", "net")
}
COST_GAMES = (0, 2_000, 6_000, 10_000)
"""Numbers of games, large enough to exceed the startup cost; the last three are evenly spaced."""
REPEATS = 5
MIB = 2**20


class CostOfLearners(Study):
    """Every run is a separate process, imports included, with one seed per repeat. The CPU time of
    a game is the slope over numbers of games, which excludes the startup. Intervals (95%, Student's
    t) are over repeats. A ratio is the geometric mean of the ratios within each repeat, whose
    processes share the load of the machine. The report used the command time, one game at a time,
    in Python and TensorFlow before 1.0; here tables are compiled, and games are played one at a
    time, too. Training runs games side by side by default.
    """

    alone = True

    def units(self, quick: bool) -> list[Unit]:
        """Return the processes to run, repeats in the outer loop, so that a slow moment affects all
        alike.
        """
        return [
            {
                "learner": name,
                "settings": settings,
                "games": games // (20 if quick else 1),
                "repeat": repeat,
            }
            for repeat in range(1 if quick else REPEATS)
            for games in COST_GAMES
            for name, settings in LEARNERS.items()
        ]

    def measure(self, unit: Unit) -> dict[str, float]:
        """Measure the cost of a new process that trains against random, imports included."""
        _warm(unit["learner"])
        return _measure_process(unit)

    def analyse(self, results: Results) -> StudyReport:
        """Report CPU per game beyond the startup, and memory, beside the report's ratios."""
        games = list(group(results, "games"))
        costs = {name: ProcessCost(games, runs) for name, runs in group(results, "learner").items()}
        rows = []
        for name, cost in costs.items():
            own_numbers = {
                "us CPU a game": interval_from_seeds((1e6 * cost.per_game).tolist()),
                "MiB": interval_from_seeds((cost.peak / MIB).tolist()),
                "of them before a game": interval_from_seeds((cost.memory[:, 0] / MIB).tolist()),
            }
            rows.append(ResultRow(name, None, own_numbers))
        numbers: dict[str, Value] = {
            measure: {
                name: interval_from_seeds(getattr(cost, measure).tolist())
                for name, cost in costs.items()
            }
            for measure in ("bend", "growth")
        }
        for measure, (name, other) in product(("per_game", "peak"), permutations(costs, 2)):
            ratio = _ratio(getattr(costs[name], measure), getattr(costs[other], measure))
            numbers[f"{measure} of {name} / {other}"] = {"times": ratio}
        panels = [
            _cost_panel(costs, "cpu", "CPU of the process, s", 1),
            _cost_panel(costs, "memory", "peak memory, MiB", MIB),
        ]
        figures = {"learners-cost": self.figure(panels)}
        claims = judge_claims(DATA["costs"], numbers)
        return StudyReport(rows, claims, figures, "mean of processes, and its 95% interval")


@cache
def _warm(name: str) -> None:
    """Compile the learner's kernels, or load compiled ones, before anything is measured."""
    _measure_process({"learner": name, "settings": LEARNERS[name], "games": 20, "repeat": 0})


def _measure_process(unit: Unit) -> dict[str, float]:
    training = {
        "opponent": "random",
        "seat": "alternate",
        "games": unit["games"],
        "batch": 1,
        "seed": unit["repeat"],
    }
    config = new_config(Game(), unit["settings"], learner=unit["learner"], **training)
    return dict(zip(COST_KEYS, measure_training(config), strict=True))


def _ratio(numerator: Float64Array, denominator: Float64Array) -> Interval:
    """Return the ratio, repeat by repeat: the geometric mean and its interval.

    It is unknown if noise exceeds a cost, so that the measured cost of games is not positive.
    """
    if min(numerator.min(), denominator.min()) <= 0:
        return Interval(math.nan, 0.0, math.inf)
    logarithms = interval_from_seeds(np.log(numerator / denominator).tolist())
    return Interval(*(float(np.exp(end)) for end in logarithms))


def _cost_panel(costs: Mapping[str, ProcessCost], measure: str, label: str, unit: int) -> Panel:
    """Return a panel of an attribute of costs in a unit, by the number of games."""
    series = []
    for index, (learner, cost) in enumerate(costs.items()):
        numbers = getattr(cost, measure) / unit
        games = np.broadcast_to(cost.games / 1000, numbers.shape)
        series.append(Series("", games.ravel(), numbers.ravel(), "os^"[index], index, 0.9))
        series.append(Series(learner, games[0], numbers.mean(axis=0), "-", index))
    return Panel(series, "thousands of games", label, limits=(0, None))


class ProcessCost:
    """Cost of one learner, by repeat.

    Args:
        games: N numbers of games, rising from 0.
        runs: the processes by repeat, then by number of games.

    Attributes:
        games: int64[N].
        cpu: float64[repeats, N], seconds of user and system.
        memory: float64[repeats, N], bytes at the peak.
        per_game: float64[repeats], CPU seconds: the slope of the straight line through all numbers
            of games but 0, at which no kernel is loaded.
        bend: float64[repeats], how far the cost half way is below the straight line through the
            ends, as a share of what all games cost.
        peak: float64[repeats], bytes at most.
        growth: float64[repeats], share of the peak above the memory of the fewest games.
    """

    def __init__(self, games: Sequence[int], runs: Sequence[Data]) -> None:
        self.games = np.array(games)
        numbers = [(cpu_seconds(run), run["peak_rss_bytes"]) for run in runs]
        self.cpu, self.memory = np.transpose(numbers).reshape(2, -1, len(games))
        self.per_game = np.polyfit(self.games[1:], self.cpu[:, 1:].T, 1)[0]
        _, low, middle, high = self.cpu.T
        self.bend = ((low + high) / 2 - middle) / (high - low)
        self.peak = self.memory.max(axis=1)
        self.growth = 1 - self.memory[:, 1] / self.peak
