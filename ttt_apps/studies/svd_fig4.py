"""Figure 4 of the paper: the whole table against its SVD, by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttt_apps.studies import compressed
from ttt_apps.studies.compressed import BATCHES, CONVENTIONS, GAMES, SOURCE, TERMINALS, at_ranks, mean
from ttt_envs.game.game import Game
from ttt_eval.reports.plots import draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.study import Caption, Claim, Report, Row, Study, rates, read_numbers

KNEE = 18
"""Rank down to which the paper finds the winning rates almost constant, a compression ratio of 0.3."""
ZERO_TOLERANCE = 1e-12
"""Tolerance for an entry that is 0 up to rounding."""
MAX_DRIFT = 0.1
"""Maximum change of a winning rate that is called almost constant."""
SHOWN = (0, 1, 2, 3, 5, 8, 12, 15, 18, 26, 49, 61, 69, 75, 81)


def units(quick: bool) -> list[Unit]:
    """Return a unit for each convention and each part of the ranks."""
    return [
        {"terminal": terminal, "ranks": ranks, "batches": 1 if quick else BATCHES}
        for terminal in TERMINALS
        for ranks in ([list(SHOWN)] if quick else [list(range(start, 82, 4)) for start in range(4)])
    ]


def measure(unit: Unit) -> list[dict[str, Any]]:
    """Play the whole table against every rank."""
    game = Game()
    full = compressed.full_table(game, unit["terminal"])
    return [
        {
            "rank": one.rank,
            "ratio": one.compression_ratio,
            "numbers": one.stored_numbers,
            "error": one.relative_error,
            **compressed.match(game, full, one, unit["batches"], one.rank),
        }
        for one in at_ranks(game, "svd", unit["terminal"], unit["ranks"])
    ]


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the curves of both conventions, and the paper's claims about them."""
    curves: dict[str, dict[int, dict[str, Any]]] = {}
    for terminal in TERMINALS:
        points = [point for unit, part in results if unit["terminal"] == terminal for point in part]
        curves[terminal] = {point["rank"]: point for point in sorted(points, key=lambda point: point["rank"])}
    rows = [
        Row(
            f"{terminal}, rank {rank}, ratio {point['ratio']:.3f}",
            "",
            rates(compressed.published_rates(point)),
            f"{rates(mean(point))}, error {point['error']:.4f}",
            compressed.rates_agree([point]),
        )
        for terminal, curve in curves.items()
        for rank, point in curve.items()
        if rank in SHOWN
    ]
    claims = [claim for terminal, curve in curves.items() for claim in _claims(terminal, curve)]
    numbers = curves["equation"][KNEE]["numbers"]
    entries = compressed.full_table(Game(), "equation").entries
    num_nonzero = int((np.abs(entries) > ZERO_TOLERANCE).sum())
    claims.append(
        Claim(
            "the data are reduced by 70%, from 154 KB to 46 KB",
            abs(1 - numbers / entries.size - 0.7) < 0.01,
            f"{numbers:,} numbers of {entries.size:,}: {numbers * 8 / 1000:.1f} KB of {entries.size * 8 / 1000:.1f}. "
            f"Of the table's entries {num_nonzero:,} are not 0",
        )
    )
    claims.append(
        Claim(
            "the relative error is the sum of the ignored singular values",
            _is_sum(curves["equation"]),
            "it is the root of the sum of their squares, over the norm of the table (Eq. 16)",
        )
    )
    full_rank = {
        terminal: next(r for r, point in curve.items() if point["error"] < 1e-9) for terminal, curve in curves.items()
    }
    claims.append(
        Claim(
            "the number of singular values is 81",
            full_rank["equation"] == max(curves["equation"]),
            f"the maximum; the rank is {full_rank['equation']} (equation) and {full_rank['as_published']} "
            f"(as_published), beyond which nothing changes",
        )
    )

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (terminal, curve) in zip(panels, curves.items(), strict=True):
            _draw(axes, terminal, list(curve.values()))
        panels[0].set_ylabel("rate; relative error")
        draw_label_legend(figure, panels[0], 4)

    data = {terminal: list(curve.values()) for terminal, curve in curves.items()}
    return Report(rows, claims, {"svd-fig4": draw}, ours="500 games a seat, each rate of a batch of its own", data=data)


