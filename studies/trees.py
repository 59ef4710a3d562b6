"""The report on tree search: random play and the tree against random on five boards."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from baselines.expectiminimax import Pruning, Search
from studies.frame import (
    RESULT_VALUES,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyReport,
    Value,
    combine,
    group,
    judge_claims,
    read_data,
)
from studies.verdicts import is_sample
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.exact.measurement import Measurement
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.reports.plots import RESULTS
from ttt_eval.store.result_store import Data, Unit
from ttt_eval.store.statistics import Interval, difference, interval_from_pairs, median, wilson

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
COMPARING_RUNS = ", comparing runs"
EVERY_MOVE = ", trying every move"
"""What is different in other trees than the report's."""


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
    def is_close(self) -> bool:
        """Whether its size and its goal are "relatively close", in the report's words for two of
        its boards.
        """
        return self.win_length >= MIN_CLOSE_RATIO * self.size

    @property
    def spec(self) -> str:
        """The report's tree, as we read it."""
        return f"{self.full_spec},width={self.width}"

    @property
    def full_spec(self) -> str:
        """A tree that tries every move."""
        return f"expectiminimax:depth={DEPTH}"

    @property
    def trees(self) -> dict[str, str]:
        """The trees that play on it by what is different: the report's, as we read it, and
        others.
        """
        trees = {"": self.spec, COMPARING_RUNS: f"{self.spec},heuristic=consecutive"}
        if self.is_close:
            trees[EVERY_MOVE] = self.full_spec
        return trees


BOARDS = tuple(ReportBoard(**row) for row in DATA["boards"])


def square(size: int, win_length: int) -> Game:
    """Return a game on a square board with the report's skips."""
    return Game(size, size, win_length, SKIP)


def board_name(game: Game) -> str:
    """Return size and win length."""
    return f"{game.rows} x {game.columns} ({game.win_length})"


def play_match(
    game: Game, a: str | Policy, b: str | Policy, games: int, seed: int
) -> dict[str, object]:
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


def total_score(results: Iterable[Data]) -> Score:
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
    first_mover = first_mover_score(score)
    return [first_mover.rate(result, confidence) for result in ("wins", "draws", "losses")]


def first_move_advantage(score: Score) -> Interval:
    """Return wins minus losses of the first mover, the mean over a and b moving first."""
    return Interval(*(2 * share - 1 for share in first_mover_score(score).rate("score")))


def counts_agree(counts: Sequence[int], own_counts: Sequence[int] | Int64Array) -> bool | None:
    """Return whether published counts are plausible under our rates; None if our games are too
    few.
    """
    if np.sum(own_counts) < MIN_GAMES_RATIO * sum(counts):
        return None
    # add one of each result: a result unseen in our games is rare, not impossible
    weights = np.asarray(own_counts) + 1
    return is_sample(counts, (weights / weights.sum()).tolist())


def mean_result(counts: Sequence[int] | Int64Array, weights: Sequence[float]) -> Interval:
    """Return the mean of result values, -1 to 1 each, over independent games."""
    games = np.asarray(counts)
    weight = np.asarray(weights)
    mean = float(games @ weight / games.sum())
    variance = float(games @ (weight - mean) ** 2 / max(1, games.sum() - 1))
    # from [-1, 1] to [0, 1] and back
    shares = interval_from_pairs((1 + mean) / 2, variance / 4, int(games.sum()))
    return Interval(*(2 * share - 1 for share in shares))


def end_difference(a: Interval, b: Interval) -> Interval:
    """Return the difference of two estimates, from the ends of both intervals."""
    return Interval(a.mean - b.mean, a.low - b.high, a.high - b.low)


