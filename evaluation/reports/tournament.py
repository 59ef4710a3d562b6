"""The page of a tournament: the best player, a cross table, and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from evaluation.matches.elo import likelihood_of_superiority
from evaluation.matches.match import Score
from evaluation.matches.tournament import reversed_score
from evaluation.reports.comparison_parts import (
    Data,
    better,
    count_in,
    counts_in,
    format_elo,
    format_rating,
    game_in,
    given_up,
    interval_in,
    likelihood,
    object_in,
    objects_in,
    optional,
    optional_section,
    rating_of,
    score_in,
    settings,
    spec_in,
    text_in,
    verdict,
    where_they_differ,
)
from evaluation.reports.html import Html, Shaded, element, reach, section, table
from evaluation.reports.plots import Reach, draw_intervals, figure_size
from evaluation.reports.run_parts import embed_figure, game_options, left_out
from evaluation.statistics import Interval

MOST_PLAYERS = 200
CROSSED = 20
"""Maximum number of players in the cross table, best first."""
DECIDING = (
    "game", "games_per_pairing", "seed", "openings", "openings_sha256", "anchor", "prior", "draws", "rated_by", "block",
    "made_by",
)  # fmt: skip


class Player(NamedTuple):
    """A participant."""

    name: str
    rating: Interval
    score: Interval
    games: int


def tournament_page(data: Data) -> tuple[str, list[Html]]:
    """Return the title and sections of the page.

    Raises:
        ValueError: the players or the game are missing.
    """
    game = game_in(data)
    players = [
        Player(
            text_in(one, "spec"), interval_in(one, "rating"), interval_in(one, "score", 0, 1), count_in(one, "games")
        )
        for one in objects_in(data, "players", MOST_PLAYERS)
    ]
    if len(players) < 2:
        raise ValueError(f"players are {len(players)}, and must be two or more")
    order = sorted(range(len(players)), key=lambda i: -players[i].rating.mean)
    return f"Tournament of {len(players)}, {game}", [
        optional_section("The answer", partial(_answer_section, data, players, order)),
        optional_section("Ratings", partial(_ratings, data, players, order)),
        optional_section("Everybody against everybody", partial(_cross, data, players, order)),
        optional_section("Neighbours", partial(_neighbours, data, players, order)),
        optional_section("Where the best two differ most", partial(_differ, data, players)),
        optional_section("The same again", partial(_reproduce_section, data)),
    ]


def _scores(data: Data, count: int) -> dict[tuple[int, int], Score]:
    """Return the score of each pairing."""
    found: dict[tuple[int, int], Score] = {}
    for one in objects_in(data, "pairings", MOST_PLAYERS**2):
        i, j = (int(counts_in(one, name)) for name in ("a", "b"))
        if i == j or max(i, j) >= count:
            raise ValueError(f"pairings have {i} against {j}, and must be of two different players of {count}")
        score = score_in(one)
        found[i, j], found[j, i] = score, reversed_score(score)
    if len(found) < count * (count - 1):
        raise ValueError("pairings are not of everybody against everybody")
    return found


def _answer_section(data: Data, players: Sequence[Player], order: Sequence[int]) -> Html:
    first, second = (players[i] for i in order[:2])
    told = f"rating {format_rating(first.rating)}"
    direct = _scores(data, len(players))[order[0], order[1]]
    between, likely = direct.rate("score"), likelihood_of_superiority(direct)
    if first.rating.low > max(players[i].rating.high for i in order[1:]):
        after = f"next is {second.name}, {format_rating(second.rating)}"
        sentence = f"{first.name} is the best of {len(players)}: {told}, above all other intervals; {after}"
    elif between.low > 0.5:
        sentence = f"{first.name} leads {len(players)}: {told}; {better(first.name, second.name, between, likely)}"
    else:
        alike = [players[i].name for i in order[1:] if players[i].rating.high >= first.rating.low]
        level = f"{(alike or [second.name])[0]}{f' and {len(alike) - 1} more' if len(alike) > 1 else ''}"
        sentence = f"Undecided who is best of {len(players)}: {first.name}, {told}, is not told apart from {level}"
    cycle = (
        element("p", f"In their own games {better(first.name, second.name, between, likely)}.", class_="lead")
        if between.low <= 0.5
        else None
    )
    anchor = optional(data, "anchor", text_in)
    zero = "0 is the mean of all" if anchor is None else f"0 is {anchor}"
    games = sum(one.games for one in players) // 2
    about = f"Ratings are in Elo with 95% intervals; {zero}. {games:,} games in all, in pairs with the seats swapped."
    pairings = objects_in(data, "pairings", MOST_PLAYERS**2)
    last = len(players) - 1
    faults = [given_up(one, *(players[count_in(one, name, last)].name for name in ("a", "b"))) for one in pairings]
    return element("section", verdict(f"{sentence}."), cycle, element("p", about), *faults)


def _ratings(data: Data, players: Sequence[Player], order: Sequence[int]) -> Html:
    shown = order[: 2 * CROSSED]
    rows = [Reach(f"{place + 1} {players[i].name}", players[i].rating) for place, i in enumerate(shown)]
    ends = "; ".join(f"{row.name} {format_rating(row.value)}" for row in rows)
    chart = embed_figure(draw_intervals(rows, "Elo"), "ratings", f"Ratings: {ends}.", figure_size(len(rows)))
    words = "Ratings, best first, with their 95% intervals. Whose intervals do not meet are told apart."
    low, high = min(players[i].rating.low for i in order), max(players[i].rating.high for i in order)
    lines = [
        (
            f"{place + 1} {players[i].name}",
            format_elo(players[i].rating.mean),
            f"{format_elo(players[i].rating.low)} to {format_elo(players[i].rating.high)}",
            reach(players[i].rating, low, high),
            f"{players[i].score.mean:.3f}",
            f"{players[i].games:,}",
        )
        for place, i in enumerate(order)
    ]
    return section(
        "Ratings",
        element("div", element("figure", chart, element("figcaption", words)), class_="curves"),
        table("Ratings, and scores over all games", ("player", "Elo", "95%", "", "score", "games"), lines),
    )


def _cross(data: Data, players: Sequence[Player], order: Sequence[int]) -> Html:
    scores, shown = _scores(data, len(players)), order[:CROSSED]
    rows = []
    for place, i in enumerate(shown):
        cells: list[object] = []
        for j in shown:
            if i == j:
                cells.append("")
                continue
            share = scores[i, j].rate("score")
            inside = element("span", f"{share.mean:.3f}", element("small", f"{share.low:.3f}-{share.high:.3f}"))
            cells.append(Shaded(inside, 2 * share.mean - 1))
        rows.append((f"{place + 1} {players[i].name}", *cells))
    head = ("of the row against", *(str(place + 1) for place in range(len(shown))))
    caption = "Scores, a draw counting half, with 95% intervals below them; blue is good for the row, orange bad"
    more = left_out(f"The best {CROSSED} of {len(order)} are shown.") if len(shown) < len(order) else None
    return section("Everybody against everybody", table(caption, head, rows), more)


def _neighbours(data: Data, players: Sequence[Player], order: Sequence[int]) -> Html:
    scores, rows = _scores(data, len(players)), []
    for upper, lower in pairwise(order):
        direct = scores[upper, lower]
        rows.append(
            (
                f"{players[upper].name} against {players[lower].name}",
                format_rating(rating_of(direct.rate("score"))),
                likelihood(likelihood_of_superiority(direct)),
                f"{direct.games:,}",
            )
        )
    return section(
        "Neighbours",
        table(
            "Those who stand next to each other, in their own games",
            ("the better rated against the next", "Elo (95%)", "likelihood of superiority", "games"),
            rows,
        ),
    )


def _differ(data: Data, players: Sequence[Player]) -> Html:
    title = "Where the best two differ most"
    if data.get("differences") is None:
        return where_they_differ(game_in(data), None, "", "", title)
    found = object_in(data, "differences")
    a, b = (players[count_in(found, name, len(players) - 1)].name for name in ("a", "b"))
    return where_they_differ(game_in(data), objects_in(found, "positions", 20), a, b, title)


def _reproduce_section(data: Data) -> Html:
    words = ["evaluate.py", "tournament"]
    words += [spec_in(one, "spec") for one in objects_in(data, "players", MOST_PLAYERS)]
    words += game_options(game_in(data))
    words += ["--games", str(count_in(data, "games_per_pairing")), "--seed", str(count_in(data, "seed", 2**63))]
    for name in ("openings", "anchor"):
        value = optional(data, name, spec_in)
        words += [] if value is None else [f"--{name}", value]
    return settings(data, words, DECIDING)
