"""The paper on compressed tables: figures 4 and 5 and Table 1, SVD and HOSVD of the values of
random play.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from baselines.compression import Compressed, Method, decomposition
from baselines.tables import Evaluation, Softmax, Table, Terminal, source_values
from studies.frame import (
    Claim,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyReport,
    Value,
    combine,
    group,
    judge_claims,
    read_data,
)
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities
from ttt_eval.exact.measurement import Measurement
from ttt_eval.reports.plots import RESULTS
from ttt_eval.store.result_store import Data, Unit

DATA = read_data("svd")
TERMINALS: tuple[Terminal, ...] = ("equation", "as_published")
WEIGHT = 10.0
"""w of Eq. (17)."""
PAIRS = DATA["pairs"]
"""Table 1: ranks of the SVD and of the HOSVD at about the same compression ratio."""
RATIOS = DATA["ratios"]
"""Compression ratios of Table 1."""
MAX_RATIO_ERROR = DATA["max_ratio_error"]
METHODS: tuple[Method, ...] = ("svd", "hosvd", "hosvd2")
"""SVD, and HOSVD of the newer version of the paper and of the older."""
KNEE = 18
"""Rank down to which the paper finds the winning rates almost constant, a compression ratio of 0.3.
"""
SHOWN = DATA["shown"]
"""Ranks of the table of figure 4."""


def full_table(terminal: Terminal) -> Table:
    """Return the uncompressed table of 3 x 3."""
    return Table(Game(), source_values(Game(), "random", terminal))


def compressed_table(method: Method, terminal: Terminal, rank: int) -> Compressed:
    """Return the table of 3 x 3 compressed to a rank."""
    return decomposition(Game(), method, terminal=terminal).at(rank)


def match(a: Evaluation, b: Evaluation) -> Sequence[OutcomeProbabilities]:
    """Play two tables: exact results float[2, 3], of a moving first and second."""
    return Measurement(Game(), Softmax(a, WEIGHT)).outcomes(Softmax(b, WEIGHT))


def mean(result: Data) -> OutcomeProbabilities:
    """Return the exact result, the mean of both seats."""
    first, second = (OutcomeProbabilities(*seat) for seat in result["exact"])
    return first.mean(second)


def rate_series(ratios: Sequence[float], results: Sequence[Data], name: str) -> list[Series]:
    """Return wins of a table and of the SVD, and draws, by compression ratio."""
    names = (f"{name} wins", "draws", "SVD wins")
    rates = zip(*map(mean, results), strict=True)
    return [
        Series(label, ratios, shares, ".-", colour)
        for label, shares, colour in zip(names, rates, RESULTS, strict=True)
    ]


class PaperStudy(Study):
    """Two conventions: by the paper's Eq. (1) a won board has the value 1 or -1; the paper's
    program stores 0 there, so that a winning move looks like any other move, and the paper's
    figures use that table. Exact results are computed by dynamic programming, w = 10; rates are
    means of both seats, as in the paper.
    """


class Figure4(PaperStudy):
    """The paper shows the figure without its numbers, so there are no published numbers here."""

    left_out = f"{82 - len(SHOWN)} of the 82 ranks"

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each convention and each part of the ranks."""
        parts = [SHOWN] if quick else [list(range(start, 82, 4)) for start in range(4)]
        return combine(terminal=TERMINALS, ranks=parts)

    def measure(self, unit: Unit) -> list[dict[str, object]]:
        """Play the whole table against every rank."""
        terminal = unit["terminal"]
        whole_table = full_table(terminal)

        def point(rank: int) -> dict[str, object]:
            table = compressed_table("svd", terminal, rank)
            return {
                "rank": rank,
                "ratio": table.compression_ratio,
                "numbers": table.stored_numbers,
                "error": table.relative_error,
                "exact": match(whole_table, table),
            }

        return [point(rank) for rank in unit["ranks"]]

    def analyse(self, results: Results) -> StudyReport:
        """Report the curves of both conventions, and the paper's claims about them."""
        rows: list[ResultRow] = []
        claims: list[Claim] = []
        panels: list[Panel] = []
        curves: dict[str, dict[int, Any]] = {}
        for terminal, parts in group(results, "terminal").items():
            points = sorted(chain(*parts), key=lambda point: point["rank"])
            curves[terminal] = {point["rank"]: point for point in points}
        for terminal, curve in curves.items():
            for rank in SHOWN:
                point = curve[rank]
                label = f"{terminal}, rank {rank}, ratio {point['ratio']:.3f}"
                rows.append(ResultRow(label, exact={"": mean(point), "error": point["error"]}))
            claims += judge_claims(DATA["ranks"], _numbers_by_rank(curve), f"{terminal}: ")
            ratios = [point["ratio"] for point in curve.values()]
            errors = [point["error"] for point in curve.values()]
            series = rate_series(ratios, list(curve.values()), "whole table")
            series.append(Series("relative error", ratios, errors, "--", "black"))
            panels.append(
                Panel(series, "share of the numbers kept", "rate; relative error", terminal)
            )
        claims += judge_claims(DATA["sizes"], _size_numbers(curves))
        return StudyReport(rows, claims, {"svd-fig4": self.figure(panels)})


