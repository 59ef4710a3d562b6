"""The page of a sequential test: the better player, the course of the test, and where the two differ."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from ttt_eval.reports.curves import MAX_MARKS, embed_figure
from ttt_eval.reports.formats import (
    describe_better,
    elo_interval,
    format_elo_difference,
    format_ends,
    game_options,
    likelihood,
    percent,
    share,
)
from ttt_eval.reports.html import Content, macro, section
from ttt_eval.reports.plots import IntervalRow, draw_intervals, draw_sprt_path, figure_size
from ttt_eval.reports.result_reader import MAX_SEED, Record, differences, reproduction
from ttt_eval.statistics import Interval

RESULT_SETTINGS = (
    "game", "a", "b", "identities", "seed", "openings", "openings_sha256", "most_games", "luck_correction", "block",
    "test", "provenance",
)  # fmt: skip
_MAX_PATH = 1_000_000


def sprt_page(data: Record) -> Content:
    """Return the content of the page.

    Raises:
        ValueError: the players or the game are missing.
    """
    a, b, game = data.text("a"), data.text("b"), data.game()
    return {
        "title": f"{a} against {b}, {game}",
        "a": a,
        "b": b,
        "answer": section(partial(_answer, data, a, b)),
        "walk": section(partial(_walk, data)),
        "games": section(partial(_games, data)),
        "differences": section(partial(_differences, data, a, b)),
        "again": section(partial(_reproduction, data)),
    }


def _answer(data: Record, a: str, b: str) -> Content:
    score, games = data.interval("score", 0, 1), data.count("games")
    likely = data.number("likelihood_of_superiority", 0, 1)
    fixed = data.optional("fixed_games", Record.count)
    elo = elo_interval(score)
    return {
        "verdict": describe_better(a, b, score, likely),
        "decision": _describe_decision(data, a, b),
        "forfeits": data.forfeits(a, b),
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
            *data.correction_tiles(),
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
    return embed_figure(draw_intervals([IntervalRow("A - B", elo)], axis, 0.0), "elo", label, figure_size(1))


def _describe_decision(data: Record, a: str, b: str) -> str:
    """Return the test's own decision."""
    test, llr = data.record("test"), data.number("llr")
    elo0, elo1 = test.number("elo0"), test.number("elo1")
    low, high = data.number("llr_low"), data.number("llr_high")
    if low < llr < high:
        stand = f"the logarithm of the likelihood ratio is {llr:+.2f}"
        return f"The test of {elo0:g} against {elo1:g} Elo has not ended: {stand}, between {low:.2f} and {high:.2f}."
    error = percent(test.number("alpha" if llr >= high else "beta", 0, 0.5))
    accepted, side = (elo1, f"more than {elo0:g}") if llr >= high else (elo0, f"less than {elo1:g}")
    return f"The test accepts {accepted:g} Elo: {a} is ahead by {side} (wrong in at most {error} of tests)."


def _walk(data: Record) -> Content:
    low, high = data.number("llr_low", high=-1e-9), data.number("llr_high", low=1e-9)
    steps = data.entries("path", _MAX_PATH)
    if not steps:
        raise ValueError("path is empty, and must have a point for each block")
    if len(steps) > MAX_MARKS:
        steps = [steps[round(i * (len(steps) - 1) / (MAX_MARKS - 1))] for i in range(MAX_MARKS)]
    points = [Record(pairs=step[0], llr=step[1]) for step in steps if isinstance(step, list) and len(step) == 2]
    if len(points) < len(steps):
        raise ValueError("path has something that is no point: each must be pairs and LLR")
    games, ratios = [2 * one.count("pairs") for one in points], [one.number("llr", -1e6, 1e6) for one in points]
    label = f"LLR after each block, up to {games[-1]:,} games: {ratios[-1]:+.2f}, with bounds {low:.2f} and {high:.2f}."
    walk = draw_sprt_path(games, ratios, low, high)
    test = data.record("test")
    elo0, elo1 = (f"{test.number(name):g}" for name in ("elo0", "elo1"))
    return {"chart": embed_figure(walk, "llr", label), "elo0": elo0, "elo1": elo1}


def _games(data: Record) -> Content:
    score = data.score()
    results = []
    counts_by_seat = (score.table.sum(axis=0), *score.table)
    for name, counts in zip(("all", "A moves first", "A moves second"), counts_by_seat, strict=True):
        shares = counts / counts.sum()
        numbers = (*(f"{int(count):,}" for count in counts), share(float(shares @ [1, 0.5, 0])))
        results.append((name, *numbers, macro("bar", shares)))
    pairs = data.counts("pentanomial", 5)
    if pairs.tolist() != score.pentanomial.tolist():
        raise ValueError("pentanomial and pairs do not agree: they count the same pairs")
    counted = [("pairs", *(f"{n:,}" for n in pairs)), ("share", *(share(n / pairs.sum()) for n in pairs))]
    return {"results": results, "pairs": counted}


def _differences(data: Record, a: str, b: str) -> Content:
    found = None if data.get("differences") is None else data.records("differences", 20)
    return differences(data.game(), found, f"A: {a}", f"B: {b}")


def _reproduction(data: Record) -> Content:
    test = data.record("test")
    words = ["evaluate.py", "sprt", data.spec("a"), data.spec("b"), *game_options(data.game())]
    for name in ("elo0", "elo1", "alpha", "beta"):
        words += [f"--{name}", f"{test.number(name):g}"]
    words += ["--model", test.spec("model"), "--games", str(data.count("most_games"))]
    words += ["--seed", str(data.count("seed", MAX_SEED))]
    openings = data.optional("openings", Record.spec)
    words += [] if openings is None else ["--openings", openings]
    words += data.correction_options()
    return reproduction(data, words, RESULT_SETTINGS)
