"""The page of a policy's place on a ladder: its rating, its cost, and its worst positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ttt_eval.cost import COST_KEYS
from ttt_eval.reports.boards import first_move_map
from ttt_eval.reports.curves import embed_figure, phase_row
from ttt_eval.reports.formats import (
    duration,
    format_elo,
    format_ends,
    format_interval,
    join_names,
    mebibytes,
)
from ttt_eval.reports.html import Content, macro, section
from ttt_eval.reports.plots import CostPoint, IntervalRow, draw_intervals, draw_pareto_front, figure_size
from ttt_eval.reports.result_reader import MAX_SEED, Record, position_figure, reproduction
from ttt_eval.statistics import Interval

MAX_RUNGS = 100
MAX_PHASES = 20
RESULT_SETTINGS = ("policy", "identity", "game", "settings", "ladder", "provenance", "processor")
_positive = partial(Record.number, low=0)
_format_rating = partial(format_interval, write=format_elo)


class Rung(NamedTuple):
    """A policy of known rating."""

    name: str
    rating: Interval
    seconds: float | None
    """CPU seconds per move, on the machine of the placement; None if not measured"""
    front: bool
    placed: bool = False
    """whether it is the placed policy"""


def ladder_page(data: Record) -> Content:
    """Return the content of the page.

    Raises:
        ValueError: the policy, the game or the rating is missing.
    """
    name, game, rating = data.text("policy"), data.game(), data.interval("rating")
    rungs = [
        Rung(
            one.text("spec"),
            Record(rating={**one, "mean": one.number("rating")}).interval("rating"),
            one.optional("cpu_s_per_move_here", _positive),
            one.get("front") is True,
        )
        for one in data.records("rungs", MAX_RUNGS)
    ]
    rungs.sort(key=lambda rung: rung.rating.mean)
    return {
        "title": f"{name} on a ladder, {game}",
        "answer": section(partial(_answer, data, name, rating, rungs)),
        "ladder": section(partial(_ladder, data, name, rating, rungs)),
        "results": section(partial(_results, data)),
        "first_move": section(lambda: {"map": first_move_map(game, data.probabilities("first_move", game))}),
        "worst": section(partial(_worst, data)),
        "cost": section(partial(_cost, data)),
        "again": section(partial(_reproduction, data)),
    }


def _describe_place(rating: Interval, rungs: Sequence[Rung]) -> str:
    """Return the position between rungs, as far as the intervals decide it."""
    below = [rung.name for rung in rungs if rung.rating.high < rating.low]
    above = [rung.name for rung in rungs if rung.rating.low > rating.high]
    level = [rung.name for rung in rungs if rung.rating.low <= rating.high and rating.low <= rung.rating.high]
    if rungs and len(rungs) in (len(below), len(above)):
        return "above every rung" if below else "below every rung"
    if below and above and not level:
        return f"between {below[-1]} and {above[0]}"
    parts = [f"above {below[-1]}"] if below else []
    parts += [f"not distinguished from {join_names(level)}"] if level else []
    parts += [f"below {above[0]}"] if above else []
    return ", ".join(parts)


def _answer(data: Record, name: str, rating: Interval, rungs: Sequence[Rung]) -> Content:
    ladder = data.record("ladder")
    seconds = _seconds(data)
    parts = [f"{name} is rated {_format_rating(rating)}: {_describe_place(rating, rungs)}"]
    shown = [("rating", format_elo(rating.mean), "exact" if _is_exact(rating) else f"95%: {_format_ends(rating)}")]
    measures = data.measure_tiles()
    parts += [f"{label} {value}" for label, value, _ in measures[:1]]
    shown += measures
    if seconds is not None:
        memory = mebibytes(data.record("cost").number("own_bytes"))
        parts.append(f"{duration(seconds)} a move")
        shown.append(("a move takes", duration(seconds), f"of CPU, one at a time; {memory}"))
    if isinstance(data.get("front"), bool):
        parts.append("on the Pareto front" if data["front"] else "not on the Pareto front")
    exact = data.get("exact") is True
    return {
        "verdict": "; ".join(parts),
        "tiles": shown,
        "name": ladder.text("name"),
        "anchor": ladder.text("anchor"),
        "games": "" if exact else f"{data.record('settings').count('games'):,}",
        "misfit": data.optional("misfit", partial(Record.number, low=0, high=1)),
    }


def _is_exact(rating: Interval) -> bool:
    return rating.low == rating.high


def _format_ends(rating: Interval) -> str:
    return format_ends(rating, format_elo)


def _seconds(data: Record) -> float | None:
    cost = data.optional("cost", Record.record)
    return None if cost is None else cost.number("cpu_s_per_move", 0)


def _ladder(data: Record, name: str, rating: Interval, rungs: Sequence[Rung]) -> Content:
    """Return all policies by strength, by cost, and in a table."""
    seconds = _seconds(data)
    policies = [*rungs, Rung(name, rating, seconds, data.get("front") is True, True)]
    policies.sort(key=lambda one: -one.rating.mean)
    rows = [IntervalRow(one.name, one.rating, one.placed) for one in policies]
    size = figure_size(len(rows))
    ends = "; ".join(f"{row.name} {_format_rating(row.value)}" for row in rows)
    chart = embed_figure(draw_intervals(rows, "Elo"), "ladder", f"The ladder from above: {ends}.", size)
    points = [
        CostPoint(one.name, 1e6 * one.seconds, one.rating, one.front, one.placed) for one in policies if one.seconds
    ]
    on_front = ", ".join(one.name for one in policies if one.front and one.seconds) or "none"
    label = f"Rating by CPU of a move. On the front: {on_front}."
    front = embed_figure(draw_pareto_front(points, "CPU of a move, us", "Elo"), "front", label, size) if seconds else ""
    lines = []
    for place, one in enumerate(policies, 1):
        title = f"{place} {one.name}"
        cells = [format_elo(one.rating.mean), "exact" if _is_exact(one.rating) else _format_ends(one.rating)]
        if points:
            cells += [duration(one.seconds) if one.seconds else "", "yes" if one.front else ""]
        lines.append((macro("emphasis", title) if one.placed else title, *cells))
    return {"chart": chart, "front": front, "priced": bool(points), "rows": lines}


def _results(data: Record) -> Content:
    rungs, rows = data.records("rungs", MAX_RUNGS), []
    for one in data.records("results", MAX_RUNGS):
        name = rungs[one.count("rung", len(rungs) - 1)].text("spec")
        shares = [one.number(part, 0, 1 + 1e-9) for part in ("win", "draw", "loss")]
        rows.append(
            (
                name,
                *map(_three_digits, shares),
                format_interval(one.interval("score", 0, 1 + 1e-9), _three_digits),
                _three_digits(one.number("expected", 0, 1)),
                f"{one.count('games'):,}" if not one.get("exact") else "exact",
                macro("bar", shares),
            )
        )
    return {"rows": rows[::-1]}


def _three_digits(value: float) -> str:
    return f"{value:.3f}"


def _worst(data: Record) -> Content:
    game, found = data.game(), data.records("worst_positions", 20)
    if not found:
        perfect = data.optional("regret", Record.number) == 0 and data.get("pure") is True
        words = "It loses nothing." if perfect else "Left out: it is computed for pure policies on small boards."
        return {"missing": words}
    figures = [
        position_figure(game, one, "played", one.number("loss", 0, 2 + 1e-9), one.number("likely", 0, 1 + 1e-9))
        for one in found
    ]
    return {"figures": figures}


def _cost(data: Record) -> Content:
    cost, training = (data.optional(name, Record.record) for name in ("cost", "training"))
    play, phases, learned, where = [], [], "", ""
    if cost is not None:
        play = [
            ("a move, CPU", duration(cost.number("cpu_s_per_move", 0))),
            ("set-up and first move, CPU", f"{cost.number('setup_cpu_s', 0):,.2f} s"),
            ("memory of its own", mebibytes(cost.number("own_bytes"))),
            ("peak memory of the process", mebibytes(cost.number("peak_rss_bytes", 0))),
        ]
        where = f" on {data.text('processor')}" if isinstance(data.get("processor"), str) else ""
    if training is not None:
        costs = training.record("cost")
        for name in list(costs)[:MAX_PHASES]:
            one = costs.record(name)
            phases.append(phase_row(name[:80], {column: one.number(column, 0) for column in COST_KEYS}))
        learned = f"{training.text('learner')}, {training.count('games'):,} games"
    return {"play": play, "where": where, "phases": phases, "learned": learned}


def _reproduction(data: Record) -> Content:
    ladder, settings = data.record("ladder"), data.record("settings")
    words = ["evaluate.py", "ladder", data.spec("policy"), "--ladder", ladder.spec("source")]
    games = settings.count("games")
    words += ["--games", str(games)] if games else []
    words += ["--seed", str(settings.count("seed", MAX_SEED))]
    return reproduction(data, words, RESULT_SETTINGS)
