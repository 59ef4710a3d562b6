"""AlphaZero with chance nodes, measured exactly: beside q-learning and q-net, and without each of
its parts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from learners import CONFIG
from learners.base import Checkpointable
from learners.checkpoint import build_config, new_config, save_checkpoint
from learners.training import TrainingLoop
from studies.frame import (
    Claim,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyFigure,
    StudyReport,
    Value,
    read_data,
    train_to,
)
from studies.verdicts import holds_for_all, is_smaller
from ttt_apps.training.options import default_options
from ttt_apps.training.runs import WARM_UP_GAMES
from ttt_envs.core.files import write_json
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import exploitability
from ttt_eval.store.result_store import Data, Unit
from ttt_eval.store.statistics import Interval

NAME = "alpha-zero"
SEEDS = 5
SIMULATIONS = 32
"""Number of simulations of a trained net's search."""
NEAR = 0.01
"""Exploitability below which play is called near perfect."""
ROUNDING = 1e-9
"""Maximum exploitability of play called perfect."""
QUICK_SHARE = 16
"""The quick form plays this part of the games."""
SKIPS = Game(skip_chance=0.25)
FOUR = Game(4, 4, 4)
SHARES = tuple((mark + 1) / 32 for mark in range(32))
MEASURES = ("games", "cpu_s", "exploitability")
"""Measures at each mark of a training."""
LEARNERS = (NAME, "q-learning", "q-net")
DATA = read_data("alpha_zero")
BOARDS: Mapping[Game, Any] = {Game(**board["game"]): board for board in DATA["boards"]}
"""Settings of the trainings on each board, and their goal."""
AXIS = (-5e-5, 1.2)
"""Ends of the axis of exploitability, a little beyond 0 and 1."""
SYMBOLS = "Thin lines are seeds, thick lines with marks their medians."


def training_unit(learner: str, game: Game, games: int, **changes: Any) -> Unit:
    """Return a self-play training: the default settings of a learner, with changes.

    It contains all settings, so that stored results are never taken for those of other settings.
    """
    settings = dataclasses.asdict(dataclasses.replace(default_options(learner, SELF)[1], **changes))
    unit = {"learner": learner, "settings": settings, "game": game.to_dict(), "games": games}
    return {**unit, "marks": BOARDS.get(game, {}).get("marks", SHARES), "search": False}


def make_training(unit: Unit) -> TrainingLoop:
    """Return the training at its start, with compiled code, which does not count as training time.

    Raises:
        ValueError: a learner with a loop that cannot be stopped between steps.
    """
    _warm(json.dumps({**unit, "games": WARM_UP_GAMES, "seed": 0}))
    return _start_training(unit)


@cache
def _warm(unit: str) -> None:
    _start_training(json.loads(unit)).run()


def _start_training(unit: Unit) -> TrainingLoop:
    config = build_config(unit["learner"], unit["settings"])
    return config.training(
        Game.from_dict(unit["game"]), unit["games"], batch=config.batch, seed=unit["seed"]
    )


@contextmanager
def temporary_run(unit: Unit, learner: Checkpointable) -> Iterator[Path]:
    """Yield a temporary folder with a run of a learner, for spec strings."""
    with TemporaryDirectory() as folder:
        run = Path(folder)
        config = new_config(
            Game.from_dict(unit["game"]),
            unit["settings"],
            learner=unit["learner"],
            games=unit["games"],
            seed=unit["seed"],
            opponent=SELF,
        )
        write_json(run / CONFIG, config)
        save_checkpoint(run, learner=learner.state)
        yield run


class TrainingCurve(NamedTuple):
    """Learning curve of one training, by mark."""

    games: Float64Array
    cpu_s: Float64Array
    exploitability: Float64Array
    search_exploitability: float | None
    """exploitability with the search at the end, if it was measured"""

    @classmethod
    def from_result(cls, result: Data) -> TrainingCurve:
        """Build the curve from the result of a unit."""
        curves = (np.array(result[name], np.float64) for name in MEASURES)
        return cls._make([*curves, result["searched"]])

    @property
    def end(self) -> float:
        """Exploitability at the last mark."""
        return float(self.exploitability[-1])

    def reach(self, bound: float = NEAR) -> tuple[float, float]:
        """Return games and CPU seconds after which it never exceeds ``bound`` again; inf if there
        are none.
        """
        exceeding = np.flatnonzero(self.exploitability > bound)
        first = int(exceeding[-1]) + 1 if len(exceeding) else 0
        if first == len(self.games):
            return np.inf, np.inf
        return float(self.games[first]), float(self.cpu_s[first])


def game_name(game: Game) -> str:
    """Describe a game briefly."""
    return f"{game.rows} x {game.columns}, skip {game.skip_chance:g}"


def median_and_range(values: Sequence[float]) -> Interval:
    """Return the median and the range over runs."""
    return Interval(float(np.median(values)), min(values), max(values))


