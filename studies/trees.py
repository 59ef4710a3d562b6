"""The report on tree search: random play and the tree against random on five boards, and nets against the tree."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom, binomtest

from baselines.expectiminimax import Expectiminimax, Heuristic, Pruning, Search
from learners.base import Checkpointable
from learners.value_net import Preset, ValueNetConfig
from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study, group
from ttt_envs.agents.policy import VALUE_TOLERANCE, Player, Policy, best_shares, sample
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.reports.plots import RESULTS
from ttt_eval.result_store import Unit
from ttt_eval.statistics import (
    Interval,
    difference,
    holds_for_all,
    holds_for_any,
    interval_from_pairs,
    interval_from_seeds,
    is_above,
    is_sample,
    is_within,
    median,
    wilson,
)

SOURCE = "Song, Li, Liu and Cheng, CIS 667 Project Final Report (Syracuse University; https://github.com/JiaxinSong/tictactoe)"
SKIP = 0.25
DEPTH = 3
GAMES = 100
"""Number of games of each published match."""
MIN_CLOSE_RATIO = 0.8
"""Minimum ratio of goal to size that the report calls close; it names 8 of 8 and 8 of 10."""
MIN_GAMES_RATIO = 10
"""Minimum ratio of our games to the published ones for comparing rates."""
WINS, DRAWS, VALUE = (1, 0, 0), (0, 1, 0), (1, 0, -1)
"""Values of a win, a draw and a loss."""
FIRST, SECOND = range(2)
"""Seats."""


class ReportBoard(NamedTuple):
    """A board of the report, with the published results."""

    size: int
    win_length: int
    width: int
    """the tree's, below its first layer"""
    random: tuple[int, int, int]
    """wins, draws and losses of random, moving first, against random"""
    tree: tuple[int, int, int]
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
        """Whether its size and its goal are "relatively close", in the report's words for two of its boards."""
        return self.win_length >= MIN_CLOSE_RATIO * self.size

    def spec(self, heuristic: Heuristic = "count", *, wide: bool = False) -> str:
        """Return the report's tree, or one with another heuristic, or a ``wide`` one that tries every move."""
        width = "" if wide else f",width={self.width}"
        return f"expectiminimax:depth={DEPTH}{width}" + ("" if heuristic == "count" else f",heuristic={heuristic}")


BOARDS = (
    ReportBoard(7, 5, 15, (50, 11, 39), (100, 0, 0)),
    ReportBoard(8, 8, 10, (3, 94, 3), (56, 44, 0)),
    ReportBoard(9, 5, 12, (56, 0, 44), (100, 0, 0)),
    ReportBoard(10, 8, 9, (22, 61, 17), (90, 8, 2)),
    ReportBoard(13, 5, 8, (53, 0, 47), (100, 0, 0)),
)


def square(size: int, win_length: int) -> Game:
    """Return a game on a square board with the report's skips."""
    return Game(size, size, win_length, SKIP)


def board_name(game: Game) -> str:
    """Return size and win length."""
    return f"{game.rows} x {game.columns} ({game.win_length})"


def play_match(game: Game, a: str | Policy, b: str | Policy, games: int, seed: int) -> dict[str, Any]:
    """Play this number of games of a against b in each seat; return the fields of a `Score` as JSON-ready data."""
    score = play_pairs(game, a, b, games, seed=seed)
    assert score.lengths is not None
    return {"pairs": score.pairs.tolist(), "lengths": score.lengths.tolist()}


def total_score(results: Sequence[Any]) -> Score:
    """Add up the matches of one pair of players."""
    pairs, lengths = (np.sum([result[name] for result in results], axis=0) for name in ("pairs", "lengths"))
    return Score(pairs, lengths)


def play_games(
    game: Game, a: str | Policy, b: str | Policy, seat: int, games: int, seed: int
) -> Iterator[tuple[int, int]]:
    """Play games of a in one seat; yield a's result, 0 win, 1 draw, 2 loss, and the stones on the board."""
    for number in range(games):
        score = play_pairs(game, a, b, 1, seed=seed + number)  # the game of the other seat is ignored
        assert score.lengths is not None
        result, stones = np.argwhere(score.lengths[seat])[0]
        yield int(result), int(stones)


def rates_of_seat(score: Score, seat: int) -> list[Interval]:
    """Return rates of a's wins, draws and losses in one seat, whose games are independent."""
    counts = score.table[seat]
    return [wilson(float(count / counts.sum()), int(counts.sum())) for count in counts]


def first_mover_score(score: Score) -> Score:
    """Return the results of the first mover: a's loss as player_1 is b's win as player_0."""
    return Score(score.pairs[:, ::-1])


def rates_of_first_mover(score: Score, confidence: float = 0.95) -> list[Interval]:
    """Return rates of wins, draws and losses of the first mover."""
    return [first_mover_score(score).rate(result, confidence) for result in ("wins", "draws", "losses")]


def first_move_advantage(score: Score) -> Interval:
    """Return wins minus losses of the first mover, the mean over a and b moving first."""
    return Interval(*(2 * share - 1 for share in first_mover_score(score).rate("score")))


def counts_agree(published: Sequence[int], ours: Sequence[int] | Int64Array) -> bool | None:
    """Return whether published counts are plausible under our rates; None if our games are too few."""
    if np.sum(ours) < MIN_GAMES_RATIO * sum(published):
        return None
    # add one of each result: a result unseen in our games is rare, not impossible
    counts = np.asarray(ours) + 1
    return is_sample(published, (counts / counts.sum()).tolist())


