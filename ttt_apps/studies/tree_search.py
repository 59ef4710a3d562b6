"""A tree search with skips against random: the second table of the report on tree search, and its figures."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from baselines.expectiminimax import Expectiminimax, Pruning, Search
from ttt_apps.studies import trees
from ttt_apps.studies.trees import BOARDS, DEPTH, GAMES, GAMES_PER_SEAT, ReportBoard, format_counts, format_rates
from ttt_envs.agents.policy import VALUE_TOLERANCE, Player, Policy, best_shares, sample
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.matches.score import Score
from ttt_eval.reports.plots import SERIES, draw_label_legend, plot_intervals
from ttt_eval.result_store import Unit
from ttt_eval.statistics import (
    Interval,
    difference,
    holds_for_all,
    holds_for_any,
    is_above,
    is_within,
    median,
    wilson,
)
from ttt_eval.study import Caption, Claim, Report, Row, Study, format_difference, rates

EXACT_BOARD = (3, 3)
"""The board with exact results."""
EXACT_TREE = f"expectiminimax:depth={DEPTH},width=15"
"""The tree on that board; it tries every move."""
EXACT_PAIRINGS = ((EXACT_TREE, "random"), (EXACT_TREE, "optimal"), ("optimal", "optimal"))
"""Pairings on that board, in either seat."""
FIRST, SECOND = range(2)
"""Seats of the tree, which was published for the second."""
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


# ---------------------------------------------------------------------------------------------------------------------
# Measurement


def units(quick: bool) -> list[Unit]:
    """Return for each board the games as published, ours with the report's tree and with others; exact results."""
    games, others, published = (50, 20, 20) if quick else (GAMES_PER_SEAT, OTHER_GAMES, GAMES)
    boards = [(board, [board.size, board.win_length]) for board in BOARDS]
    matches = [(board, size, board.spec(), games) for board, size in boards]
    matches += [(board, size, board.spec("consecutive"), others) for board, size in boards]
    matches += [(board, size, board.spec(wide=True), others) for board, size in boards if board.close]
    return [
        # seeds that no unit of the matches has
        *(
            {"what": "published", "board": size, "tree": board.spec(), "games": published, "seed": GAMES_PER_SEAT}
            for board, size in boards
        ),
        *(
            {"what": "match", "board": size, "tree": tree, "games": count, "seed": seed}
            for _, size, tree, all_games in matches
            for count, seed in trees.split_games(all_games, UNIT_GAMES)
        ),
        {"what": "exact", "board": EXACT_BOARD},
    ]


def measure(unit: Unit) -> Any:
    """Return counts of a match, or of every game as published, or exact results."""
    game = trees.square(*unit["board"])
    if unit["what"] == "exact":
        return [[list(outcome(game, b, a).reversed()), list(outcome(game, a, b))] for a, b in EXACT_PAIRINGS]
    if unit["what"] == "published":
        return _measure_published(unit)
    return trees.play_match(game, unit["tree"], "random", unit["games"], unit["seed"])


def _measure_published(unit: Unit) -> dict[str, Any]:
    """Measure every game of the tree, moving second: result, stones, nodes; and the total CPU time."""
    game = trees.square(*unit["board"])
    policy = make_policy(unit["tree"], game)
    assert isinstance(policy, Expectiminimax)
    counting = CountingTree(policy)
    counted = CountedPolicy(counting)
    for _ in trees.play_games(game, counted, "random", SECOND, 1, unit["seed"]):
        pass  # compiles or loads at the first move, outside the measurement
    results, lengths = [], []
    nodes: dict[str, list[int]] = {pruning: [] for pruning in SEARCHES}
    seconds = dict.fromkeys(map(str, SEARCHES), 0.0)
    for result, stones in trees.play_games(
        game, CountedPolicy(counting), "random", SECOND, unit["games"], unit["seed"]
    ):
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


# ---------------------------------------------------------------------------------------------------------------------
# Analysis


