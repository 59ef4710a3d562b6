"""Figures 9 to 11 of the report on learners: cost in CPU and memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from learners.checkpoint import build_config, new_config
from ttt_apps.studies.duels import NAIVE, PROGRAM, Q_NET, SOURCE
from ttt_apps.train_subprocess import measure_training
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.game import Game
from ttt_eval.cost import COST_KEYS, Usage
from ttt_eval.reports.plots import SERIES, draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, holds_for_all, interval_from_seeds, is_within
from ttt_eval.study import Caption, Claim, Report, Row, Study, choose

LEARNERS = (NAIVE, PROGRAM, Q_NET)
DEFAULT = 0
"""Stands for the learner's default batch."""
GAMES: dict[int, dict[str, tuple[int, ...]]] = {
    1: {name: (0, 2_000, 6_000, 10_000) for name, _ in LEARNERS},
    DEFAULT: {
        name: (0, 100_000, 200_000, 300_000) if name == "q-net" else (0, 400_000, 1_200_000, 2_000_000)
        for name, _ in LEARNERS
    },
}
"""Numbers of games by batch and learner, large enough to exceed the startup cost; the report plays one at a time."""
QUICK: dict[int, dict[str, tuple[int, ...]]] = {
    1: {name: (0, 100, 600) for name, _ in LEARNERS},
    DEFAULT: {name: (0, 20_000, 100_000) for name, _ in LEARNERS},
}
REPEATS = 5
MAX_BEND = 0.1
"""Tolerance of linearity: relative deviation of the cost of half the games from half the cost."""
MAX_GROWTH = 0.2
"""Tolerance of stable memory: growth after the first games, relative to the peak."""
BATCHES = {name: build_config(name, settings).batch for name, settings in LEARNERS}
MIB = 2**20


def units(quick: bool) -> list[Unit]:
    """Return the processes to run, repeats in the outer loop, so that a slow moment affects all alike."""
    games = QUICK if quick else GAMES
    return [
        {"learner": name, "settings": settings, "batch": batch, "games": games[batch][name][step], "repeat": again}
        for again in range(1 if quick else REPEATS)
        for batch, of_learner in games.items()
        for step in range(len(of_learner["q-net"]))
        for name, settings in LEARNERS
    ]


def measure(unit: Unit) -> dict[str, float]:
    """Measure the cost of a new process that trains against random, imports included."""
    _warm(unit["learner"])
    return dict(zip(COST_KEYS, _mean_usage(unit), strict=True))


@cache
def _warm(name: str) -> None:
    """Compile the learner's kernels, or load compiled ones, before anything is measured."""
    _mean_usage({"learner": name, "settings": dict(LEARNERS)[name], "batch": 1, "games": 20, "repeat": 0})