def cpu_numbers(runs: Sequence[TrainingCurve], bound: float = NEAR) -> dict[str, Value]:
    """Return the CPU time until a bound was reached for good, in runs that may not reach it."""
    seconds = times_to_play(runs, bound)
    finite = [second for second in seconds if np.isfinite(second)]
    shares = {"runs": f"{len(finite)} of {len(seconds)}"}
    return {**shares, "after CPU s": median_and_range(finite)} if finite else shares


Curves = dict[Game, dict[str, list[TrainingCurve]]]
"""The curves of all seeds, by game, and by learner or variant; the others are compared with the
first of their game.
"""


class TrainingStudy(Study):
    """CPU seconds are those of the training steps, user and system, in one process, without
    imports, compilation and measurements. Exploitability is exact. For good means at a mark and at
    every later one; if its time is that of the whole training, it is the last mark alone. Numbers
    of several runs are the median (and the range). Runs are sooner or better than those of the
    first row of their board if the exact rank test says so at 5%, else undecided.
    """

    def trainings(self) -> list[Unit]:
        """Return the trainings without their seeds, on each board those first with which the others
        are compared.
        """
        raise NotImplementedError

    def report(self, rows: Sequence[ResultRow], curves: Curves) -> StudyReport:
        """Return the report of these rows and curves."""
        raise NotImplementedError

    def units(self, quick: bool) -> list[Unit]:
        """Return the trainings, seeds in the outer loop."""
        if quick:
            trainings = [run for run in self.trainings() if run["game"] == SKIPS.to_dict()]
            return [
                {**run, "games": run["games"] // QUICK_SHARE, "marks": SHARES[7::8], "seed": 0}
                for run in trainings
            ]
        return [{**run, "seed": seed} for seed in range(SEEDS) for run in self.trainings()]

    def measure(self, unit: Unit) -> dict[str, object]:
        """Train, with exact measurements at the marks of a unit, and with the net's search at the
        end if it says so.

        Returns:
            By mark ``games``, ``cpu_s`` and ``exploitability``; and ``searched``.
        """
        game = Game.from_dict(unit["game"])
        training = make_training(unit)
        points = {}
        marks = [round(share * unit["games"]) for share in unit["marks"]]
        for cpu_s in train_to(training, marks):
            games = training.done.games
            if games not in points:  # a step may pass several marks
                points[games] = games, cpu_s, exploitability(game, training.learner)
        search_exploitability = None
        if unit["search"]:
            with temporary_run(unit, training.learner) as run:
                search = f"{NAME}:path=({run}),simulations={SIMULATIONS}"
                search_exploitability = exploitability(game, search)
        curves = map(list, zip(*points.values(), strict=True))
        return {**dict(zip(MEASURES, curves, strict=True)), "searched": search_exploitability}

    def analyse(self, results: Results) -> StudyReport:
        """Report cost and strength of all trainings."""
        curves: Curves = {}
        for unit, result in results:
            own = curves.setdefault(Game.from_dict(unit["game"]), {})
            own.setdefault(unit.get("variant", unit["learner"]), []).append(
                TrainingCurve.from_result(result)
            )
        rows = []
        for game, by_name in curves.items():
            first = next(iter(by_name.values()))
            for name, runs in by_name.items():
                cost = {
                    "games": int(runs[0].games[-1]),
                    "CPU s": median_and_range([run.cpu_s[-1] for run in runs]),
                    f"below {NEAR} for good": cpu_numbers(runs),
                }
                strength = strength_numbers(runs)
                if runs is not first:
                    strength["sooner"] = is_sooner(runs, first)
                    ends = [run.end for run in runs]
                    strength["better"] = is_smaller(ends, [run.end for run in first])
                rows.append(ResultRow(f"{game_name(game)}: {name}", None, cost, strength))
        return self.report(rows, curves)


def strength_numbers(runs: Sequence[TrainingCurve]) -> dict[str, Value]:
    """Return the exploitability at the end of runs, with the search too where it was measured."""
    ends = [run.end for run in runs]
    num_perfect = sum(end <= ROUNDING for end in ends)
    numbers: dict[str, Value] = {
        "exploitability": median_and_range(ends),
        "0 in": f"{num_perfect} of {len(ends)}",
    }
    searches = [run.search_exploitability for run in runs if run.search_exploitability is not None]
    if searches:
        numbers[f"with {SIMULATIONS} simulations"] = median_and_range(searches)
    return numbers


def times_to_play(runs: Sequence[TrainingCurve], bound: float = NEAR) -> list[float]:
    """Return the CPU seconds after which runs are below an exploitability for good; infinite if
    they never are.
    """
    return [run.reach(bound)[1] for run in runs]


def is_sooner(runs: Sequence[TrainingCurve], other_runs: Sequence[TrainingCurve]) -> bool | None:
    """Return whether runs are near perfect for good after less CPU time than others."""
    return is_smaller(times_to_play(runs), times_to_play(other_runs))


# --------------------------------------------------------------------------------------------------
# AlphaZero beside q-learning and q-net


class Learning(TrainingStudy):
    """The net plays alone, and at the end with its search of 32 simulations. All learners train by
    self-play with their default settings, five seeds. On 4 x 4 with skips q-learning has room for a
    larger table, and the replay buffer of alpha-zero holds 150,000 positions. Goals are statements
    on the seeds trained.
    """

    def trainings(self) -> list[Unit]:
        """Return the trainings of three learners on all boards."""
        trainings: list[Unit] = []
        for game, board in BOARDS.items():
            for learner, games in zip(LEARNERS, board["games"], strict=True):
                changes = board.get("settings", {}).get(learner, {})
                unit = training_unit(learner, game, games, **changes)
                trainings.append({**unit, "search": learner == NAME and not changes})
        return trainings

    def report(self, rows: Sequence[ResultRow], curves: Curves) -> StudyReport:
        """Return the report with the goals, and the curves by CPU time and by games."""
        claims = []
        for game, board in BOARDS.items():
            if "goal" in board:
                words, bound = board["goal"]
                runs = curves.get(game, {}).get(NAME, ())
                seconds = times_to_play(runs, bound)
                holds = len(seconds) == SEEDS and bool(np.isfinite(seconds).all())
                statement = f"{game_name(game)}: the net {words}, with every seed"
                claims.append(Claim(statement, holds, cpu_numbers(runs, bound)))
        figures = {
            "alpha-zero-cpu": curve_figure("much CPU time", curves, "cpu_s"),
            "alpha-zero-games": curve_figure("many games", curves, "games"),
        }
        return StudyReport(rows, claims, figures, "measured")


def curve_figure(quantity: str, curves: Curves, axis: str) -> StudyFigure:
    """Return the curves of all games, by an attribute of :class:`TrainingCurve`."""
    question = f"How {quantity} until AlphaZero plays perfectly, and the others?"
    return StudyFigure(question, SYMBOLS, [curve_panel(curves, game, axis) for game in curves], 3)


def curve_panel(curves: Curves, game: Game, axis: str) -> Panel:
    """Return a panel with every training of a game as a thin line, and the medians at the marks as
    a thick one.
    """
    series = []
    for index, learner in enumerate(LEARNERS):
        runs = curves[game][learner]
        x = [getattr(run, axis) for run in runs]
        y = [run.exploitability for run in runs]
        for run_x, run_y in zip(x, y, strict=True):
            series.append(Series("", run_x, run_y, "-", index, 0.9))
        medians = np.median(x, axis=0), np.median(y, axis=0)
        series.append(Series(learner, *medians, f"{'os^'[index]}-", index, 1.8))
    return Panel(
        series,
        {"cpu_s": "CPU s of training", "games": "games of training"}[axis],
        "exploitability, exact",
        game_name(game),
        scales=("log", "symlog"),
        limits=AXIS,
    )


# --------------------------------------------------------------------------------------------------
# Ablation: each part removed, or set otherwise, with all else as by default

DEFAULT = "as by default"
ABLATION_GAMES = 8_192


class Ablation(TrainingStudy):
    """Each part of alpha-zero is removed, or set otherwise, with all else as by default, five
    seeds. A claim is that runs with the part are sooner on every board.
    """

    def trainings(self) -> list[Unit]:
        """Return the trainings of all variants; on 4 x 4, where they take longest, of the default
        and those claimed.
        """
        return [
            {**training_unit(NAME, game, ABLATION_GAMES, **changes), "variant": variant}
            for game in (Game(), SKIPS, FOUR)
            for variant, changes in DATA["variants"].items()
            if game.skip_chance > 0 or variant != "no chance nodes"
            if game.cells == Game().cells or variant in (DEFAULT, *DATA["parts"])
        ]

    def report(self, rows: Sequence[ResultRow], curves: Curves) -> StudyReport:
        """Return the report with the claims, and the CPU seconds to near-perfect play."""
        claims = []
        for variant, part in DATA["parts"].items():
            numbers: dict[str, dict[str, Value]] = {
                game_name(game): {
                    "with": cpu_numbers(runs[DEFAULT]),
                    "without": cpu_numbers(runs[variant]),
                    "sooner": is_sooner(runs[DEFAULT], runs[variant]),
                }
                for game, runs in curves.items()
                if variant in runs
            }
            holds = holds_for_all(number["sooner"] for number in numbers.values())
            words = f"with {part} play is below {NEAR} for good after less CPU"
            claims.append(Claim(words, holds, numbers))
        panels = []
        for game, by_variant in curves.items():
            costs = [cpu_numbers(runs) for runs in by_variant.values()]
            times = {
                place: cost["after CPU s"]
                for place, cost in enumerate(costs)
                if "after CPU s" in cost
            }
            series = Series("", times, times.values(), "o")
            axis = f"CPU s, below {NEAR} for good"
            places = list(by_variant)
            panels.append(
                Panel([series], axis, "", game_name(game), places=places, limits=(0, None))
            )
        return StudyReport(rows, claims, {"alpha-zero-ablation": self.figure(panels)}, "measured")
