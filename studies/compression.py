"""Beyond the paper on compressed tables: five decompositions of four tables."""

from __future__ import annotations

from typing import Any

from baselines.compression import Method, decompose, make_grouping
from baselines.tables import Softmax, Table, learned_values, source_values
from learners.q_learning import QLearningConfig
from learners.training import Trainer, make_initial_rng
from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study
from studies.svd import SOURCE, WEIGHT
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
QUESTION = "Which decomposition plays best at equal stored numbers?"


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
                    kept = f"{point.compression_ratio:.2%}"
                    size = {"numbers": point.stored_numbers, "of the whole": kept, "error": point.relative_error}
                    play = {"against the whole": point.result, "exploitability": point.exploitability}
                    rows.append(
                        Row(f"{table}, at most {share:.0%} kept, {method}, rank {point.rank}", None, size, play)
                    )
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
