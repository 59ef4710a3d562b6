"""Pages of matches: of two players, sequential tests, tournaments, and places on a ladder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ttt_eval.matches.elo import elo_interval
from ttt_eval.matches.results import MatchResult
from ttt_eval.matches.sprt import SprtResult
from ttt_eval.matches.tournament import TournamentResult
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.page import Boards, Figure, Parts, Report, Text, Tile, left_out
from ttt_eval.reports.results import LadderResult
from ttt_eval.store.statistics import Interval

MAX_POINTS = 200
"""Maximum number of points of the path of a sequential test."""
_elo = partial(formats.format_interval, write=formats.format_elo)


def match_report(result: MatchResult) -> Report:
    """Return the page of two players: the better one, where they differ, and of a sequential test
    its course.
    """
    a, b, score = result.a, result.b, result.played
    elo = elo_interval(result.score)
    tiles = [
        Tile(
            "Elo of A",
            formats.format_elo(elo.mean),
            f"95%: {formats.format_ends(elo, formats.format_elo)}",
        ),
        Tile("A is better", formats.likelihood(result.likelihood), "likelihood of superiority"),
        *parts.score_tiles("score of A", result.score, score, result.luck_correction),
    ]
    players = f"A is {a}, B is {b}."
    options: dict[str, Any] = {"games": result.games, "clock": result.raw.get("clock")}
    course: Parts = []
    if isinstance(result, SprtResult):
        test = result.test
        players = f"{describe_decision(result)} {players}"
        options |= {
            "sprt": [test.elo0, test.elo1],
            "alpha": test.alpha,
            "beta": test.beta,
            "games": result.most_games,
        }
        course = [[_draw_path(result)]]
    again = parts.reproduction(result, "evaluate.py", "match", a, b, **options)
    sections: dict[str, Parts] = {
        "": [Text(players), parts.forfeits(score, a, b)],
        "Course of the test": course,
        "The games": [
            parts.seats_table("games of A", score, ("all", "A moves first", "A moves second"))
        ],
        "Largest differences": parts.differences(
            result.game, result.differences, f"A: {a}", f"B: {b}"
        ),
        "Reproduction": again,
    }
    verdict = formats.describe_better(a, b, result.score, result.likelihood)
    return Report(f"{a} against {b}, {result.game}", verdict, tiles, sections)


def describe_decision(result: SprtResult) -> str:
    """Say which hypothesis a sequential test accepts, or that it has not ended."""
    test, upper = result.test, result.accepted == "elo1"
    if result.accepted is None:
        bounds = f"LLR is {result.llr:+.2f}, between {result.llr_low:.2f} and {result.llr_high:.2f}"
        return f"The test of {test.elo0:g} against {test.elo1:g} Elo has not ended: {bounds}."
    ahead = (
        f"{result.a} is ahead by "
        f"{f'more than {test.elo0:g}' if upper else f'less than {test.elo1:g}'}"
    )
    error = formats.percent(test.alpha if upper else test.beta)
    return (
        f"The test accepts {test.elo1 if upper else test.elo0:g} Elo: {ahead} (wrong in at most "
        f"{error} of tests)."
    )


def _draw_path(result: SprtResult) -> Figure:
    """Return the log-likelihood ratio by games, between the bounds that end the test."""
    elos = {"elo0": f"{result.test.elo0:g}", "elo1": f"{result.test.elo1:g}"}
    points = result.path[:: -(-len(result.path) // MAX_POINTS)] + result.path[-1:]
    games, ratios = [0, *(2 * pairs for pairs, _ in points)], [0.0, *(ratio for _, ratio in points)]
    lines = [plots.Line("LLR", games, ratios, "black", "-")]
    for elo, bound, colour in (
        ("elo1", result.llr_high, plots.WIN),
        ("elo0", result.llr_low, plots.LOSS),
    ):
        lines.append(
            plots.Line(f"accepts {elos[elo]} Elo", [0, games[-1]], [bound, bound], colour, "--")
        )
    caption = page.words("path", **elos)
    return parts.curves_figure(
        lines, "games", "log likelihood ratio", caption, distances=False, log=False
    )


def tournament_report(result: TournamentResult) -> Report:
    """Return the page of a tournament: the best player, a cross table, and ratings."""
    scores, spots, specs = (
        result.scores,
        result.differences,
        [str(player["spec"]) for player in result.players],
    )
    order = sorted(range(len(specs)), key=lambda i: -result.players[i]["rating"].mean)
    players, names = [result.players[i] for i in order], {i: specs[i] for i in order}
    rates = {pair: score.rate("score") for pair, score in scores.items()}
    cells = {
        pair: (rate.mean, f"{rate.mean:.3f}", f"{rate.low:.3f}-{rate.high:.3f}")
        for pair, rate in rates.items()
    }
    ratings = [
        (f"{place} {player['spec']}", player["rating"], player["score"].mean, player["games"])
        for place, player in enumerate(players, 1)
    ]
    games = f"{sum(score.games for score in scores.values()) // 2:,}"
    pair, positions = (
        (("", ""), None) if spots is None else ((specs[spots.a], specs[spots.b]), spots.positions)
    )
    options = {"games": result.games_per_pairing, "anchor": result.anchor}
    sections: dict[str, Parts] = {
        "": [
            Text(page.words("scale", zero=result.anchor or "the mean of all", games=games)),
            *(
                parts.forfeits(score, specs[i], specs[j])
                for (i, j), score in scores.items()
                if i < j
            ),
        ],
        "Ratings": [parts.table("ratings", ratings)],
        "Cross table": [parts.cross_table("tournament", names, cells)],
        "Largest differences of the best two": parts.differences(result.game, positions, *pair),
        "Reproduction": parts.reproduction(result, "evaluate.py", "match", *specs, **options),
    }
    undecided = sum(player["rating"].high >= players[0]["rating"].low for player in players[1:])
    values = [f"rating {_elo(player['rating'])}" for player in players[:2]]
    verdict = formats.describe_best(list(names.values()), values, undecided)
    return Report(f"Tournament of {len(order)}, {result.game}", verdict, [], sections)


def _describe_place(rating: Interval, rungs: Mapping[str, Interval]) -> str:
    """Return the position between rungs of rising ratings, as far as the intervals decide it."""
    below = [name for name, rung in rungs.items() if rung.high < rating.low]
    above = [name for name, rung in rungs.items() if rung.low > rating.high]
    level = [name for name in rungs if name not in (*below, *above)]
    places = [f"above {below[-1]}"] if below else []
    places += [f"not distinguished from {', '.join(level)}"] if level else []
    return ", ".join([*places, *([f"below {above[0]}"] if above else [])])


def ladder_report(result: LadderResult) -> Report:
    """Return the page of a policy's place on a ladder: its rating, its cost, and its worst
    positions.
    """
    name, rating, cost, ladder, game = (
        result.policy,
        result.rating,
        result.cost,
        result.ladder,
        result.game,
    )
    rungs = {
        rung["spec"]: Interval(rung["rating"], rung["low"], rung["high"]) for rung in result.rungs
    }
    rows = [(f"{name} (placed)", rating, cost["cpu_s_per_move"] if cost else None, result.front)]
    rows += [
        (rung["spec"], rungs[rung["spec"]], rung.get("cpu_s_per_move_here"), rung.get("front"))
        for rung in result.rungs
    ]
    measures = parts.measure_tiles(
        {"exploitability": result.exploitability, "regret": result.regret}
    )
    verdict = [f"{name} is rated {_elo(rating)}: {_describe_place(rating, rungs)}"]
    verdict += [f"{tile.name} {tile.value}" for tile in measures[:1]]
    ends = (
        "exact"
        if rating.low == rating.high
        else f"95%: {formats.format_ends(rating, formats.format_elo)}"
    )
    tiles = [Tile("rating", formats.format_elo(rating.mean), ends), *measures]
    if cost is not None:
        peak = f"of its own; peak {formats.mebibytes(cost['peak_rss_bytes'])}"
        tiles.append(Tile("memory", formats.mebibytes(cost["own_bytes"]), peak))
        front = f"{'' if result.front else 'not '}on the Pareto front"
        verdict += [f"{formats.duration(cost['cpu_s_per_move'])} a move", front]
    table = [
        (f"{rank} {player}", elo, seconds, "yes" if front else "")
        for rank, (player, elo, seconds, front) in enumerate(
            sorted(rows, key=lambda row: -row[1].mean), 1
        )
    ]
    against = list[tuple[Any, ...]]()
    for row in result.results[::-1]:
        shares, games = (
            (row["win"], row["draw"], row["loss"]),
            "exact" if result.exact else f"{row['games']:,}",
        )
        against.append(
            (
                result.rungs[row["rung"]]["spec"],
                *shares,
                row["score"],
                row["expected"],
                games,
                shares,
            )
        )
    boards = [
        parts.spot_board(game, spot, spot.moves, spot.loss, likely=spot.likely)
        for spot in result.worst_positions
    ]
    none = "It loses nothing." if result.regret == 0 else page.words("no worst positions")
    options = {"games": int(result.settings["games"]) or None, "seed": int(result.settings["seed"])}
    sections: dict[str, Parts] = {
        "": [Text(f"Elo on the ladder {ladder['name']}, on which {ladder['anchor']} is 0.")],
        "The ladder": [
            parts.table("ladder", table, where=f", on {result.processor}" if cost else ""),
            left_out(page.words("front" if cost else "no cost of moves")),
        ],
        "Against each reference policy": [parts.table("rungs", against)],
        "Worst positions": [Text(page.words("worst of the ladder")), Boards(boards)]
        if boards
        else [left_out(none)],
        "Reproduction": parts.reproduction(
            result, "evaluate.py", "ladder", name, ladder=ladder["source"], **options
        ),
    }
    return Report(f"{name} on a ladder, {game}", "; ".join(verdict), tiles, sections)
