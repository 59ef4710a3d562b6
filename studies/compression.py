"""Beyond the paper on compressed tables: five decompositions of four tables at equal stored
numbers.
"""

from __future__ import annotations

from baselines.compression import Method, decompose, make_grouping
from baselines.tables import Softmax, Table, learned_values, source_values
from learners.q_learning import QLearning, QLearningConfig
from learners.training import Trainer, make_initial_rng
from studies.frame import (
    Claim,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyReport,
    combine,
    group,
)
from studies.svd import WEIGHT
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
from ttt_eval.exact.strength import strength
from ttt_eval.store.result_store import Unit

METHODS: tuple[Method, ...] = ("svd", "hosvd", "hosvd2", "hooi", "tt")
LEARNED = "learned by q-learning"
TABLES: dict[str, tuple[Game, str]] = {
    "random play": (Game(), "random"),
    "random play, skip 0.25": (Game(skip_chance=0.25), "random"),
    "perfect play": (Game(), "optimal"),
    LEARNED: (Game(), ""),
}
"""Game and source of each table."""
GAMES = 200_000
"""Number of self-play games for the learned table."""
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
"""Shares of a table's numbers at which methods are compared: each at its largest rank within the
share.
"""
MEASURES = (("size", "error", "relative error"), ("play", "exploitability", "exploitability"))
"""Part, name and label of the measures that are drawn."""


class Decompositions(Study):
    """Softmax play (w = 10) of compressed tables on 3 x 3: values of random play without and with
    skips, values of perfect play, and the action values that q-learning learned by self-play, each
    compressed by five methods. All results are exact.
    """

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each table and method."""
        tables = list(TABLES)[: 1 if quick else None]
        return combine(table=tables, method=METHODS)

    def measure(self, unit: Unit) -> list[dict[str, object]]:
        """Measure a method at each share, at its largest rank."""
        game, source = TABLES[unit["table"]]
        is_learned = unit["table"] == LEARNED
        values = (
            learned_values(game, train_learner(game)) if is_learned else source_values(game, source)
        )
        decomposition = decompose(
            unit["method"], values, make_grouping(game, unit["method"], of_moves=is_learned)
        )
        tables = [decomposition.at(rank) for rank in range(decomposition.largest + 1)]
        whole_table = Softmax(Table(game, values), WEIGHT)
        points = []
        for share in SHARES:
            table = [table for table in tables if table.compression_ratio <= share][-1]
            exact = strength(game, Softmax(table, WEIGHT), (whole_table,))
            [result] = exact.results.values()
            size = {
                "rank": table.rank,
                "numbers": table.stored_numbers,
                "share": table.compression_ratio,
                "error": table.relative_error,
            }
            play = {"against the whole": list(result), **exact.measures}
            points.append({"size": size, "play": play})
        return points

    def analyse(self, results: Results) -> StudyReport:
        """Report all tables at equal numbers, and where the smallest error is the least exploitable
        play.
        """
        rows: list[ResultRow] = []
        claims: list[Claim] = []
        panels: list[Panel] = []
        for table, runs in group(results, "table").items():
            curves = dict(zip(METHODS, runs, strict=True))
            matches = 0
            for index, share in enumerate(SHARES):
                points = {method: curve[index] for method, curve in curves.items()}
                for method, point in points.items():
                    label = f"{table}, at most {share:.0%} kept, {method}"
                    rows.append(ResultRow(label, None, point["size"], point["play"]))
                best_methods = {
                    min(points, key=lambda method: points[method][part][name])
                    for part, name, _ in MEASURES
                }
                matches += len(best_methods) == 1
            words = f"{table}: the smallest error gives the least exploitable play"
            numbers = {"at equal numbers in": f"{matches} of {len(SHARES)}"}
            claims.append(Claim(words, matches == len(SHARES), numbers))
            for part, name, label in MEASURES:
                series = []
                for index, (method, points) in enumerate(curves.items()):
                    x = [point["size"]["share"] for point in points]
                    y = [point[part][name] for point in points]
                    series.append(Series(method, x, y, f"{'os^Dv'[index]}-", index))
                panels.append(Panel(series, "share of the numbers kept", label, table))
        return StudyReport(rows, claims, {"compression-methods": self.figure(panels)}, "kept")


def train_learner(game: Game) -> QLearning:
    """Train a table of moves by self-play."""
    config = QLearningConfig(  # all relevant settings are given, whatever the defaults are
        step_size=1.0,
        step_size_power=0.7,
        epsilon=0.3,
        epsilon_decay=0.0,
        backup="negamax",
        symmetries="all",
    )
    learner = config.build(game, make_initial_rng(0))
    Trainer(learner, SELF, GAMES, batch=256).run()
    return learner