def _size_numbers(curves: Mapping[str, Mapping[int, Any]]) -> dict[str, Value]:
    """Return what the paper's words about numbers and singular values are about."""
    curve = curves["equation"]
    num_entries = full_table("equation").entries.size
    num_kept = curve[KNEE]["numbers"]
    error = curve[KNEE]["error"]
    squares = np.square([point["error"] for point in curve.values()])
    # over the norm of the table
    singular_values = np.sqrt(np.maximum(0.0, squares[:-1] - squares[1:]))
    tail = float(singular_values[KNEE:].sum())
    full_ranks = {
        terminal: min(rank for rank, point in part.items() if point["error"] < 1e-9)
        for terminal, part in curves.items()
    }
    return {
        "share left out": 1 - num_kept / num_entries,
        "numbers": {"numbers kept": num_kept, "of": num_entries},
        "sum less error": tail - error,
        "tail": {"sum": tail, "error": error},
        "rank of the equation": full_ranks["equation"],
        "ranks": {"rank beyond which nothing changes": full_ranks},
    }


def _numbers_by_rank(curve: Mapping[int, Any]) -> dict[str, Value]:
    """Return what the paper's words about the winning rate of the whole table are about."""
    last_rank = max(curve)
    means = {rank: mean(point) for rank, point in curve.items()}
    wins = {rank: rates.win for rank, rates in means.items()}
    rates = np.array([[means[rank].win, means[rank].loss] for rank in curve if rank >= KNEE])
    return {
        "exact share of draws": means[last_rank].draw,
        f"largest change to rank {KNEE}": float(np.abs(rates - rates[-1]).max()),
        "rise below less twice that above": wins[3]
        - wins[KNEE]
        - 2 * (wins[KNEE] - wins[last_rank]),
        "by rank": {
            f"rank {rank}": {"wins": wins[rank], "error": curve[rank]["error"]}
            for rank in (last_rank, KNEE, 12, 3)
        },
    }