def _mean_usage(unit: Unit) -> Usage:
    name = unit["learner"]
    batch = unit["batch"] or BATCHES[name]
    training = {"opponent": "random", "seat": "alternate", "games": unit["games"], "batch": batch}
    return measure_training(new_config(Game(), unit["settings"], learner=name, **training, seed=unit["repeat"]))


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report CPU per game beyond the startup, and memory, beside the report's ratios."""
    costs = {(batch, name): _Cost(results, batch, name) for batch in GAMES for name, _ in LEARNERS}
    decided = len(results) == len(units(False))
    rows = []
    for (batch, name), cost in costs.items():
        label = f"{name}, {'one game at a time' if batch == 1 else f'{BATCHES[name]:,} side by side'}"
        peak, growth = (_format_mean(memory, 0, 1 / MIB) for memory in (cost.peak, cost.above))
        cpu = f"{_format_mean(cost.per_game, 1, 1e6)} us CPU a game, of it system {_format_share(cost.system)}"
        rows.append(Row(label, "", f"{cpu}; {peak} MiB, {growth} above the first games", ""))
    claims = []
    for words, over, under, low, high in (
        ("Tensorflow requires 15 to 20 times more CPU time than Naive", "q-net", "naive-mc", 15, 20),
        ("Tensorflow requires 10 times more CPU than Q-Learning", "q-net", "q-learning", 8, 12),
        ("Q-Learning requires 2 times more CPU than Naive", "q-learning", "naive-mc", 1.6, 2.4),
    ):
        one, many = (_ratio(costs[batch, over].per_game, costs[batch, under].per_game) for batch in GAMES)
        apart = costs[1, over].per_game.mean() / costs[1, under].per_game.mean()
        found = (
            f"{_format_mean(one, 1)} times one game at a time, repeat by repeat (the means alone: {apart:.1f}), "
            f"{_format_mean(many, 1)} times side by side"
        )
        holds = is_within(one, low, high) if decided else None
        claims.append(Claim(words, holds, f"{found}; taken as {low} to {high} for one at a time"))
    for words, over, under, low, high in (
        ("The memory of Tensorflow is 7 to 8 times bigger than Naive's", "q-net", "naive-mc", 7, 8),
        ("approximately 9 times bigger than Q-Learning's", "q-net", "q-learning", 8, 10),
    ):
        times = _ratio(costs[1, over].peak, costs[1, under].peak)
        before = _format_mean(interval_from_seeds((costs[1, over].start / costs[1, over].peak).tolist()), 0, 100)
        found = f"{_format_mean(times, 1)} times, and {before}% of {over}'s is there before a game"
        holds = is_within(times, low, high) if decided else None
        claims.append(Claim(words, holds, f"{found}; taken as {low} to {high}"))
    bends = {key: interval_from_seeds(cost.bend.tolist()) for key, cost in costs.items()}
    most = max(bends, key=lambda key: abs(bends[key].mean))
    claims.append(
        Claim(
            "For all algorithms, the CPU time has a linear increase as the number of games increases",
            holds_for_all(is_within(bend, -MAX_BEND, MAX_BEND) for bend in bends.values()) if decided else None,
            f"a parabola through all numbers of games bends away from the straight line through its ends, half way, by "
            f"{_format_mean(bends[most], 0, 100)}% of what all games cost at most ({most[1]}, "
            f"{'one at a time' if most[0] == 1 else 'side by side'}); read as: by no more than {MAX_BEND:.0%} for all",
        )
    )
    grown = {key: interval_from_seeds((cost.above / cost.peak).tolist()) for key, cost in costs.items()}
    largest = max(grown, key=lambda key: grown[key].mean)
    claims.append(
        Claim(
            "The memory usage remains almost stable as the number of games increases",
            holds_for_all(is_within(share, -1.0, MAX_GROWTH) for share in grown.values()) if decided else None,
            f"at most {_format_mean(grown[largest], 1, 100)}% of the peak is more than after the first games "
            f"({largest[1]}); read as: no more than {MAX_GROWTH:.0%}",
        )
    )
    return Report(
        rows,
        claims,
        {"learners-cost": lambda figure: _draw_figure(figure, costs)},
        ours=f"mean of {len(costs[1, 'q-net'].peak)} processes, and its 95% interval",
        data=[{**unit, **result} for unit, result in results],
    )


def _draw_figure(figure: Any, costs: Mapping[tuple[int, str], _Cost]) -> None:
    """Draw CPU time and memory by games: every process, and the straight line."""
    figure.set_size_inches(8, 6)
    grid = figure.subplots(2, 2, sharex="col", sharey="row")
    for column, batch in enumerate(GAMES):
        for index, (learner, _) in enumerate(LEARNERS):
            cost, colour = costs[batch, learner], SERIES[index]
            games = np.broadcast_to(cost.games / 1000, cost.cpu.shape)
            for axes, of in zip(grid[:, column], (cost.cpu, cost.memory / MIB), strict=True):
                axes.plot(games.ravel(), of.ravel(), "os^"[index], ms=4, color=colour)
                axes.plot(games[0], of.mean(axis=0), color=colour, lw=1, marker="os^"[index], ms=4, label=learner)
        grid[0, column].set_title("one game at a time" if batch == 1 else "side by side", fontsize="medium")
        grid[1, column].set_xlabel("thousands of games")
    grid[0, 0].set(ylabel="CPU of the process, s", ylim=(0, None))
    grid[1, 0].set(ylabel="peak memory, MiB", ylim=(0, None))
    draw_label_legend(figure, grid[0, 0], len(LEARNERS))


def _format_mean(values: Interval | Float64Array, digits: int, scale: float = 1.0) -> str:
    """Format the mean over processes and its interval; for one process without it."""
    found = values if isinstance(values, Interval) else interval_from_seeds(values.tolist())
    if math.isnan(found.mean):
        return "an unknown number of"
    mean, low, high = (f"{round(scale * end, digits) + 0.0:,.{digits}f}" for end in found)  # and not -0
    return f"{mean} ({low} to {high})" if np.isfinite(found.high) else mean


