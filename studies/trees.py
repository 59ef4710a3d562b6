"""The report on tree search: random play and the tree against random on five boards."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from baselines.expectiminimax import Heuristic, Pruning, Search
from studies.frame import (
    RESULT_VALUES,
    Claim,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyFigure,
    StudyReport,
    group,
    make_claims,
    read_data,
)
from studies.verdicts import holds_for_all, holds_for_any, is_above, is_sample, is_within
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.reports.plots import RESULTS
from ttt_eval.store.result_store import Unit
from ttt_eval.store.statistics import Interval, difference, interval_from_pairs, median, wilson

SOURCE = (
    "Song, Li, Liu and Cheng, CIS 667 Project Final Report (Syracuse University; "
    "https://github.com/JiaxinSong/tictactoe)"
)
DATA = read_data("trees")
SKIP = 0.25
DEPTH = 3
GAMES = 100
"""Number of games of each published match."""
MIN_CLOSE_RATIO = 0.8
"""Minimum ratio of goal to size that the report calls close; it names 8 of 8 and 8 of 10."""
MIN_GAMES_RATIO = 10
"""Minimum ratio of our games to the published ones for comparing rates."""
FIRST, SECOND = range(2)
"""Seats."""


class ReportBoard(NamedTuple):
    """A board of the report, with the published results."""

    size: int
    win_length: int
    width: int
    """the tree's, below its first layer"""
    random: Sequence[int]
    """wins, draws and losses of random, moving first, against random"""
    tree: Sequence[int]
    """wins, draws and losses of the tree, moving second, against random"""

    @property
    def game(self) -> Game:
        """The game."""
        return square(self.size, self.win_length)

    @property
    def name(self) -> str:
        """Size and win length."""
        return board_name(self.game)

    @property
    def close(self) -> bool:
        """Whether its size and its goal are "relatively close", in the report's words for two of
        its boards.
        """
        return self.win_length >= MIN_CLOSE_RATIO * self.size

    def spec(self, heuristic: Heuristic = "count", *, wide: bool = False) -> str:
        """Return the report's tree, or one with another heuristic, or a ``wide`` one that tries
        every move.
        """
        width = "" if wide else f",width={self.width}"
        return f"expectiminimax:depth={DEPTH}{width}" + (
            "" if heuristic == "count" else f",heuristic={heuristic}"
        )

    @property
    def trees(self) -> dict[str, str]:
        """The trees that play on it by what is different: the report's, as we read it, and
        others.
        """
        trees = {"": self.spec(), ", comparing runs": self.spec("consecutive")}
        return trees | ({", trying every move": self.spec(wide=True)} if self.close else {})


BOARDS = tuple(ReportBoard(**row) for row in DATA["boards"])


def square(size: int, win_length: int) -> Game:
    """Return a game on a square board with the report's skips."""
    return Game(size, size, win_length, SKIP)


def board_name(game: Game) -> str:
    """Return size and win length."""
    return f"{game.rows} x {game.columns} ({game.win_length})"


def play_match(
    game: Game, a: str | Policy, b: str | Policy, games: int, seed: int
) -> dict[str, Any]:
    """Play this number of games of a against b in each seat.

    Returns:
        JSON-ready data: the fields of a `Score`, and ``cpu_s``, the CPU time of the games in
            seconds.
    """
    start = time.process_time()
    score = play_pairs(game, a, b, games, seed=seed)
    assert score.lengths is not None
    cpu_s = time.process_time() - start
    return {"pairs": score.pairs.tolist(), "lengths": score.lengths.tolist(), "cpu_s": cpu_s}


def total_score(results: Iterable[Mapping[str, Any]]) -> Score:
    """Add up the matches of one pair of players."""
    scores = (Score(np.array(result["pairs"]), np.array(result["lengths"])) for result in results)
    return sum(scores, Score.empty())


def rates_of_seat(score: Score, seat: int) -> list[Interval]:
    """Return rates of a's wins, draws and losses in one seat, whose games are independent."""
    counts = score.table[seat]
    return [wilson(float(count / counts.sum()), int(counts.sum())) for count in counts]


