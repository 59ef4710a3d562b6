"""Pages of matches: sequential tests, tournaments, and places on a ladder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from ttt_eval.matches.elo import likelihood_of_superiority
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.results import LadderResult, SprtResult, TournamentResult
from ttt_eval.statistics import Interval

MAX_POINTS = 200
"""Maximum number of points of the path of a sequential test."""
MAX_CROSSED = 20
"""Maximum number of players in a cross table, best first."""
_elo = partial(formats.format_interval, write=formats.format_elo_difference)
_rating = partial(formats.format_interval, write=formats.format_elo)


def sprt_report(result: SprtResult) -> page.Report:
    """Return the page of a sequential test: the better player, the course of the test, and where the two differ."""
    a, b, score, rate, likely = result.a, result.b, result.match.played, result.score.interval, result.likelihood
    elo, fixed, counts = formats.elo_interval(rate), result.fixed_games, score.pentanomial
    more = "" if fixed is None or fixed <= score.games else f", {fixed / score.games:.1f} times as many"
    tiles = [
        page.Tile("Elo of A", formats.format_elo_difference(elo.mean), f"95%: {_elo(elo)}"),
        page.Tile("A is better", formats.likelihood(likely), "likelihood of superiority"),
        page.Tile("score of A", formats.share(rate.mean), f"95%: {formats.format_ends(rate)}"),
        page.Tile("games", f"{score.games:,}", page.words("pairs")),
        page.Tile("a fixed test takes", f"{fixed:,}" if fixed else "any number", f"games for the same errors{more}"),
        *parts.luck_tiles(result.match, result.luck_correction),
    ]
    test = result.test
    words: list[str | float | None] = ["evaluate.py", "match", a, b, "--sprt", test.elo0, test.elo1]
    words += ["--alpha", test.alpha, "--beta", test.beta, "--model", test.model, "--games", result.most_games]
    row, axis = plots.IntervalRow("A - B", elo), page.words("elo axis")
    shares = [formats.share(count / counts.sum()) for count in counts]
    sections: dict[str, page.Parts] = {
        "": [
            page.Text(_describe_decision(result)),
            page.Text(f"A is {a}, B is {b}."),
            parts.forfeits(score, a, b),
            [parts.intervals_figure([row], axis, axis, page.words("elo"), formats.format_elo_difference, 0.0)]
            if max(map(abs, elo)) < 1e5
            else None,
        ],
        "Course of the test": [[_draw_path(result)]],
        "The games": [
            parts.seats_table("games of A", score, ("all", "A moves first", "A moves second")),
            parts.table("pairs", [("pairs", *(f"{count:,}" for count in counts)), ("share", *shares)]),
        ],
        "Largest differences": parts.differences(result.game, result.differences, f"A: {a}", f"B: {b}"),
        "Reproduction": parts.reproduction(result, [*words, *parts.match_options(result)]),
    }
    return page.Report(f"{a} against {b}, {result.game}", formats.describe_better(a, b, rate, likely), tiles, sections)


def _describe_decision(result: SprtResult) -> str:
    test, upper = result.test, result.llr >= result.llr_high
    if result.llr_low < result.llr < result.llr_high:
        bounds = f"LLR is {result.llr:+.2f}, between {result.llr_low:.2f} and {result.llr_high:.2f}"
        return f"The test of {test.elo0:g} against {test.elo1:g} Elo has not ended: {bounds}."
    ahead = f"{result.a} is ahead by {f'more than {test.elo0:g}' if upper else f'less than {test.elo1:g}'}"
    error = formats.percent(test.alpha if upper else test.beta)
    return f"The test accepts {test.elo1 if upper else test.elo0:g} Elo: {ahead} (wrong in at most {error} of tests)."


def _draw_path(result: SprtResult) -> page.Figure:
    """Return the log-likelihood ratio by games."""
    test, low, high = result.test, result.llr_low, result.llr_high
    chosen = np.unique(np.linspace(0, len(result.path) - 1, MAX_POINTS).round().astype(int))
    games, ratios = [2 * result.path[i][0] for i in chosen], [result.path[i][1] for i in chosen]
    label = f"LLR after each block, up to {games[-1]:,} games: {ratios[-1]:+.2f}, with bounds {low:.2f} and {high:.2f}."
    about = f"The logarithm of the likelihood ratio (LLR) of {test.elo1:g} and {test.elo0:g} Elo by games. "
    return parts.figure(plots.draw_sprt_path(games, ratios, low, high), label, about + page.words("path"))


def _describe_first(names: Sequence[str], ratings: Sequence[Interval], rate: Interval, direct: str) -> str:
    """Say whether the first of a tournament is best.

    Args:
        names: of the players, best first.
        ratings: of the players.
        rate: the first player's score against the second.
        direct: the same in words.
    """
    first = f"{names[0]}{{}} {len(names)}: rating {_elo(ratings[0])}"
    level = [name for name, rating in zip(names[1:], ratings[1:], strict=True) if rating.high >= ratings[0].low]
    if not level:
        after = f"next is {names[1]}, {_elo(ratings[1])}"
        return f"{first.format(' is the best of')}, above all other intervals; {after}"
    if rate.low > 0.5:
        return f"{first.format(' leads')}; {direct}"
    others = f"{level[0]}{f' and {len(level) - 1} more' if len(level) > 1 else ''}"
    return f"Undecided among {len(names)}: {names[0]}, rating {_elo(ratings[0])}, is not distinguished from {others}"


def tournament_report(result: TournamentResult) -> page.Report:
    """Return the page of a tournament: the best player, a cross table, and ratings."""
    count, scores, specs = len(result.players), result.scores, [player.spec for player in result.players]
    order = sorted(range(count), key=lambda i: -result.players[i].rating.mean)
    players = [result.players[i] for i in order]
    names, ratings = [player.spec for player in players], [player.rating.interval for player in players]
    rates = {pairing: score.rate("score") for pairing, score in scores.items()}
    likely = {pairing: likelihood_of_superiority(score) for pairing, score in scores.items()}
    best = rates[order[0], order[1]]
    direct = formats.describe_better(names[0], names[1], best, likely[order[0], order[1]])
    drawn = [
        plots.IntervalRow(f"{place} {name}", one)
        for place, (name, one) in enumerate(zip(names, ratings, strict=True), 1)
    ]
    rows = [(row.name, row.value, one.score.mean, one.games) for row, one in zip(drawn, players, strict=True)]
    cells = {pair: (rate.mean, f"{rate.mean:.3f}", f"{rate.low:.3f}-{rate.high:.3f}") for pair, rate in rates.items()}
    neighbours = [
        (f"{specs[i]} against {specs[j]}", _elo(formats.elo_interval(rates[i, j])), likely[i, j], scores[i, j].games)
        for i, j in pairwise(order)
    ]
    spots = result.differences
    pair_names = (specs[spots.a], specs[spots.b]) if spots else ("", "")
    words = ["evaluate.py", "match", *specs, "--games", result.games_per_pairing, "--anchor", result.anchor]
    scale = f"Ratings are in Elo with 95% intervals; 0 is {result.anchor or 'the mean of all'}."
    games = f"{sum(player.games for player in players) // 2:,} games in all, in pairs with the seats swapped."
    write, most = formats.format_elo_difference, 2 * MAX_CROSSED
    sections: dict[str, page.Parts] = {
        "": [
            page.Text(f"In their own games {direct}.") if best.low <= 0.5 else None,
            page.Text(f"{scale} {games}"),
            *(parts.forfeits(score, specs[i], specs[j]) for (i, j), score in scores.items() if i < j),
        ],
        "Ratings": [
            [parts.intervals_figure(drawn[:most], "Ratings", "Elo", page.words("ratings"), write)],
            parts.table("ratings", rows),
        ],
        "Cross table": [
            parts.cross_table("tournament", dict(zip(order, names, strict=True)), cells, MAX_CROSSED),
            page.left_out(f"The best {MAX_CROSSED} of {count} are shown.") if count > MAX_CROSSED else None,
        ],
        "Neighbours": [parts.table("neighbours", neighbours)],
        "Largest differences of the best two": parts.differences(
            result.game, spots.positions if spots else None, *pair_names
        ),
        "Reproduction": parts.reproduction(result, [*words, *parts.match_options(result)]),
    }
    verdict = _describe_first(names, ratings, best, direct)
    return page.Report(f"Tournament of {count}, {result.game}", verdict, [], sections)


def _describe_place(rating: Interval, rungs: Sequence[plots.IntervalRow]) -> str:
    """Return the position between rungs of rising ratings, as far as the intervals decide it."""
    below = [rung.name for rung in rungs if rung.value.high < rating.low]
    above = [rung.name for rung in rungs if rung.value.low > rating.high]
    level = [rung.name for rung in rungs if rung.name not in (*below, *above)]
    if len(rungs) in (len(below), len(above)):
        return "above every rung" if below else "below every rung"
    if below and above and not level:
        return f"between {below[-1]} and {above[0]}"
    content = [f"above {below[-1]}"] if below else []
    content += [f"not distinguished from {formats.join_names(level)}"] if level else []
    content += [f"below {above[0]}"] if above else []
    return ", ".join(content)


def ladder_report(result: LadderResult) -> page.Report:
    """Return the page of a policy's place on a ladder: its rating, its cost, and its worst positions."""
    name, rating, cost, ladder = result.policy, result.rating.interval, result.cost, result.ladder
    rungs = [
        plots.IntervalRow(
            one.spec, Interval(one.rating, one.low, one.high), False, one.cpu_s_per_move_here or 0.0, one.front is True
        )
        for one in result.rungs
    ]
    own = plots.IntervalRow(name, rating, True, cost["cpu_s_per_move"] if cost else 0.0, result.front is True)
    rows = sorted([*rungs, own], key=lambda row: -row.value.mean)
    measures = parts.measure_tiles({"exploitability": result.exploitability, "regret": result.regret})
    tiles = [page.Tile("rating", formats.format_elo(rating.mean), _ends(rating)), *measures]
    place = _describe_place(rating, [row for row in rows[::-1] if not row.marked])
    words = [f"{name} is rated {_rating(rating)}: {place}", *(f"{tile.name} {tile.value}" for tile in measures[:1])]
    if cost is not None:
        note = f"of CPU, one at a time; {formats.mebibytes(cost['own_bytes'])}"
        tiles.append(page.Tile("a move takes", formats.duration(cost["cpu_s_per_move"]), note))
        words.append(f"{tiles[-1].value} a move")
    if result.front is not None:
        words.append("on the Pareto front" if result.front else "not on the Pareto front")
    num = int(result.settings["games"])
    met = "Results against the rungs are exact." if result.exact else f"Each rung was met in {num:,} games."
    misfit = (
        "" if result.misfit is None else f" Scores are {result.misfit:.3f} from what ratings expect (root mean square)."
    )
    command = ["evaluate.py", "ladder", name, "--ladder", ladder.source, "--games", num or None]
    sections: dict[str, page.Parts] = {
        "": [page.Text(f"Elo on the ladder {ladder.name}, on which {ladder.anchor} is 0. {met}{misfit}")],
        "The ladder": _ladder(rows, cost is not None),
        "Against each rung": [_against_rungs(result)],
        "The first move": [page.Boards([parts.first_move_board(result.game, np.array(result.first_move).ravel())])],
        "Worst positions": _worst(result),
        "Cost": _cost(result),
        "Reproduction": parts.reproduction(result, [*command, "--seed", int(result.settings["seed"])]),
    }
    return page.Report(f"{name} on a ladder, {result.game}", "; ".join(words), tiles, sections)


