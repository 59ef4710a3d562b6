"""Distribution of equal players' net score: the tables of the slides on testing game programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ttt_eval.matches.elo import pair_probabilities, probability_within, significant_score
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, is_within, wilson
from ttt_eval.study import Caption, Claim, Report, Row, Study

SOURCE = "Hsu (2020), Theory of Computer Games, concluding remarks, slides 50 to 58"
MASTER_RATES = (0.3918, 0.3161)
"""Rates of wins and draws of the first player in 63,548 games of Chinese chess, slide 54."""
SIGMAS = {10: 3.67, 20: 5.19, 30: 6.36, 40: 7.34, 50: 8.21}
"""Standard deviations in the tables, by pairs of games."""
PUBLISHED: Mapping[int, str] = {
    10: "108 315 502 658 779 866 924 960 981 991 997 999 1000 1000 1000 1000 1000 1000 1000 1000 1000",
    20: "076 227 369 499 613 710 789 851 899 933 958 974 985 991 995 997 999 999 1000 1000 1000",
    30: "063 186 305 417 520 612 693 761 819 865 902 930 951 967 978 986 991 994 997 998 999",
    40: "054 162 266 366 460 546 624 693 753 804 847 883 912 934 952 966 976 983 989 992 995",
    50: "049 145 239 330 416 497 571 639 699 753 799 839 872 900 923 941 956 967 976 983 988",
}
"""By pairs of games: 1000 Pr(|X[n]| <= s) for s from 0 to 20, slides 55 to 57."""
NUM_SCORES = 21
SLIDES = {55: range(7), 56: range(7, 14), 57: range(14, 21)}
"""Scores on each slide."""
NUM_MATCHES = 1_000_000
"""Number of simulated matches."""


def published(pairs: int) -> list[int]:
    """Return the row of the tables, in thousandths."""
    return [int(number) for number in PUBLISHED[pairs].split()]


def units(quick: bool) -> list[Unit]:
    """Return a unit for each row of the tables: exact, and simulated."""
    return [
        {"what": what, "pairs": pairs, **({"matches": 20_000 if quick else NUM_MATCHES} if what == "simulated" else {})}
        for pairs in PUBLISHED
        for what in ("exact", "simulated")
    ]


def measure(unit: Unit) -> dict[str, Any]:
    """Compute the distribution of equal players' absolute net score at 0, 1, ... 20, and its standard deviation."""
    pairs, chances = unit["pairs"], pair_probabilities(*MASTER_RATES)
    if unit["what"] == "exact":
        deviation = math.sqrt(pairs * float(chances @ np.arange(-2, 3) ** 2))
        return {
            "within": [probability_within(chances, pairs, score) for score in range(NUM_SCORES)],
            "deviation": deviation,
            "beyond_slides": 1 - probability_within(chances, pairs, math.floor(2 * math.sqrt(1.16 * pairs))),
            "beyond_two": 1 - probability_within(chances, pairs, math.floor(2 * deviation)),
            "significant": significant_score(chances, pairs),
        }
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(pairs,)))
    # game by game, not from the pair distribution: the first of each pair wins, draws or loses independently
    win, draw = MASTER_RATES
    games = [win, draw, 1 - win - draw]
    first, second = (rng.multinomial(pairs, games, unit["matches"]) for _ in range(2))
    scores = first[:, 0] - first[:, 2] - second[:, 0] + second[:, 2]
    within = [int((np.abs(scores) <= score).sum()) for score in range(NUM_SCORES)]
    return {"within": within, "deviation": float(scores.std())}


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the tables beside ours, number by number."""
    exact = {unit["pairs"]: result for unit, result in results if unit["what"] == "exact"}
    sampled = {
        unit["pairs"]: [wilson(seen / unit["matches"], unit["matches"], 0.999) for seen in result["within"]]
        for unit, result in results
        if unit["what"] == "simulated"
    }
    deviations = {unit["pairs"]: result["deviation"] for unit, result in results if unit["what"] == "simulated"}
    rows, off = [], []
    for slide, scores in SLIDES.items():
        for pairs, one in exact.items():
            printed = [published(pairs)[score] for score in scores]
            ours = [round(1000 * one["within"][score]) for score in scores]
            off += [
                f"{pairs} pairs, s = {score}: {theirs / 1000:.3f}, exactly {one['within'][score]:.5f}"
                for score, theirs in zip(scores, printed, strict=True)
                if theirs != round(1000 * one["within"][score])
            ]
            rows.append(
                Row(
                    f"slide {slide}, {pairs} pairs, s = {scores[0]} to {scores[-1]}",
                    _format_rates(number / 1000 for number in printed),
                    _format_rates(sampled[pairs][score].mean for score in scores),
                    _format_rates(number / 1000 for number in ours),
                    all(abs(mine - theirs) <= 1 for mine, theirs in zip(ours, printed, strict=True)),
                )
            )
    for pairs, one in exact.items():
        simulated, agrees = f"{deviations[pairs]:.3f}", abs(one["deviation"] - SIGMAS[pairs]) <= 0.01
        label = f"standard deviation, {pairs} pairs"
        rows.append(Row(label, f"{SIGMAS[pairs]:.2f}", simulated, f"{one['deviation']:.3f}", agrees))
    for pairs, one in exact.items():
        limit, significant = 2 * math.sqrt(1.16 * pairs), one["significant"]
        label = f"net score that equal players exceed in less than 5%, {pairs} pairs"
        rows.append(Row(label, f"{limit:.1f}", "", str(significant), math.floor(limit) >= significant))
    data = [{**unit, **result} for unit, result in results]
    return Report(rows, _claims(exact, sampled, off), {"slides-tables": _draw(exact)}, ours="simulated", data=data)


def _format_rates(rates: Iterable[float]) -> str:
    return " ".join(f"{rate:.3f}" for rate in rates)


def _claims(exact: Mapping[int, Any], sampled: Mapping[int, Sequence[Interval]], off: Sequence[str]) -> list[Claim]:
    one = exact[10]["deviation"] / math.sqrt(10)
    beyond = [result["beyond_slides"] for result in exact.values()]
    rare = [result["beyond_two"] for result in exact.values()]
    simulated = [
        is_within(seen, found - 1e-12, found + 1e-12) is not False
        for pairs, result in exact.items()
        for seen, found in zip(sampled[pairs], result["within"], strict=True)
    ]
    return [
        Claim(
            "Pr(abs(X[n]) <= s) is as in the tables, to three digits",
            not off,
            f"{105 - len(off)} of 105 numbers{''.join(f'; {number}' for number in off)}; of those that were simulated, "
            f"game by game, {sum(simulated)} of 105 agree with the exact ones (99.9%)",
        ),
        Claim(
            "1 - p - q ~ 0.2920",
            round(1 - sum(MASTER_RATES), 4) == 0.2920,
            f"{1 - sum(MASTER_RATES):.4f}, from p = {MASTER_RATES[0]} and q = {MASTER_RATES[1]}",
        ),
        Claim(
            "the standard deviation of X[n] is the square root of 1.16 n",
            abs(one**2 - 1.16) < 0.005,
            f"it is {one:.3f} times the square root of n: 1.16 is the deviation of a pair, its variance {one**2:.3f}; "
            f"the deviations in the tables are right",
        ),
        Claim(
            "a net score above 2.154 times the square root of n has a chance of less than 5% between equal players",
            max(beyond) < 0.05,
            f"{min(beyond):.1%} to {max(beyond):.1%} for 10 to 50 pairs: two deviations are {2 * one:.2f} times the "
            f"square root of n",
        ),
        Claim(
            "a net score above twice the standard deviation has a chance of less than 5% between equal players",
            max(rare) < 0.05,
            f"{min(rare):.1%} to {max(rare):.1%} for 10 to 50 pairs",
        ),
    ]


def _draw(exact: Mapping[int, Any]) -> Any:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for (pairs, result), marker in zip(exact.items(), "osD^v", strict=True):
            axes.plot(range(NUM_SCORES), result["within"], lw=1, color="#0072B2")
            points = [number / 1000 for number in published(pairs)]
            axes.plot(range(NUM_SCORES), points, marker, ms=4, color="#D55E00", mfc="none", label=f"{pairs} pairs")
        axes.axhline(0.95, color="#8C8C8C", lw=1, ls="--")
        axes.set_xticks(range(0, NUM_SCORES, 2))
        axes.set(xlabel="net score s", ylabel="Pr(|X[n]| <= s)", ylim=(0, 1.03))
        axes.set_title("lines: exact; marks: as published; dashed: 95%", fontsize="medium")
        axes.legend(fontsize="small")

    return draw


def _answer(report: Report) -> str:
    found = report.claim("Pr(abs(X[n]) <= s)").evidence.partition(" numbers")[0]
    return f"As likely as in the tables, to three digits, for {found} numbers."


STUDY = Study(
    title="Distribution of the net score of equal players",
    source=SOURCE,
    about=(
        "Two copies of a program play n pairs of games; each copy moves first in one game of a pair. X[n] is the wins "
        "of one copy minus those of the other. The slides tabulate the probability that its absolute value is at most "
        "s, from the results of 63,548 games of Chinese chess masters. Exact is the n-fold convolution of a pair's "
        "five results; simulated is a million matches, game by game. For pairs with common random numbers see "
        "evaluate.py sprt, which counts pairs."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="49 of 50 simulated matches",
    captions={
        "slides-tables": Caption(
            "How likely is a net score of at most s between equal players?",
            _answer,
            "Lines are exact, marks as published. The dashed line is 95%.",
        ),
    },
)
