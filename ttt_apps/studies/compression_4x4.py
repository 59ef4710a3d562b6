"""Beyond the paper: tables of 4 x 4, 43 million entries, compressed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baselines.compression import Method, decomposition
from baselines.tables import Softmax, Table, source_values
from ttt_apps.studies.compressed import SOURCE, WEIGHT
from ttt_envs.game.game import Game
from ttt_eval.cost import Usage
from ttt_eval.exact.compression_quality import CompressionQuality, compression_quality
from ttt_eval.result_store import Unit
from ttt_eval.study import Claim, Report, Row, Study, rates

GAME = Game(4, 4, 4)
MAX_LOSS = 0.1
"""Maximum difference of losses and wins, per game, of a table without significant degradation."""
RANKS: dict[Method, tuple[int, ...]] = {"svd": (8, 32, 128), "hosvd": (9, 27), "tt": (32, 128)}
QUICK: dict[Method, tuple[int, ...]] = {"hosvd": (9,)}


def units(quick: bool) -> list[Unit]:
    """Return a unit for each method."""
    return [
        {"method": method, "ranks": list(ranks), "play": not quick}
        for method, ranks in (QUICK if quick else RANKS).items()
    ]


def measure(unit: Unit) -> dict[str, Any]:
    """Measure errors, strengths, and cost."""
    before = Usage.now()
    table = Table(GAME, source_values(GAME, "random"))
    parts = decomposition(GAME, unit["method"])
    after = Usage.now()
    full = Softmax(table, WEIGHT)
    points = []
    for rank in unit["ranks"]:
        one = parts.at(rank)
        if unit["play"]:
            points.append(compression_quality(full, one, made_again=True)._asdict())
        else:
            nothing = dict.fromkeys(("win", "draw", "loss", "exploitability", "regret"))
            kept = (rank, one.stored_numbers, one.compression_ratio, one.relative_error)
            points.append(dict(zip(CompressionQuality._fields, kept, strict=False)) | nothing)
    return {"points": points, "wall_s": after.wall_s - before.wall_s, "peak_rss_bytes": after.peak_rss_bytes}


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report by method and rank."""
    rows = []
    for unit, result in results:
        for point in result["points"]:
            played = (
                "not played"
                if point["win"] is None
                else f"{rates((point[name] for name in ('win', 'draw', 'loss')), 4)} against the whole; "
                f"exploitability {point['exploitability']:.4f}, regret {point['regret']:.4f}"
            )
            numbers = f"{point['stored_numbers']:,} numbers, {point['compression_ratio']:.2%}"
            ours = f"{numbers}; error {point['relative_error']:.4f}"
            rows.append(Row(f"{unit['method']}, rank {point['rank']}", "", ours, played))
    smallest = [
        (unit["method"], point)
        for unit, result in results
        for point in result["points"]
        if point["loss"] is not None and point["loss"] - point["win"] < MAX_LOSS
    ]
    claims = []
    if smallest:
        method, point = min(smallest, key=lambda item: item[1]["stored_numbers"])
        claims.append(
            Claim(
                "the evaluation function can be reduced by 70% without significantly degrading the performance",
                point["compression_ratio"] <= 0.3,
                f"on 4 x 4: {method} of rank {point['rank']} keeps {point['compression_ratio']:.2%} of the "
                f"numbers, and loses {point['loss'] - point['win']:.4f} more of its games to the whole table than it "
                f"wins; read as: less than {MAX_LOSS}",
            )
        )
    return Report(rows, claims, {}, ours="kept", data=[{**unit, **result} for unit, result in results])


STUDY = Study(
    title="Tables of 4 x 4, four to win",
    source=f"beyond {SOURCE}",
    about="Values of random play, 43,046,721 entries; softmax play (w = 10); exact results against the whole table.",
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="all but one method and rank, and all play",
    alone=True,
)