class BoardResult(NamedTuple):
    """Measurements on one board."""

    board: ReportBoard
    published: dict[str, Any]
    """games like the published ones, see :func:`_measure_published`"""
    tree: Score
    """of the report's tree, as we read it"""
    consecutive: Score
    """of a tree that compares the longest runs of stones"""
    wide: Score | None
    """of a tree that tries every move; None if not measured"""

    @property
    def name(self) -> str:
        """Size and win length of the board."""
        return self.board.name

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
    def counts(self) -> list[int]:
        """Wins, draws and losses of the games like the published ones."""
        return [self.published["results"].count(result) for result in range(3)]

    @property
    def rates(self) -> list[Interval]:
        """Rates of wins, draws and losses of the report's tree, moving second."""
        return trees.rates_of_seat(self.tree, SECOND)


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report all boards, and verdicts on the report's sentences."""
    boards = [_collect(board, results) for board in BOARDS]
    rows = [row for one in boards for row in _rows(one)]
    [exact] = [result for unit, result in results if unit["what"] == "exact"]
    for (a, b), seats in zip(EXACT_PAIRINGS, exact, strict=True):
        for seat, result in zip(("second", "first"), seats, strict=True):
            pairing = f"{a.replace(EXACT_TREE, 'tree')} {seat}, against {b}"
            rows.append(Row(f"{trees.board_name(trees.square(*EXACT_BOARD))}, {pairing}", "", "", rates(result, 4)))
    full = all(one.tree.games >= 2 * GAMES_PER_SEAT for one in boards)
    claims = [claim if full else claim._replace(holds=None) for claim in _claims(boards)]
    data = [{**unit, "result": result} for unit, result in results]
    return Report(rows, claims, {"tree-search": lambda figure: _draw_figure(figure, boards)}, data=data)


def _collect(board: ReportBoard, results: Sequence[tuple[Unit, Any]]) -> BoardResult:
    """Collect the results of one board."""
    mine = [(unit, result) for unit, result in results if tuple(unit["board"]) == (board.size, board.win_length)]
    [published] = [result for unit, result in mine if unit["what"] == "published"]

    def score(tree: str) -> Score | None:
        matches = [result for unit, result in mine if unit["what"] == "match" and unit["tree"] == tree]
        return trees.total_score(matches) if matches else None

    tree, consecutive = score(board.spec()), score(board.spec("consecutive"))
    assert tree is not None
    assert consecutive is not None
    return BoardResult(board, published, tree, consecutive, score(board.spec(wide=True)))


def _rows(one: BoardResult) -> list[Row]:
    """Return the rows of a board."""
    board, single, games = one.board, len(one.published["results"]), one.tree.games // 2
    nodes, seconds = one.published["nodes"], one.published["seconds"]
    cost = "; ".join(
        f"{words}{seconds[pruning]:.1f} s CPU, {np.mean(nodes[pruning]):,.0f} nodes a game"
        for words, pruning in zip(("", "without pruning "), SEARCHES, strict=True)
    )

    def row(label: str, published: str, ours: str, agrees: bool | None = None) -> Row:
        return Row(f"{board.name}, {label}", published, ours, "", agrees)

    def agree(score: Score) -> bool | None:
        return trees.counts_agree(board.tree, score.table[SECOND])

    published, consecutive = format_counts(board.tree), one.consecutive
    rows = [
        row(f"tree second, {single:,} games", published, format_counts(one.counts), agree(one.tree)),
        row(f"tree second, {games:,} games", "", format_rates(one.rates)),
        row(f"tree first, {games:,} games", "", format_rates(trees.rates_of_seat(one.tree, FIRST))),
        row(
            f"tree second, comparing runs, {consecutive.games // 2:,} games",
            published,
            format_rates(trees.rates_of_seat(consecutive, SECOND)),
            agree(consecutive),
        ),
    ]
    if one.wide is not None:
        label = f"tree second, trying every move, {one.wide.games // 2:,} games"
        rows.append(row(label, "", format_rates(trees.rates_of_seat(one.wide, SECOND))))
    return [*rows, row(f"the tree's moves in {single:,} games", PUBLISHED_TIMES.get(board.size, ""), cost)]