def mean_result(counts: Sequence[int] | Int64Array, weights: Sequence[float]) -> Interval:
    """Return the mean of result values, -1 to 1 each, over independent games."""
    games, weight = np.asarray(counts), np.asarray(weights)
    mean = float(games @ weight / games.sum())
    variance = float(games @ (weight - mean) ** 2 / max(1, games.sum() - 1))
    # from [-1, 1] to [0, 1] and back
    return Interval(*(2 * share - 1 for share in interval_from_pairs((1 + mean) / 2, variance / 4, int(games.sum()))))


def has_draw_gap(draws: Mapping[ReportBoard, Interval]) -> bool | None:
    """Return whether each board of close size and goal has more draws than any other.

    None if the intervals leave it open.
    """
    close = [rate for board, rate in draws.items() if board.close]
    other = [rate for board, rate in draws.items() if not board.close]
    if min(rate.high for rate in close) < max(rate.low for rate in other):
        return False
    return True if min(rate.low for rate in close) > max(rate.high for rate in other) else None


def draw_gap_numbers(draws: Mapping[ReportBoard, Interval]) -> dict[str, Any]:
    """Return the evidence of :func:`has_draw_gap`."""
    reading = f"boards with a goal of at least {MIN_CLOSE_RATIO:.0%} of their size have more draws than any other"
    return {**{board.name: rate.mean for board, rate in draws.items()}, "read as": reading}


def format_counts(counts: Sequence[int] | Int64Array) -> str:
    """Format win / draw / loss in games."""
    return " / ".join(f"{count:,}" for count in counts)


# ---------------------------------------------------------------------------------------------------------------------
# Random against random: the first table

EXACT_BOARDS = ((3, 3), (4, 3))
"""Boards that the report plays later, small enough for exact results."""
RANDOM_GAMES = 100_000
"""Number of our games, enough to measure the first-move advantage."""
EXACT_CONFIDENCE = 0.99
"""Confidence level of the intervals that must contain the exact rates."""


class RandomPlay(Study):
    """Turns are skipped with probability 0.25. Numbers are wins / draws / losses of the first player, O in the
    report. A row of 100 games has the published counts and one match of ours of the same size. Published counts
    agree if they are a plausible sample of the rates of our 100,000 games (exact multinomial test, 5%). Intervals
    (95%) are over pairs of games, in which each player moves first once. Exact results are computed by dynamic
    programming; they agree if all three rates lie in our intervals of 99%.
    """

    title = "Random against random on five boards"
    source = f"{SOURCE}, milestone 2, first table"
    left_out = "99 of 100 games of ours, and the exact result of 4 x 4 (3)"

    def units(self, quick: bool) -> list[Unit]:
        """Return for each board the games as published and ours, and the exact results."""
        games = 1_000 if quick else RANDOM_GAMES
        boards = [(board.size, board.win_length) for board in BOARDS]
        return [
            *({"what": "published", "board": board, "games": GAMES, "seed": 1} for board in boards),
            *({"what": "match", "board": board, "games": games, "seed": 0} for board in (*EXACT_BOARDS, *boards)),
            *({"what": "exact", "board": board} for board in (EXACT_BOARDS[:1] if quick else EXACT_BOARDS)),
        ]

    def measure(self, unit: Unit) -> Any:
        """Compute results of the first mover: from pairs of games, or exact."""
        game = square(*unit["board"])
        if unit["what"] == "exact":
            return list(outcome(game, "random", "random"))
        # of published matches only the first games of their pairs are used; of ours both players move first
        games = unit["games"] if unit["what"] == "published" else unit["games"] // 2
        return play_match(game, "random", "random", games, unit["seed"])

    def analyse(self, results: Results) -> Report:
        """Report all boards, and whether equal players have a first-move advantage."""
        values = {(unit["what"], *unit["board"]): result for unit, result in results}
        scores = {key: total_score([result]) for key, result in values.items() if key[0] != "exact"}
        exact = {size: values.get(("exact", *size)) for size in EXACT_BOARDS}
        rows = []
        for size, known in exact.items():
            score = scores["match", *size]
            rates = rates_of_first_mover(score, EXACT_CONFIDENCE)
            agrees = known and all(rate.low <= share <= rate.high for share, rate in zip(known, rates, strict=True))
            label = f"{board_name(square(*size))}, {score.games:,} games"
            rows.append(Row(label, None, rates_of_first_mover(score), known, agrees))
        for board in BOARDS:
            few, many = (scores[what, board.size, board.win_length] for what in ("published", "match"))
            agrees = counts_agree(board.random, first_mover_score(many).table.sum(axis=0))
            published, ours = format_counts(board.random), format_counts(few.table[0])
            rows.append(Row(f"{board.name}, {GAMES} games", published, ours, None, agrees))
            rows.append(Row(f"{board.name}, {many.games:,} games", None, rates_of_first_mover(many)))
        matches = {board: scores["match", board.size, board.win_length] for board in BOARDS}
        full = all(score.games >= RANDOM_GAMES for score in matches.values())
        advantages = {board.name: first_move_advantage(score) for board, score in matches.items()}
        wins, losses = (sum(board.random[result] for board in BOARDS) for result in (0, 2))
        chance = binomtest(wins, wins + losses).pvalue
        draws = {board: rates_of_first_mover(score)[1] for board, score in matches.items()}
        claims = [
            Claim(
                "To show the performance better, we let random AI play first",
                is_above(advantages.values()) if full else None,
                {
                    "the first player's wins less losses": advantages,
                    "published wins and losses": [wins, losses],
                    "chance of such a difference between equal players": chance,
                },
            ),
            Claim(
                "where the board sizes and the winning goals are relatively close many draw games come out",
                has_draw_gap(draws) if full else None,
                draw_gap_numbers(draws),
            ),
        ]
        figure = Figure(
            "Is the first move an advantage between random players?",
            "Dots are our games, crosses exact results, diamonds the published ones with 95% intervals.",
            [self._panel(scores, exact)],
            {"the first player's wins less losses": advantages},
        )
        return Report(rows, claims, {"tree-random": figure})

    def _panel(self, scores: Mapping[Any, Score], exact: Mapping[Any, Any]) -> Panel:
        published = {(board.size, board.win_length): board.random for board in BOARDS}
        sizes = [*EXACT_BOARDS, *published]
        series = []
        for result, (name, colour) in enumerate(zip(("first wins", "draw", "second wins"), RESULTS, strict=True)):
            places = {size: place + 0.2 * (result - 1) for place, size in enumerate(sizes)}
            ours = [rates_of_first_mover(scores["match", *size])[result] for size in sizes]
            series.append(Series(name, places.values(), ours, "o", colour))
            theirs = [wilson(counts[result] / GAMES, GAMES) for counts in published.values()]
            below = [places[size] + 0.08 for size in published]
            series.append(Series("published" if result == 2 else "", below, theirs, "D", "black"))
            known = {places[size]: rates[result] for size, rates in exact.items() if rates}
            series.append(Series("exact" if result == 2 else "", known, known.values(), "x", "black"))
        names = [board_name(square(*size)) for size in sizes]
        return Panel(series, f"rate, random against random, skip chance {SKIP}", places=names, limits=(0, 1.02))