def first_mover_score(score: Score) -> Score:
    """Return the results of the first mover: a's loss as player_1 is b's win as player_0."""
    return Score(score.pairs[:, ::-1])


def rates_of_first_mover(score: Score, confidence: float = 0.95) -> list[Interval]:
    """Return rates of wins, draws and losses of the first mover."""
    return [
        first_mover_score(score).rate(result, confidence) for result in ("wins", "draws", "losses")
    ]


def first_move_advantage(score: Score) -> Interval:
    """Return wins minus losses of the first mover, the mean over a and b moving first."""
    return Interval(*(2 * share - 1 for share in first_mover_score(score).rate("score")))


def counts_agree(published: Sequence[int], ours: Sequence[int] | Int64Array) -> bool | None:
    """Return whether published counts are plausible under our rates; None if our games are too
    few.
    """
    if np.sum(ours) < MIN_GAMES_RATIO * sum(published):
        return None
    # add one of each result: a result unseen in our games is rare, not impossible
    counts = np.asarray(ours) + 1
    return is_sample(published, (counts / counts.sum()).tolist())


def mean_result(counts: Sequence[int] | Int64Array, weights: Sequence[float]) -> Interval:
    """Return the mean of result values, -1 to 1 each, over independent games."""
    games = np.asarray(counts)
    weight = np.asarray(weights)
    mean = float(games @ weight / games.sum())
    variance = float(games @ (weight - mean) ** 2 / max(1, games.sum() - 1))
    # from [-1, 1] to [0, 1] and back
    return Interval(
        *(
            2 * share - 1
            for share in interval_from_pairs((1 + mean) / 2, variance / 4, int(games.sum()))
        )
    )


def has_draw_gap(draws: Sequence[Interval]) -> bool | None:
    """Return whether each board of close size and goal has more draws than any other; None if
    intervals overlap.
    """
    rates = list(zip(BOARDS, draws, strict=True))
    close, other = (
        [rate for board, rate in rates if board.close == kind] for kind in (True, False)
    )
    if min(rate.high for rate in close) < max(rate.low for rate in other):
        return False
    return True if min(rate.low for rate in close) > max(rate.high for rate in other) else None


def format_counts(counts: Sequence[int]) -> str:
    """Format win / draw / loss in games."""
    return " / ".join(f"{count:,}" for count in counts)


# --------------------------------------------------------------------------------------------------
# Random against random: the first table

EXACT_BOARDS = ((3, 3), (4, 3))
"""Boards that the report plays later, small enough for exact results."""
RANDOM_GAMES = 100_000
"""Number of our games, enough to measure the first-move advantage."""
EXACT_CONFIDENCE = 0.99
"""Confidence level of the intervals that must contain the exact rates."""


