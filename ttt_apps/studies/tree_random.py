"""Random against random with skips: the first table of the report on tree search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from ttt_apps.studies import trees
from ttt_apps.studies.trees import BOARDS, GAMES, board_name, format_counts, format_rates, rates_of_first_mover, square
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.matches.score import Score
from ttt_eval.reports.plots import RESULTS, draw_label_legend, plot_intervals
from ttt_eval.result_store import Unit
from ttt_eval.statistics import is_above, wilson
from ttt_eval.study import Caption, Claim, Report, Row, Study, choose, format_difference, rates

EXACT_BOARDS = ((3, 3), (4, 3))
"""Boards that the report plays later, small enough for exact results."""
OUR_GAMES = 100_000
"""Number of our games, enough to measure the first-move advantage."""
EXACT_CONFIDENCE = 0.99
"""Confidence level of the intervals that must contain the exact rates."""


def units(quick: bool) -> list[Unit]:
    """Return for each board the games as published and ours, and the exact results."""
    games = 1_000 if quick else OUR_GAMES
    boards = [(board.size, board.win_length) for board in BOARDS]
    return [
        *({"what": "published", "board": board, "games": GAMES, "seed": 1} for board in boards),
        *({"what": "match", "board": board, "games": games, "seed": 0} for board in (*EXACT_BOARDS, *boards)),
        *({"what": "exact", "board": board} for board in (EXACT_BOARDS[:1] if quick else EXACT_BOARDS)),
    ]


def measure(unit: Unit) -> Any:
    """Compute results of the first mover: from pairs of games, or exact."""
    game = square(*unit["board"])
    if unit["what"] == "exact":
        return list(outcome(game, "random", "random"))
    if unit["what"] == "published":  # only the first games of its pairs are used
        return trees.play_match(game, "random", "random", unit["games"], unit["seed"])
    return trees.play_match(game, "random", "random", unit["games"] // 2, unit["seed"])  # both players move first


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report all boards, and whether equal players have a first-move advantage."""
    of = {(unit["what"], *unit["board"]): result for unit, result in results}
    scores = {key: trees.total_score([result]) for key, result in of.items() if key[0] != "exact"}
    rows, exact = [], {size: of.get(("exact", *size)) for size in EXACT_BOARDS}
    for size, known in exact.items():
        score = scores["match", *size]
        intervals = rates_of_first_mover(score, EXACT_CONFIDENCE)
        agrees = known and all(rate.low <= share <= rate.high for share, rate in zip(known, intervals, strict=True))
        label, ours = f"{board_name(square(*size))}, {score.games:,} games", format_rates(rates_of_first_mover(score))
        rows.append(Row(label, "", ours, rates(known or (), 4), agrees))
    for board in BOARDS:
        few, many = (scores[what, board.size, board.win_length] for what in ("published", "match"))
        agrees = trees.counts_agree(board.random, trees.first_mover_score(many).table.sum(axis=0))
        published, ours = format_counts(board.random), format_counts(few.table[0])
        rows.append(Row(f"{board.name}, {GAMES} games", published, ours, "", agrees))
        rows.append(Row(f"{board.name}, {many.games:,} games", "", format_rates(rates_of_first_mover(many)), ""))
    matches = {board: scores["match", board.size, board.win_length] for board in BOARDS}
    full = all(score.games >= OUR_GAMES for score in matches.values())
    advantages = [trees.first_move_advantage(score) for score in matches.values()]
    wins, losses = (sum(board.random[result] for board in BOARDS) for result in (0, 2))
    draws = {board: rates_of_first_mover(score)[1] for board, score in matches.items()}
    claims = [
        Claim(
            "To show the performance better, we let random AI play first",
            is_above(advantages) if full else None,
            "read as: the first player wins more than it loses, between equal players, on every board; wins less "
            "losses "
            + "; ".join(
                f"{board.name} {format_difference(value)}" for board, value in zip(BOARDS, advantages, strict=True)
            )
            + f". The published games alone, {wins} against {losses} of {GAMES * len(BOARDS)}, are inconclusive: equal "
            f"players differ as much with probability {binomtest(wins, wins + losses).pvalue:.2f}",
        ),
        Claim(
            "where the board sizes and the winning goals are relatively close many draw games come out",
            trees.has_draw_gap(draws) if full else None,
            f"a statement on the games of the tree and of random; {trees.DRAW_GAP}; draws "
            + "; ".join(f"{board.name} {rate.mean:.4f}" for board, rate in draws.items()),
        ),
    ]

    data = [{**unit, "result": result} for unit, result in results]
    return Report(rows, claims, {"tree-random": lambda figure: _draw_figure(figure, scores, exact)}, data=data)