# ---------------------------------------------------------------------------------------------------------------------
# The tree against random: the second table, and its figures

EXACT_BOARD = (3, 3)
"""The board with exact results."""
EXACT_TREE = f"expectiminimax:depth={DEPTH},width=15"
"""The tree on that board; it tries every move."""
EXACT_PAIRINGS = ((EXACT_TREE, "random"), (EXACT_TREE, "optimal"), ("optimal", "optimal"))
"""Pairings on that board, in either seat."""
GAMES_PER_SEAT = 10_000
"""Number of our games in each seat."""
UNIT_GAMES = 1_000
"""Maximum number of games in each seat per unit."""
OTHER_GAMES = 2_000
"""Number of games in each seat of trees other than our reading of the report's."""
PUBLISHED_LENGTH = 16
"""Number of turns that the report names."""
PUBLISHED_TIMES = {10: "almost 10 hours"}
"""Duration of the published games, by size."""
MAJORITY = 0.5
MIN_PROBABILITY = 0.05
"""Probability of a match below which it is not a plausible sample of ours."""
VERY_GOOD, WONDERFUL = 0.99, 0.9
"""Win rates taken for "a very good performance" and "a wonderful winning rate"."""
MAX_RATE_DIFFERENCE, MAX_LENGTH_DIFFERENCE = 0.01, 2
"""Maximum differences of rates, and of stones, taken for "very close"."""
SEARCHES: tuple[Pruning, ...] = ("star1", "none")
"""Our search, and the report's, which visits its whole tree."""


def split_games(games: int, size: int) -> list[tuple[int, int]]:
    """Split games into units of ``size`` and the rest: the number of each, and a unique seed."""
    return [(min(size, games - start), start) for start in range(0, games, size)]


def tree_size(board: ReportBoard) -> int:
    """Return the nodes of a three-ply tree from the empty board, by the report: two turns after every move."""
    return board.game.cells * (1 + 2 * board.width + 2 * board.width * 2 * board.width)


@dataclass
class CountingTree(Player):
    """A tree search that plays its policy's moves and counts their cost, by slot and search.

    Attributes:
        policy: the policy, without a leaf policy.
        nodes: number of positions visited.
        seconds: of CPU time.
    """

    policy: Expectiminimax
    nodes: dict[tuple[int, str], int] = field(default_factory=dict)
    seconds: dict[tuple[int, str], float] = field(default_factory=dict)

    def begin(self, slots: Int64Array) -> None:
        """Reset the counts of new games in ``slots``."""
        for slot in slots.tolist():
            for pruning in SEARCHES:
                self.nodes[slot, pruning], self.seconds[slot, pruning] = 0, 0.0

    def act(
        self, boards: Boards, slots: Int64Array, rng: np.random.Generator, time_left: Float64Array | None = None
    ) -> Int64Array:
        """Return moves int64[B], one position after another, each with the random draws of the policy."""
        policy, out = self.policy, np.empty(len(slots), np.int64)
        for row, slot in enumerate(slots.tolist()):
            random_keys = rng.integers(0, 1 << 64, 1, dtype=np.uint64)
            for pruning in SEARCHES:
                board = boards.take(np.array([row]))
                start = time.process_time()
                search = Search(
                    policy.game,
                    board,
                    heuristic=policy.heuristic,
                    pruning=pruning,
                    width=policy.width,
                    every_move=False,
                    random_keys=random_keys,
                )
                search.run(policy.depth)
                self.seconds[slot, pruning] += time.process_time() - start
                self.nodes[slot, pruning] += int(search.nodes[0])
            # both searches return the same values
            out[row] = sample(best_shares(search.move_values, VALUE_TOLERANCE), rng.random(1))[0]
        return out


class CountedPolicy(Policy):
    """A policy of which a given player plays all games, so that its counts can be read after a match."""

    pure = False

    def __init__(self, tree: CountingTree) -> None:
        self.tree = tree

    def player(self) -> CountingTree:
        """Return the player."""
        return self.tree


