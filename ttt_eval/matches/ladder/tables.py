"""Formatting of a ladder as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttt_eval.matches.ladder.files import Ladder
from ttt_eval.matches.ladder.plans import ANCHOR
from ttt_eval.matches.ladder.rate import pareto_front
from ttt_eval.metrics import LOSS_LABELS, LOSSES


def to_markdown(ladder: Ladder) -> str:
    """Format a ladder as a Markdown table."""
    fronts = pareto_front(
        [rung["rating"] for rung in ladder.rungs], [rung["cost"]["cpu_s_per_move"] for rung in ladder.rungs]
    )
    lines = [
        f"| rung | rating | 95% | {' | '.join(LOSS_LABELS)} | CPU, us a move | memory, MiB | front |",
        "|---" * (6 + len(LOSSES)) + "|",
    ]
    for rung, front in zip(ladder.rungs, fronts, strict=True):
        lines.append(f"| `{rung['spec']}` | {' | '.join(format_rung(ladder, rung))} | {'yes' if front else ''} |")
    return "\n".join(lines)


def format_rung(ladder: Ladder, rung: Mapping[str, Any]) -> list[str]:
    """Format rating, interval, losses, microseconds per move and MiB of a rung."""
    return [
        f"{rung['rating']:.0f}",
        format_rung_interval(ladder, rung),
        *("" if rung[key] is None else f"{rung[key]:.4f}" for key in LOSSES),
        f"{1e6 * rung['cost']['cpu_s_per_move']:,.3g}",
        f"{rung['cost']['own_bytes'] / 2**20:,.0f}",
    ]


def format_rung_interval(ladder: Ladder, rung: Mapping[str, Any]) -> str:
    """Format the interval of a rung's rating; that of the anchor is 0 by definition."""
    if ladder.exact:
        return "exact"
    return "0" if rung["spec"] == ANCHOR else f"{rung['low']:.0f} to {rung['high']:.0f}"