def _claims(boards: Sequence[BoardResult]) -> list[Claim]:
    """Return verdicts on the report's sentences."""
    seven, eight, nine, ten, thirteen = boards  # in the report's order, by size
    far = [one for one in boards if not one.board.close]
    advantages = [trees.first_move_advantage(one.tree) for one in boards]
    return [
        Claim(
            "To show the performance better, we let random AI play first and tree-based AI go second",
            is_above(advantages),
            "read as: the tree does worse second, on every board; wins less losses of the first player, the mean of "
            "both seats: "
            + "; ".join(
                f"{one.name} {format_difference(value)}" for one, value in zip(boards, advantages, strict=True)
            ),
        ),
        Claim(
            "The number of nodes searched each turn should be valid positions on the chessboard * the sum of the nodes "
            "on each layer of the search tree. We should double the nodes of each layer except the first layer",
            all(one.published["first_move"] == tree_size(one.board) for one in boards),
            "nodes of the tree of the first move, in which no game can end: "
            + "; ".join(f"{one.name} {one.published['first_move']:,}" for one in boards),
        ),
        _all_won_claim(seven),
        *_length_claims(seven),
        _same_result_claim(nine, seven),
        _same_result_claim(thirteen, seven),
        Claim(
            "Our tree-based AI has a very good performance on games that the board sizes are larger enough than the "
            "winning goals",
            is_above([one.rates[0] for one in far], VERY_GOOD),
            f"read as: it wins more than {VERY_GOOD} there; {_format_wins(far)}",
        ),
        Claim(
            "Board sizes and winning goals that are relatively close: many draw games came out",
            trees.has_draw_gap({one.board: one.rates[1] for one in boards}),
            f"{trees.DRAW_GAP}; draws " + "; ".join(f"{one.name} {one.rates[1].mean:.4f}" for one in boards),
        ),
        Claim(
            f"{eight.name}: AI needs more turns to win the game",
            is_above(_length_difference(eight, one) for one in far),
            "median number of stones at its wins: "
            + "; ".join(f"{one.name} {_format_length(one.length)}" for one in boards),
        ),
        _draws_claim(eight),
        _losses_claim(ten),
        _width_claim(ten, eight),
        Claim(
            "Our tree-based AI has a wonderful winning rate for most cases",
            _holds_for_most([is_above(one.rates[:1], WONDERFUL) for one in boards]),
            f"read as: it wins more than {WONDERFUL} on most of the boards; {_format_wins(boards)}",
        ),
    ]


def _length_difference(one: BoardResult, other: BoardResult) -> Interval:
    """Return the difference of two median lengths, from the ends of both intervals."""
    mine, theirs = one.length, other.length
    return Interval(mine.mean - theirs.mean, mine.low - theirs.high, mine.high - theirs.low)


def _format_length(length: Interval) -> str:
    ends = "" if length.low == length.high else f" ({length.low:.0f} to {length.high:.0f})"
    return f"{length.mean:.0f}{ends}"


def _format_wins(boards: Iterable[BoardResult]) -> str:
    return "; ".join(f"{one.name} {format_rates(one.rates[:1])}" for one in boards)


def _holds_for_most(verdicts: Sequence[bool | None]) -> bool | None:
    """Return whether more than half hold; None if the open ones decide it."""
    half = len(verdicts) / 2
    return True if verdicts.count(True) > half else None if len(verdicts) - verdicts.count(False) > half else False


def tree_size(board: ReportBoard) -> int:
    """Return the nodes of a three-ply tree from the empty board, by the report's formula: two turns after every
    move.
    """
    return board.game.cells * (1 + 2 * board.width + 2 * board.width * 2 * board.width)


def _all_won_claim(one: BoardResult) -> Claim:
    rate = one.rates[0]
    matches = Interval(*(share**GAMES for share in rate))
    return Claim(
        f"{one.name}: the tree-based AI won all the games",
        is_above([matches], MAJORITY),
        f"it wins {format_rates([rate])}; read as: it wins most matches of {GAMES} games so, here a share of "
        f"{format_rates([matches])}",
    )