class BoardResult(NamedTuple):
    """Measurements on one board."""

    board: ReportBoard
    published: dict[str, Any]
    """games like the published ones, see :meth:`TreeSearch.measure`"""
    trees: dict[str, Score]
    """by spec string"""

    @property
    def name(self) -> str:
        """Size and win length of the board."""
        return self.board.name

    @property
    def tree(self) -> Score:
        """The score of the report's tree, as we read it."""
        return self.trees[self.board.spec()]

    @property
    def won(self) -> Int64Array:
        """int64[cells + 1]: games that the tree won, moving second, by the stones on the board at the end."""
        assert self.tree.lengths is not None
        return np.asarray(self.tree.lengths[SECOND, 0])

    @property
    def length(self) -> Interval:
        """Median number of stones at the end of these games."""
        return median(self.won)

    @property
    def rates(self) -> list[Interval]:
        """Rates of wins, draws and losses of the report's tree, moving second."""
        return rates_of_seat(self.tree, SECOND)

    def rows(self) -> list[Row]:
        """Return the rows of the board."""
        published, seconds, board = self.published, self.published["seconds"], self.board
        single = len(published["results"])
        counts = format_counts([published["results"].count(result) for result in range(3)])
        agrees = counts_agree(board.tree, self.tree.table[SECOND])
        rows = [Row(f"{self.name}, tree second, {single:,} games", format_counts(board.tree), counts, None, agrees)]
        for label, spec in _trees(board).items():
            score = self.trees[spec]
            for seat, words in ((SECOND, "second"), (FIRST, "first"))[: 2 if spec == board.spec() else 1]:
                what = f"{self.name}, tree {words}{label}, {score.games // 2:,} games"
                runs = "consecutive" in spec
                agrees = counts_agree(board.tree, score.table[SECOND]) if runs else None
                theirs = format_counts(board.tree) if runs else None
                rows.append(Row(what, theirs, rates_of_seat(score, seat), None, agrees))
        cost = {
            {"star1": "with pruning", "none": "without"}[pruning]: {
                "CPU s": seconds[pruning],
                "nodes a game": round(np.mean(published["nodes"][pruning])),
            }
            for pruning in SEARCHES
        }
        time_row = Row(f"{self.name}, the tree's moves in {single:,} games", PUBLISHED_TIMES.get(board.size), cost)
        return [*rows, time_row]


def _trees(board: ReportBoard) -> dict[str, str]:
    """Return the trees that play on a board by what is different: the report's, as we read it, and others."""
    trees = {"": board.spec(), ", comparing runs": board.spec("consecutive")}
    return trees | ({", trying every move": board.spec(wide=True)} if board.close else {})


class TreeSearch(Study):
    """Turns are skipped with probability 0.25. The tree searches 3 plies, with as many random moves at a node below
    the root as in the report (7 x 7: 15, 8 x 8: 10, 9 x 9: 12, 10 x 10: 9, 13 x 13: 8). Numbers are wins / draws /
    losses of the tree. In the published games it moves second; here it plays in both seats, 10,000 games in each,
    with 95% intervals. Published counts agree if they are a plausible sample of the rates of our games (exact
    multinomial test, 5%). At the horizon the report compares "the maximum pieces in a row that have potential to win",
    which we read as stones in one open line; comparing runs is the other reading, the longest chain in one. The 100
    games as published are searched twice: with pruning, and without, which visits the whole tree, as in the report.
    Times are of one core. The report's figures have one bar per game for its nodes or its turns. Our numbers of single
    games are in result.json, and the picture shows all games together.
    """

    title = "A tree search against random on five boards"
    source = f"{SOURCE}, milestone 2, second table and figures"
    left_out = f"most games: 50 in a seat in place of {GAMES_PER_SEAT:,}, 20 in place of {GAMES} as published"

    def units(self, quick: bool) -> list[Unit]:
        """Return for each board the games as published, ours with the report's tree and with others; exact results."""
        games, others, published = (50, 20, 20) if quick else (GAMES_PER_SEAT, OTHER_GAMES, GAMES)
        boards = [(board, {"board": [board.size, board.win_length]}) for board in BOARDS]
        # seeds that no unit of the matches has
        units: list[Unit] = [
            {"what": "published", **place, "tree": board.spec(), "games": published, "seed": GAMES_PER_SEAT}
            for board, place in boards
        ]
        for label in _trees(BOARDS[1]):
            for board, place in boards:
                if label in _trees(board):
                    tree = {"what": "match", **place, "tree": _trees(board)[label]}
                    pieces = split_games(others if label else games, UNIT_GAMES)
                    units += [{**tree, "games": count, "seed": seed} for count, seed in pieces]
        return [*units, {"what": "exact", "board": EXACT_BOARD}]

    def measure(self, unit: Unit) -> Any:
        """Return counts of a match, or exact results, or of every game as published: result, stones, nodes."""
        game = square(*unit["board"])
        if unit["what"] == "exact":
            return [[list(outcome(game, b, a).reversed()), list(outcome(game, a, b))] for a, b in EXACT_PAIRINGS]
        if unit["what"] == "match":
            return play_match(game, unit["tree"], "random", unit["games"], unit["seed"])
        policy = make_policy(unit["tree"], game)
        assert isinstance(policy, Expectiminimax)
        counting = CountingTree(policy)
        results, lengths = [], []
        nodes: dict[str, list[int]] = {pruning: [] for pruning in SEARCHES}
        seconds = dict.fromkeys(map(str, SEARCHES), 0.0)
        # compiles or loads at the first move, outside the measurement
        next(play_games(game, CountedPolicy(counting), "random", SECOND, 1, unit["seed"]))
        games = play_games(game, CountedPolicy(counting), "random", SECOND, unit["games"], unit["seed"])
        for result, stones in games:
            results.append(result)
            lengths.append(stones)
            for pruning in SEARCHES:
                nodes[pruning].append(counting.nodes[SECOND, pruning])
                seconds[pruning] += counting.seconds[SECOND, pruning]
        keys = np.zeros(1, np.uint64)
        start = Search(game, Boards.start(game), pruning="none", width=policy.width, random_keys=keys)
        start.run(policy.depth)
        first_move = int(start.nodes[0])
        return {"results": results, "stones": lengths, "nodes": nodes, "seconds": seconds, "first_move": first_move}

    def analyse(self, results: Results) -> Report:
        """Report all boards, and verdicts on the report's sentences."""
        by_kind = group(results, "what", "board")
        boards = []
        for board in BOARDS:
            size = (board.size, board.win_length)
            own = [
                (unit, result) for unit, result in results if tuple(unit["board"]) == size and unit["what"] == "match"
            ]
            scores = {spec: total_score(matches) for spec, matches in group(own, "tree").items()}
            boards.append(BoardResult(board, by_kind["published", size][0], scores))
        rows = [row for result in boards for row in result.rows()]
        for (a, b), seats in zip(EXACT_PAIRINGS, by_kind["exact", EXACT_BOARD][0], strict=True):
            for seat, rates in zip(("second", "first"), seats, strict=True):
                label = f"{board_name(square(*EXACT_BOARD))}, {a.replace(EXACT_TREE, 'tree')} {seat}, against {b}"
                rows.append(Row(label, None, None, rates))
        full = all(result.tree.games >= 2 * GAMES_PER_SEAT for result in boards)
        claims = [claim if full else claim._replace(holds=None) for claim in _search_claims(boards)]
        figure = Figure(
            "How often does the tree search beat random play?",
            "Intervals are 95%. On the right, circles are medians, lines the middle 90%.",
            _search_panels(boards),
            {"moving second it wins": {result.name: result.rates[0].mean for result in boards}},
        )
        return Report(rows, claims, {"tree-search": figure})