def _ladder(rows: Sequence[plots.IntervalRow], has_cost: bool) -> page.Parts:
    """Return the ladder from above, the placed policy marked."""
    figures = [parts.intervals_figure(rows, "The ladder from above", "Elo", page.words("ladder"), formats.format_elo)]
    points = [row._replace(cost=1e6 * row.cost) for row in rows if row.cost]
    if has_cost:
        best = ", ".join(point.name for point in points if point.front)
        draw = plots.draw_pareto_front(points, "CPU of a move, us", "Elo")
        label = f"Rating by CPU of a move. On the front: {best or 'none'}."
        figures.append(parts.figure(draw, label, page.words("ladder front"), plots.figure_size(len(rows))))
    lines = [
        (
            f"{place} {row.name}{' (placed)' if row.marked else ''}",
            row.value.mean,
            _ends(row.value),
            *((row.cost or None, "yes" if row.front else "") if points else ()),
        )
        for place, row in enumerate(rows, 1)
    ]
    table = parts.table("ladder", lines, head=("rung", "Elo", "95%", *(("a move", "front") if points else ())))
    return [figures, None if has_cost else page.left_out(page.words("no cost of moves")), table]


def _against_rungs(result: LadderResult) -> page.Table:
    rows = []
    for one in result.results[::-1]:
        shares, games = (one.win, one.draw, one.loss), "exact" if one.exact else f"{one.games:,}"
        score = formats.format_interval(one.score.interval, formats.three_digits)
        rows.append((result.rungs[one.rung].spec, *shares, score, one.expected, games, shares))
    return parts.table("rungs", rows)


