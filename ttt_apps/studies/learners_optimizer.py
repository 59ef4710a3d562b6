"""Figures 7 and 8 of the report on learners: which optimizer and learning rate suit the Q-net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evaluation.study import Claim, Findings, Row, Study, Unit
from ttt_apps.studies.duels import ABOUT, PROGRAM, Q_NET, SOURCE, Curve, duels, measure, rates, shown

GAMES, SEEDS = 10_000, 3
RATES = (0.0001, 0.001, 0.01, 0.1)
"""the report's figures name none in its text but the best, 0.001 of Adam"""
OPTIMIZERS = ("sgd", "adam")
BEST = "adam 0.001"


def units(quick: bool) -> list[Unit]:
    """All runs."""
    games, seeds, some = (500, 2, (0.001, 0.1)) if quick else (GAMES, SEEDS, RATES)
    name, settings = Q_NET
    return [
        unit
        for optimizer in OPTIMIZERS
        for rate in some
        for unit in duels(
            f"{optimizer} {rate:g}",
            (name, {**settings, "optimizer": optimizer, "learning_rate": rate}),
            PROGRAM,
            (games,),
            seeds,
        )
    ]


def conclude(results: Sequence[tuple[Unit, Any]]) -> Findings:
    """Results by optimizer and rate, and whether the report's best is ours."""
    names = list(dict.fromkeys(unit["name"] for unit, _ in results))
    curves = {name: Curve(name, results, GAMES) for name in names}
    values = {name: curve.value(0) for name, curve in curves.items()}
    rows = [
        Row(name, "best" if name == BEST else "", row.ours, row.exact, row.agrees)
        for name, curve in curves.items()
        for row in curve.rows()
    ]
    best = max(values, key=lambda name: values[name].mean)
    theirs, ours = values[BEST], values[best]
    # where intervals overlap, neither is the best for certain
    decided = curves[best].marks[-1] == GAMES and (best == BEST or theirs.high < ours.low)
    claim = Claim(
        "The optimal combination of optimizer and learning rate is AdamOptimizer and 0.001",
        best == BEST if decided else None,
        f"the q-net's wins less losses after {results[0][0]['marks'][0]:,} games: {BEST} {shown(theirs)}; best here: "
        f"{best} {shown(ours)}, {rates(curves[best].mean(0))}",
    )

    def draw(figure: Any) -> None:
        for axes, optimizer in zip(figure.subplots(1, 2, sharey=True), OPTIMIZERS, strict=True):
            mine = [name for name in names if name.startswith(optimizer)]
            below = [0.0] * len(mine)
            for column, (label, colour) in enumerate((("win", "tab:green"), ("draw", "tab:gray"), ("loss", "tab:red"))):
                share = [curves[name].mean(0)[column] for name in mine]
                axes.bar([name.split()[1] for name in mine], share, bottom=below, color=colour, label=label)
                below = [x + y for x, y in zip(below, share, strict=True)]
            axes.set(title=optimizer, xlabel="learning rate", ylabel="exact rate of the q-net")
            axes.legend()

    return Findings(
        rows,
        [claim],
        {"learners-optimizer": draw},
        ours="1,000 test games a run",
        data={name: curve.to_dict() for name, curve in curves.items()},
    )


STUDY = Study(
    title="Optimizer and learning rate of the Q-net, against Q-learning",
    source=f"{SOURCE}, figures 7 and 8",
    about=ABOUT,
    units=units,
    measure=measure,
    conclude=conclude,
    left_out=f"two seeds in place of {SEEDS}, two rates in place of {len(RATES)}, 500 games in place of {GAMES:,}",
)