def _length_claims(one: BoardResult) -> list[Claim]:
    """Return claims for two readings of one sentence."""
    won, total = one.won, max(1, int(one.won.sum()))
    claims = []
    for reading, games in (("exactly", won[PUBLISHED_LENGTH]), ("at most", won[: PUBLISHED_LENGTH + 1].sum())):
        share = wilson(float(games / total), total)
        claims.append(
            Claim(
                f"{one.name}: most of the games were ended in {PUBLISHED_LENGTH} turns (read as: {reading})",
                is_above([share], MAJORITY),
                f"stones on the board at the end of the games that the tree won: most often {won.argmax()}, median "
                f"{_format_length(one.length)}; {format_rates([share])} of them end with {reading} "
                f"{PUBLISHED_LENGTH}; read as: more than {MAJORITY}",
            )
        )
    return claims


def _same_result_claim(one: BoardResult, other: BoardResult) -> Claim:
    wins, theirs = one.rates[:1], other.rates[:1]
    return Claim(
        f"{one.name}: the result is very close to the previous one",
        holds_for_all(
            is_within(found, -limit, limit)
            for found, limit in (
                (difference(wins[0], theirs[0]), MAX_RATE_DIFFERENCE),
                (_length_difference(one, other), MAX_LENGTH_DIFFERENCE),
            )
        ),
        f"the tree wins {format_rates(wins)}, half of its wins by {_format_length(one.length)} stones; {other.name}: "
        f"{format_rates(theirs)}, {_format_length(other.length)} stones; read as: rates within "
        f"{MAX_RATE_DIFFERENCE}, stones within {MAX_LENGTH_DIFFERENCE}",
    )


def _draws_claim(one: BoardResult) -> Claim:
    wins, draws, _ = one.board.tree
    published = (wins - draws) / GAMES
    lead = trees.mean_result(one.tree.table[SECOND], (1, -1, 0))
    return Claim(
        f"{one.name}: the number of draw games is very close to AI winning games",
        is_within(lead, -published, published),
        f"wins less draws {format_difference(lead)}; read as: no further apart than the {wins - draws} of {GAMES} "
        f"stated in the report",
    )


def _losses_claim(one: BoardResult) -> Claim:
    lost, verdicts, evidence = one.board.tree[2], [], []
    for reading, score in (("", one.tree), ("comparing runs ", one.consecutive)):
        losses, games = int(score.table[SECOND, 2]), int(score.table[SECOND].sum())
        chance = Interval(*(float(binom.sf(lost - 1, GAMES, rate)) for rate in wilson(losses / games, games)))
        verdicts.append(is_above([chance], MIN_PROBABILITY))
        evidence.append(
            f"{reading}it loses {losses:,} of {games:,}, and {lost} or more of {GAMES} with chance "
            f"{format_rates([chance])}"
        )
    return Claim(
        f"{one.name}: tree-based AI lost {lost} games this time",
        holds_for_any(verdicts),
        f"{'; '.join(evidence)}; read as: with a chance above {MIN_PROBABILITY}, by either reading",
    )


def _width_claim(one: BoardResult, other: BoardResult) -> Claim:
    """Claim that a tree that tries every move does better."""
    gains, evidence = [], []
    for board in (one, other):
        assert board.wide is not None
        narrow, wide = (score.table[SECOND] for score in (board.tree, board.wide))
        gains.append(difference(*(trees.mean_result(counts, trees.VALUE) for counts in (wide, narrow))))
        evidence.append(
            f"{format_difference(gains[-1])} on {board.name}, {format_counts(wide)} against {format_counts(narrow)}"
        )
    return Claim(
        f"{one.name}: the reason is probably that we searched a relatively small number of nodes each layer",
        is_above(gains[:1]),
        "read as: a tree that tries every move does better; its wins less losses are higher by " + "; ".join(evidence),
    )