def _ends(rating: Interval) -> str:
    return "exact" if rating.low == rating.high else f"95%: {formats.format_ends(rating, formats.format_elo)}"


def _worst(result: LadderResult) -> page.Parts:
    if not result.worst_positions:
        perfect = result.regret == 0 and result.pure
        return [page.left_out("It loses nothing." if perfect else page.words("no worst positions"))]
    boards = [
        parts.spot_board(result.game, spot, spot.played, spot.loss, likely=spot.likely)
        for spot in result.worst_positions
    ]
    return [page.Text(page.words("worst of the ladder")), page.Boards(boards)]


def _cost(result: LadderResult) -> page.Parts:
    cost, training = result.cost, result.training
    content: page.Part = page.left_out(page.words("cost not measured"))
    if cost is not None:
        rows = [
            ("a move, CPU", formats.duration(cost["cpu_s_per_move"])),
            ("set-up and first move, CPU", f"{cost['setup_cpu_s']:,.2f} s"),
            ("memory of its own", formats.mebibytes(cost["own_bytes"])),
            ("peak memory of the process", formats.mebibytes(cost["peak_rss_bytes"])),
        ]
        content = parts.table("cost of moves", rows, where=f" on {result.processor}" if result.processor else "")
    if training is None or not training.cost:
        return [content, page.left_out(page.words("no run" if training is None else "no cost of training"))]
    names = {"learner": training.learner, "games": f"{training.games:,}"}
    return [content, parts.phases_table("cost of training", training.cost, **names)]
