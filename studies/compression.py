"""Beyond the paper on compressed tables: five decompositions, all groupings of the cells, and tables of 4 x 4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baselines.compression import Method, decompose, decomposition, make_grouping, split_errors
from baselines.tables import Softmax, Table, learned_values, source_values
from learners.q_learning import QLearningConfig
from learners.training import Trainer, make_initial_rng
from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study
from studies.svd import SOURCE, TERMINALS, WEIGHT, full_table
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
from ttt_eval.cost import Usage
from ttt_eval.exact.compression_quality import CompressionQuality, compression_quality
from ttt_eval.result_store import Unit

METHODS: tuple[Method, ...] = ("svd", "hosvd", "hosvd2", "hooi", "tt")
LEARNED = "learned by q-learning"
TABLES: dict[str, tuple[float, str]] = {
    "random play": (0.0, "random"),
    "random play, skip 0.25": (0.25, "random"),
    "perfect play": (0.0, "optimal"),
    LEARNED: (0.0, ""),
}
"""Tables by name: skip chance, and source."""
GAMES = 200_000
"""Number of self-play games for the learned table of moves."""
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
"""Shares of the whole table's numbers at which methods are compared: each at its largest rank within the share."""
FIRST_GROUP_SIZE = 4
"""Number of cells in the first group of a grouping."""
RANKS = (3, 8, 12, 18, 26, 49)
PAPERS, PLAYED = "0123/45678", 18
"""The paper's grouping, and the rank at which all groupings are played."""
LARGE_GAME = Game(4, 4, 4)
LARGE_RANKS: dict[Method, tuple[int, ...]] = {"svd": (8, 32, 128), "hosvd": (9, 27), "tt": (32, 128)}
QUICK_RANKS: dict[Method, tuple[int, ...]] = {"hosvd": (9,)}
MAX_LOSS = 0.1
"""Maximum difference of losses and wins, per game, of a table without significant degradation."""


def _size(point: CompressionQuality) -> dict[str, Any]:
    numbers, kept = point.stored_numbers, f"{point.compression_ratio:.2%}"
    return {"rank": point.rank, "numbers": numbers, "of the whole": kept, "error": point.relative_error}


def _strength(point: CompressionQuality) -> dict[str, Any]:
    return {"against the whole": point.result, "exploitability": point.exploitability, "regret": point.regret}