def _search_claims(boards: Sequence[BoardResult]) -> list[Claim]:
    """Return verdicts on the report's sentences."""
    seven, eight, nine, ten, thirteen = boards  # in the report's order, by size
    far = [result for result in boards if not result.board.close]
    wins, draws = ({result.name: result.rates[column] for result in boards} for column in (0, 1))
    advantages = {result.name: first_move_advantage(result.tree) for result in boards}
    lengths = {result.name: result.length for result in boards}
    matches = Interval(*(share**GAMES for share in wins[seven.name]))
    published_draws = (eight.board.tree[0] - eight.board.tree[1]) / GAMES
    lead = mean_result(eight.tree.table[SECOND], (1, -1, 0))
    draw_rates = {result.board: result.rates[1] for result in boards}
    wonderful = [is_above([rate], WONDERFUL) for rate in wins.values()]
    return [
        Claim(
            "To show the performance better, we let random AI play first and tree-based AI go second",
            is_above(advantages.values()),
            {"wins less losses of the first player, in both seats of the tree": advantages},
        ),
        Claim(
            "The number of nodes searched each turn should be valid positions on the chessboard * the sum of the nodes "
            "on each layer of the search tree. We should double the nodes of each layer except the first layer",
            all(result.published["first_move"] == tree_size(result.board) for result in boards),
            {"nodes of the first move": {result.name: result.published["first_move"] for result in boards}},
        ),
        Claim(
            f"{seven.name}: the tree-based AI won all the games",
            is_above([matches], MAJORITY),
            {"wins": wins[seven.name], f"matches of {GAMES} games won, read as: most": matches},
        ),
        *_length_claims(seven),
        *(_same_result_claim(result, seven) for result in (nine, thirteen)),
        Claim(
            "Our tree-based AI has a very good performance on games that the board sizes are larger enough than the "
            "winning goals",
            is_above([result.rates[0] for result in far], VERY_GOOD),
            {**{result.name: result.rates[0] for result in far}, "read as: wins above": VERY_GOOD},
        ),
        Claim(
            "Board sizes and winning goals that are relatively close: many draw games came out",
            has_draw_gap(draw_rates),
            draw_gap_numbers(draw_rates),
        ),
        Claim(
            f"{eight.name}: AI needs more turns to win the game",
            is_above(_length_difference(eight, result) for result in far),
            {"median number of stones at its wins": lengths},
        ),
        Claim(
            f"{eight.name}: the number of draw games is very close to AI winning games",
            is_within(lead, -published_draws, published_draws),
            {"wins less draws": lead, "in the report, read as very close": published_draws, "draws": draws[eight.name]},
        ),
        _losses_claim(ten),
        _width_claim(ten, eight),
        Claim(
            "Our tree-based AI has a wonderful winning rate for most cases",
            _holds_for_most(wonderful),
            {**wins, "read as: on most boards above": WONDERFUL},
        ),
    ]


def _length_difference(a: BoardResult, b: BoardResult) -> Interval:
    """Return the difference of two median lengths, from the ends of both intervals."""
    return Interval(a.length.mean - b.length.mean, a.length.low - b.length.high, a.length.high - b.length.low)


def _holds_for_most(verdicts: Sequence[bool | None]) -> bool | None:
    """Return whether more than half hold; None if the open ones decide it."""
    half = len(verdicts) / 2
    return True if verdicts.count(True) > half else None if len(verdicts) - verdicts.count(False) > half else False


