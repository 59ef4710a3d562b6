"""Distribution of equal players' net score: the tables of the slides on testing game programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from studies.frame import (
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyReport,
    Value,
    combine,
    judge_claims,
    read_data,
)
from ttt_eval.matches.elo import pair_probabilities, probability_within
from ttt_eval.store.result_store import Data, Unit

MASTER_RATES = (0.3918, 0.3161)
"""Rates of wins and draws of the first player in 63,548 games of Chinese chess, slide 54."""
DATA = read_data("slides")
ROWS: dict[int, Data] = {row["pairs"]: row for row in DATA["rows"]}
"""Rows of the tables, by pairs of games: standard deviations, and probabilities in thousandths."""
SCORES = range(21)
SLIDES = {55: SCORES[:7], 56: SCORES[7:14], 57: SCORES[14:]}
"""Scores on each slide."""


class NetScores(Study):
    """Two copies of a program play n pairs of games; each copy moves first in one game of a pair.
    X[n] is the wins of one copy minus those of the other. The slides tabulate the probability that
    its absolute value is at most s, from the results of 63,548 games of Chinese chess masters.
    Exact is the n-fold convolution of a pair's five results. For pairs with common random numbers
    see evaluate.py match --sprt, which counts pairs.
    """

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each row of the tables."""
        return combine(pairs=ROWS)

    def measure(self, unit: Unit) -> dict[str, object]:
        """Compute the distribution of equal players' absolute net score at 0, 1, ... 20, and its
        standard deviation.
        """
        pairs = unit["pairs"]
        chances = pair_probabilities(*MASTER_RATES)
        deviation = math.sqrt(pairs * float(chances @ np.arange(-2, 3) ** 2))
        slides_limit = math.floor(2 * math.sqrt(1.16 * pairs))
        limit = math.floor(2 * deviation)
        return {
            "within": [probability_within(chances, pairs, score) for score in SCORES],
            "deviation": deviation,
            "beyond": {
                "slides": 1 - probability_within(chances, pairs, slides_limit),
                "two": 1 - probability_within(chances, pairs, limit),
            },
        }

    def analyse(self, results: Results) -> StudyReport:
        """Report the tables beside ours, number by number."""
        exact = {unit["pairs"]: result for unit, result in results}
        published = {pairs: np.array(ROWS[pairs]["within"]) / 1000 for pairs in exact}
        chances = {pairs: np.round(result["within"], 3) for pairs, result in exact.items()}
        rows = []
        for slide, scores in SLIDES.items():
            for pairs in exact:
                label = f"slide {slide}, {pairs} pairs, s = {scores[0]} to {scores[-1]}"
                numbers = published[pairs][scores], chances[pairs][scores]
                agrees = np.array_equal(*numbers)
                source, own = map(_format_row, numbers)
                rows.append(ResultRow(label, source, None, own, agrees))
        errors = {
            f"{pairs} pairs, s = {score}, {published[pairs][score]}, exactly": chance
            for pairs, result in exact.items()
            for score, chance in enumerate(result["within"])
            if published[pairs][score] != chances[pairs][score]
        }
        for pairs, result in exact.items():
            label = f"standard deviation, {pairs} pairs"
            agrees = abs(ROWS[pairs]["sigma"] - result["deviation"]) <= 0.01
            rows.append(ResultRow(label, ROWS[pairs]["sigma"], None, result["deviation"], agrees))
        series = [Series("95%", (0, 20), (0.95, 0.95), "--", "#8C8C8C")]
        for (pairs, result), marker in zip(exact.items(), "osD^v", strict=True):
            series.append(Series("", SCORES, result["within"], "-"))
            series.append(Series(f"{pairs} pairs", SCORES, published[pairs], marker, 1))
        figure = self.figure([Panel(series, "net score s", "Pr(|X[n]| <= s)")])
        claims = judge_claims(DATA["claims"], _numbers(exact, errors))
        return StudyReport(rows, claims, {"slides-tables": figure})


def _format_row(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.3f}" for number in numbers)


def _numbers(exact: Mapping[int, Any], errors: Mapping[str, float]) -> dict[str, Value]:
    """Return the numbers in the claims of the slides."""
    variance = exact[10]["deviation"] ** 2 / 10
    return {
        "wrong numbers": len(errors),
        "errors": errors or {"numbers": 105},
        "1 - p - q": 1 - sum(MASTER_RATES),
        "deviation of a pair": math.sqrt(variance),
        "variance of a pair": variance,
        **{
            f"chance beyond {limit}": {
                f"{pairs} pairs": result["beyond"][limit] for pairs, result in exact.items()
            }
            for limit in ("slides", "two")
        },
    }
