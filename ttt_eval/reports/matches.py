"""Pages of matches: of two players, sequential tests, tournaments, and places on a ladder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import asdict

from ttt_eval.matches.elo import elo_interval
from ttt_eval.matches.ladder import LadderResult
from ttt_eval.matches.results import MatchResult
from ttt_eval.matches.sprt import SprtResult
from ttt_eval.matches.tournament import TournamentResult
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.page import (
    BoardRow,
    DataTable,
    Parts,
    PlotFigure,
    Report,
    Text,
    Tile,
    left_out,
)
from ttt_eval.store.statistics import Interval

MAX_POINTS = 200
"""Maximum number of points of the path of a sequential test."""
_elo = partial(formats.format_interval, write=formats.format_elo)


# --------------------------------------------------------------------------------------------------
# Two players


def match_report(result: MatchResult) -> Report:
    """Return the page of two players: the better one, where they differ, and of a sequential test
    its course.
    """
    a = result.a
    b = result.b
    score = result.played
    players = f"A is {a}, B is {b}."
    if isinstance(result, SprtResult):
        players = f"{describe_decision(result)} {players}"
    sections: dict[str, Parts] = {
        "": [Text(players), parts.forfeits(score, a, b)],
        "Course of the test": [[_draw_path(result)]] if isinstance(result, SprtResult) else [],
        "The games": [
            parts.seats_table("games of A", score, ("all", "A moves first", "A moves second"))
        ],
        "Largest differences": parts.differences(
            result.game, result.differences, f"A: {a}", f"B: {b}"
        ),
        "Reproduction": parts.reproduction(
            result, "evaluate.py", "match", a, b, **_match_options(result)
        ),
    }
    likelihood = result.likelihood_of_superiority
    verdict = formats.describe_better(a, b, result.score, likelihood)
    return Report(f"{a} against {b}, {result.game}", verdict, _match_tiles(result), sections)


def _match_tiles(result: MatchResult) -> list[Tile]:
    likelihood = formats.likelihood(result.likelihood_of_superiority)
    return [
        parts.interval_tile("Elo of A", elo_interval(result.score), formats.format_elo),
        Tile("A is better", likelihood, "likelihood of superiority"),
        *parts.score_tiles("score of A", result.score, result.played, result.luck_correction),
    ]


def _match_options(result: MatchResult) -> dict[str, object]:
    """Return the options of the command that only matches and tests have."""
    clock = result.clock or None
    if not isinstance(result, SprtResult):
        return {"games": result.games, "clock": clock}
    test = result.test
    hypotheses = {"sprt": [test.elo0, test.elo1], "alpha": test.alpha, "beta": test.beta}
    return {"games": result.most_games, "clock": clock, **hypotheses}


def describe_decision(result: SprtResult) -> str:
    """Say which hypothesis a sequential test accepts, or that it has not ended."""
    test = result.test
    if result.accepted is None:
        bounds = f"LLR is {result.llr:+.2f}, between {result.llr_low:.2f} and {result.llr_high:.2f}"
        return f"The test of {test.elo0:g} against {test.elo1:g} Elo has not ended: {bounds}."
    if result.accepted == "elo1":
        elo = test.elo1
        lead = f"more than {test.elo0:g}"
        error = test.alpha
    else:
        elo = test.elo0
        lead = f"less than {test.elo1:g}"
        error = test.beta
    return (
        f"The test accepts {elo:g} Elo: {result.a} is ahead by {lead} (wrong in at most "
        f"{formats.percent(error)} of tests)."
    )


def _draw_path(result: SprtResult) -> PlotFigure:
    """Return the log-likelihood ratio by games, between the bounds that end the test."""
    step = -(-len(result.path) // MAX_POINTS)
    points = result.path[::step] + result.path[-1:]
    games = [0, *(2 * pairs for pairs, _ in points)]
    ratios = [0.0, *(ratio for _, ratio in points)]

    def bound(elo: float, ratio: float, colour: str) -> plots.PlotLine:
        return plots.PlotLine(f"accepts {elo:g} Elo", [0, games[-1]], [ratio, ratio], colour, "--")

    test = result.test
    lines = [
        plots.PlotLine("LLR", games, ratios, "black", "-"),
        bound(test.elo1, result.llr_high, plots.WIN),
        bound(test.elo0, result.llr_low, plots.LOSS),
    ]
    caption = page.words("path", elo0=f"{test.elo0:g}", elo1=f"{test.elo1:g}")
    return parts.curves_figure(
        lines, "games", "log likelihood ratio", caption, distances=False, log=False
    )


# --------------------------------------------------------------------------------------------------
# Tournaments


def tournament_report(result: TournamentResult) -> Report:
    """Return the page of a tournament: the best player, a cross table, and ratings."""
    specs = [player.spec for player in result.players]
    order = sorted(range(len(specs)), key=lambda i: -result.players[i].rating.mean)
    scores = result.scores
    games = sum(score.games for score in scores.values()) // 2
    scale = page.words("scale", zero=result.anchor or "the mean of all", games=f"{games:,}")
    forfeits = [
        parts.forfeits(score, specs[i], specs[j]) for (i, j), score in scores.items() if i < j
    ]
    options = {"games": result.games_per_pairing, "anchor": result.anchor or None}
    sections: dict[str, Parts] = {
        "": [Text(scale), *forfeits],
        "Ratings": [_ratings_table(result, order)],
        "Cross table": [_cross_table(result, order)],
        "Largest differences of the best two": _best_differences(result),
        "Reproduction": parts.reproduction(result, "evaluate.py", "match", *specs, **options),
    }
    title = f"Tournament of {len(order)}, {result.game}"
    return Report(title, _describe_ranking(result, order), [], sections)


def _describe_ranking(result: TournamentResult, order: Sequence[int]) -> str:
    """Name the best player, as far as its games against each of the others decide it: in at most 5%
    of tournaments one of these intervals misses the truth (Bonferroni).
    """
    best, *others = order
    confidence = 1 - 0.05 / len(others)
    rates = [result.scores[best, other].rate("score", confidence) for other in others]
    specs = [result.players[i].spec for i in order]
    values = [f"rating {_elo(result.players[i].rating)}" for i in order]
    return formats.describe_best(specs, values, sum(rate.low <= 0.5 for rate in rates))


def _ratings_table(result: TournamentResult, order: Sequence[int]) -> DataTable:
    totals = result.total_scores

    def row(place: int, i: int) -> tuple[str, Interval, float, int]:
        player = result.players[i]
        score = totals[i].rate("score").mean
        return f"{place} {player.spec}", player.rating, score, totals[i].games

    return parts.table("ratings", [row(place, i) for place, i in enumerate(order, 1)])


def _cross_table(result: TournamentResult, order: Sequence[int]) -> DataTable:
    names = {i: result.players[i].spec for i in order}
    rates = {pair: score.rate("score") for pair, score in result.scores.items()}
    cells = {
        pair: (rate.mean, f"{rate.mean:.3f}", f"{rate.low:.3f}-{rate.high:.3f}")
        for pair, rate in rates.items()
    }
    return parts.cross_table("tournament", names, cells)


def _best_differences(result: TournamentResult) -> Parts:
    spots = result.differences
    if spots is None:
        return parts.differences(result.game, None, "", "")
    a = result.players[spots.a]
    b = result.players[spots.b]
    return parts.differences(result.game, spots.positions, a.spec, b.spec)


# --------------------------------------------------------------------------------------------------
# Ladders


def ladder_report(result: LadderResult) -> Report:
    """Return the page of a policy's place on a ladder: its rating, its cost, and its worst
    positions.
    """
    ladder = result.ladder
    settings = result.settings
    reproduction = parts.reproduction(
        result,
        "evaluate.py",
        "ladder",
        result.policy,
        ladder=ladder.source,
        games=settings.games or None,
        seed=settings.seed,
    )
    front = page.words("no cost of moves" if result.cost is None else "front")
    sections: dict[str, Parts] = {
        "": [Text(f"Elo on the ladder {ladder.name}, on which {ladder.anchor} is 0.")],
        "The ladder": [_ladder_table(result), left_out(front)],
        "Against each reference policy": [_rungs_table(result)],
        "Worst positions": _worst_positions(result),
        "Reproduction": reproduction,
    }
    title = f"{result.policy} on a ladder, {result.game}"
    return Report(title, _describe_placement(result), _ladder_tiles(result), sections)


def _loss_tiles(result: LadderResult) -> list[Tile]:
    return parts.measure_tiles(asdict(result.losses))


def _ladder_tiles(result: LadderResult) -> list[Tile]:
    rating = parts.interval_tile("rating", result.rating, formats.format_elo)
    tiles = [rating, *_loss_tiles(result)]
    if result.cost is not None:
        peak = f"of its own; peak {formats.mebibytes(result.cost.peak_rss_bytes)}"
        tiles.append(Tile("memory", formats.mebibytes(result.cost.own_bytes), peak))
    return tiles


def _describe_placement(result: LadderResult) -> str:
    """Return the rating, the first known loss, and the cost of moves."""
    rungs = {rung.spec: rung.interval for rung in result.rungs}
    place = _describe_place(result.rating, rungs)
    sentences = [f"{result.policy} is rated {_elo(result.rating)}: {place}"]
    sentences += [f"{tile.name} {tile.value}" for tile in _loss_tiles(result)[:1]]
    if result.cost is not None:
        sentences.append(f"{formats.duration(result.cost.cpu_s_per_move)} a move")
        sentences.append("on the Pareto front" if result.front else "not on the Pareto front")
    return "; ".join(sentences)


def _describe_place(rating: Interval, rungs: Mapping[str, Interval]) -> str:
    """Return the position between rungs of rising ratings, as far as the intervals decide it."""
    weaker = [name for name, rung in rungs.items() if rung.high < rating.low]
    stronger = [name for name, rung in rungs.items() if rung.low > rating.high]
    undecided = [name for name in rungs if name not in (*weaker, *stronger)]
    places = []
    if weaker:
        places.append(f"above {weaker[-1]}")
    if undecided:
        places.append(f"not distinguished from {', '.join(undecided)}")
    if stronger:
        places.append(f"below {stronger[0]}")
    return ", ".join(places)


def _ladder_table(result: LadderResult) -> DataTable:
    """Return the table of the rungs and the policy, best first."""
    seconds = None if result.cost is None else result.cost.cpu_s_per_move
    own_row = (f"{result.policy} (placed)", result.rating, seconds, result.front)
    rungs = [
        (rung.spec, rung.interval, rung.cpu_s_per_move_here, rung.front) for rung in result.rungs
    ]
    ranking = sorted([own_row, *rungs], key=lambda row: -row[1].mean)
    rows = [
        (f"{rank} {player}", elo, seconds, "yes" if front else "")
        for rank, (player, elo, seconds, front) in enumerate(ranking, 1)
    ]
    place = "" if result.cost is None else f", on {result.processor}"
    return parts.table("ladder", rows, where=place)


def _rungs_table(result: LadderResult) -> DataTable:
    """Return the table of the results against the rungs, the strongest first."""
    rows = []
    for against in reversed(result.results):
        spec = result.rungs[against.rung].spec
        shares = (against.win, against.draw, against.loss)
        games = "exact" if result.exact else f"{against.games:,}"
        rows.append((spec, *shares, against.score, against.expected, games, shares))
    return parts.table("rungs", rows)


def _worst_positions(result: LadderResult) -> Parts:
    spots = result.worst_positions
    if spots:
        boards = [parts.spot_board(result.game, spot, likely=spot.likely) for spot in spots]
        return [Text(page.words("worst of the ladder")), BoardRow(boards)]
    if result.losses.regret == 0:
        return [left_out("It loses nothing.")]
    return [left_out(page.words("no worst positions"))]