class Decompositions(Study):
    """Softmax play (w = 10) of compressed 3 x 3 tables: values of random play without and with skips, values of
    perfect play, and the Q values that q-learning learned by self-play. All results are exact.
    """

    title = "Five decompositions of four tables at equal stored numbers"
    source = f"beyond {SOURCE}"
    left_out = "the learned table, and all ranks but those compared"

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each table and method."""
        tables = [table for table in TABLES if not (quick and table == LEARNED)]
        return [{"table": table, "method": method, "dense": not quick} for table in tables for method in METHODS]

    def measure(self, unit: Unit) -> list[dict[str, Any]]:
        """Grade by rank: at the ranks of ``SHARES``, or denser."""
        skip, source = TABLES[unit["table"]]
        game, learned = Game(skip_chance=skip), unit["table"] == LEARNED
        values = learned_values(game, _train_learner(game)) if learned else source_values(game, source)
        tables = list(decompose(unit["method"], values, make_grouping(game, unit["method"], of_moves=learned)))
        ranks = {max(rank for rank, table in enumerate(tables) if table.compression_ratio <= share) for share in SHARES}
        if unit["dense"]:
            ranks |= {*range(0, len(tables), 3), len(tables) - 1}
        full = Softmax(Table(game, values), WEIGHT)
        return [compression_quality(full, tables[rank])._asdict() for rank in sorted(ranks)]

    def analyse(self, results: Results) -> Report:
        """Report a table at equal numbers, and the best method of each."""
        curves = {
            (unit["table"], unit["method"]): [CompressionQuality(**point) for point in points]
            for unit, points in results
        }
        tables = list(dict.fromkeys(table for table, _ in curves))
        rows, claims, best, comparisons = [], [], set[str](), 0
        for table in tables:
            winners: dict[str, list[str]] = {"relative_error": [], "exploitability": []}
            for share in SHARES:
                at = {}
                for method in METHODS:
                    within = [point for point in curves[table, method] if point.compression_ratio <= share]
                    at[method] = point = max(within, key=lambda point: point.rank)
                    label = f"{table}, at most {share:.0%} kept, {method}"
                    rows.append(Row(label, None, _size(point), _strength(point)))
                for measure, names in winners.items():
                    names.append(min(at, key=lambda method: float(getattr(at[method], measure))))
            same = sum(map(str.__eq__, *winners.values()))
            comparisons += same
            best |= set(winners["exploitability"])
            words = f"{table}: the smallest error gives the least exploitable play"
            claims.append(
                Claim(words, same == len(SHARES), {"at equal numbers in": f"{same} of {len(SHARES)}", **winners})
            )
        panels = [
            Panel(_method_series(curves, table, measure), "share of the numbers", measure.replace("_", " "), table)
            for measure in ("relative_error", "exploitability")
            for table in tables
        ]
        answer = {
            "least exploitable": sorted(best),
            "the smallest error gives the least exploitable play in": f"{comparisons} of {len(SHARES) * len(tables)}",
        }
        question = "Which decomposition plays best at equal stored numbers?"
        symbols = "A column for each table. Each mark is a measured rank, all of them exact."
        figure = Figure(question, symbols, panels, answer, columns=len(tables))
        return Report(rows, claims, {"compression-methods": figure}, ours="kept")


def _train_learner(game: Game) -> Any:
    config = QLearningConfig(  # all relevant settings are given, whatever the defaults are
        step_size=1.0, step_size_power=0.7, epsilon=0.3, epsilon_decay=0.0, backup="negamax", symmetries="all"
    )
    learner = config.build(game, make_initial_rng(0))
    Trainer(learner, SELF, GAMES, batch=256).run()
    return learner


def _method_series(curves: dict[tuple[str, str], list[CompressionQuality]], table: str, measure: str) -> list[Series]:
    series = []
    for index, method in enumerate(METHODS):
        points = [point for point in curves[table, method] if point.compression_ratio <= 1]
        shares, values = ([getattr(point, name) for point in points] for name in ("compression_ratio", measure))
        series.append(Series(method, shares, values, f"{'os^Dv'[index]}-", index))
    return series


class Groupings(Study):
    """Errors follow from the singular values. At one rank all groupings play, with exact results (w = 10)."""

    title = "All 126 splits of nine cells into four and five"
    source = f"beyond {SOURCE}, section 2.2"
    left_out = "the play of all groupings but three"

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each convention."""
        return [{"terminal": terminal, "play": not quick} for terminal in TERMINALS]

    def measure(self, unit: Unit) -> dict[str, Any]:
        """Measure errors of all splits at all ranks, from singular values alone, and playing strength at one rank."""
        game = Game()
        table = full_table(game, unit["terminal"])
        values = table.entries.reshape(-1)
        groupings, errors = split_errors(values, game, FIRST_GROUP_SIZE)
        full = Softmax(table, WEIGHT)
        order = np.argsort(errors[:, PLAYED], kind="stable")
        names = [str(grouping) for grouping in groupings]
        play = range(len(groupings)) if unit["play"] else {int(order[0]), int(order[-1]), names.index(PAPERS)}
        strengths = {
            names[index]: compression_quality(full, decompose("svd", values, groupings[index]).at(PLAYED))._asdict()
            for index in play
        }
        return {"names": names, "errors": errors.tolist(), "strengths": strengths}

    def analyse(self, results: Results) -> Report:
        """Report the best, the worst and the paper's."""
        rows, claims, panels, answer = [], [], [], {}
        for unit, result in results:
            names, errors, terminal = result["names"], np.array(result["errors"]), unit["terminal"]
            papers = names.index(PAPERS)
            for rank in RANKS:
                at = errors[:, rank]
                ours = {PAPERS: at[papers], "better": f"{(at < at[papers] - 1e-9).sum()} of {len(names)}"}
                ends = {f"best {_first_best(names, at)}": at.min(), f"worst {_first_best(names, -at)}": at.max()}
                rows.append(Row(f"{terminal}, rank {rank}", None, ours, ends))
            strengths = {name: CompressionQuality(**quality) for name, quality in result["strengths"].items()}
            # symmetric groupings are equal up to rounding: the first of each
            kinds: dict[tuple[float, float], str] = {}
            for name, quality in sorted(strengths.items()):
                kinds.setdefault((round(quality.exploitability, 6), round(quality.relative_error, 6)), name)
            for name in dict.fromkeys([*(name for _, name in sorted(kinds.items())[:5]), PAPERS]):
                quality = strengths[name]
                label = f"{terminal}, rank {PLAYED}, played: {name}"
                rows.append(Row(label, None, quality.relative_error, _strength(quality)))
            best = _first_best(names, errors[:, PLAYED])
            numbers = {
                name: {"error": errors[names.index(name), PLAYED], "exploitability": strengths[name].exploitability}
                for name in (best, PAPERS)
            }
            words = f"{terminal}: the grouping with the shortest cut, (1,2,3,4) and (5,6,7,8,9), is the best"
            claims.append(Claim(words, best == PAPERS, numbers))
            answer[f"the best at rank {PLAYED}, {terminal}"] = best
            series = [
                Series("the best split at each rank", range(errors.shape[1]), errors.min(axis=0), "-", "#B0B0B0"),
                Series("the worst split", range(errors.shape[1]), errors.max(axis=0), ":", "#B0B0B0"),
                Series(f"the best at rank {PLAYED}", range(errors.shape[1]), errors[names.index(best)], "-"),
                Series(f"{PAPERS}, the paper's", range(errors.shape[1]), errors[papers], "--", 1),
            ]
            panels.append(Panel(series, "rank", "relative error", terminal))
        question = "Is the published split of the nine cells into 1-4 and 5-9 the best?"
        symbols = "Left: a won board has the value 1 or -1 (equation); right: 0, as published."
        figure = Figure(question, symbols, panels, answer)
        return Report(rows, claims, {"compression-groupings": figure}, ours="error")


