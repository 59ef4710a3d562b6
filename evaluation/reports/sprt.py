"""The page of a sequential test: the better player, the course of the test, and where the two differ."""

from __future__ import annotations

from functools import partial

from evaluation.reports.comparison_parts import (
    Data,
    better,
    count_in,
    counts_in,
    format_rating,
    game_in,
    given_up,
    interval_in,
    likelihood,
    list_in,
    number_in,
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
from evaluation.reports.html import Html, element, percent, section, share, table, tiles
from evaluation.reports.plots import Reach, draw_intervals, draw_random_walk, figure_size
from evaluation.reports.run_parts import MARKS, embed_figure, game_options, key, results_bar
from evaluation.statistics import Interval

DECIDING = (
    "game",
    "a",
    "b",
    "identities",
    "seed",
    "openings",
    "openings_sha256",
    "most_games",
    "block",
    "test",
    "made_by",
)
_LONGEST_PATH = 1_000_000


def sprt_page(data: Data) -> tuple[str, list[Html]]:
    """Return the title and sections of the page.

    Raises:
        ValueError: the players or the game are missing.
    """
    a, b, game = text_in(data, "a"), text_in(data, "b"), game_in(data)
    return f"{a} against {b}, {game}", [
        optional_section("The answer", partial(_answer_section, data, a, b)),
        optional_section("How the test went", partial(_walk, data)),
        optional_section("The games", partial(_games, data, a)),
        optional_section("Where the two differ most", partial(_differ, data, a, b)),
        optional_section("The same again", partial(_reproduce_section, data)),
    ]


def _answer_section(data: Data, a: str, b: str) -> Html:
    score, games = interval_in(data, "score", 0, 1), count_in(data, "games")
    likely = number_in(data, "likelihood_of_superiority", 0, 1)
    fixed = optional(data, "fixed_games", count_in)
    elo = rating_of(score)
    shown: list[tuple[str, object, str]] = [
        ("Elo of A", format_rating(Interval(elo.mean, elo.mean, elo.mean)), f"95%: {_format_bound(elo)}"),
        ("A is better", likelihood(likely), "likelihood of superiority"),
        ("score of A", share(score.mean), f"95%: {share(score.low)} to {share(score.high)}"),
        ("games", f"{games:,}", "in pairs, with the seats swapped"),
        (
            "a fixed test takes",
            "any number" if fixed is None else f"{fixed:,}",
            "games for the same errors"
            if fixed is None or fixed <= games
            else f"games, {fixed / games:.1f} times as many",
        ),
    ]
    chart = _elo_chart(elo)
    return element(
        "section",
        verdict(f"{better(a, b, score, likely)}."),
        element("p", _accepted(data, a, b), class_="lead"),
        element("p", f"A is {a}, B is {b}."),
        given_up(data, a, b),
        tiles(shown),
        chart,
    )


def _format_bound(value: Interval) -> str:
    text = format_rating(value)
    return text[text.index("(") + 1 : -1] if "(" in text else text


def _elo_chart(elo: Interval) -> Html | None:
    """Plot the interval, if its ends are finite."""
    if max(map(abs, elo)) > 1e5:
        return None
    label = f"Elo of A less Elo of B: {format_rating(elo)}."
    chart = embed_figure(
        draw_intervals([Reach("A - B", elo)], "Elo of A less Elo of B", 0.0), "elo", label, figure_size(1)
    )
    return element(
        "div", element("figure", chart, element("figcaption", "The 95% interval; grey: equal.")), class_="curves"
    )


def _accepted(data: Data, a: str, b: str) -> str:
    """Return the test's own decision."""
    test, llr = object_in(data, "test"), number_in(data, "llr")
    elo0, elo1 = number_in(test, "elo0"), number_in(test, "elo1")
    low, high = number_in(data, "llr_low"), number_in(data, "llr_high")
    stand = f"the logarithm of the likelihood ratio is {llr:+.2f}"
    if llr >= high:
        errors = f"wrong in at most {percent(number_in(test, 'alpha', 0, 0.5))} of tests"
        return f"The test accepts {elo1:g} Elo: {a} is ahead by more than {elo0:g} ({errors})."
    if llr <= low:
        errors = f"wrong in at most {percent(number_in(test, 'beta', 0, 0.5))} of tests"
        return f"The test accepts {elo0:g} Elo: {a} is ahead by less than {elo1:g} ({errors})."
    return f"The test of {elo0:g} against {elo1:g} Elo has not ended: {stand}, between {low:.2f} and {high:.2f}."


def _walk(data: Data) -> Html:
    low, high = number_in(data, "llr_low", high=-1e-9), number_in(data, "llr_high", low=1e-9)
    steps = list_in(data, "path", _LONGEST_PATH)
    if not steps:
        raise ValueError("path is empty, and must have a point for each block")
    if len(steps) > MARKS:
        steps = [steps[round(i * (len(steps) - 1) / (MARKS - 1))] for i in range(MARKS)]
    named = [{"pairs": step[0], "llr": step[1]} for step in steps if isinstance(step, list) and len(step) == 2]
    if len(named) < len(steps):
        raise ValueError("path has something that is no point: each must be pairs and LLR")
    games, ratios = [2 * count_in(one, "pairs") for one in named], [number_in(one, "llr", -1e6, 1e6) for one in named]
    label = f"LLR after each block, up to {games[-1]:,} games: {ratios[-1]:+.2f}, with bounds {low:.2f} and {high:.2f}."
    chart = embed_figure(draw_random_walk(games, ratios, low, high, "games", "log likelihood ratio"), "llr", label)
    test = object_in(data, "test")
    words = (
        f"The logarithm of the likelihood ratio (LLR) of {number_in(test, 'elo1'):g} and {number_in(test, 'elo0'):g} "
        f"Elo, after each block of games. At the blue line the larger is accepted, at the orange one the smaller. "
        f"An interval that is looked at when a test ends is a little too narrow, and leans the way it ended."
    )
    return section(
        "How the test went",
        element("div", element("figure", chart, element("figcaption", words)), class_="curves"),
    )


def _games(data: Data, a: str) -> Html:
    score = score_in(data)
    rows = []
    for name, counts in (
        ("all", score.table.sum(axis=0)),
        ("A moves first", score.table[0]),
        ("A moves second", score.table[1]),
    ):
        shares = counts / counts.sum()
        rows.append(
            (name, *(f"{int(count):,}" for count in counts), share(float(shares @ [1, 0.5, 0])), results_bar(shares))
        )
    pairs = counts_in(data, "pentanomial", 5)
    if pairs.tolist() != score.pentanomial.tolist():
        raise ValueError("pentanomial and pairs do not agree: they count the same pairs")
    head = ("points of A in a pair", "0", "1/2", "1", "3/2", "2")
    return section(
        "The games",
        table("Results of A by seat", ("A", "won", "drawn", "lost", "score", key()), rows, (1, 2)),
        table(
            "Pairs of games, which are the independent samples",
            head,
            [("pairs", *(f"{n:,}" for n in pairs)), ("share", *(share(n / pairs.sum()) for n in pairs))],
        ),
    )


def _differ(data: Data, a: str, b: str) -> Html:
    found = None if data.get("differences") is None else objects_in(data, "differences", 20)
    return where_they_differ(game_in(data), found, f"A: {a}", f"B: {b}")


def _reproduce_section(data: Data) -> Html:
    test = object_in(data, "test")
    words = ["evaluate.py", "sprt", spec_in(data, "a"), spec_in(data, "b"), *game_options(game_in(data))]
    for name in ("elo0", "elo1", "alpha", "beta"):
        words += [f"--{name}", f"{number_in(test, name):g}"]
    words += ["--model", spec_in(test, "model"), "--games", str(count_in(data, "most_games"))]
    words += ["--seed", str(count_in(data, "seed", 2**63))]
    openings = optional(data, "openings", spec_in)
    words += [] if openings is None else ["--openings", openings]
    return settings(data, words, DECIDING)