def _length_claims(result: BoardResult) -> list[Claim]:
    """Return claims for two readings of one sentence."""
    won, total = result.won, max(1, int(result.won.sum()))
    claims = []
    for reading, games in (("exactly", won[PUBLISHED_LENGTH]), ("at most", won[: PUBLISHED_LENGTH + 1].sum())):
        share = wilson(float(games / total), total)
        words = f"{result.name}: most of the games were ended in {PUBLISHED_LENGTH} turns (read as: {reading})"
        numbers = {f"wins with {reading} {PUBLISHED_LENGTH} stones": share, "median": result.length}
        claims.append(Claim(words, is_above([share], MAJORITY), {**numbers, "most often": int(won.argmax())}))
    return claims


def _same_result_claim(result: BoardResult, other: BoardResult) -> Claim:
    rates, lengths = difference(result.rates[0], other.rates[0]), _length_difference(result, other)
    limits = ((rates, MAX_RATE_DIFFERENCE), (lengths, MAX_LENGTH_DIFFERENCE))
    return Claim(
        f"{result.name}: the result is very close to the previous one",
        holds_for_all(is_within(value, -limit, limit) for value, limit in limits),
        {
            f"difference of wins to {other.name}": rates,
            "of stones": lengths,
            "read as: within": [MAX_RATE_DIFFERENCE, MAX_LENGTH_DIFFERENCE],
        },
    )


def _losses_claim(result: BoardResult) -> Claim:
    """Claim that the published losses are plausible, by either reading of the heuristic."""
    lost, chances = result.board.tree[2], {}
    for reading, heuristic in (("", "count"), (", comparing runs", "consecutive")):
        counts = result.trees[result.board.spec(heuristic)].table[SECOND]  # type: ignore[arg-type]
        rate = wilson(float(counts[2] / counts.sum()), int(counts.sum()))
        chance = Interval(*(float(binom.sf(lost - 1, GAMES, share)) for share in rate))
        chances[f"chance of {lost} or more{reading}"] = chance
    return Claim(
        f"{result.name}: tree-based AI lost {lost} games this time",
        holds_for_any(is_above([chance], MIN_PROBABILITY) for chance in chances.values()),
        {**chances, "read as: above, by either reading": MIN_PROBABILITY},
    )


def _width_claim(*boards: BoardResult) -> Claim:
    """Claim that a tree that tries every move does better, on the first board."""
    gains = {}
    for result in boards:
        values = (
            mean_result(score.table[SECOND], VALUE)
            for score in (result.trees[result.board.spec(wide=True)], result.tree)
        )
        gains[result.name] = difference(*values)
    return Claim(
        f"{boards[0].name}: the reason is probably that we searched a relatively small number of nodes each layer",
        is_above([gains[boards[0].name]]),
        {"wins less losses of a tree that tries every move, more than the report's": gains},
    )


def _search_panels(boards: Sequence[BoardResult]) -> list[Panel]:
    """Return the tree's win rate on each board, published and ours, and the length of these games."""
    names = [f"{result.name}, width {result.board.width}" for result in boards]
    published = [wilson(result.board.tree[0] / GAMES, GAMES) for result in boards]
    wins = [Series("published, second", [place - 0.3 for place in range(len(boards))], published, "D", "black")]
    kinds = [("ours, second", "", SECOND), ("ours, first", "", FIRST)]
    kinds += [(f"{label[2:]}, second", label, SECOND) for label in (", comparing runs", ", trying every move")]
    for index, (name, label, seat) in enumerate(kinds):
        scores = {
            place + 0.15 * (index - 1): result.trees[_trees(result.board)[label]]
            for place, result in enumerate(boards)
            if label in _trees(result.board)
        }
        rates = [rates_of_seat(score, seat)[0] for score in scores.values()]
        wins.append(Series(name, scores, rates, "o^sv"[index], index))
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
        Panel(stones_series, "stones at the end of its wins, second", places=names, limits=(0, None)),
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Part three: four nets, trained by imitation of the tree, against the tree

TEACHER_GAMES = 25
SEEDS, PAIRS = 10, 500
"""Number of nets for each of the report's, each trained on games of its own; number of games of each in either seat."""
MAX_EXACT_CELLS = 9
"""Maximum number of cells for exact results of a net against the tree."""
MAX_OPTIMAL_CELLS = 16
"""Maximum number of cells for optimal play."""
ABOUT_A_FIFTH = (0.15, 0.25)
"""Range taken for "about a fifth"."""
AUTHORS: dict[Preset, str] = {"40-20": "Song", "20": "Li", "30-10": "Liu", "10-20": "Cheng"}


class Entry(NamedTuple):
    """One column of one of the report's four tables."""

    size: int
    win_length: int
    preset: Preset
    iterations: int
    published: tuple[int, int, int]
    """the net's wins, draws and losses, moving first"""

    @property
    def game(self) -> Game:
        """The game."""
        return square(self.size, self.win_length)

    @property
    def name(self) -> str:
        """Board, author of the net, and number of training steps."""
        return f"{board_name(self.game)}, {self.preset} ({AUTHORS[self.preset]}), {self.iterations:,}"

    @property
    def tree(self) -> str:
        """The teacher, which is also the opponent."""
        return f"expectiminimax:depth={DEPTH},width={8 if self.size == 7 else 15}"


