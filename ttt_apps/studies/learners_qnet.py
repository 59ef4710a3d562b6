"""Figure 14 of the report on learners: Q-learning against the Q-net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttt_apps.studies.duels import ABOUT, MARKS, PROGRAM, Q_NET, SEEDS, SOURCE, LearningCurve, duel_units, measure
from ttt_eval.reports.formats import join_names
from ttt_eval.reports.plots import draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.statistics import is_above
from ttt_eval.study import Caption, Report, Study, format_difference, format_interval, read_intervals, read_numbers

NAME = "q-net - q-learning"
EQUAL = 0.9
"""Share of draws above which play is taken for equal."""


def units(quick: bool) -> list[Unit]:
    """Return all runs."""
    return duel_units(NAME, PROGRAM, Q_NET, *(((0, 250, 500, 1_000), 2) if quick else (MARKS, SEEDS)))


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the curve, and verdicts on the report's two statements."""
    curve = LearningCurve(NAME, results)
    values = {games: curve.value(mark) for mark, games in enumerate(curve.marks) if 0 < games < 20_000}
    draws = {games: curve.share(mark, (0, 1, 0)) for mark, games in enumerate(curve.marks) if games >= 20_000}
    least = min(draws, key=lambda games: draws[games].mean, default=0)
    claims = [
        curve.claim(
            "For training sets under 20,000, the Q-Learning algorithm outperforms the Tensorflow algorithm",
            is_above(values.values()),
            "wins less losses of Q-learning: "
            + "; ".join(f"{games:,}: {format_difference(value)}" for games, value in values.items()),
        ),
        curve.claim(
            "After the 20,000 training sets, both algorithms perform equally (draw)",
            is_above(draws.values(), EQUAL),
            f"draws at least {format_interval(draws[least])}, after {least:,} games; read as: above {EQUAL} from there "
            f"on"
            if draws
            else "left out by the quick form",
        ),
    ]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        curve.draw(axes)
        axes.set_xlabel("games of training")
        draw_label_legend(figure, axes, 3)

    pictures = {"learners-qnet": draw}
    return Report(curve.rows(), claims, pictures, ours="1,000 test games a run", data=curve.to_dict())


def _answer(report: Report) -> str:
    leads = {read_numbers(row.what, after=" games")[0]: read_intervals(row.exact)[0] for row in report.rows}
    ahead = [games for games, lead in leads.items() if lead.low > 0]
    behind = [games for games, lead in leads.items() if lead.high < 0]
    named = [
        f"{name} leads after {join_names(games)} games"
        for name, games in (("Q-learning", ahead), ("the Q-net", behind))
        if games
    ]
    leader = f"{', '.join(named)}; elsewhere the runs show no lead" if named else "The runs show no lead of either"
    draws = report.claim("After the 20,000").evidence.removeprefix("draws ").partition(",")[0]
    return f"{leader}. From 20,000 games on, a share of {draws} of games is drawn."


STUDY = Study(
    title="Q-learning against the Q-net",
    source=f"{SOURCE}, figure 14",
    about=ABOUT,
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"two seeds in place of {SEEDS}, and 1,000 games of training in place of {MARKS[-1]:,}",
    captions={
        "learners-qnet": Caption(
            "Which of Q-learning and the Q-net learns faster?",
            _answer,
            "Wins, draws and losses are drawn side by side, with 95% intervals over runs.",
        ),
    },
)
