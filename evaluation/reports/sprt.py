"""The page of a sequential test: the better player, the course of the test, and where the two differ."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from evaluation.reports.curves import MAX_MARKS, embed_figure
from evaluation.reports.formats import (
    describe_better,
    elo_interval,
    format_elo_difference,
    format_ends,
    game_options,
    likelihood,
    percent,
    share,
)
from evaluation.reports.html import Content, macro, section
from evaluation.reports.plots import Reach, draw_intervals, draw_random_walk, figure_size
from evaluation.reports.result_reader import (
    MAX_SEED,
    Data,
    count_in,
    counts_in,
    differences,
    forfeits_in,
    game_in,
    interval_in,
    list_in,
    number_in,
    object_in,
    objects_in,
    optional,
    reproduction,
    score_in,
    spec_in,
    text_in,
)
from evaluation.statistics import Interval

DECIDING = (
    "game", "a", "b", "identities", "seed", "openings", "openings_sha256", "most_games", "block", "test", "made_by",
)  # fmt: skip
_MAX_PATH = 1_000_000


def sprt_page(data: Data) -> Content:
    """Return the content of the page.

    Raises:
        ValueError: the players or the game are missing.
    """
    a, b, game = text_in(data, "a"), text_in(data, "b"), game_in(data)
    return {
        "title": f"{a} against {b}, {game}",
        "a": a,
        "b": b,
        "answer": section(partial(_answer, data, a, b)),
        "walk": section(partial(_walk, data)),
        "games": section(partial(_games, data)),
        "differences": section(partial(_differences, data, a, b)),
        "again": section(partial(_again, data)),
    }


def _answer(data: Data, a: str, b: str) -> Content:
    score, games = interval_in(data, "score", 0, 1), count_in(data, "games")
    likely = number_in(data, "likelihood_of_superiority", 0, 1)
    fixed = optional(data, "fixed_games", count_in)
    elo = elo_interval(score)
    return {
        "verdict": describe_better(a, b, score, likely),
        "decision": _describe_decision(data, a, b),
        "forfeits": forfeits_in(data, a, b),
        "tiles": [
            ("Elo of A", format_elo_difference(elo.mean), f"95%: {_format_elo_ends(elo)}"),
            ("A is better", likelihood(likely), "likelihood of superiority"),
            ("score of A", share(score.mean), f"95%: {format_ends(score)}"),
            ("games", f"{games:,}", "in pairs, with the seats swapped"),
            (
                "a fixed test takes",
                "any number" if fixed is None else f"{fixed:,}",
                "games for the same errors"
                if fixed is None or fixed <= games
                else f"games, {fixed / games:.1f} times as many",
            ),
        ],
        "chart": _elo_chart(elo),
    }


def _format_elo_ends(elo: Interval) -> str:
    return format_elo_difference(elo.mean) if elo.low == elo.high else format_ends(elo, format_elo_difference)


def _elo_chart(elo: Interval) -> Markup | None:
    """Plot the interval, if its ends are finite."""
    if max(map(abs, elo)) > 1e5:
        return None
    axis = "Elo of A less Elo of B"
    ends = "" if elo.low == elo.high else f" ({_format_elo_ends(elo)})"
    label = f"{axis}: {format_elo_difference(elo.mean)}{ends}."
    return embed_figure(draw_intervals([Reach("A - B", elo)], axis, 0.0), "elo", label, figure_size(1))


def _describe_decision(data: Data, a: str, b: str) -> str:
    """Return the test's own decision."""
    test, llr = object_in(data, "test"), number_in(data, "llr")
    elo0, elo1 = number_in(test, "elo0"), number_in(test, "elo1")
    low, high = number_in(data, "llr_low"), number_in(data, "llr_high")
    if low < llr < high:
        stand = f"the logarithm of the likelihood ratio is {llr:+.2f}"
        return f"The test of {elo0:g} against {elo1:g} Elo has not ended: {stand}, between {low:.2f} and {high:.2f}."
    error = percent(number_in(test, "alpha" if llr >= high else "beta", 0, 0.5))
    accepted, side = (elo1, f"more than {elo0:g}") if llr >= high else (elo0, f"less than {elo1:g}")
    return f"The test accepts {accepted:g} Elo: {a} is ahead by {side} (wrong in at most {error} of tests)."


def _walk(data: Data) -> Content:
    low, high = number_in(data, "llr_low", high=-1e-9), number_in(data, "llr_high", low=1e-9)
    steps = list_in(data, "path", _MAX_PATH)
    if not steps:
        raise ValueError("path is empty, and must have a point for each block")
    if len(steps) > MAX_MARKS:
        steps = [steps[round(i * (len(steps) - 1) / (MAX_MARKS - 1))] for i in range(MAX_MARKS)]
    points = [{"pairs": step[0], "llr": step[1]} for step in steps if isinstance(step, list) and len(step) == 2]
    if len(points) < len(steps):
        raise ValueError("path has something that is no point: each must be pairs and LLR")
    games, ratios = [2 * count_in(one, "pairs") for one in points], [number_in(one, "llr", -1e6, 1e6) for one in points]
    label = f"LLR after each block, up to {games[-1]:,} games: {ratios[-1]:+.2f}, with bounds {low:.2f} and {high:.2f}."
    walk = draw_random_walk(games, ratios, low, high, "games", "log likelihood ratio")
    test = object_in(data, "test")
    elo0, elo1 = (f"{number_in(test, name):g}" for name in ("elo0", "elo1"))
    return {"chart": embed_figure(walk, "llr", label), "elo0": elo0, "elo1": elo1}


def _games(data: Data) -> Content:
    score = score_in(data)
    results = []
    counts_by_seat = (score.table.sum(axis=0), *score.table)
    for name, counts in zip(("all", "A moves first", "A moves second"), counts_by_seat, strict=True):
        shares = counts / counts.sum()
        numbers = (*(f"{int(count):,}" for count in counts), share(float(shares @ [1, 0.5, 0])))
        results.append((name, *numbers, macro("bar", shares)))
    pairs = counts_in(data, "pentanomial", 5)
    if pairs.tolist() != score.pentanomial.tolist():
        raise ValueError("pentanomial and pairs do not agree: they count the same pairs")
    counted = [("pairs", *(f"{n:,}" for n in pairs)), ("share", *(share(n / pairs.sum()) for n in pairs))]
    return {"results": results, "pairs": counted}


def _differences(data: Data, a: str, b: str) -> Content:
    found = None if data.get("differences") is None else objects_in(data, "differences", 20)
    return differences(game_in(data), found, f"A: {a}", f"B: {b}")


def _again(data: Data) -> Content:
    test = object_in(data, "test")
    words = ["evaluate.py", "sprt", spec_in(data, "a"), spec_in(data, "b"), *game_options(game_in(data))]
    for name in ("elo0", "elo1", "alpha", "beta"):
        words += [f"--{name}", f"{number_in(test, name):g}"]
    words += ["--model", spec_in(test, "model"), "--games", str(count_in(data, "most_games"))]
    words += ["--seed", str(count_in(data, "seed", MAX_SEED))]
    openings = optional(data, "openings", spec_in)
    words += [] if openings is None else ["--openings", openings]
    return reproduction(data, words, DECIDING)
