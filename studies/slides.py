"""Distribution of equal players' net score: the tables of the slides on testing game programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study
from ttt_eval.matches.elo import pair_probabilities, probability_within, significant_score
from ttt_eval.result_store import Unit
from ttt_eval.statistics import is_within, wilson

MASTER_RATES = (0.3918, 0.3161)
"""Rates of wins and draws of the first player in 63,548 games of Chinese chess, slide 54."""
SIGMAS = {10: 3.67, 20: 5.19, 30: 6.36, 40: 7.34, 50: 8.21}
"""Standard deviations in the tables, by pairs of games."""
PUBLISHED = {
    10: "108 315 502 658 779 866 924 960 981 991 997 999 1000 1000 1000 1000 1000 1000 1000 1000 1000",
    20: "076 227 369 499 613 710 789 851 899 933 958 974 985 991 995 997 999 999 1000 1000 1000",
    30: "063 186 305 417 520 612 693 761 819 865 902 930 951 967 978 986 991 994 997 998 999",
    40: "054 162 266 366 460 546 624 693 753 804 847 883 912 934 952 966 976 983 989 992 995",
    50: "049 145 239 330 416 497 571 639 699 753 799 839 872 900 923 941 956 967 976 983 988",
}
"""By pairs of games: 1000 Pr(|X[n]| <= s) for s from 0 to 20, slides 55 to 57."""
SCORES = range(21)
SLIDES = {55: SCORES[:7], 56: SCORES[7:14], 57: SCORES[14:]}
"""Scores on each slide."""
NUM_MATCHES = 1_000_000
"""Number of simulated matches."""


def published(pairs: int) -> list[int]:
    """Return the row of the tables, in thousandths."""
    return [int(number) for number in PUBLISHED[pairs].split()]


class NetScores(Study):
    """Two copies of a program play n pairs of games; each copy moves first in one game of a pair. X[n] is the wins
    of one copy minus those of the other. The slides tabulate the probability that its absolute value is at most
    s, from the results of 63,548 games of Chinese chess masters. Exact is the n-fold convolution of a pair's
    five results; simulated is a million matches, game by game. For pairs with common random numbers see
    evaluate.py match --sprt, which counts pairs.
    """

    title = "Distribution of the net score of equal players"
    source = "Hsu (2020), Theory of Computer Games, concluding remarks, slides 50 to 58"
    left_out = "49 of 50 simulated matches"

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each row of the tables: exact, and simulated."""
        kinds: tuple[dict[str, Any], ...] = (
            {"what": "exact"},
            {"what": "simulated", "matches": 20_000 if quick else NUM_MATCHES},
        )
        return [{"pairs": pairs, **kind} for pairs in PUBLISHED for kind in kinds]

    def measure(self, unit: Unit) -> dict[str, Any]:
        """Compute the distribution of equal players' absolute net score at 0, 1, ... 20, and its standard deviation."""
        pairs, chances = unit["pairs"], pair_probabilities(*MASTER_RATES)
        if unit["what"] == "exact":
            deviation = math.sqrt(pairs * float(chances @ np.arange(-2, 3) ** 2))
            return {
                "within": [probability_within(chances, pairs, score) for score in SCORES],
                "deviation": deviation,
                "beyond_slides": 1 - probability_within(chances, pairs, math.floor(2 * math.sqrt(1.16 * pairs))),
                "beyond_two": 1 - probability_within(chances, pairs, math.floor(2 * deviation)),
                "significant": significant_score(chances, pairs),
            }
        rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(pairs,)))
        # game by game, not from the pair distribution: the first of each pair wins, draws or loses independently
        win, draw = MASTER_RATES
        first, second = (rng.multinomial(pairs, [win, draw, 1 - win - draw], unit["matches"]) for _ in range(2))
        scores = first[:, 0] - first[:, 2] - second[:, 0] + second[:, 2]
        within = [int((np.abs(scores) <= score).sum()) for score in SCORES]
        return {"within": within, "deviation": float(scores.std())}

    def analyse(self, results: Results) -> Report:
        """Report the tables beside ours, number by number."""
        exact = {unit["pairs"]: result for unit, result in results if unit["what"] == "exact"}
        simulated = {unit["pairs"]: (unit["matches"], result) for unit, result in results if unit["what"] != "exact"}
        rows, wrong, plausible = [], dict[str, float](), 0
        for slide, scores in SLIDES.items():
            for pairs, computed in exact.items():
                matches, sampled = simulated[pairs]
                printed = [published(pairs)[score] for score in scores]
                ours = [round(1000 * computed["within"][score]) for score in scores]
                shares = [1000 * sampled["within"][score] / matches for score in scores]
                for score, share, theirs, our in zip(scores, shares, printed, ours, strict=True):
                    value = computed["within"][score]
                    interval = wilson(share / 1000, matches, 0.999)
                    plausible += is_within(interval, value - 1e-12, value + 1e-12) is not False
                    if theirs != our:
                        wrong[f"{pairs} pairs, s = {score}, {theirs / 1000}, exactly"] = value
                label = f"slide {slide}, {pairs} pairs, s = {scores[0]} to {scores[-1]}"
                agrees = all(abs(our - theirs) <= 1 for our, theirs in zip(ours, printed, strict=True))
                texts = [" ".join(f"{number / 1000:.3f}" for number in part) for part in (printed, shares, ours)]
                rows.append(Row(label, texts[0], texts[1], texts[2], agrees))
        for pairs, computed in exact.items():
            deviations = SIGMAS[pairs], simulated[pairs][1]["deviation"], computed["deviation"]
            agrees = abs(deviations[0] - deviations[2]) <= 0.01
            rows.append(Row(f"standard deviation, {pairs} pairs", *deviations, agrees))
        for pairs, computed in exact.items():
            limit, label = 2 * math.sqrt(1.16 * pairs), "net score that equal players exceed in less than 5%"
            agrees = math.floor(limit) >= computed["significant"]
            rows.append(Row(f"{label}, {pairs} pairs", limit, None, computed["significant"], agrees))
        correct = len(SCORES) * len(exact) - len(wrong)
        figure = Figure(
            "How likely is a net score of at most s between equal players?",
            "Lines are exact, marks as published. The dashed line is 95%.",
            [_panel(exact)],
            {"numbers as in the tables, to three digits": _of_all(correct)},
        )
        return Report(rows, _claims(exact, wrong, correct, plausible), {"slides-tables": figure}, ours="simulated")


