"""Beyond the paper on compressed tables: five decompositions of four tables, and all groupings of the cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from baselines.compression import Method, decompose, make_grouping, split_errors
from baselines.tables import Softmax, Table, learned_values, source_values
from learners.q_learning import QLearningConfig
from learners.training import Trainer, make_initial_rng
from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study
from studies.svd import SOURCE, TERMINALS, WEIGHT, full_table
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
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
"""The paper's grouping, and the rank at which groupings are played."""
QUESTION = "Which decomposition plays best at equal stored numbers?"


def _numbers(point: CompressionQuality) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the size and error, and the strength."""
    kept = f"{point.compression_ratio:.2%}"
    size = {"rank": point.rank, "numbers": point.stored_numbers, "of the whole": kept, "error": point.relative_error}
    strength = {"against the whole": point.result, "exploitability": point.exploitability, "regret": point.regret}
    return size, strength


class Decompositions(Study):
    """Softmax play (w = 10) of compressed 3 x 3 tables: values of random play without and with skips, values of
    perfect play, and the Q values that q-learning learned by self-play. All results are exact.
    """

    title = "Five decompositions of four tables at equal stored numbers"
    source = f"beyond {SOURCE}"
    left_out = "all tables but that of random play"

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each table and method."""
        tables = list(TABLES)[: 1 if quick else None]
        return [{"table": table, "method": method} for table in tables for method in METHODS]

    def measure(self, unit: Unit) -> list[dict[str, Any]]:
        """Grade a method at the shares."""
        skip, source = TABLES[unit["table"]]
        game, learned = Game(skip_chance=skip), unit["table"] == LEARNED
        values = learned_values(game, _train_learner(game)) if learned else source_values(game, source)
        tables = list(decompose(unit["method"], values, make_grouping(game, unit["method"], of_moves=learned)))
        full = Softmax(Table(game, values), WEIGHT)
        largest = [max(rank for rank, table in enumerate(tables) if table.compression_ratio <= s) for s in SHARES]
        return [compression_quality(full, tables[rank])._asdict() for rank in largest]

    def analyse(self, results: Results) -> Report:
        """Report a table at equal numbers, and the best method of each."""
        rows, claims, panels = [], [], []
        for table in dict.fromkeys(unit["table"] for unit, _ in results):
            curves = {
                unit["method"]: [CompressionQuality(**point) for point in points]
                for unit, points in results
                if unit["table"] == table
            }
            for method, points in curves.items():
                for share, point in zip(SHARES, points, strict=True):
                    rows.append(Row(f"{table}, at most {share:.0%} kept, {method}", None, *_numbers(point)))
            best = {}
            for measure in ("relative_error", "exploitability"):
                best[measure] = [
                    min(METHODS, key=lambda method: float(getattr(curves[method][index], measure)))
                    for index in range(len(SHARES))
                ]
                series = [
                    Series(method, [point.compression_ratio for point in points], values, f"{'os^Dv'[index]}-", index)
                    for index, (method, points) in enumerate(curves.items())
                    for values in ([getattr(point, measure) for point in points],)
                ]
                panels.append(Panel(series, "share of the numbers", measure.replace("_", " "), table))
            same = sum(map(str.__eq__, *best.values()))
            words = f"{table}: the smallest error gives the least exploitable play"
            numbers = {"at equal numbers in": f"{same} of {len(SHARES)}", **best}
            claims.append(Claim(words, same == len(SHARES), numbers))
        figure = Figure(QUESTION, "A row for each table. All marks are exact.", panels)
        return Report(rows, claims, {"compression-methods": figure}, ours="kept")


def _train_learner(game: Game) -> Any:
    config = QLearningConfig(  # all relevant settings are given, whatever the defaults are
        step_size=1.0, step_size_power=0.7, epsilon=0.3, epsilon_decay=0.0, backup="negamax", symmetries="all"
    )
    learner = config.build(game, make_initial_rng(0))
    Trainer(learner, SELF, GAMES, batch=256).run()
    return learner


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
        full, names = Softmax(table, WEIGHT), [str(grouping) for grouping in groupings]
        # rounded, as symmetric groupings are equal up to rounding: the first of each kind
        order = np.argsort(errors[:, PLAYED].round(9), kind="stable").tolist()
        play = order if unit["play"] else [order[0], names.index(PAPERS), order[-1]]
        strengths = {
            names[index]: compression_quality(full, decompose("svd", values, groupings[index]).at(PLAYED))._asdict()
            for index in play
        }
        return {"names": names, "errors": errors.tolist(), "strengths": strengths}

    def analyse(self, results: Results) -> Report:
        """Report the best, the worst and the paper's."""
        rows, claims, panels = [], [], []
        for unit, result in results:
            names, errors, terminal = result["names"], np.array(result["errors"]), unit["terminal"]
            papers = errors[names.index(PAPERS)]
            for rank in RANKS:
                best, worst = (names[int(end)] for end in (errors[:, rank].argmin(), errors[:, rank].argmax()))
                better = int((errors[:, rank] < papers[rank] - 1e-9).sum())
                ours = {PAPERS: papers[rank], "better": f"{better} of {len(names)}"}
                ends = {f"best {best}": errors[:, rank].min(), f"worst {worst}": errors[:, rank].max()}
                rows.append(Row(f"{terminal}, rank {rank}", None, ours, ends))
            strengths = {name: CompressionQuality(**quality) for name, quality in result["strengths"].items()}
            by_play = sorted(strengths, key=lambda name: round(strengths[name].exploitability, 6))
            first, *_ = strengths  # that of the smallest error
            for name in dict.fromkeys([by_play[0], first, PAPERS]):
                size, strength = _numbers(strengths[name])
                rows.append(Row(f"{terminal}, rank {PLAYED}, played: {name}", None, size["error"], strength))
            words = f"{terminal}: the grouping with the shortest cut, (1,2,3,4) and (5,6,7,8,9), is the best"
            claims.append(Claim(words, bool(papers[PLAYED] < errors[:, PLAYED].min() + 1e-9), {"the best is": first}))
            ranks = range(errors.shape[1])
            series = [
                Series("the best split at each rank", ranks, errors.min(axis=0), "-", "#B0B0B0"),
                Series("the worst split", ranks, errors.max(axis=0), ":", "#B0B0B0"),
                Series(f"the best at rank {PLAYED}", ranks, errors[names.index(first)], "-"),
                Series(f"{PAPERS}, the paper's", ranks, papers, "--", 1),
            ]
            panels.append(Panel(series, "rank", "relative error", terminal))
        question = "Is the published split of the nine cells into 1-4 and 5-9 the best?"
        symbols = "Left: a won board has the value 1 or -1 (equation); right: 0, as published."
        return Report(rows, claims, {"compression-groupings": Figure(question, symbols, panels)}, ours="error")