def _draw_figure(figure: Any, boards: Sequence[BoardResult]) -> None:
    """Draw the tree's win rate on each board, published and ours, and the length of these games."""
    figure.set_size_inches(8, 6)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))

    def wins(scores: Iterable[Score | None], seat: int = SECOND) -> list[Interval | None]:
        return [None if score is None else trees.rates_of_seat(score, seat)[0] for score in scores]

    series: list[tuple[str, list[Interval | None]]] = [
        (f"published, second ({GAMES} games)", [wilson(one.board.tree[0] / GAMES, GAMES) for one in boards]),
        (f"ours, second ({boards[0].tree.games // 2:,})", wins(one.tree for one in boards)),
        ("ours, first", wins((one.tree for one in boards), FIRST)),
        ("comparing runs, second", wins(one.consecutive for one in boards)),
        ("trying every move, second", wins(one.wide for one in boards)),
    ]
    for index, ((label, intervals), marker) in enumerate(zip(series, "Do^sv", strict=True)):
        measured = [(place + 0.15 * (index - 2), rate) for place, rate in enumerate(intervals) if rate is not None]
        places, shown = zip(*measured, strict=True) if measured else ((), ())
        colour = "black" if index == 0 else SERIES[index - 1]
        plot_intervals(left, places, shown, across=True, fmt=marker, ms=5, capsize=3, color=colour, label=label)
    left.set(xlabel="share of games that the tree wins, with 95% interval", xlim=(0, 1.02))
    left.set_yticks(range(len(boards)), [f"{one.name}\nwidth {one.board.width}" for one in boards])
    left.invert_yaxis()
    for place, one in enumerate(boards):
        lengths = np.repeat(np.arange(len(one.won)), one.won)
        if len(lengths):
            low, quarter, middle, more, high = np.quantile(lengths, (0.05, 0.25, 0.5, 0.75, 0.95))
            right.plot([low, high], [place, place], color=SERIES[0], lw=1)
            right.plot([quarter, more], [place, place], color=SERIES[0], lw=6, solid_capstyle="butt")
            right.plot(middle, place, "o", color="white", mec=SERIES[0], ms=6)
    right.plot(PUBLISHED_LENGTH, 0, "D", color="black", ms=5)
    label = f'published:\n"{PUBLISHED_LENGTH} turns"'
    right.annotate(label, (PUBLISHED_LENGTH, 0), (8, -4), textcoords="offset points", fontsize="small")
    right.set(xlabel="stones at the end of its wins, second:\nmedian, middle half, middle 90%", xlim=(0, None))
    draw_label_legend(figure, left, 3)


def _answer(report: Report) -> str:
    wins = re.findall(r"(\d+ x \d+ \(\d+\)) ([\d.]+) \(", report.claim("Our tree-based AI has a wonderful").evidence)
    shares = ", ".join(f"{float(share):.2%} on {board}" for board, share in wins)
    return f"Moving second, it wins this share of games: {shares}."


STUDY = Study(
    title="A tree search against random on five boards",
    source=f"{trees.SOURCE}, milestone 2, second table and figures",
    about=(
        f"Turns are skipped with probability {trees.SKIP}. The tree searches {DEPTH} plies, with as many random moves "
        "at a node below the root as in the report (7 x 7: 15, 8 x 8: 10, 9 x 9: 12, 10 x 10: 9, 13 x 13: 8). Numbers "
        "are wins / draws / losses of the tree. In the published games it moves second; here it plays in both seats, "
        f"{GAMES_PER_SEAT:,} games in each, with 95% intervals. Published counts agree if they are a plausible sample "
        'of the rates of our games (exact multinomial test, 5%). At the horizon the report compares "the maximum '
        'pieces in a row that have potential to win", which we read as stones in one open line; comparing runs is the '
        f"other reading, the longest chain in one. The {GAMES} games as published are searched twice: with pruning, "
        "and without, which visits the whole tree, as in the report. Times are of one core. The report's figures have "
        "one bar per game for its nodes or its turns. Our numbers of single games are in result.json, and the picture "
        "shows all games together."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"most games: 50 in a seat in place of {GAMES_PER_SEAT:,}, 20 in place of {GAMES} as published",
    captions={
        "tree-search": Caption(
            "How often does the tree search beat random play?",
            _answer,
            "Intervals are 95%. On the right, circles are medians, thick lines the middle half, thin ones the "
            "middle 90%.",
        ),
    },
)
