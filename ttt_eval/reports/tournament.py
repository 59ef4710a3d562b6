"""The page of a tournament: the best player, a cross table, and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from ttt_eval.matches.elo import likelihood_of_superiority
from ttt_eval.matches.score import Score
from ttt_eval.reports.curves import embed_figure
from ttt_eval.reports.formats import (
    describe_better,
    elo_interval,
    format_elo_difference,
    format_ends,
    format_interval,
    game_options,
    likelihood,
)
from ttt_eval.reports.html import Content, Shaded, interval_bar, macro, section
from ttt_eval.reports.plots import IntervalRow, draw_intervals, figure_size
from ttt_eval.reports.result_reader import MAX_SEED, Record, differences, reproduction
from ttt_eval.statistics import Interval

MAX_PLAYERS = 200
MAX_CROSSED = 20
"""Maximum number of players in the cross table, best first."""
RESULT_SETTINGS = (
    "game", "games_per_pairing", "seed", "openings", "openings_sha256", "luck_correction", "anchor", "prior", "draws",
    "rated_by", "block", "provenance",
)  # fmt: skip
_format_rating = partial(format_interval, write=format_elo_difference)


class Player(NamedTuple):
    """A participant."""

    name: str
    rating: Interval
    score: Interval
    games: int


def tournament_page(data: Record) -> Content:
    """Return the content of the page.

    Raises:
        ValueError: the players or the game are missing.
    """
    game = data.game()
    players = [
        Player(one.text("spec"), one.interval("rating"), one.interval("score", 0, 1), one.count("games"))
        for one in data.records("players", MAX_PLAYERS)
    ]
    if len(players) < 2:
        raise ValueError(f"players are {len(players)}, and must be two or more")
    order = sorted(range(len(players)), key=lambda i: -players[i].rating.mean)
    return {
        "title": f"Tournament of {len(players)}, {game}",
        "answer": section(partial(_answer, data, players, order)),
        "ratings": section(partial(_ratings, players, order)),
        "cross": section(partial(_cross, data, players, order)),
        "neighbours": section(partial(_neighbours, data, players, order)),
        "differences": section(partial(_differences, data, players)),
        "again": section(partial(_reproduction, data)),
    }


def _scores(data: Record, count: int) -> dict[tuple[int, int], Score]:
    """Return the score of each pairing."""
    found: dict[tuple[int, int], Score] = {}
    for one in data.records("pairings", MAX_PLAYERS**2):
        i, j = (int(one.counts(name)) for name in ("a", "b"))
        if i == j or max(i, j) >= count:
            raise ValueError(f"pairings have {i} against {j}, and must be of two different players of {count}")
        score = one.score()
        found[i, j], found[j, i] = score, score.reversed()
    if len(found) < count * (count - 1):
        raise ValueError("pairings must include every pair of players")
    return found


def _answer(data: Record, players: Sequence[Player], order: Sequence[int]) -> Content:
    first, second = (players[i] for i in order[:2])
    rating = f"rating {_format_rating(first.rating)}"
    direct = _scores(data, len(players))[order[0], order[1]]
    score = direct.rate("score")
    direct_verdict = describe_better(first.name, second.name, score, likelihood_of_superiority(direct))
    if first.rating.low > max(players[i].rating.high for i in order[1:]):
        after = f"next is {second.name}, {_format_rating(second.rating)}"
        verdict = f"{first.name} is the best of {len(players)}: {rating}, above all other intervals; {after}"
    elif score.low > 0.5:
        verdict = f"{first.name} leads {len(players)}: {rating}; {direct_verdict}"
    else:
        alike = [players[i].name for i in order[1:] if players[i].rating.high >= first.rating.low]
        level = f"{(alike or [second.name])[0]}{f' and {len(alike) - 1} more' if len(alike) > 1 else ''}"
        verdict = f"Undecided among {len(players)}: {first.name}, {rating}, is not distinguished from {level}"
    anchor, last = data.optional("anchor", Record.text), len(players) - 1
    pairings = data.records("pairings", MAX_PLAYERS**2)
    forfeits = [one.forfeits(*(players[one.count(name, last)].name for name in ("a", "b"))) for one in pairings]
    return {
        "verdict": verdict,
        "direct": direct_verdict if score.low <= 0.5 else "",
        "anchor": anchor or "the mean of all",
        "games": f"{sum(one.games for one in players) // 2:,}",
        "forfeits": list(filter(None, forfeits)),
    }


def _ratings(players: Sequence[Player], order: Sequence[int]) -> Content:
    ranked = [(f"{place} {players[i].name}", players[i]) for place, i in enumerate(order, 1)]
    shown = [IntervalRow(name, player.rating) for name, player in ranked[: 2 * MAX_CROSSED]]
    ends = "; ".join(f"{row.name} {_format_rating(row.value)}" for row in shown)
    chart = embed_figure(draw_intervals(shown, "Elo"), "ratings", f"Ratings: {ends}.", figure_size(len(shown)))
    low, high = min(one.rating.low for one in players), max(one.rating.high for one in players)
    rows = [
        (
            name,
            format_elo_difference(player.rating.mean),
            format_ends(player.rating, format_elo_difference),
            interval_bar(player.rating, low, high),
            f"{player.score.mean:.3f}",
            f"{player.games:,}",
        )
        for name, player in ranked
    ]
    return {"chart": chart, "rows": rows}


def _cross(data: Record, players: Sequence[Player], order: Sequence[int]) -> Content:
    scores, shown = _scores(data, len(players)), order[:MAX_CROSSED]
    rows = []
    for place, i in enumerate(shown, 1):
        cells: list[object] = [f"{place} {players[i].name}"]
        for j in shown:
            if i == j:
                cells.append("")
                continue
            score = scores[i, j].rate("score")
            text = macro("with_ends", f"{score.mean:.3f}", f"{score.low:.3f}-{score.high:.3f}")
            cells.append(Shaded(text, 2 * score.mean - 1))
        rows.append(cells)
    return {"rows": rows, "places": [str(place + 1) for place in range(len(shown))], "count": len(order)}


def _neighbours(data: Record, players: Sequence[Player], order: Sequence[int]) -> Content:
    scores = _scores(data, len(players))
    rows = [
        (
            f"{players[upper].name} against {players[lower].name}",
            _format_rating(elo_interval(direct.rate("score"))),
            likelihood(likelihood_of_superiority(direct)),
            f"{direct.games:,}",
        )
        for upper, lower in pairwise(order)
        for direct in [scores[upper, lower]]
    ]
    return {"rows": rows}


def _differences(data: Record, players: Sequence[Player]) -> Content:
    if data.get("differences") is None:
        return differences(data.game(), None, "", "")
    found = data.record("differences")
    a, b = (players[found.count(name, len(players) - 1)].name for name in ("a", "b"))
    return differences(data.game(), found.records("positions", 20), a, b)


def _reproduction(data: Record) -> Content:
    words = ["evaluate.py", "tournament"]
    words += [one.spec("spec") for one in data.records("players", MAX_PLAYERS)]
    words += game_options(data.game())
    words += ["--games", str(data.count("games_per_pairing")), "--seed", str(data.count("seed", MAX_SEED))]
    for name in ("openings", "anchor"):
        value = data.optional(name, Record.spec)
        words += [] if value is None else [f"--{name}", value]
    words += data.correction_options()
    return reproduction(data, words, RESULT_SETTINGS)