def draw_gaps(draws: Mapping[str, Interval]) -> list[Interval]:
    """Return by how much each board of close size and goal has more draws than each other, given
    the rates by board.
    """
    return [
        end_difference(draws[close.name], draws[other.name])
        for close in BOARDS
        for other in BOARDS
        if close.is_close and not other.is_close
    ]


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

    def units(self, quick: bool) -> list[Unit]:
        """Return our games on each board, and the exact results."""
        boards = [*EXACT_BOARDS, *((board.size, board.win_length) for board in BOARDS)]
        exact_boards = EXACT_BOARDS[:1] if quick else EXACT_BOARDS
        games = 1_000 if quick else RANDOM_GAMES
        return [
            *combine(board=boards, games=[games]),
            *combine(board=exact_boards, games=[0]),
        ]

    def measure(self, unit: Unit) -> Any:
        """Play pairs of games, or compute the exact result of the first mover if there are none."""
        game = square(*unit["board"])
        if not unit["games"]:
            return list(outcome(game, "random", "random"))
        return play_match(game, "random", "random", unit["games"] // 2, 0)

    def analyse(self, results: Results) -> StudyReport:
        """Report all boards, and whether equal players have a first-move advantage."""
        boards = {board.name: board for board in BOARDS}
        scores = {}
        rows = []
        for size, (match, *exact) in group(results, "board").items():
            name = board_name(square(*size))
            score = scores[name] = total_score([match])
            rates = rates_of_first_mover(score)
            label = f"{name}, {score.games:,} games"
            if name in boards:
                counts = boards[name].random
                agrees = counts_agree(counts, first_mover_score(score).table.sum(axis=0))
                rows.append(ResultRow(label, format_counts(counts), rates, None, agrees))
            for shares in exact:
                intervals = rates_of_first_mover(score, EXACT_CONFIDENCE)
                pairs = zip(shares, intervals, strict=True)
                agrees = all(interval.low <= share <= interval.high for share, interval in pairs)
                rows.append(ResultRow(label, None, rates, shares, agrees))
        advantages = {name: first_move_advantage(scores[name]) for name in boards}
        draws = {name: rates_of_first_mover(scores[name])[1] for name in boards}
        numbers = {
            "first move": {"the first player's wins less losses": advantages},
            "draws": draws,
            "gaps of draws": draw_gaps(draws),
        }
        claims = judge_claims(DATA["random_claims"], numbers)
        return StudyReport(rows, claims, {"tree-random": self.figure([_random_panel(scores)])})


def _random_panel(scores: Mapping[str, Score]) -> Panel:
    """Return the rates of each result on each board, ours and the published ones."""
    series = []
    for result, name in enumerate(("first wins", "draw", "second wins")):
        places = {board: place + 0.2 * (result - 1) for place, board in enumerate(scores)}
        rates = [rates_of_first_mover(score)[result] for score in scores.values()]
        intervals = {
            places[board.name]: wilson(board.random[result] / GAMES, GAMES) for board in BOARDS
        }
        label = "" if result else "published"
        series.append(Series(name, places.values(), rates, "o", RESULTS[result]))
        series.append(Series(label, intervals, intervals.values(), "D", "black"))
    axis = f"rate, random against random, skip chance {SKIP}"
    return Panel(series, axis, places=list(scores), limits=(0, 1.02))


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
SEARCHES: tuple[Pruning, ...] = ("star1", "none")
"""Our search, and the report's, which visits its whole tree."""


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
        board = self.board
        rows = []
        for label, score in self.trees.items():
            rates = rates_of_seat(score, SECOND)
            title = f"{board.name}, tree second{label}, {score.games // 2:,} games"
            if label == EVERY_MOVE:
                rows.append(ResultRow(title, None, rates))
            else:
                agrees = counts_agree(board.tree, score.table[SECOND])
                rows.append(ResultRow(title, format_counts(board.tree), rates, None, agrees))
        first_rates = rates_of_seat(self.trees[""], FIRST)
        cost = {"CPU s": self.cpu_s, "nodes of the first move": dict(self.nodes)}
        return [
            *rows,
            ResultRow(f"{board.name}, tree first", None, first_rates),
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
                games = OTHER_GAMES if label else GAMES_PER_SEAT
                if quick:
                    games = 10
                units += [
                    {
                        "board": number,
                        "tree": label,
                        "games": min(UNIT_GAMES, games - start),
                        "seed": start,
                    }
                    for start in range(0, games, UNIT_GAMES)
                ]
        return [*units, {"exact": EXACT_BOARD}]

    def measure(self, unit: Unit) -> Any:
        """Return the counts of a match, nodes of the first move if it has no games, or exact
        results.
        """
        if "exact" in unit:
            game = square(*unit["exact"])
            return [Measurement(game, a).outcomes(b)[::-1] for a, b in EXACT_PAIRINGS]
        board = BOARDS[unit["board"]]
        if not unit["games"]:
            return {pruning: first_move_nodes(board, pruning) for pruning in SEARCHES}
        return play_match(
            board.game, board.trees[unit["tree"]], "random", unit["games"], unit["seed"]
        )

    def analyse(self, results: Results) -> StudyReport:
        """Report all boards, and verdicts on the report's sentences."""
        nodes = {unit["board"]: result for unit, result in results if unit.get("games") == 0}
        matches = group(
            [(unit, result) for unit, result in results if unit.get("games")], "board", "tree"
        )
        boards = []
        for number, board in enumerate(BOARDS):
            trees = {label: total_score(matches[number, label]) for label in board.trees}
            cpu_s = sum(match["cpu_s"] for match in matches[number, ""]) * GAMES / trees[""].games
            boards.append(BoardResult(board, trees, nodes[number], cpu_s))
        rows = [row for result in boards for row in result.rows()]
        for (a, b), seats in zip(EXACT_PAIRINGS, results[-1][1], strict=True):
            player = a.replace(EXACT_TREE, "tree")
            for seat, rates in zip(("second", "first"), seats, strict=True):
                label = f"{board_name(square(*EXACT_BOARD))}, {player} {seat}, against {b}"
                rows.append(ResultRow(label, exact=rates))
        figures = {"tree-search": self.figure(_search_panels(boards))}
        claims = judge_claims(DATA["search_claims"], _search_numbers(boards))
        return StudyReport(rows, claims, figures)


def _search_numbers(boards: Sequence[BoardResult]) -> dict[str, Value]:
    """Return the numbers in the claims about the report's sentences."""
    seven, eight, nine, ten, thirteen = boards  # in the report's order, by size
    larger_boards = [result for result in boards if not result.board.is_close]
    nodes = {result.board.name: result.nodes["none"] for result in boards}
    wins = {result.board.name: result.rates[0] for result in boards}
    draws = {result.board.name: result.rates[1] for result in boards}
    advantages = {result.board.name: first_move_advantage(result.trees[""]) for result in boards}
    num_wins = max(1, int(seven.won.sum()))
    num_short = seven.won[: PUBLISHED_LENGTH + 1].sum()
    losses = ten.board.tree[2]
    chances = {
        f"chance of {losses} or more{label}": _chance_of_losses(ten.trees[label], losses)
        for label in ("", COMPARING_RUNS)
    }
    lead = mean_result(ten.trees[""].table[SECOND], RESULT_VALUES)
    lead_by_every_move = mean_result(ten.trees[EVERY_MOVE].table[SECOND], RESULT_VALUES)
    numbers: dict[str, Value] = {
        "first move": {"wins less losses of the first player": advantages},
        "nodes": nodes,
        "nodes less the formula's": [
            nodes[result.board.name] - tree_size(result.board) for result in boards
        ],
        f"matches of {GAMES} games, all won": Interval(*(share**GAMES for share in seven.rates[0])),
        "wins": seven.rates[0],
        "share of its wins": wilson(float(num_short / num_wins), num_wins),
        "median": seven.length,
        "wins by board": wins,
        "wins on larger boards": [result.rates[0] for result in larger_boards],
        "median of the boards' wins": Interval(*np.median(list(wins.values()), axis=0)),
        "draws": draws,
        "gaps of draws": draw_gaps(draws),
        "stones": {result.board.name: result.length for result in boards},
        "stones less those on larger boards": [
            end_difference(eight.length, result.length) for result in larger_boards
        ],
        "wins less draws": mean_result(eight.trees[""].table[SECOND], (1, -1, 0)),
        "losses": chances,
        "larger chance of losses": Interval(*map(max, *chances.values())),
        "gain by trying every move": difference(lead_by_every_move, lead),
    }
    for result in (nine, thirteen):
        wins_gap = difference(result.rates[0], seven.rates[0])
        stones_gap = end_difference(result.length, seven.length)
        numbers |= {
            f"gap of wins, {result.board.name}": {"difference of wins": wins_gap},
            f"gap of stones, {result.board.name}": {"of stones": stones_gap},
        }
    return numbers


def _chance_of_losses(score: Score, num_losses: int) -> Interval:
    """Return the probability of so many losses or more in a published match, by the loss rate of
    the second seat.
    """
    _, _, loss_rate = rates_of_seat(score, SECOND)
    chances = (binom.sf(num_losses - 1, GAMES, share) for share in loss_rate)
    return Interval(*map(float, chances))


def _search_panels(boards: Sequence[BoardResult]) -> list[Panel]:
    """Return the tree's win rate on each board, published and ours, and the length of these
    games.
    """
    names = [f"{result.board.name}, width {result.board.width}" for result in boards]
    places = [place - 0.3 for place in range(len(boards))]
    rates = [wilson(result.board.tree[0] / GAMES, GAMES) for result in boards]
    wins = [
        Series("published, second", places, rates, "D", "black"),
        _win_series("ours, second", boards, "", SECOND, 0),
        _win_series("ours, first", boards, "", FIRST, 1),
        _win_series("comparing runs, second", boards, COMPARING_RUNS, SECOND, 2),
        _win_series("trying every move, second", boards, EVERY_MOVE, SECOND, 3),
    ]
    lengths = [
        Series("", range(len(boards)), [_length_quantiles(result.won) for result in boards], "o"),
        Series(f"published: {PUBLISHED_LENGTH} turns", [0], [PUBLISHED_LENGTH], "D", "black"),
    ]
    axis = "stones at the end of its wins, second"
    return [
        Panel(wins, "share of games that the tree wins", places=names, limits=(0, 1.02)),
        Panel(lengths, axis, places=names, limits=(0, None)),
    ]


def _win_series(
    name: str, boards: Sequence[BoardResult], label: str, seat: int, index: int
) -> Series:
    """Return the win rates of a tree in a seat, on the boards on which it plays."""
    rates = {
        place + 0.15 * (index - 1): rates_of_seat(result.trees[label], seat)[0]
        for place, result in enumerate(boards)
        if label in result.trees
    }
    return Series(name, rates, rates.values(), "o^sv"[index], index)


def _length_quantiles(won: Int64Array) -> Interval:
    """Return the median, and the middle 90%, of the stones at the end of games, counted by
    stones.
    """
    stones = np.repeat(np.arange(len(won)), won)
    if not len(stones):
        return Interval(np.nan, np.nan, np.nan)
    return Interval(*map(float, np.quantile(stones, (0.5, 0.05, 0.95))))