def _of_all(count: int) -> str:
    return f"{count} of {len(SCORES) * len(PUBLISHED)}"


def _claims(exact: dict[int, Any], wrong: dict[str, float], correct: int, plausible: int) -> list[Claim]:
    pair_deviation = exact[10]["deviation"] / math.sqrt(10)
    beyond_slides, beyond_two = (
        {f"{pairs} pairs": result[name] for pairs, result in exact.items()} for name in ("beyond_slides", "beyond_two")
    )
    return [
        Claim(
            "Pr(abs(X[n]) <= s) is as in the tables, to three digits",
            not wrong,
            {"numbers that are": _of_all(correct), **wrong, "simulated ones that agree (99.9%)": _of_all(plausible)},
        ),
        Claim("1 - p - q ~ 0.2920", round(1 - sum(MASTER_RATES), 4) == 0.2920, {"1 - p - q": 1 - sum(MASTER_RATES)}),
        Claim(
            "the standard deviation of X[n] is the square root of 1.16 n",
            abs(pair_deviation**2 - 1.16) < 0.005,
            {"deviation of a pair": pair_deviation, "variance of a pair": pair_deviation**2},
        ),
        Claim(
            "a net score above 2.154 times the square root of n has a chance of less than 5% between equal players",
            max(beyond_slides.values()) < 0.05,
            {**beyond_slides, "two deviations, in square roots of n": 2 * pair_deviation},
        ),
        Claim(
            "a net score above twice the standard deviation has a chance of less than 5% between equal players",
            max(beyond_two.values()) < 0.05,
            beyond_two,
        ),
    ]


def _panel(exact: dict[int, Any]) -> Panel:
    series = [Series("95%", (0, 20), (0.95, 0.95), "--", "#8C8C8C")]
    for (pairs, result), marker in zip(exact.items(), "osD^v", strict=True):
        series.append(Series("", SCORES, result["within"], "-"))
        thousandths = [number / 1000 for number in published(pairs)]
        series.append(Series(f"{pairs} pairs", SCORES, thousandths, marker, 1))
    return Panel(series, "net score s", "Pr(|X[n]| <= s)")
