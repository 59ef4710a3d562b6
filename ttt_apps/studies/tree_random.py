"""Random against random with skips: the first table of the report on tree search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from evaluation.exact.dynamic_programming import outcome
from evaluation.matches.match import Score
from evaluation.reports.plots import RESULTS, error_bars, interval_means, legend
from evaluation.result_store import Unit
from evaluation.statistics import is_above, wilson
from evaluation.study import Claim, Report, Row, Study, rates, signed
from ttt_apps.studies.trees import (
    BOARDS,
    GAMES,
    SKIP,
    SOURCE,
    counts_agree,
    edge,
    first_results,
    format_counts,
    format_rates,
    is_gap,
    match,
    name_of,
    rates_of_first_mover,
    square,
    total,
)

SMALL = ((3, 3), (4, 3))
"""Boards that the report plays later, small enough for exact results."""
MANY = 100_000
"""Number of our games, enough to measure the first-move advantage."""
SURE = 0.99
"""Confidence level of the intervals that must contain the exact rates."""


def units(quick: bool) -> list[Unit]:
    """Return for each board the games as published and ours, and the exact results."""
    games = 1_000 if quick else MANY
    boards = [(board.size, board.win_length) for board in BOARDS]
    return [
        *({"what": "published", "board": board, "games": GAMES, "seed": 1} for board in boards),
        *({"what": "match", "board": board, "games": games, "seed": 0} for board in (*SMALL, *boards)),
        *({"what": "exact", "board": board} for board in (SMALL[:1] if quick else SMALL)),
    ]


def measure(unit: Unit) -> Any:
    """Compute results of the first mover: from pairs of games, or exact."""
    game = square(*unit["board"])
    if unit["what"] == "exact":
        return list(outcome(game, "random", "random"))
    if unit["what"] == "published":  # only the first games of its pairs are used
        return match(game, "random", "random", unit["games"], unit["seed"])
    return match(game, "random", "random", unit["games"] // 2, unit["seed"])  # both players move first


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report all boards, and whether equal players have a first-move advantage."""
    of = {(unit["what"], *unit["board"]): result for unit, result in results}
    scores = {key: total([result]) for key, result in of.items() if key[0] != "exact"}
    rows, exact = [], {size: of.get(("exact", *size)) for size in SMALL}
    for size, known in exact.items():
        score = scores["match", *size]
        sure = known and all(
            rate.low <= share <= rate.high for share, rate in zip(known, rates_of_first_mover(score, SURE), strict=True)
        )
        told = rates(known or (), 4)
        rows.append(
            Row(
                f"{name_of(square(*size))}, {score.games:,} games",
                "",
                format_rates(rates_of_first_mover(score)),
                told,
                sure,
            )
        )
    for board in BOARDS:
        few, many = (scores[what, board.size, board.win_length] for what in ("published", "match"))
        rows += [
            Row(
                f"{board.name}, {GAMES} games",
                format_counts(board.random),
                format_counts(few.table[0]),
                "",
                counts_agree(board.random, first_results(many)),
            ),
            Row(f"{board.name}, {many.games:,} games", "", format_rates(rates_of_first_mover(many)), ""),
        ]
    ours = {board: scores["match", board.size, board.win_length] for board in BOARDS}
    full = all(score.games >= MANY for score in ours.values())
    edges = [edge(score) for score in ours.values()]
    wins, losses = (sum(board.random[result] for board in BOARDS) for result in (0, 2))
    draws = {board: rates_of_first_mover(score)[1] for board, score in ours.items()}
    claims = [
        Claim(
            "To show the performance better, we let random AI play first",
            is_above(edges) if full else None,
            "taken as: who moves first wins more than it loses, between equals, on every board; wins less losses "
            + "; ".join(f"{board.name} {signed(value)}" for board, value in zip(BOARDS, edges, strict=True))
            + f". The published games alone, {wins} against {losses} of {GAMES * len(BOARDS)}, do not tell: equals are "
            f"so far apart with probability {binomtest(wins, wins + losses).pvalue:.2f}",
        ),
        Claim(
            "where the board sizes and the winning goals are relatively close many draw games come out",
            is_gap(draws) if full else None,
            "said of the tree's games, and of random's: draws "
            + "; ".join(f"{board.name} {rate.mean:.4f}" for board, rate in draws.items()),
        ),
    ]

    def draw(figure: Any) -> None:
        _draw_figure(figure, scores, exact)

    return Report(
        rows,
        claims,
        {"tree-random": draw},
        ours="ours",
        data=[{**unit, "result": result} for unit, result in results],
    )


def _draw_figure(figure: Any, scores: dict[Any, Score], exact: dict[Any, Any]) -> None:
    """Draw our rates as bars, the published ones and the exact ones as points."""
    axes = figure.subplots()
    published = {(board.size, board.win_length): board.random for board in BOARDS}
    boards = [*SMALL, *published]
    places = np.arange(len(boards))
    for result, (name, colour) in enumerate(zip(("first wins", "draw", "second wins"), RESULTS, strict=True)):
        x = places + (result - 1) * 0.27
        axes.bar(
            x,
            [rates_of_first_mover(scores["match", *size])[result].mean for size in boards],
            0.25,
            color=colour,
            label=name,
        )
        rates = [wilson(published[size][result] / GAMES, GAMES) for size in boards[len(SMALL) :]]
        label = f"published, 95% of {GAMES} games" if result == 2 else None
        axes.errorbar(
            x[len(SMALL) :],
            interval_means(rates),
            error_bars(rates),
            fmt="o",
            ms=4,
            capsize=3,
            color="black",
            label=label,
        )
        known = [(place, exact[size][result]) for place, size in zip(x, boards, strict=False) if exact.get(size)]
        label = "exact" if result == 2 else None
        axes.plot(*zip(*known, strict=True), "x", ms=8, mew=2, color="black", label=label)
    games = scores["match", *SMALL[0]].games
    axes.set(
        title=f"random against random, skip chance {SKIP}; bars are {games:,} games of ours",
        xlabel="board (stones in a row that win)",
        ylabel="rate",
        ylim=(0, 1.02),
    )
    axes.set_xticks(places, [name_of(square(*size)) for size in boards])
    legend(figure, axes, 5)


STUDY = Study(
    title="Random against random on five boards",
    source=f"{SOURCE}, milestone 2, first table",
    about=(
        f"Turns are skipped with probability {SKIP}. Numbers are wins / draws / losses of who moves first, O in the "
        f"report. In each row of {GAMES} games stand the published counts and a match of ours like it; they agree "
        f"where the published counts may well be drawn with the rates of our {MANY:,} games (exact multinomial test, "
        f"5%). The intervals (95%) are over pairs of games, each player moving first in one. The exact results are by "
        f"dynamic programming; they agree where all three rates lie in our intervals of {SURE:.0%}."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"99 of 100 games of ours, and the exact result of {name_of(square(*SMALL[1]))}",
)
