"""Figures 7 and 8 of the report on learners: the optimizer and learning rate of the Q-net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttt_apps.studies.duels import ABOUT, PROGRAM, Q_NET, SOURCE, LearningCurve, duel_units, measure
from ttt_eval.reports.plots import SERIES, draw_label_legend, plot_intervals
from ttt_eval.result_store import Unit
from ttt_eval.statistics import interval_from_seeds, is_above
from ttt_eval.study import Caption, Claim, Report, Row, Study, choose, format_difference, rates, read_intervals

GAMES, SEEDS = 10_000, 3
RATES = (0.0001, 0.001, 0.01, 0.1)
"""Learning rates; the report's text names only the best, 0.001 of Adam."""
OPTIMIZERS = ("sgd", "adam")
BEST = "adam 0.001"


def units(quick: bool) -> list[Unit]:
    """Return all runs."""
    games, seeds, some = (500, 2, (0.001, 0.1)) if quick else (GAMES, SEEDS, RATES)
    name, settings = Q_NET
    return [
        unit
        for optimizer in OPTIMIZERS
        for rate in some
        for unit in duel_units(
            f"{optimizer} {rate:g}",
            (name, {**settings, "optimizer": optimizer, "learning_rate": rate}),
            PROGRAM,
            (games,),
            seeds,
        )
    ]


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report results by optimizer and rate, and whether the report's best is ours."""
    names = list(dict.fromkeys(unit["name"] for unit, _ in results))
    curves = {name: LearningCurve(name, results, GAMES) for name in names}
    values = {name: curve.value(0) for name, curve in curves.items()}
    rows = [
        Row(name, "best" if name == BEST else "", row.ours, row.exact, row.agrees)
        for name, curve in curves.items()
        for row in curve.rows()
    ]
    of_run = {name: curve.exact[:, 0, 0] - curve.exact[:, 0, 2] for name, curve in curves.items()}
    ahead = {
        name: interval_from_seeds((of_run[BEST] - other).tolist(), bounds=(-2.0, 2.0))
        for name, other in of_run.items()
        if name != BEST
    }
    close = min(ahead, key=lambda name: ahead[name].mean)
    games = results[0][0]["marks"][0]
    claim = Claim(
        "The optimal combination of optimizer and learning rate is AdamOptimizer and 0.001",
        is_above(ahead.values()) if curves[BEST].marks[-1] == GAMES else None,
        f"the q-net's wins less losses after {games:,} games: {BEST} {format_difference(values[BEST])}; next or "
        f"better: {close} {format_difference(values[close])}, {rates(curves[close].mean(0))}; {BEST} less {close}, "
        f"run by run: {format_difference(ahead[close])}",
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        some = list(dict.fromkeys(name.split()[1] for name in names))
        for index, optimizer in enumerate(OPTIMIZERS):
            places = np.arange(len(some)) + 0.24 * (index - 0.5)
            found = [values[f"{optimizer} {rate}"] for rate in some]
            label = f"{optimizer}, mean of {len(of_run[BEST])} runs and its 95% interval"
            plot_intervals(axes, places, found, fmt="os"[index], color=SERIES[index], capsize=4, label=label)
            for place, rate in zip(places, some, strict=True):
                runs = of_run[f"{optimizer} {rate}"]
                axes.plot([place + 0.08] * len(runs), runs, "_", ms=11, color=SERIES[index])
        axes.plot([], [], "_", ms=11, color="black", label="single runs")
        axes.set_xticks(range(len(some)), some)
        axes.set(
            xlabel="learning rate",
            ylabel="the q-net's wins less losses, exact",
            ylim=(-1.05, 1.05),
            title=f"against Q-learning, after {games:,} games",
        )
        draw_label_legend(figure, axes, 3)

    data = {name: curve.to_dict() for name, curve in curves.items()}
    return Report(rows, [claim], {"learners-optimizer": draw}, ours="1,000 test games a run", data=data)


def _answer(report: Report) -> str:
    values = [read_intervals(row.exact)[0] for row in report.rows]
    wide = sum(value.high - value.low > 1 for value in values)
    best = choose(
        report.claims[0].holds,
        "Adam with 0.001.",
        "Not Adam with 0.001, the published ones.",
        "The runs do not decide it:",
    )
    return f"{best} {wide} of {len(values)} intervals are wider than half the scale."


STUDY = Study(
    title="Optimizer and learning rate of the Q-net, against Q-learning",
    source=f"{SOURCE}, figures 7 and 8",
    about=ABOUT,
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"two seeds in place of {SEEDS}, two rates in place of {len(RATES)}, 500 games in place of {GAMES:,}",
    captions={
        "learners-optimizer": Caption(
            "Which optimizer and learning rate are best for the Q-net?",
            _answer,
            "Dashes are single runs, marks their means with 95% intervals.",
        ),
    },
)