ENTRIES = (
    Entry(3, 3, "40-20", 100, (58, 19, 23)),
    Entry(4, 3, "40-20", 100, (56, 0, 44)),
    Entry(5, 3, "40-20", 100, (78, 0, 22)),
    Entry(6, 4, "40-20", 100, (47, 0, 53)),
    Entry(6, 4, "40-20", 300, (66, 0, 34)),
    Entry(7, 4, "40-20", 500, (57, 0, 43)),
    Entry(7, 4, "40-20", 1_000, (54, 0, 46)),
    Entry(3, 3, "20", 3_000, (48, 21, 31)),
    Entry(4, 3, "20", 3_000, (64, 0, 36)),
    Entry(5, 3, "20", 1_000, (79, 0, 21)),
    Entry(6, 4, "20", 200, (54, 0, 46)),
    Entry(7, 4, "20", 1_000, (38, 0, 62)),
    Entry(3, 3, "30-10", 500, (47, 19, 34)),
    Entry(4, 3, "30-10", 500, (84, 0, 16)),
    Entry(5, 3, "30-10", 500, (75, 0, 25)),
    Entry(6, 4, "30-10", 500, (52, 0, 48)),
    Entry(7, 4, "30-10", 300, (62, 0, 38)),
    Entry(3, 3, "10-20", 1_000, (49, 21, 30)),
    Entry(4, 3, "10-20", 1_000, (68, 0, 32)),
    Entry(5, 3, "10-20", 1_000, (69, 0, 31)),
    Entry(6, 4, "10-20", 500, (49, 0, 51)),
    Entry(7, 4, "10-20", 300, (55, 0, 45)),
)


class EntryResult:
    """Results of the nets of one entry, one for each seed.

    Attributes:
        runs: the results of their units.
        rates: float64[2, seeds, 3]: wins, draws and losses by seat.
    """

    def __init__(self, entry: Entry, runs: Sequence[Mapping[str, Any]]) -> None:
        self.entry, self.runs = entry, runs
        self.score: Score = total_score(runs)
        tables = np.stack([total_score([run]).table for run in runs], axis=1)
        self.rates = tables / tables.sum(axis=2, keepdims=True)
        if runs[0]["exact"] is not None:
            self.rates = np.array([run["exact"] for run in runs]).swapaxes(0, 1)

    def lead(self, *seats: int) -> Interval:
        """Return wins minus losses, the mean over seats and nets."""
        return interval_from_seeds((self.rates[list(seats)].mean(axis=0) @ VALUE).tolist(), bounds=(-1.0, 1.0))

    def error(self, name: str) -> float:
        """Return the mean of ``"loss"`` or ``"held_out_loss"`` over nets."""
        return float(np.mean([run[name] for run in self.runs]))

    def rows(self) -> list[Row]:
        """Return rows: first the published seat, then the other."""
        plausible = any(is_sample(self.entry.published, rates) for rates in self.rates[FIRST].tolist())
        rows = []
        for seat, published, agrees in ((FIRST, format_counts(self.entry.published), plausible), (SECOND, None, None)):
            ours = {"": [rate.mean for rate in rates_of_seat(self.score, seat)], "lead": self.lead(seat)}
            exact = None if self.runs[0]["exact"] is None else self.rates[seat].mean(axis=0)
            label = f"{self.entry.name} {'second' if seat else 'moves first'}"
            rows.append(Row(label, published, ours, exact, agrees))
        return rows


class ImitationNets(Study):
    """For each network and board of the report, the tree (depth 3, 15 random moves at each node, 8 on 7 x 7) plays
    25 games against itself. The network learns the value that the tree's search gives to each of their
    positions, for as many steps as in the report, and plays the tree one ply deep. The report has one network
    each and 100 games, with the network moving first. Here there are 10 networks, each trained on
    games of its own, with 500 games in either seat each. Rates are the network's wins, draws and losses.
    Lead is wins minus losses; its interval is that of the mean over networks (95%, Student's t), and on 3 x 3
    the lead of each network is exact. Published and our results agree if the published counts are a plausible
    sample of one of our networks. Li's text says that his network wins more on 7 x 7; his table, used here, has
    38 of 100. The report's figures have one bar per game and one learning curve per network. Those of our first
    networks are in result.json; the picture shows the lead and the final errors of all networks.
    """

    title = "Networks trained by imitation of the tree, against the tree"
    source = f"{SOURCE}, part three"
    left_out = "boards above 4 x 4, eight of ten nets, and all but 25 of 500 games in either seat"

    def units(self, quick: bool) -> list[Unit]:
        """Return every net with every seed, seed by seed; and optimal play where it is known."""
        seeds, pairs, single = (2, 25, 10) if quick else (SEEDS, PAIRS, GAMES)
        entries = [index for index, entry in enumerate(ENTRIES) if not quick or entry.size <= 4]
        max_cells = 9 if quick else MAX_OPTIMAL_CELLS
        boards = sorted({(entry.size, entry.win_length) for entry in ENTRIES if entry.size**2 <= max_cells})
        return [{"optimal": board} for board in boards] + [
            {"entry": entry, "seed": seed, "pairs": pairs, "single": single if seed == 0 else 0}
            for seed in range(seeds)
            for entry in entries
        ]

    def measure(self, unit: Unit) -> Any:
        """Train a net and play it, or evaluate optimal play."""
        if "optimal" in unit:
            return list(outcome(square(*unit["optimal"]), "optimal", "optimal"))
        entry, seed = ENTRIES[unit["entry"]], unit["seed"]
        game, tree = entry.game, entry.tree
        net, curve = _train_net(entry, seed)
        exact = None
        if game.cells <= MAX_EXACT_CELLS:
            exact = [list(outcome(game, net, tree)), list(outcome(game, tree, net).reversed())]
        last, columns = curve[-1], ("iterations", "loss", "held_out_loss")
        return {
            **play_match(game, net, tree, unit["pairs"], seed),
            "exact": exact,
            **{name: last[name] for name in ("loss", "held_out_loss", "positions")},
            "single": list(play_games(game, net, tree, FIRST, unit["single"], 10_000 + seed)),
            "curve": [[line[key] for key in columns] for line in curve] if unit["single"] else [],
        }

    def analyse(self, results: Results) -> Report:
        """Report all rows, and verdicts on the report's statements."""
        optimal = {board: values[0] for board, values in group(results, "optimal").items()}
        nets = {ENTRIES[entry]: EntryResult(ENTRIES[entry], runs) for entry, runs in group(results, "entry").items()}
        rows = [row for net in nets.values() for row in net.rows()]
        for board, rates in optimal.items():
            label = f"{board_name(square(*board))}, optimal play of both, the first player"
            rows.append(Row(label, None, None, rates))
        by_size = sorted(nets.values(), key=lambda net: net.entry.size)
        leads = [net.lead(FIRST, SECOND) for net in by_size]
        figure = Figure(
            "Does a net that imitates the tree beat it?",
            "Left: wins less losses with 95% intervals. Right: mean errors of the net.",
            _net_panels(by_size),
            {
                "over both seats, nets that win more than they lose": sum(lead.low > 0 for lead in leads),
                "that lose more": f"{sum(lead.high < 0 for lead in leads)} of {len(leads)}",
            },
        )
        heading = f"ours, {len(by_size[0].runs)} nets"
        return Report(rows, _net_claims(nets, optimal), {"tree-net": figure}, heading)