def _format_share(values: Float64Array) -> str:
    """Format in percent; a noisy difference is meaningless without its interval."""
    return f"{_format_mean(values, 0, 100)}%" if len(values) > 1 else "not measured"


def _ratio(over: Float64Array, under: Float64Array) -> Interval:
    """Return the ratio, repeat by repeat: the geometric mean and its interval.

    It is unknown if noise exceeds a cost, so that the measured cost of games is not positive.
    """
    if min(over.min(), under.min()) <= 0:
        return Interval(math.nan, 0.0, math.inf)
    found = interval_from_seeds(np.log(over / under).tolist())
    return Interval(*(float(np.exp(end)) for end in found))


class _Cost:
    """Cost of one learner, by repeat.

    Attributes:
        games: int64[N], rising from 0.
        cpu: float64[repeats, N], seconds of user and system.
        memory: float64[repeats, N], bytes at the peak.
        per_game: float64[repeats], CPU seconds: the slope of the straight line through all numbers of games.
        system: float64[repeats], the system's share of the CPU above startup, at the largest number of games.
        bend: float64[repeats], see the claim on straight lines.
        start, peak, above: float64[repeats], bytes: without a game, at most, and above the fewest games.
    """

    def __init__(self, results: Sequence[tuple[Unit, Any]], batch: int, name: str) -> None:
        mine = {
            (unit["repeat"], unit["games"]): result
            for unit, result in results
            if (unit["batch"], unit["learner"]) == (batch, name)
        }
        repeats = sorted({again for again, _ in mine})
        self.games = np.array(sorted({games for _, games in mine}))

        def column(name: str) -> Float64Array:
            return np.array([[mine[again, int(games)][name] for games in self.games] for again in repeats])

        system = column("cpu_system_s")
        self.cpu, self.memory = column("cpu_user_s") + system, column("peak_rss_bytes")
        played = self.games > 0  # without a game no kernel is loaded
        games, cpu = self.games[played], self.cpu[:, played]
        self.per_game = np.polyfit(games, cpu.T, 1)[0]
        self.system = (system[:, -1] - system[:, 0]) / (self.cpu[:, -1] - self.cpu[:, 0])
        wide = float(games[-1] - games[0])
        square = np.polyfit(games, cpu.T, 2)[0] if len(games) > 2 else np.zeros(len(repeats))
        self.bend = square * (wide / 2) ** 2 / (cpu[:, -1] - cpu[:, 0])
        self.start, self.peak = self.memory[:, 0], self.memory.max(axis=1)
        self.above = self.peak - self.memory[:, played][:, 0]


def _answer(report: Report) -> str:
    cpu, cpu_of_tables, memory, memory_of_tables = (
        report.claim(words).evidence.partition(" times")[0]
        for words in (
            "Tensorflow requires 15 to 20 times",
            "Tensorflow requires 10 times",
            "The memory of Tensorflow",
            "approximately 9 times",
        )
    )
    grows = choose(report.claim("The memory usage").holds, "hardly grows", "grows", "may grow")
    return (
        f"One game at a time, the Q-net takes {cpu} times the CPU time of naive-mc and {cpu_of_tables} times that of "
        f"q-learning. Its peak memory is {memory} and {memory_of_tables} times theirs. Memory {grows} with the games."
    )


STUDY = Study(
    title="What learners cost against random",
    source=f"{SOURCE}, figures 9 to 11",
    about=(
        "Every run is a separate process, imports included, with one seed per repeat. The CPU time of a game is the "
        "slope over numbers of games, which excludes the startup. The system's share is that of the largest number of "
        "games, without the startup. Intervals (95%, Student's t) are over repeats. A ratio is the geometric mean of "
        "the ratios within each repeat, whose processes share the load of the machine. The report used the command "
        "time, one game at a time, in Python and TensorFlow before 1.0; here tables are compiled. Training runs games "
        "side by side by default."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="most games, and all repeats but one: no intervals",
    alone=True,
    captions={
        "learners-cost": Caption(
            "What do learners cost in CPU time and memory?",
            _answer,
            "Marks are single processes, lines connect their means.",
        ),
    },
)
