"""Figure 5 of the paper: SVD against HOSVD at the same compression ratio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baselines.compression import Method
from ttt_apps.studies import compressed
from ttt_apps.studies.compressed import BATCHES, CONVENTIONS, GAMES, SOURCE, TERMINALS, at_ranks, mean
from ttt_envs.game.game import Game
from ttt_eval.reports.plots import draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.study import Caption, Claim, Report, Row, Study, rates, read_numbers

METHODS: tuple[Method, ...] = ("hosvd", "hosvd2")
"""HOSVD of the newer version of the paper, and of the older."""
MAJORITY, SIGNIFICANT = 0.5, 1.96


def units(quick: bool) -> list[Unit]:
    """Return a unit for each convention, version and column of Table 1."""
    return [
        {"terminal": terminal, "method": method, "pair": list(pair), "batches": 1 if quick else BATCHES}
        for terminal in TERMINALS
        for method in METHODS
        for pair in compressed.PAIRS
    ]


def measure(unit: Unit) -> dict[str, Any]:
    """Play the HOSVD against the SVD."""
    game, (svd_rank, rank) = Game(), unit["pair"]
    [svd] = at_ranks(game, "svd", unit["terminal"], [svd_rank])
    [hosvd] = at_ranks(game, unit["method"], unit["terminal"], [rank])
    return {
        "ratios": [svd.compression_ratio, hosvd.compression_ratio],
        "errors": [svd.relative_error, hosvd.relative_error],
        **compressed.match(game, hosvd, svd, unit["batches"], svd_rank),
    }


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report all columns, and the paper's claims."""
    curves: dict[tuple[str, str], list[dict[str, Any]]] = {}
    rows = []
    for unit, result in results:
        curves.setdefault((unit["terminal"], unit["method"]), []).append(result)
        svd_rank, rank = unit["pair"]
        svd_ratio, ratio = result["ratios"]
        rows.append(
            Row(
                f"{unit['terminal']}, {unit['method']} {rank} ({ratio:.3f}) - svd {svd_rank} ({svd_ratio:.3f})",
                "",
                rates(compressed.published_rates(result)),
                rates(mean(result)),
                compressed.rates_agree([result]),
            )
        )
    claims = [claim for terminal in TERMINALS for claim in _claims(terminal, curves[terminal, "hosvd"])]
    older = [result["ratios"] for result in curves["equation", "hosvd2"]]
    worst = max(abs(mine - theirs) for theirs, mine in older)
    claims.append(
        Claim(
            "the older version: the two are compared at the same compression ratio",
            worst < 0.02,
            "its Table 1 pairs the ranks by the ratio of the newer version: "
            + ", ".join(f"{theirs:.3f} - {mine:.3f}" for theirs, mine in older),
        )
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8, 6.5)
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for axes, ((terminal, method), points) in zip(panels.flat, curves.items(), strict=True):
            ratios = [point["ratios"][0] for point in points]
            compressed.draw_rates(axes, ratios, points, ("HOSVD", "SVD"), marker="o")
            older = " (older version's)" if method == "hosvd2" else ""
            axes.set_title(f"{terminal}, {method}{older}", fontsize="medium")
            axes.set_ylim(-0.02, 1.02)
        for axes in panels[-1]:
            axes.set_xlabel("compression ratio of the SVD")
        for axes in panels[:, 0]:
            axes.set_ylabel(f"rate; dots {GAMES} games a seat")
        draw_label_legend(figure, panels[0, 0], 3)

    data = [{**unit, **result} for unit, result in results]
    return Report(rows, claims, {"svd-fig5": draw}, ours="500 games a seat, each rate of a batch of its own", data=data)


def _claims(terminal: str, points: list[dict[str, Any]]) -> list[Claim]:
    at = dict(zip(compressed.RATIOS, points, strict=True))
    near_one, at_zero = mean(at[1.0]), mean(at[0.0])
    between = {ratio: point for ratio, point in at.items() if 0 < ratio < 0.3}
    listed, better = [], []
    for ratio, point in between.items():
        wins, _, losses = mean(point)
        # for the paper's 1,000 games: the difference of two shares of one sample
        z = (wins - losses) / np.sqrt((wins + losses - (wins - losses) ** 2) / 1_000)
        better.append(bool(z > SIGNIFICANT))
        listed.append(f"{ratio}: {wins:.3f} against {losses:.3f}, {z:.1f} standard deviations of 1,000 games")
    return [
        Claim(f"{terminal}: HOSVD wins significantly more between 0 and 0.3", all(better), "; ".join(listed)),
        Claim(
            f"{terminal}: close to 1 most games are draws",
            near_one.draw > MAJORITY,
            f"at 1.0 {near_one.draw:.3f} of them are; the two win {near_one.win:.3f} and {near_one.loss:.3f}",
        ),
        Claim(
            f"{terminal}: close to 0 the winning rate of both becomes 0.5",
            abs(at_zero.win - 0.5) < 0.01,
            f"both move at random: each wins {at_zero.win:.4f}, and {at_zero.draw:.4f} are draws",
        ),
    ]


def _answer(report: Report) -> str:
    better, near_one = [], []
    for terminal in TERMINALS:
        parts = report.claim(f"{terminal}: HOSVD wins").evidence.split("; ")
        scores = {part.partition(":")[0]: float(read_numbers(part, after=" standard")[0]) for part in parts}
        better.append(", ".join(ratio for ratio, score in scores.items() if score > SIGNIFICANT) or "none")
        near_one.append(report.claim(f"{terminal}: close to 1").evidence.partition("the two win ")[2])
    return (
        f"Of the ratios between 0 and 0.3 it wins significantly more at {better[0]} (equation), and at {better[1]} (as "
        f"published). At 1 the two win {near_one[0]} of games, and {near_one[1]}."
    )


STUDY = Study(
    title="SVD against HOSVD at the same compression ratio",
    source=f"{SOURCE}, figure 5",
    about=f"{CONVENTIONS}. The paper shows the figure without its numbers, so there are no published numbers here.",
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="four of the five batches of games",
    captions={
        "svd-fig5": Caption(
            "Does the HOSVD beat the SVD at the same compression ratio?",
            _answer,
            "Lines are exact, dots are 500 games in each seat. Upper row: a won board has the value 1 or -1 "
            "(equation); lower row: 0, as published.",
        ),
    },
)