def _draw_figure(figure: Any, scores: dict[Any, Score], exact: dict[Any, Any]) -> None:
    """Draw our rates as bars, the published ones and the exact ones as points."""
    axes = figure.subplots()
    published = {(board.size, board.win_length): board.random for board in BOARDS}
    boards = [*EXACT_BOARDS, *published]
    places = np.arange(len(boards))
    for result, (name, colour) in enumerate(zip(("first wins", "draw", "second wins"), RESULTS, strict=True)):
        x = places + (result - 1) * 0.27
        heights = [rates_of_first_mover(scores["match", *size])[result].mean for size in boards]
        axes.bar(x, heights, 0.25, color=colour, label=name)
        rates = [wilson(published[size][result] / GAMES, GAMES) for size in boards[len(EXACT_BOARDS) :]]
        label = f"published, 95% of {GAMES} games" if result == 2 else None
        x_published = x[len(EXACT_BOARDS) :]
        plot_intervals(axes, x_published, rates, fmt="o", ms=4, capsize=3, color="black", label=label)
        known = [(place, exact[size][result]) for place, size in zip(x, boards, strict=False) if exact.get(size)]
        label = "exact" if result == 2 else None
        axes.plot(*zip(*known, strict=True), "x", ms=8, mew=2, color="black", label=label)
    games = scores["match", *EXACT_BOARDS[0]].games
    axes.set(
        title=f"random against random, skip chance {trees.SKIP}; bars are {games:,} games of ours",
        xlabel="board (stones in a row that win)",
        ylabel="rate",
        ylim=(0, 1.02),
    )
    axes.set_xticks(places, [board_name(square(*size)) for size in boards])
    draw_label_legend(figure, axes, 5)


def _answer(report: Report) -> str:
    first, draws = (claim.holds for claim in report.claims)
    advantage = choose(first, "Yes, on every board.", "Not on every board.", "On some boards it is undecided.")
    drawn = choose(
        draws,
        "more games are drawn than on any other board",
        "games are not drawn most often",
        "it is undecided whether most games are drawn",
    )
    return f"{advantage} Where lines are nearly as long as the board, {drawn}."


STUDY = Study(
    title="Random against random on five boards",
    source=f"{trees.SOURCE}, milestone 2, first table",
    about=(
        f"Turns are skipped with probability {trees.SKIP}. Numbers are wins / draws / losses of the first player, O in "
        f"the report. A row of {GAMES} games has the published counts and one match of ours of the same size. "
        f"Published counts agree if they are a plausible sample of the rates of our {OUR_GAMES:,} games (exact "
        "multinomial test, 5%). Intervals (95%) are over pairs of games, in which each player moves first once. Exact "
        "results are computed by dynamic programming; they agree if all three rates lie in our intervals of "
        f"{EXACT_CONFIDENCE:.0%}."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"99 of 100 games of ours, and the exact result of {board_name(square(*EXACT_BOARDS[1]))}",
    captions={
        "tree-random": Caption(
            "Is the first move an advantage between random players?",
            _answer,
            "Bars are 100,000 games, crosses exact results, dots the published ones with the 95% interval of "
            "100 games.",
        ),
    },
)
