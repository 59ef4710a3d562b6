"""Figures 12 and 13 of the report on learners: Q-learning and the Q-net against the naive learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttt_apps.studies import duels
from ttt_apps.studies.duels import ABOUT, FORMULA, MARKS, SEEDS, SOURCE, LearningCurve, duel_units
from ttt_eval.reports.plots import draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.statistics import is_above
from ttt_eval.study import Caption, Report, Study, choose, format_difference, format_interval

PAIRS = {
    "naive-mc - q-learning": duels.PROGRAM,
    "naive-mc - q-learning by the formula": FORMULA,
    "naive-mc - q-net": duels.Q_NET,
}
FORMULA_SEEDS = 4
"""Number of seeds for the formula, which differs from the report's program."""
VERY_HIGH = 0.9
"""Share taken for "a very high number" of games."""


def units(quick: bool) -> list[Unit]:
    """Return all runs."""
    marks, seeds = ((0, 250, 500, 1_000), 2) if quick else (MARKS, SEEDS)
    return [
        unit
        for name, learner in PAIRS.items()
        for unit in duel_units(
            name, learner, duels.NAIVE, marks, min(seeds, FORMULA_SEEDS) if learner is FORMULA else seeds
        )
    ]


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report curves, and verdicts on the report's three statements."""
    curves = {name: LearningCurve(name, results) for name in PAIRS}
    program, formula, net = curves.values()
    claims = []
    for curve, words in (
        (program, "The Q-Learning algorithm has a very high number of wins and draws against the Naive algorithm"),
        (formula, "the same, of the formula in the report's text"),
        (net, "The Tensorflow algorithm has also a very high number of wins and draws against the Naive algorithm"),
    ):
        shares = {games: curve.share(mark, (1, 1, 0)) for mark, games in enumerate(curve.marks) if games}
        least = min(shares, key=lambda games: shares[games].mean)
        found = f"wins and draws at least {format_interval(shares[least])}, after {least:,} games"
        claims.append(
            curve.claim(words, is_above(shares.values(), VERY_HIGH), f"{found}; read as: above {VERY_HIGH} everywhere")
        )
    more = {
        games: net.share(mark, (1, -1, 0), (-1.0, 1.0)) for mark, games in enumerate(net.marks) if 0 < games < 10_000
    }
    claims.append(
        net.claim(
            "Under 10,000 training games the wins of the Tensorflow algorithm are significantly more than the draws",
            is_above(more.values()),
            "wins less draws after "
            + "; ".join(f"{games:,} games {format_difference(value)}" for games, value in more.items()),
        )
    )
    last = {curve.name: curve.value(len(curve.marks) - 1) for curve in (program, net)}
    claims.append(
        net.claim(
            "Both algorithms outperform the Naive algorithm",
            is_above(last.values()),
            f"wins less losses after {program.marks[-1]:,} games: "
            + "; ".join(f"{name} {format_difference(value)}" for name, value in last.items()),
        )
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8, 8)
        panels = figure.subplots(3, sharex=True)
        for axes, curve in zip(panels, curves.values(), strict=True):
            curve.draw(axes)
        panels[-1].set_xlabel("games of training")
        draw_label_legend(figure, panels[-1], 3)

    rows = [row for curve in curves.values() for row in curve.rows()]
    data = {name: curve.to_dict() for name, curve in curves.items()}
    return Report(rows, claims, {"learners-naive": draw}, ours="1,000 test games a run", data=data)


def _answer(report: Report) -> str:
    claim = report.claim("Both algorithms outperform")
    last = min(float(row.exact.split(" / ")[1]) for row in report.rows if f" {MARKS[-1]:,} games" in row.what)
    decided = choose(claim.holds, "Yes", "No", "The runs do not decide it")
    return f"{decided}: {claim.evidence}. At least {last:.0%} of these games are drawn."


STUDY = Study(
    title="Learners against the naive learner",
    source=f"{SOURCE}, figures 12 and 13",
    about=ABOUT,
    units=units,
    measure=duels.measure,
    analyse=analyse,
    left_out=f"two seeds in place of {SEEDS}, and 1,000 games of training in place of {MARKS[-1]:,}",
    captions={
        "learners-naive": Caption(
            "Do learners outperform the naive learner that learns beside them?",
            _answer,
            "Wins, draws and losses are drawn side by side, with 95% intervals over runs.",
        ),
    },
)