class RandomPlay(Study):
    """Turns are skipped with probability 0.25. Numbers are wins / draws / losses of the first
    player, O in the report. Published counts agree if they are a plausible sample of the rates of
    our 100,000 games (exact multinomial test, 5%). Intervals (95%) are over pairs of games, in
    which each player moves first once. Exact results are computed by dynamic programming; they
    agree if all three rates lie in our intervals of 99%.
    """

    title = "Random against random on five boards"
    source = f"{SOURCE}, milestone 2, first table"
    left_out = "99 of 100 games of ours, and the exact result of 4 x 4 (3)"

    def units(self, quick: bool) -> list[Unit]:
        """Return our games on each board, and the exact results."""
        boards = (*EXACT_BOARDS, *((board.size, board.win_length) for board in BOARDS))
        games = 1_000 if quick else RANDOM_GAMES
        return [
            *({"board": board, "games": games} for board in boards),
            *(
                {"board": board, "games": 0}
                for board in (EXACT_BOARDS[:1] if quick else EXACT_BOARDS)
            ),
        ]

    def measure(self, unit: Unit) -> Any:
        """Play pairs of games, or compute the exact result of the first mover if there are none."""
        game = square(*unit["board"])
        if not unit["games"]:
            return list(outcome(game, "random", "random"))
        return play_match(game, "random", "random", unit["games"] // 2, 0)

    def analyse(self, results: Results) -> StudyReport:
        """Report all boards, and whether equal players have a first-move advantage."""
        scores = {
            tuple(unit["board"]): total_score([result]) for unit, result in results if unit["games"]
        }
        exact = {tuple(unit["board"]): result for unit, result in results if not unit["games"]}
        published = {(board.size, board.win_length): board for board in BOARDS}
        rows = []
        for size, score in scores.items():
            rates = rates_of_first_mover(score)
            label = f"{board_name(square(*size))}, {score.games:,} games"
            if size in published:
                counts = published[size].random
                agrees = counts_agree(counts, first_mover_score(score).table.sum(axis=0))
                rows.append(ResultRow(label, format_counts(counts), rates, None, agrees))
            elif size in exact:
                wide = zip(exact[size], rates_of_first_mover(score, EXACT_CONFIDENCE), strict=True)
                agrees = all(rate.low <= share <= rate.high for share, rate in wide)
                rows.append(ResultRow(label, None, rates, exact[size], agrees))
        advantages = {
            board.name: first_move_advantage(scores[size]) for size, board in published.items()
        }
        draws = {
            board.name: rates_of_first_mover(scores[size])[1] for size, board in published.items()
        }
        verdicts: dict[str, tuple[bool | None, Mapping[str, Any]]] = {
            "first move": (
                is_above(advantages.values()),
                {"the first player's wins less losses": advantages},
            ),
            "draws": (has_draw_gap(list(draws.values())), draws),
        }
        claims = make_claims(DATA["claims"], verdicts)
        series = []
        for result, (name, colour) in enumerate(
            zip(("first wins", "draw", "second wins"), RESULTS, strict=True)
        ):
            places = {size: place + 0.2 * (result - 1) for place, size in enumerate(scores)}
            ours = [rates_of_first_mover(score)[result] for score in scores.values()]
            intervals = {
                places[size]: wilson(board.random[result] / GAMES, GAMES)
                for size, board in published.items()
            }
            series.append(Series(name, places.values(), ours, "o", colour))
            series.append(
                Series("" if result else "published", intervals, intervals.values(), "D", "black")
            )
        names = [board_name(square(*size)) for size in scores]
        panel = Panel(
            series,
            f"rate, random against random, skip chance {SKIP}",
            places=names,
            limits=(0, 1.02),
        )
        question = "Is the first move an advantage between random players?"
        figure = StudyFigure(
            question, "Dots are our games, diamonds the published ones with 95% intervals.", [panel]
        )
        return StudyReport(rows, claims, {"tree-random": figure})


# --------------------------------------------------------------------------------------------------
# The tree against random: the second table, and its figures

EXACT_BOARD = (3, 3)
"""The board with exact results."""
EXACT_TREE = f"expectiminimax:depth={DEPTH},width=15"
"""The tree on that board; it tries every move."""
EXACT_PAIRINGS = ((EXACT_TREE, "random"), (EXACT_TREE, "optimal"), ("optimal", "optimal"))
"""Pairings on that board, in either seat."""
GAMES_PER_SEAT = 10_000
OTHER_GAMES = 2_000
"""Number of our games in each seat: of our reading of the report's tree, and of other trees."""
UNIT_GAMES = 1_000
"""Maximum number of games in each seat per unit."""
PUBLISHED_LENGTH = 16
"""Number of turns that the report names."""
PUBLISHED_TIMES = {10: "almost 10 hours"}
"""Duration of the published games, by size."""
MAJORITY = 0.5
MIN_PROBABILITY = 0.05
"""Share called most; probability of a match below which it is not a plausible sample of ours."""
VERY_GOOD = 0.99
WONDERFUL = 0.9
"""Win rates taken for "a very good performance" and "a wonderful winning rate"."""
MAX_RATE_DIFFERENCE = 0.01
MAX_LENGTH_DIFFERENCE = 2
"""Maximum differences of rates, and of stones, taken for "very close"."""
SEARCHES: tuple[Pruning, ...] = ("star1", "none")
"""Our search, and the report's, which visits its whole tree."""


def split_games(games: int, size: int) -> list[tuple[int, int]]:
    """Split games into units of ``size`` and the rest: the number of each, and a unique seed."""
    return [(min(size, games - start), start) for start in range(0, games, size)]


def tree_size(board: ReportBoard) -> int:
    """Return the nodes of a three-ply tree from the empty board, by the report: two turns after
    every move.
    """
    return board.game.cells * (1 + 2 * board.width + 2 * board.width * 2 * board.width)


def first_move_nodes(board: ReportBoard, pruning: Pruning) -> int:
    """Return the nodes that the tree visits for the first move."""
    keys = np.zeros(1, np.uint64)
    search = Search(
        board.game, Boards.start(board.game), pruning=pruning, width=board.width, random_keys=keys
    )
    search.run(DEPTH)
    return int(search.nodes[0])


class BoardResult(NamedTuple):
    """Measurements on one board."""

    board: ReportBoard
    trees: dict[str, Score]
    """by what is different from our reading of the report's tree"""
    nodes: Mapping[str, int]
    """positions visited for the first move, by search"""
    cpu_s: float
    """CPU seconds of as many games as published"""

    @property
    def won(self) -> Int64Array:
        """int64[cells + 1]: games that the tree won, moving second, by the stones on the board at
        the end.
        """
        lengths = self.trees[""].lengths
        assert lengths is not None
        return np.asarray(lengths[SECOND, 0])

    @property
    def length(self) -> Interval:
        """Median number of stones at the end of these games."""
        return median(self.won)

    @property
    def rates(self) -> list[Interval]:
        """Rates of wins, draws and losses of the report's tree, moving second."""
        return rates_of_seat(self.trees[""], SECOND)

    def rows(self) -> list[ResultRow]:
        """Return the rows of the board."""
        rows = []
        board = self.board
        for label, score in self.trees.items():
            agrees = counts_agree(board.tree, score.table[SECOND]) if "every" not in label else None
            published = None if "every" in label else format_counts(board.tree)
            what = f"{board.name}, tree second{label}, {score.games // 2:,} games"
            rows.append(ResultRow(what, published, rates_of_seat(score, SECOND), None, agrees))
        rows.append(
            ResultRow(f"{board.name}, tree first", None, rates_of_seat(self.trees[""], FIRST))
        )
        cost = {"CPU s": self.cpu_s, "nodes of the first move": dict(self.nodes)}
        return [
            *rows,
            ResultRow(f"{board.name}, {GAMES} games", PUBLISHED_TIMES.get(board.size), cost),
        ]


class TreeSearch(Study):
    """Turns are skipped with probability 0.25. The tree searches 3 plies, with as many random moves
    at a node below the root as in the report (7 x 7: 15, 8 x 8: 10, 9 x 9: 12, 10 x 10: 9, 13 x 13:
    8). Numbers are wins / draws / losses of the tree. In the published games it moves second; here
    it plays in both seats, 10,000 games in each, with 95% intervals. Published counts agree if they
    are a plausible sample of the rates of our games (exact multinomial test, 5%). At the horizon
    the report compares "the maximum pieces in a row that have potential to win", which we read as
    stones in one open line; comparing runs is the other reading, the longest chain in one. The
    first move is searched twice: with pruning (star1), and without, which visits the whole tree, as
    in the report. Times are of one core, with pruning. The report's figures have one bar per game
    for its turns; ours show all games together.
    """

    title = "A tree search against random on five boards"
    source = f"{SOURCE}, milestone 2, second table and figures"
    left_out = f"all games but 10 of {GAMES_PER_SEAT:,} in a seat"

    def units(self, quick: bool) -> list[Unit]:
        """Return our games on each board with the report's tree and with others, and the exact
        results.
        """
        units: list[Unit] = [
            {"board": number, "tree": "", "games": 0, "seed": 0} for number in range(len(BOARDS))
        ]
        for number, board in enumerate(BOARDS):
            for label in board.trees:
                games = 10 if quick else OTHER_GAMES if label else GAMES_PER_SEAT
                units += [
                    {"board": number, "tree": label, "games": count, "seed": seed}
                    for count, seed in split_games(games, UNIT_GAMES)
                ]
        return [*units, {"exact": EXACT_BOARD}]

    def measure(self, unit: Unit) -> Any:
        """Return the counts of a match, nodes of the first move if it has no games, or exact
        results.
        """
        if "exact" in unit:
            game = square(*unit["exact"])
            return [
                [list(outcome(game, b, a).reversed()), list(outcome(game, a, b))]
                for a, b in EXACT_PAIRINGS
            ]
        board = BOARDS[unit["board"]]
        if not unit["games"]:
            return {pruning: first_move_nodes(board, pruning) for pruning in SEARCHES}
        return play_match(
            board.game, board.trees[unit["tree"]], "random", unit["games"], unit["seed"]
        )

    def analyse(self, results: Results) -> StudyReport:
        """Report all boards, and verdicts on the report's sentences."""
        matches = group(
            [(unit, result) for unit, result in results if unit.get("games")], "board", "tree"
        )
        boards = []
        for number, board in enumerate(BOARDS):
            [nodes] = [
                result
                for unit, result in results
                if (unit.get("board"), unit.get("games")) == (number, 0)
            ]
            trees = {label: total_score(matches[number, label]) for label in board.trees}
            cpu_s = sum(match["cpu_s"] for match in matches[number, ""]) * GAMES / trees[""].games
            boards.append(BoardResult(board, trees, nodes, cpu_s))
        rows = [row for result in boards for row in result.rows()]
        for (a, b), seats in zip(EXACT_PAIRINGS, results[-1][1], strict=True):
            for seat, rates in zip(("second", "first"), seats, strict=True):
                label = (
                    f"{board_name(square(*EXACT_BOARD))}, {a.replace(EXACT_TREE, 'tree')} {seat}, "
                    f"against {b}"
                )
                rows.append(ResultRow(label, None, None, rates))
        question = "How often does the tree search beat random play?"
        symbols = "Intervals are 95%. On the right, circles are medians, lines the middle 90%."
        return StudyReport(
            rows,
            _search_claims(boards),
            {"tree-search": StudyFigure(question, symbols, _search_panels(boards))},
        )


def _search_claims(boards: Sequence[BoardResult]) -> list[Claim]:
    """Return verdicts on the report's sentences."""
    seven, eight, nine, ten, thirteen = boards  # in the report's order, by size
    far = [result for result in boards if not result.board.close]
    wins = {result.board.name: result.rates[0] for result in boards}
    advantages = {result.board.name: first_move_advantage(result.trees[""]) for result in boards}
    matches = Interval(*(share**GAMES for share in seven.rates[0]))
    perfect_matches = {f"matches of {GAMES} games, all won": matches, "read as": "most matches"}
    won = seven.won
    total = max(1, int(won.sum()))
    short = wilson(float(won[: PUBLISHED_LENGTH + 1].sum() / total), total)
    published_draws = (eight.board.tree[0] - eight.board.tree[1]) / GAMES
    lead = mean_result(eight.trees[""].table[SECOND], (1, -1, 0))
    wide, narrow = (
        mean_result(ten.trees[label].table[SECOND], RESULT_VALUES)
        for label in (", trying every move", "")
    )
    chances = {
        f"chance of {ten.board.tree[2]} or more{label}": _chance_of_losses(
            ten.trees[label], ten.board.tree[2]
        )
        for label in ("", ", comparing runs")
    }
    wonderful = [is_above([rate], WONDERFUL) for rate in wins.values()]
    nodes = {result.board.name: result.nodes["none"] for result in boards}
    draws = {result.board.name: result.rates[1] for result in boards}
    verdicts: dict[str, tuple[bool | None, Mapping[str, Any]]] = {
        "first move": (
            is_above(advantages.values()),
            {"wins less losses of the first player": advantages},
        ),
        "nodes": (all(result.nodes["none"] == tree_size(result.board) for result in boards), nodes),
        "all won": (is_above([matches], MAJORITY), {**perfect_matches, "wins": seven.rates[0]}),
        "turns": (
            is_above([short], MAJORITY),
            {"share of its wins": short, "median": seven.length},
        ),
        "close on 9 x 9": _same_result(nine, seven),
        "close on 13 x 13": _same_result(thirteen, seven),
        "very good": (
            is_above([result.rates[0] for result in far], VERY_GOOD),
            {**wins, "read as: above": VERY_GOOD},
        ),
        "draws": (has_draw_gap([result.rates[1] for result in boards]), draws),
        "more turns": (
            is_above(_length_difference(eight, result) for result in far),
            {result.board.name: result.length for result in boards},
        ),
        "draws and wins": (
            is_within(lead, -published_draws, published_draws),
            {"wins less draws": lead},
        ),
        "losses": (
            holds_for_any(is_above([chance], MIN_PROBABILITY) for chance in chances.values()),
            chances,
        ),
        "few nodes": (
            is_above([difference(wide, narrow)]),
            {"gain by trying every move": difference(wide, narrow)},
        ),
        "wonderful": (
            True if wonderful.count(True) > 2 else None if wonderful.count(False) < 3 else False,
            {**wins, "read as: on most boards above": WONDERFUL},
        ),
    }
    return make_claims(DATA["claims"], verdicts)


def _length_difference(a: BoardResult, b: BoardResult) -> Interval:
    """Return the difference of two median lengths, from the ends of both intervals."""
    return Interval(
        a.length.mean - b.length.mean, a.length.low - b.length.high, a.length.high - b.length.low
    )


def _same_result(result: BoardResult, other: BoardResult) -> tuple[bool | None, dict[str, Any]]:
    """Return whether two results are very close, and the differences of wins and of stones."""
    rates = difference(result.rates[0], other.rates[0])
    lengths = _length_difference(result, other)
    limits = ((rates, MAX_RATE_DIFFERENCE), (lengths, MAX_LENGTH_DIFFERENCE))
    holds = holds_for_all(is_within(value, -limit, limit) for value, limit in limits)
    return holds, {
        "difference of wins": rates,
        "of stones": lengths,
        "read as: within": [limit for _, limit in limits],
    }


def _chance_of_losses(score: Score, lost: int) -> Interval:
    """Return the probability of so many losses or more in a published match, by the loss rate of
    the second seat.
    """
    return Interval(
        *(float(binom.sf(lost - 1, GAMES, share)) for share in rates_of_seat(score, SECOND)[2])
    )


def _search_panels(boards: Sequence[BoardResult]) -> list[Panel]:
    """Return the tree's win rate on each board, published and ours, and the length of these
    games.
    """
    names = [f"{result.board.name}, width {result.board.width}" for result in boards]
    published = [wilson(result.board.tree[0] / GAMES, GAMES) for result in boards]
    wins = [
        Series(
            "published, second",
            [place - 0.3 for place in range(len(boards))],
            published,
            "D",
            "black",
        )
    ]
    kinds = (
        ("ours, second", "", SECOND),
        ("ours, first", "", FIRST),
        ("comparing runs, second", ", comparing runs", SECOND),
        ("trying every move, second", ", trying every move", SECOND),
    )
    for index, (name, label, seat) in enumerate(kinds):
        rates = {
            place + 0.15 * (index - 1): rates_of_seat(result.trees[label], seat)[0]
            for place, result in enumerate(boards)
            if label in result.trees
        }
        wins.append(Series(name, rates, rates.values(), "o^sv"[index], index))
    lengths = []
    for result in boards:
        stones = np.repeat(np.arange(len(result.won)), result.won)
        quantiles = np.quantile(stones, (0.5, 0.05, 0.95)) if len(stones) else [np.nan] * 3
        lengths.append(Interval(*map(float, quantiles)))
    stones_series = [
        Series("", range(len(boards)), lengths, "o"),
        Series(f"published: {PUBLISHED_LENGTH} turns", [0], [PUBLISHED_LENGTH], "D", "black"),
    ]
    return [
        Panel(wins, "share of games that the tree wins", places=names, limits=(0, 1.02)),
        Panel(
            stones_series, "stones at the end of its wins, second", places=names, limits=(0, None)
        ),
    ]
