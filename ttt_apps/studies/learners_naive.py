"""Figures 12 and 13 of the report on learners: Q-learning and the Q-net against the naive learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evaluation.study import Findings, Study, Unit
from ttt_apps.studies.duels import (
    ABOUT,
    FORMULA,
    MARKS,
    NAIVE,
    PROGRAM,
    Q_NET,
    SEEDS,
    SOURCE,
    Curve,
    ahead,
    measure,
    shown,
)
from ttt_apps.studies.duels import duels as runs

PAIRS = {
    "naive-mc - q-learning": PROGRAM,
    "naive-mc - q-learning by the formula": FORMULA,
    "naive-mc - q-net": Q_NET,
}
FEW = 4
"""seeds for the formula, which is not what the report's program does"""
HIGH = 0.9
"""what is taken for "a very high number" of games"""


def units(quick: bool) -> list[Unit]:
    """All runs."""
    marks, seeds = ((0, 250, 500, 1_000), 2) if quick else (MARKS, SEEDS)
    return [
        unit
        for name, learner in PAIRS.items()
        for unit in runs(name, learner, NAIVE, marks, min(seeds, FEW) if learner is FORMULA else seeds)
    ]


def conclude(results: Sequence[tuple[Unit, Any]]) -> Findings:
    """Curves, and what becomes of the report's three statements."""
    curves = {name: Curve(name, results) for name in PAIRS}
    program, formula, net = curves.values()
    claims = []
    for curve, words in (
        (program, "The Q-Learning algorithm has a very high number of wins and draws against the Naive algorithm"),
        (formula, "the same, of the formula in the report's text"),
        (net, "The Tensorflow algorithm has also a very high number of wins and draws against the Naive algorithm"),
    ):
        shares = [curve.mean(mark).win + curve.mean(mark).draw for mark, games in enumerate(curve.marks) if games]
        found = f"wins and draws {min(shares):.3f} to {max(shares):.3f} over all numbers of games"
        claims.append(curve.claim(words, min(shares) >= HIGH, f"{found}; taken as: {HIGH} everywhere"))
    early = [mark for mark, games in enumerate(net.marks) if 0 < games < 10_000]
    more = [net.mean(mark).win > net.mean(mark).draw for mark in early]
    pairs = ", ".join(f"{net.mean(mark).win:.2f} / {net.mean(mark).draw:.2f}" for mark in early)
    claims.append(
        net.claim(
            "Under 10,000 training games the wins of the Tensorflow algorithm are significantly more than the draws",
            all(more),
            f"exact wins / draws after {', '.join(f'{net.marks[mark]:,}' for mark in early)} games: {pairs}",
        )
    )
    last = {curve.name: curve.value(len(curve.marks) - 1) for curve in (program, net)}
    claims.append(
        net.claim(
            "Both algorithms outperform the Naive algorithm",
            ahead(list(last.values())),
            f"wins less losses after {program.marks[-1]:,} games: "
            + "; ".join(f"{name} {shown(value)}" for name, value in last.items()),
        )
    )

    def draw(figure: Any) -> None:
        for axes, curve in zip(figure.subplots(1, 3, sharey=True), curves.values(), strict=True):
            curve.draw(axes)

    return Findings(
        [row for curve in curves.values() for row in curve.rows()],
        claims,
        {"learners-naive": draw},
        ours="1,000 test games a run",
        data={name: curve.to_dict() for name, curve in curves.items()},
    )


STUDY = Study(
    title="Learners against the naive learner",
    source=f"{SOURCE}, figures 12 and 13",
    about=ABOUT,
    units=units,
    measure=measure,
    conclude=conclude,
    left_out=f"two seeds in place of {SEEDS}, and 1,000 games of training in place of {MARKS[-1]:,}",
)