def _first_best(names: Sequence[str], errors: Float64Array) -> str:
    """Return the first of those with the smallest error, ignoring rounding between symmetric ones."""
    return names[int(np.flatnonzero(errors < errors.min() + 1e-9)[0])]


class LargeTables(Study):
    """Values of random play, 43,046,721 entries; softmax play (w = 10); exact results against the whole table."""

    title = "Tables of 4 x 4, four to win"
    source = f"beyond {SOURCE}"
    left_out = "all but one method and rank, and all play"
    alone = True

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each method."""
        ranks = QUICK_RANKS if quick else LARGE_RANKS
        return [{"method": method, "ranks": list(ranks[method]), "play": not quick} for method in ranks]

    def measure(self, unit: Unit) -> dict[str, Any]:
        """Measure errors, strengths, and cost."""
        before = Usage.now()
        table = Table(LARGE_GAME, source_values(LARGE_GAME, "random"))
        parts = decomposition(LARGE_GAME, unit["method"])
        after = Usage.now()
        full, points = Softmax(table, WEIGHT), []
        for compressed in map(parts.at, unit["ranks"]):
            if unit["play"]:
                points.append(compression_quality(full, compressed, made_again=True)._asdict())
            else:  # the size alone
                points.append({name: getattr(compressed, name, None) for name in CompressionQuality._fields})
        return {"points": points, "wall_s": after.wall_s - before.wall_s, "peak_rss_bytes": after.peak_rss_bytes}

    def analyse(self, results: Results) -> Report:
        """Report by method and rank, and the claim for the smallest table that plays well."""
        rows, good = [], []
        for unit, result in results:
            for point in (CompressionQuality(**values) for values in result["points"]):
                played = point.win is not None
                label = f"{unit['method']}, rank {point.rank}"
                rows.append(Row(label, None, _size(point), _strength(point) if played else "not played"))
                if played and point.loss - point.win < MAX_LOSS:
                    good.append((point.stored_numbers, unit["method"], point))
        if not good:
            return Report(rows, ours="kept")
        _, method, point = min(good)
        numbers = {
            f"on 4 x 4, {method} of": _size(point),
            "losses less wins against the whole table": point.loss - point.win,
            "read as: less than": MAX_LOSS,
        }
        words = "the evaluation function can be reduced by 70% without significantly degrading the performance"
        return Report(rows, [Claim(words, point.compression_ratio <= 0.3, numbers)], ours="kept")
