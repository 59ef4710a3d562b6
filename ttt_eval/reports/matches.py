"""Pages of matches: sequential tests, tournaments, and places on a ladder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
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
PAIRS_HEAD = ("points of A in a pair", "0", "1/2", "1", "3/2", "2")
RUNGS_HEAD = ("against", "win", "draw", "loss", "score (95%)", "expected", "games", page.RESULTS_KEY)
_elo = partial(formats.format_interval, write=formats.format_elo_difference)
_rating = partial(formats.format_interval, write=formats.format_elo)
_three_digits = "{:.3f}".format


def sprt_report(result: SprtResult) -> page.Report:
    """Return the page of a sequential test: the better player, the course of the test, and where the two differ."""
    a, b, test, score, rate = result.a, result.b, result.test, result.match.played, result.score.interval
    elo, likely, low, high = (
        formats.elo_interval(rate),
        result.likelihood_of_superiority,
        result.llr_low,
        result.llr_high,
    )
    fixed, upper, axis = result.fixed_games, result.llr >= high, "Elo of A less Elo of B"
    more = "" if fixed is None or fixed <= score.games else f", {fixed / score.games:.1f} times as many"
    tiles = [
        page.Tile("Elo of A", formats.format_elo_difference(elo.mean), f"95%: {_elo(elo)}"),
        page.Tile("A is better", formats.likelihood(likely), "likelihood of superiority"),
        page.Tile("score of A", formats.share(rate.mean), f"95%: {formats.format_ends(rate)}"),
        page.Tile("games", f"{score.games:,}", "in pairs, with the seats swapped"),
        page.Tile(
            "a fixed test takes", "any number" if fixed is None else f"{fixed:,}", f"games for the same errors{more}"
        ),
    ]
    tests = f"The test of {test.elo0:g} against {test.elo1:g} Elo"
    decision = f"{tests} has not ended: LLR is {result.llr:+.2f}, between {low:.2f} and {high:.2f}."
    if not low < result.llr < high:
        ahead = f"{a} is ahead by {f'more than {test.elo0:g}' if upper else f'less than {test.elo1:g}'}"
        error = formats.percent(test.alpha if upper else test.beta)
        decision = (
            f"The test accepts {test.elo1 if upper else test.elo0:g} Elo: {ahead} (wrong in at most {error} of tests)."
        )
    chart = plots.draw_intervals([plots.IntervalRow("A - B", elo)], axis, 0.0)
    about = "The 95% interval; grey: equal."
    chosen = np.unique(np.linspace(0, len(result.path) - 1, MAX_POINTS).round().astype(int))
    games, ratios = [2 * result.path[i][0] for i in chosen], [result.path[i][1] for i in chosen]
    label = f"LLR after each block, up to {games[-1]:,} games: {ratios[-1]:+.2f}, with bounds {low:.2f} and {high:.2f}."
    caption = (
        f"The logarithm of the likelihood ratio (LLR) of {test.elo1:g} and {test.elo0:g} Elo by games. "
        "The blue line accepts the larger, the orange one the smaller."
    )
    counts, seats = score.pentanomial, ("A moves first", "A moves second")
    pairs = [("pairs", *(f"{n:,}" for n in counts)), ("share", *(formats.share(n / counts.sum()) for n in counts))]
    options = [word for name, value in asdict(test).items() for word in (f"--{name}", value)]
    words = ["evaluate.py", "sprt", a, b, *options, "--games", result.most_games, *parts.match_options(result)]
    sections: dict[str, page.Parts] = {
        "": [
            page.Text(decision),
            page.Text(f"A is {a}, B is {b}."),
            parts.forfeits(score, a, b),
            parts.figures(parts.figure(chart, f"{axis}: {_elo(elo)}.", about, plots.figure_size(1)))
            if max(map(abs, elo)) < 1e5
            else None,
        ],
        "Course of the test": [
            parts.figures(parts.figure(plots.draw_sprt_path(games, ratios, low, high), label, caption))
        ],
        "The games": [
            parts.seats_table("Results of A by seat", "A", score, seats),
            page.Table("Pairs of games, which are the independent samples", PAIRS_HEAD, pairs),
        ],
        "Largest differences": parts.differences(result.game, result.differences, f"A: {a}", f"B: {b}"),
        "Reproduction": parts.reproduction(result, words),
    }
    tiles += parts.luck_tiles(result.match, result.luck_correction)
    verdict = formats.describe_better(a, b, rate, likely)
    return page.Report(f"{a} against {b}, {result.game}", verdict, tiles, sections)


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
    count, scores = len(result.players), result.scores
    order = sorted(range(count), key=lambda i: -result.players[i].rating.mean)
    players = [result.players[i] for i in order]
    names, ratings = [player.spec for player in players], [player.rating.interval for player in players]
    titles = [f"{place} {name}" for place, name in enumerate(names, 1)]
    rates = {pairing: score.rate("score") for pairing, score in scores.items()}
    likely = {pairing: likelihood_of_superiority(score) for pairing, score in scores.items()}
    best = (order[0], order[1])
    direct = formats.describe_better(names[0], names[1], rates[best], likely[best])
    low, high = min(rating.low for rating in ratings), max(rating.high for rating in ratings)
    ratings_rows = [
        (
            title,
            parts.interval_cell(rating, formats.format_elo_difference, low, high),
            f"{one.score.mean:.3f}",
            f"{one.games:,}",
        )
        for title, rating, one in zip(titles, ratings, players, strict=True)
    ]
    drawn = [plots.IntervalRow(*row) for row in zip(titles, ratings, strict=True)][: 2 * MAX_CROSSED]
    label = f"Ratings: {'; '.join(f'{row.name} {_elo(row.value)}' for row in drawn)}."
    about = "Ratings, best first, with their 95% intervals. Players with disjoint intervals are distinguished."
    cells = {
        pair: parts.score_cell(rate.mean, f"{rate.mean:.3f}", f"{rate.low:.3f}-{rate.high:.3f}")
        for pair, rate in rates.items()
    }
    caption = "Scores, a draw counting half, with 95% intervals below them."
    neighbours = [
        (
            f"{a} against {b}",
            _elo(formats.elo_interval(rates[pair])),
            formats.likelihood(likely[pair]),
            f"{scores[pair].games:,}",
        )
        for (a, b), pair in zip(pairwise(names), pairwise(order), strict=True)
    ]
    head = ("the better rated against the next", "Elo (95%)", "likelihood of superiority", "games")
    spots, specs = result.differences, [player.spec for player in result.players]
    pair_names = (specs[spots.a], specs[spots.b]) if spots else ("", "")
    words = ["evaluate.py", "tournament", *specs, "--games", result.games_per_pairing, "--anchor", result.anchor]
    scale = f"Ratings are in Elo with 95% intervals; 0 is {result.anchor or 'the mean of all'}."
    games = f"{sum(player.games for player in players) // 2:,} games in all, in pairs with the seats swapped."
    lost = [parts.forfeits(score, specs[i], specs[j]) for (i, j), score in scores.items() if i < j]
    sections: dict[str, page.Parts] = {
        "": [
            page.Text(f"In their own games {direct}.") if rates[best].low <= 0.5 else None,
            page.Text(f"{scale} {games}"),
            *lost,
        ],
        "Ratings": [
            parts.figures(
                parts.figure(plots.draw_intervals(drawn, "Elo"), label, about, plots.figure_size(len(drawn)))
            ),
            page.Table("Ratings, and scores over all games", ("player", "Elo, 95%", "score", "games"), ratings_rows),
        ],
        "Cross table": [
            parts.cross_table(caption, dict(zip(order, names, strict=True)), cells, MAX_CROSSED),
            page.left_out(f"The best {MAX_CROSSED} of {count} are shown.") if count > MAX_CROSSED else None,
        ],
        "Neighbours": [page.Table("Neighbours in the rating, in their own games", head, neighbours)],
        "Largest differences of the best two": parts.differences(
            result.game, spots.positions if spots else None, *pair_names
        ),
        "Reproduction": parts.reproduction(result, [*words, *parts.match_options(result)]),
    }
    verdict = _describe_first(names, ratings, rates[best], direct)
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
    policies = sorted(
        [
            (
                plots.IntervalRow(rung.spec, Interval(rung.rating, rung.low, rung.high)),
                rung.cpu_s_per_move_here,
                rung.front,
            )
            for rung in result.rungs
        ]
        + [(plots.IntervalRow(name, rating, True), cost and cost["cpu_s_per_move"], result.front)],
        key=lambda one: -one[0].value.mean,
    )
    rows, size = [row for row, *_ in policies], plots.figure_size(len(policies))
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
    label = f"The ladder from above: {'; '.join(f'{row.name} {_rating(row.value)}' for row in rows)}."
    about = "The ladder, strongest on top. The orange diamond is the policy that was placed; bars are 95% intervals."
    figures = [parts.figure(plots.draw_intervals(rows, "Elo"), label, about, size)]
    points = [
        plots.CostPoint(row.name, 1e6 * cpu, row.value, front is True, row.marked)
        for row, cpu, front in policies
        if cpu
    ]
    if cost is not None:
        best = ", ".join(point.name for point in points if point.front)
        label = f"Rating by CPU of a move. On the front: {best or 'none'}."
        about = "Rating by the CPU time of a move, all measured on one machine. "
        draw = plots.draw_pareto_front(points, "CPU of a move, us", "Elo")
        figures.append(parts.figure(draw, label, about + parts.FRONT, size))
    lines = [
        (
            f"{place} {row.name}{' (placed)' if row.marked else ''}",
            formats.format_elo(row.value.mean),
            _ends(row.value),
            *((formats.duration(cpu) if cpu else "", "yes" if front else "") if points else ()),
        )
        for place, (row, cpu, front) in enumerate(policies, 1)
    ]
    against: list[page.Row] = [
        (
            result.rungs[one.rung].spec,
            *map(_three_digits, (one.win, one.draw, one.loss)),
            formats.format_interval(one.score.interval, _three_digits),
            _three_digits(one.expected),
            "exact" if one.exact else f"{one.games:,}",
            page.Cell(shares=(one.win, one.draw, one.loss)),
        )
        for one in result.results[::-1]
    ]
    num = int(result.settings["games"])
    met = "Results against the rungs are exact." if result.exact else f"Each rung was met in {num:,} games."
    misfit = (
        "" if result.misfit is None else f" Scores are {result.misfit:.3f} from what ratings expect (root mean square)."
    )
    missing = "Strength by cost is left out: the cost of a move was not measured."
    command = ["evaluate.py", "ladder", name, "--ladder", ladder.source, "--games", num or None]
    sections: dict[str, page.Parts] = {
        "": [page.Text(f"Elo on the ladder {ladder.name}, on which {ladder.anchor} is 0. {met}{misfit}")],
        "The ladder": [
            parts.figures(*figures),
            None if cost else page.left_out(missing),
            page.Table("The same in numbers", ("rung", "Elo", "95%", *(("a move", "front") if points else ())), lines),
        ],
        "Against each rung": [page.Table("Expected is the score at the two ratings", RUNGS_HEAD, against)],
        "The first move": [page.Boards([parts.first_move_board(result.game, np.array(result.first_move).ravel())])],
        "Worst positions": _worst(result),
        "Cost": _cost(result),
        "Reproduction": parts.reproduction(result, [*command, "--seed", int(result.settings["seed"])]),
    }
    return page.Report(f"{name} on a ladder, {result.game}", "; ".join(words), tiles, sections)


def _ends(rating: Interval) -> str:
    return "exact" if rating.low == rating.high else f"95%: {formats.format_ends(rating, formats.format_elo)}"


def _worst(result: LadderResult) -> page.Parts:
    if not result.worst_positions:
        missing = "Left out: it is computed for pure policies on small boards."
        return [page.left_out("It loses nothing." if result.regret == 0 and result.pure else missing)]
    boards = [
        parts.spot_board(result.game, spot, spot.played, spot.loss, likely=spot.likely)
        for spot in result.worst_positions
    ]
    about = "Against random play, which reaches every position. The first cost an average game most."
    return [page.Text(f"{about} {parts.COLOURS}"), page.Boards(boards)]


def _cost(result: LadderResult) -> page.Parts:
    cost, training = result.cost, result.training
    content: list[page.Part | None] = [page.left_out("The cost of its moves was not measured.")]
    if cost is not None:
        rows = [
            ("a move, CPU", formats.duration(cost["cpu_s_per_move"])),
            ("set-up and first move, CPU", f"{cost['setup_cpu_s']:,.2f} s"),
            ("memory of its own", formats.mebibytes(cost["own_bytes"])),
            ("peak memory of the process", formats.mebibytes(cost["peak_rss_bytes"])),
        ]
        where = f" on {result.processor}" if result.processor else ""
        content = [page.Table(f"To play, one position at a time{where}", ("", "cost"), rows)]
    if training is None or not training.cost:
        missing = "It is no run of train.py: the cost" if training is None else "The cost"
        return [*content, page.left_out(f"{missing} of training is not known.")]
    return [*content, parts.phases_table(f"To train: {training.learner}, {training.games:,} games", training.cost)]