def _is_sum(curve: dict[int, dict[str, Any]]) -> bool | None:
    """Return whether the error at the knee is the sum of the ignored singular values; None without every rank."""
    if len(curve) <= max(curve):
        return None
    errors = np.array([point["error"] for point in curve.values()])
    values = np.sqrt(np.maximum(0.0, errors[:-1] ** 2 - errors[1:] ** 2))  # singular values over the norm
    return bool(abs(values[KNEE:].sum() - errors[KNEE]) < 0.01)


def _claims(terminal: str, curve: dict[int, dict[str, Any]]) -> list[Claim]:
    most = max(curve)
    all_wins = {rank: mean(point).win for rank, point in curve.items()}
    svd_wins = {rank: mean(point).loss for rank, point in curve.items()}
    drift = max(abs(wins[rank] - wins[most]) for wins in (all_wins, svd_wins) for rank in curve if rank >= KNEE)
    below = max(rank for rank in curve if rank < KNEE and all_wins[rank] - all_wins[most] > 2 * MAX_DRIFT)
    end = mean(curve[most])
    return [
        Claim(
            f"{terminal}: two whole tables mostly draw, as the figure's end shows",
            end.draw > 0.5,
            f"exactly {end.draw:.4f} of their games are draws",
        ),
        Claim(
            f"{terminal}: the winning rates are almost constant down to a compression ratio of 0.3 (rank 18)",
            drift <= MAX_DRIFT,
            f"from rank {most} to {KNEE} they move by up to {drift:.3f} (almost constant: up to {MAX_DRIFT}); the "
            f"whole table wins {all_wins[most]:.4f} at rank {most}, {all_wins[KNEE]:.4f} at {KNEE}",
        ),
        Claim(
            f"{terminal}: the winning rate of the whole table increases sharply below 0.3, the error only gradually",
            all_wins[3] - all_wins[KNEE] > 2 * (all_wins[KNEE] - all_wins[most]),
            f"{all_wins[KNEE]:.4f} at rank {KNEE}, {all_wins[12]:.4f} at 12, {all_wins[3]:.4f} at 3, and more than "
            f"{2 * MAX_DRIFT} above its end from rank {below} down; the error is {curve[KNEE]['error']:.3f}, "
            f"{curve[12]['error']:.3f}, {curve[3]['error']:.3f}",
        ),
    ]


def _draw(axes: Any, terminal: str, points: list[dict[str, Any]]) -> None:
    ratios = [point["ratio"] for point in points]
    compressed.draw_rates(axes, ratios, points, ("whole table", "SVD"), marker=".")
    axes.plot(ratios, [point["error"] for point in points], "--", color="black", label="relative error")
    axes.set_title(f"{terminal}: lines exact, dots {GAMES} games a seat", fontsize="medium")
    axes.set(xlabel="compression ratio: share of the numbers kept", ylim=(-0.02, 1.02))


def _answer(report: Report) -> str:
    drifts, rises = [], []
    for terminal in TERMINALS:
        drifts += read_numbers(report.claim(f"{terminal}: the winning rates are").evidence, before="up to ")[:1]
        rise = report.claim(f"{terminal}: the winning rate of the whole").evidence
        rises.append((read_numbers(rise, after=f" at rank {KNEE}")[0], read_numbers(rise, after=" at 3")[0]))
    (knee, end), (knee_2, end_2) = rises
    return (
        f"Down to about 30% of the numbers (rank {KNEE}) winning rates change by up to {drifts[0]} (equation) and "
        f"{drifts[1]} (as published). From there to rank 3 the whole table's wins rise from {knee} to {end}, and from "
        f"{knee_2} to {end_2}."
    )


STUDY = Study(
    title="The whole table against its SVD",
    source=f"{SOURCE}, figure 4",
    about=f"{CONVENTIONS}. The paper shows the figure without its numbers, so there are no published numbers here.",
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"{82 - len(SHOWN)} of the 82 ranks, and four of the five batches of games",
    captions={
        "svd-fig4": Caption(
            "How far can the table be compressed before the whole one beats it?",
            _answer,
            "Lines are exact, dots are 500 games in each seat. Left: a won board has the value 1 or -1 "
            "(equation); right: 0, as published.",
        ),
    },
)