class Figure5(PaperStudy):
    """The paper shows the figure without its numbers, so there are no published numbers here."""

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each convention, version and column of Table 1."""
        return combine(terminal=TERMINALS, method=METHODS[1:], pair=PAIRS)

    def measure(self, unit: Unit) -> dict[str, object]:
        """Play the HOSVD against the SVD."""
        svd_rank, rank = unit["pair"]
        svd = compressed_table("svd", unit["terminal"], svd_rank)
        hosvd = compressed_table(unit["method"], unit["terminal"], rank)
        return {
            "ratios": [svd.compression_ratio, hosvd.compression_ratio],
            "errors": [svd.relative_error, hosvd.relative_error],
            "exact": match(hosvd, svd),
        }

    def analyse(self, results: Results) -> StudyReport:
        """Report all columns, and the paper's claims."""
        rows: list[ResultRow] = []
        claims: list[Claim] = []
        panels: list[Panel] = []
        for unit, result in results:
            svd_rank, rank = unit["pair"]
            svd_ratio, ratio = result["ratios"]
            label = (
                f"{unit['terminal']}, {unit['method']} {rank} ({ratio:.3f}) - svd {svd_rank} "
                f"({svd_ratio:.3f})"
            )
            rows.append(ResultRow(label, exact=mean(result)))
        curves = group(results, "terminal", "method")
        for (terminal, method), points in curves.items():
            series = rate_series([point["ratios"][0] for point in points], points, "HOSVD")
            panels.append(
                Panel(series, "compression ratio of the SVD", "rate", f"{terminal}, {method}")
            )
        for terminal in TERMINALS:
            means = dict(zip(RATIOS, map(mean, curves[terminal, "hosvd"]), strict=True))
            deviations = {
                f"{ratio}": _deviations(means[ratio]) for ratio in RATIOS if 0 < ratio < 0.3
            }
            numbers = {
                "deviations": {"wins less losses in deviations": deviations},
                "draws of whole tables": means[1.0].draw,
                "whole tables": {"at 1.0": means[1.0]},
                "wins of empty tables": means[0.0].win,
                "empty tables": {"both move at random": means[0.0]},
            }
            claims += judge_claims(DATA["match"], numbers, f"{terminal}: ")
        ratios = [point["ratios"] for point in curves["equation", "hosvd2"]]
        numbers = {
            "differences": [ratio - svd_ratio for svd_ratio, ratio in ratios],
            "ratios": {f"SVD {svd_ratio:.3f}, HOSVD": ratio for svd_ratio, ratio in ratios},
        }
        claims += judge_claims(DATA["older version"], numbers)
        return StudyReport(rows, claims, {"svd-fig5": self.figure(panels)})


def _deviations(rates: OutcomeProbabilities) -> float:
    """Return wins minus losses in standard deviations of the paper's 1,000 games: two shares of one
    sample.
    """
    win, _, loss = rates
    return float((win - loss) / np.sqrt((win + loss - (win - loss) ** 2) / 1_000))


class Table1(PaperStudy):
    """The results of these columns are those of figure 5."""

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each column."""
        return [{"ratio": ratio, "pair": pair} for ratio, pair in zip(RATIOS, PAIRS, strict=True)]

    def measure(self, unit: Unit) -> dict[str, object]:
        """Return the stored numbers and the ratio of the ranks by all formulas."""
        ranks = dict(zip(METHODS, (*unit["pair"], unit["pair"][1]), strict=True))
        tables = {
            method: compressed_table(method, "equation", rank) for method, rank in ranks.items()
        }
        return {
            method: [table.stored_numbers, table.compression_ratio]
            for method, table in tables.items()
        }

    def analyse(self, results: Results) -> StudyReport:
        """Report the table with recomputed ratios."""
        rows = []
        for unit, result in results:
            svd_rank, rank = unit["pair"]
            ratios = {method: ratio for method, (_, ratio) in result.items()}
            agrees = all(
                abs(ratios[method] - unit["ratio"]) <= MAX_RATIO_ERROR for method in METHODS[:2]
            )
            rows.append(
                ResultRow(
                    f"svd {svd_rank}, hosvd {rank}", f"{unit['ratio']:g}", ratios, None, agrees
                )
            )
        by_rank = {unit["pair"][0]: result for unit, result in results}
        sizes = {
            rank: {method: by_rank[rank][method][0] for method in METHODS} for rank in (49, 61)
        }
        differences = {
            method: max(abs(ratios[method][1] - ratios["svd"][1]) for ratios in by_rank.values())
            for method in METHODS[1:]
        }
        elements = 64 * (3**4 + 3**5)
        numbers = {
            "elements": elements,
            "HOSVD of the newer version": sizes[49]["hosvd"],
            "HOSVD of the older version": sizes[61]["hosvd2"],
            "newer": {"with r = 49": sizes[49]},
            "older": {"with r = 61": sizes[61]},
            "apart by up to": differences["hosvd"],
            "by the older version's formula": differences["hosvd2"],
        }
        return StudyReport(rows, judge_claims(DATA["table"], numbers), ours="ratios")
