"""The page of a policy's place on a ladder: its rating, its cost, and its worst positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from evaluation.cost import NAMES
from evaluation.reports.comparison_parts import (
    Data,
    chances_in,
    count_in,
    format_elo,
    format_rating,
    game_in,
    in_brackets,
    interval_in,
    join_names,
    microseconds,
    number_in,
    object_in,
    objects_in,
    optional,
    optional_section,
    position_figure,
    settings,
    spec_in,
    text_in,
    verdict,
)
from evaluation.reports.html import Html, element, format_probability, has_room, heat_map, number, section, table, tiles
from evaluation.reports.plots import CostPoint, Reach, draw_intervals, draw_pareto_front, figure_size
from evaluation.reports.run_parts import boards_of, embed_figure, key, left_out, results_bar
from evaluation.statistics import Interval

MOST_RUNGS = 100
DECIDING = ("policy", "identity", "game", "settings", "ladder", "made_by", "processor")


class Rung(NamedTuple):
    """A policy of known rating."""

    name: str
    rating: Interval
    seconds: float | None
    """CPU seconds per move, on the machine of the placement; None if not measured"""
    front: bool
    placed: bool = False
    """whether it is the placed policy"""


def ladder_page(data: Data) -> tuple[str, list[Html]]:
    """Return the title and sections of the page.

    Raises:
        ValueError: the policy, the game or the rating is missing.
    """
    name, game, rating = text_in(data, "policy"), game_in(data), interval_in(data, "rating")
    rungs = [
        Rung(
            text_in(one, "spec"),
            _rating(one),
            optional(one, "cpu_s_per_move_here", partial(number_in, low=0)),
            one.get("front") is True,
        )
        for one in objects_in(data, "rungs", MOST_RUNGS)
    ]
    rungs.sort(key=lambda rung: rung.rating.mean)
    return f"{name} on a ladder, {game}", [
        optional_section("The answer", partial(_answer_section, data, name, rating, rungs)),
        optional_section("The ladder", partial(_ladder, data, name, rating, rungs)),
        optional_section("Against each rung", partial(_results, data)),
        optional_section("The first move", partial(_first_move, data)),
        optional_section("Where it loses most", partial(_worst_section, data)),
        optional_section("What it cost", partial(_cost_section, data)),
        optional_section("The same again", partial(_reproduce_section, data)),
    ]


def _rating(one: Data) -> Interval:
    mean = number_in(one, "rating")
    return interval_in({"rating": {"mean": mean, "low": one.get("low"), "high": one.get("high")}}, "rating")


def _describe_neighbours(rating: Interval, rungs: Sequence[Rung]) -> str:
    """Return the position between rungs, as far as the intervals decide it."""
    below = [rung for rung in rungs if rung.rating.high < rating.low]
    above = [rung for rung in rungs if rung.rating.low > rating.high]
    level = [rung.name for rung in rungs if rung not in below and rung not in above]
    told = []
    if below and above and not level:
        told.append(f"between {below[-1].name} and {above[0].name}")
    else:
        told += [f"above {below[-1].name}"] if below else []
        told += [f"not told apart from {join_names(level)}"] if level else []
        told += [f"below {above[0].name}"] if above else []
    ends = [] if not rungs else ["above every rung"] if len(below) == len(rungs) else []
    ends += ["below every rung"] if rungs and len(above) == len(rungs) else []
    return ", ".join(ends or told)


def _answer_section(data: Data, name: str, rating: Interval, rungs: Sequence[Rung]) -> Html:
    where = object_in(data, "ladder")
    exploited, lost = (
        optional(data, key, partial(number_in, low=-1e-6, high=2)) for key in ("exploitability", "regret")
    )
    seconds = _seconds(data)
    fast = None if seconds is None else f"{microseconds(seconds)} a move"
    parts = [
        f"{name} is rated {format_rating(rating, '')}: {_describe_neighbours(rating, rungs)}",
        *([] if exploited is None else [f"exploitability {number(exploited)}"]),
        *([] if fast is None else [fast]),
        *(["on the Pareto front"] if data.get("front") is True else []),
        *(["not on the Pareto front"] if data.get("front") is False else []),
    ]
    shown: list[tuple[str, object, str]] = [
        (
            "rating",
            format_elo(rating.mean, ""),
            "exact" if rating.low == rating.high else f"95%: {_format_bound(rating)}",
        )
    ]
    if exploited is not None:
        shown.append(("exploitability", number(exploited), "0 is perfect, 1 is lost always"))
    if lost is not None:
        shown.append(("regret", number(lost), "lost by an average move"))
    if seconds is not None:
        memory = number_in(object_in(data, "cost"), "own_bytes") / 2**20
        shown.append(("a move takes", microseconds(seconds), f"of CPU, one at a time; {memory:,.0f} MiB"))
    misfit = optional(data, "misfit", partial(number_in, low=0, high=1))
    fits = (
        f" Scores are {misfit:.3f} from what ratings expect (root mean square): one number does not say everything."
        if misfit is not None
        else ""
    )
    how = (
        "Results against the rungs are exact."
        if data.get("exact") is True
        else f"Each rung was met in {count_in(object_in(data, 'settings'), 'games'):,} games."
    )
    about = f"Elo on the ladder {text_in(where, 'name')}, on which {text_in(where, 'anchor')} is 0. {how}{fits}"
    return element("section", verdict(f"{'; '.join(parts)}."), element("p", about), tiles(shown))


def _format_bound(value: Interval) -> str:
    return f"{format_elo(value.low, '')} to {format_elo(value.high, '')}"


def _seconds(data: Data) -> float | None:
    cost = optional(data, "cost", object_in)
    return None if cost is None else number_in(cost, "cpu_s_per_move", 0)


def _ladder(data: Data, name: str, rating: Interval, rungs: Sequence[Rung]) -> Html:
    """Show all policies by strength, by cost, and in a table."""
    seconds = _seconds(data)
    everybody = sorted([*rungs, Rung(name, rating, seconds, data.get("front") is True, True)], key=_strongest)
    rows = [Reach(one.name, one.rating, one.placed) for one in everybody]
    ends = "; ".join(f"{row.name} {format_rating(row.value, '')}" for row in rows)
    chart = embed_figure(
        draw_intervals(rows, "Elo"), "ladder", f"The ladder from above: {ends}.", figure_size(len(rows))
    )
    words = "The ladder, strongest on top. The orange diamond is the policy that was placed; bars are 95% intervals."
    pictures = [element("figure", chart, element("figcaption", words))]
    priced = [one for one in everybody if one.seconds]
    if seconds:
        pictures.append(_pareto(everybody, figure_size(len(rows))))
    lines = []
    for place, one in enumerate(everybody, 1):
        exact = one.rating.low == one.rating.high
        cells = [format_elo(one.rating.mean, ""), "exact" if exact else _format_bound(one.rating)]
        if priced:
            cells += [microseconds(one.seconds) if one.seconds else "", "yes" if one.front else ""]
        lines.append((element("em", f"{place} {one.name}") if one.placed else f"{place} {one.name}", *cells))
    head = ("rung", "Elo", "95%", *(("a move", "front") if priced else ()))
    return section(
        "The ladder",
        element("div", *pictures, class_="curves"),
        None if seconds else left_out("Strength by cost is left out: what a move takes was not measured."),
        table("The same in numbers; what was placed is slanted", head, lines),
    )


def _pareto(everybody: Sequence[Rung], size: tuple[float, float]) -> Html:
    """Plot strength by cost."""
    known = [
        CostPoint("" if one.placed else str(place), 1e6 * one.seconds, one.rating, one.front, one.placed)
        for place, one in enumerate(everybody, 1)
        if one.seconds
    ]
    on_front = [one.name for one in everybody if one.front and one.seconds]
    label = f"Rating by CPU of a move. On the front: {', '.join(on_front) or 'nobody'}."
    chart = embed_figure(draw_pareto_front(known, "CPU of a move, us", "Elo"), "front", label, size)
    words = (
        "Rating by the CPU time of a move, all measured on one machine. Full marks and the dashed line are the Pareto "
        "front: nothing is as strong for less. Numbers are those of the table."
    )
    return element("figure", chart, element("figcaption", words))


def _strongest(one: Rung) -> float:
    return -one.rating.mean


def _results(data: Data) -> Html:
    rungs, rows = objects_in(data, "rungs", MOST_RUNGS), []
    for one in objects_in(data, "results", MOST_RUNGS):
        name = text_in(rungs[count_in(one, "rung", len(rungs) - 1)], "spec")
        shares = [number_in(one, part, 0, 1 + 1e-9) for part in ("win", "draw", "loss")]
        rows.append(
            (
                name,
                *map(_format_probability, shares),
                in_brackets(interval_in(one, "score", 0, 1 + 1e-9), _format_probability),
                _format_probability(number_in(one, "expected", 0, 1)),
                f"{count_in(one, 'games'):,}" if not one.get("exact") else "exact",
                results_bar(shares),
            )
        )
    head = ("against", "win", "draw", "loss", "score (95%)", "expected", "games", key())
    caption = "Results against each rung; expected is the score at the two ratings"
    return section("Against each rung", table(caption, head, rows[::-1]))


def _format_probability(value: float) -> str:
    return f"{value:.3f}"


def _first_move(data: Data) -> Html:
    game = game_in(data)
    shares = chances_in(data, "first_move", game)
    largest = 1.0 if has_room(game) else max(1e-9, float(shares.max()))
    about = "the probability of each first move" + (
        "" if has_room(game) else f", {format_probability(largest)} the darkest"
    )
    drawn_map = heat_map(game, "What it plays", about, shares, format_probability, largest)
    return section("The first move", element("div", drawn_map, class_="boards maps"))


def _worst_section(data: Data) -> Html:
    title, game = "Where it loses most", game_in(data)
    found = objects_in(data, "worst_positions", 20)
    if not found:
        perfect = optional(data, "regret", number_in) == 0 and data.get("pure") is True
        words = "It gives nothing away." if perfect else "Left out: it is computed for pure policies on small boards."
        return section(title, left_out(words))
    words = (
        "Against a player who moves at random, and so leads it anywhere. Blue cells are its moves with their "
        "probabilities, framed ones are the best moves; positions are ordered by what they cost an average game."
    )
    figures = [
        position_figure(game, one, "played", number_in(one, "loss", 0, 2 + 1e-9), number_in(one, "likely", 0, 1 + 1e-9))
        for one in found
    ]
    return section(title, element("p", words), boards_of(figures))


def _cost_section(data: Data) -> Html:
    parts: list[Html] = []
    cost = optional(data, "cost", object_in)
    if cost is None:
        parts.append(left_out("What its moves take was not measured."))
    else:
        rows = [
            ("a move, CPU", microseconds(number_in(cost, "cpu_s_per_move", 0))),
            ("set-up and first move, CPU", f"{number_in(cost, 'setup_cpu_s', 0):,.2f} s"),
            ("memory of its own", f"{number_in(cost, 'own_bytes') / 2**20:,.0f} MiB"),
            ("peak memory of the process", f"{number_in(cost, 'peak_rss_bytes', 0) / 2**20:,.0f} MiB"),
        ]
        where = f" on {text_in(data, 'processor')}" if isinstance(data.get("processor"), str) else ""
        parts.append(table(f"To play, one position at a time{where}", ("", "cost"), rows))
    training = optional(data, "training", object_in)
    if training is None:
        parts.append(
            element("p", "It is no run that was trained here: what it took to make is not known.", class_="quiet")
        )
    else:
        phases = object_in(training, "cost")
        lines = []
        for phase in list(phases)[:20]:
            one = object_in(phases, phase)
            user, system, wall, peak = (number_in(one, name, 0) for name in NAMES)
            lines.append(
                (phase[:80], f"{user:,.2f} s", f"{system:,.2f} s", f"{wall:,.2f} s", f"{peak / 2**20:,.0f} MiB")
            )
        learned = f"{text_in(training, 'learner')}, {count_in(training, 'games'):,} games"
        head = ("phase", "CPU, user", "CPU, system", "wall", "peak memory so far")
        parts.append(
            table(f"To train: {learned}", head, lines) if lines else left_out("What training took is not known.")
        )
    return section("What it cost", *parts)


def _reproduce_section(data: Data) -> Html:
    where, asked = object_in(data, "ladder"), object_in(data, "settings")
    words = ["evaluate.py", "ladder", spec_in(data, "policy"), "--ladder", spec_in(where, "name")]
    games = count_in(asked, "games")
    words += ["--games", str(games)] if games else []
    words += ["--seed", str(count_in(asked, "seed", 2**63))]
    return settings(data, words, DECIDING)