def _train_net(entry: Entry, seed: int) -> tuple[Checkpointable, list[Mapping[str, float]]]:
    """Return a net trained by imitation of the tree, and its errors by iteration."""
    config = ValueNetConfig(
        preset=entry.preset, teacher=entry.tree, iterations=entry.iterations, log_iterations=entry.iterations // 50
    )
    curve: list[Mapping[str, float]] = []
    training = config.training(entry.game, TEACHER_GAMES, batch=1, seed=seed, opponent=config.opponent)
    training.run(log=lambda games, measured: curve.append(measured))
    return training.learner, curve


def _net_claims(nets: Mapping[Entry, EntryResult], optimal: Mapping[tuple[int, ...], Sequence[float]]) -> list[Claim]:
    """Return the report's claims; the quick form, with two small boards, decides none of those on all boards."""
    claims = []
    full = len(nets) == len(ENTRIES)
    for preset, author in AUTHORS.items():
        own = [net for entry, net in nets.items() if entry.preset == preset]
        for words, seats in (
            (f"{author}: moving first, the net wins more than the tree on each board", (FIRST,)),
            (f"the same over both seats ({author}'s net): the lead is not the first move's", (FIRST, SECOND)),
        ):
            leads = {f"{board_name(net.entry.game)}, {net.entry.iterations:,}": net.lead(*seats) for net in own}
            claims.append(Claim(words, is_above(leads.values()) if full else None, leads))
    small = [net for entry, net in nets.items() if entry.size == 3]
    if small and (3, 3) in optimal:
        draws = [interval_from_seeds(net.rates[FIRST, :, 1].tolist(), bounds=(0.0, 1.0)) for net in small]
        holds = holds_for_all(is_within(share, *ABOUT_A_FIFTH) for share in draws)
        numbers = {"draws by net": draws, "with optimal play": optimal[3, 3][1], "taken as": ABOUT_A_FIFTH}
        claims.append(Claim("3 x 3: about a fifth of the games is drawn", holds, numbers))
    for words, before, after in (
        ("Song, 6 x 6: 300 steps are a significant improvement on 100", 3, 4),
        ("Song, 7 x 7: 1,000 steps perform a little worse than 500, probably for overfitting", 6, 5),
    ):
        if ENTRIES[before] in nets:
            pair = [nets[ENTRIES[index]] for index in (before, after)]
            wins = [net.rates[FIRST, :, 0] for net in pair]
            gain = interval_from_seeds((wins[1] - wins[0]).tolist(), bounds=(-1.0, 1.0))
            errors = {
                f"{net.entry.iterations:,} steps": {"error": net.error("loss"), "held out": net.error("held_out_loss")}
                for net in pair
            }
            claims.append(Claim(words, is_above([gain]), {"wins of the better less the other's": gain, **errors}))
    return claims


def _net_panels(nets: Sequence[EntryResult]) -> list[Panel]:
    """Return the leads, published and ours, a row for each net; and the training and held-out errors."""
    names = [f"{board_name(net.entry.game)}  {AUTHORS[net.entry.preset]}, {net.entry.iterations:,}" for net in nets]
    places = np.arange(len(nets))
    published = [mean_result(net.entry.published, VALUE) for net in nets]
    leads = [
        Series(f"published, net first ({GAMES} games)", places - 0.22, published, "D", "black"),
        Series("ours, net first", places, [net.lead(FIRST) for net in nets], "o"),
        Series("ours, both seats", places + 0.22, [net.lead(FIRST, SECOND) for net in nets], "s", 1),
    ]
    errors = [
        Series("error, positions learned from", places, [np.log10(net.error("loss")) for net in nets], "v", 2),
        Series("error, positions held out", places, [np.log10(net.error("held_out_loss")) for net in nets], "^", 4),
    ]
    label = "log10 of the mean squared error"
    return [
        Panel(leads, "the net's wins less losses", places=names, limits=(-1.05, 1.05)),
        Panel(errors, label, places=names),
    ]
