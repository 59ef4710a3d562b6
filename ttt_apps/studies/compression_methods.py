"""Beyond the paper: playing strength of five decompositions of four tables, at equal stored numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from baselines.compression import Method, decompose, make_grouping
from baselines.tables import Softmax, Table, learned_values, source_values
from learners.q_learning import QLearningConfig
from learners.training import Trainer, make_initial_rng
from ttt_apps.studies.compressed import SOURCE, WEIGHT
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
from ttt_eval.exact.compression_quality import CompressionQuality, compression_quality
from ttt_eval.reports.plots import SERIES, draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.study import Caption, Claim, Report, Row, Study, rates

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


def units(quick: bool) -> list[Unit]:
    """Return a unit for each table and method."""
    return [
        {"table": table, "method": method, "dense": not quick}
        for table in TABLES
        for method in METHODS
        if not (quick and table == LEARNED)
    ]


def measure(unit: Unit) -> list[dict[str, Any]]:
    """Grade by rank: at the ranks of ``SHARES``, or denser."""
    skip, source = TABLES[unit["table"]]
    game = Game(skip_chance=skip)
    method, learned = unit["method"], unit["table"] == LEARNED
    values = learned_values(game, _train_learner(game)) if learned else source_values(game, source)
    parts = decompose(method, values, make_grouping(game, method, of_moves=learned))
    full = Softmax(Table(game, values), WEIGHT)
    compressed = list(parts)
    chosen = {_largest_rank(compressed, share) for share in SHARES}
    if unit["dense"]:
        chosen |= {rank for rank in range(len(compressed)) if rank % 3 == 0} | {len(compressed) - 1}
    return [compression_quality(full, compressed[rank])._asdict() for rank in sorted(chosen)]


def _train_learner(game: Game) -> Any:
    config = QLearningConfig(  # all relevant settings are given, whatever the defaults are
        step_size=1.0, step_size_power=0.7, epsilon=0.3, epsilon_decay=0.0, backup="negamax", symmetries="all"
    )
    learner = config.build(game, make_initial_rng(0))
    Trainer(learner, SELF, GAMES, batch=256).run()
    return learner


def _largest_rank(compressed: Sequence[Any], share: float) -> int:
    """Return the largest rank that stores no more than this share of the numbers."""
    return max(rank for rank, one in enumerate(compressed) if one.compression_ratio <= share)


def _largest_rank_within(curve: Sequence[CompressionQuality], share: float) -> CompressionQuality:
    """Return the largest measured rank that stores no more than this share of the numbers."""
    return max((one for one in curve if one.compression_ratio <= share), key=lambda one: one.rank)


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report a table at equal numbers, and the best method of each."""
    curves = {
        (unit["table"], unit["method"]): [CompressionQuality(**point) for point in points] for unit, points in results
    }
    rows, claims = [], []
    for table in dict.fromkeys(table for table, _ in curves):
        best_error, best_play = [], []
        for share in SHARES:
            at = {method: _largest_rank_within(curves[table, method], share) for method in METHODS}
            for method, one in at.items():
                ours = f"rank {one.rank}, {one.stored_numbers:,} numbers, error {one.relative_error:.4f}"
                strength = f"exploitability {one.exploitability:.4f}, regret {one.regret:.4f}"
                played = f"{rates(one.result)} against the whole; {strength}"
                rows.append(Row(f"{table}, at most {share:.0%} kept, {method}", "", ours, played))
            best_error.append(min(at, key=lambda method: at[method].relative_error))
            best_play.append(min(at, key=lambda method: at[method].exploitability))
        same = sum(a == b for a, b in zip(best_error, best_play, strict=True))
        claims.append(
            Claim(
                f"{table}: the smallest error gives the least exploitable play",
                same == len(SHARES),
                f"in {same} of {len(SHARES)} comparisons at equal numbers; smallest error "
                f"{', '.join(best_error)}; least exploitable {', '.join(best_play)}",
            )
        )
    data = [{**unit, "points": points} for unit, points in results]
    return Report(rows, claims, {"compression-methods": lambda figure: _draw(figure, curves)}, ours="kept", data=data)


def _draw(figure: Any, curves: dict[tuple[str, str], list[CompressionQuality]]) -> None:
    tables = list(dict.fromkeys(table for table, _ in curves))
    figure.set_size_inches(8.5, 5.5)
    grid = figure.subplots(2, len(tables), sharex=True, sharey="row", squeeze=False)
    for column, table in enumerate(tables):
        for index, method in enumerate(METHODS):
            points = [one for one in curves[table, method] if one.compression_ratio <= 1]
            numbers = [one.compression_ratio for one in points]
            drawn = {"color": SERIES[index], "marker": "os^Dv"[index], "ms": 3, "lw": 1, "label": method}
            grid[0, column].plot(numbers, [one.relative_error for one in points], **drawn)
            grid[1, column].plot(numbers, [one.exploitability for one in points], **drawn)
        grid[0, column].set_title(table, fontsize="small")
        grid[0, column].set(xlim=(0, 1.02), ylim=(0, 1.02))
        grid[1, column].set_ylim(0, 1.02)
    grid[0, 0].set_ylabel("relative error")
    grid[1, 0].set_ylabel("exploitability, exact")
    figure.supxlabel("numbers kept, share of the table's", fontsize="medium")
    draw_label_legend(figure, grid[0, 0], len(METHODS))


def _answer(report: Report) -> str:
    found = [re.search(r"in (\d+) of (\d+) .* least exploitable (.*)", claim.evidence) for claim in report.claims]
    same, comparisons = (sum(int(one[number]) for one in found if one) for number in (1, 2))
    best = {method for one in found if one for method in one[3].split(", ")}
    name = best.pop() if len(best) == 1 else "None of them"
    return (
        f"{name} in all {comparisons} comparisons. The smallest error gives the least exploitable play in {same} of "
        "them."
    )


STUDY = Study(
    title="Five decompositions of four tables at equal stored numbers",
    source=f"beyond {SOURCE}",
    about=(
        "Softmax play (w = 10) of compressed 3 x 3 tables: values of random play without and with skips, values of "
        "perfect play, and the Q values that q-learning learned by self-play. All results are exact."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="the learned table, and all ranks but those compared",
    captions={
        "compression-methods": Caption(
            "Which decomposition plays best at equal stored numbers?",
            _answer,
            "A column for each table. Each mark is a measured rank, all of them exact.",
        ),
    },
)
