"""A tree search with skips against random: the second table of the report on tree search, and its figures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from baselines.expectiminimax import Expectiminimax, Pruning, Search
from evaluation.exact.dynamic_programming import outcome
from evaluation.matches.match import Score
from evaluation.reports.plots import SERIES, error_bars, interval_means, legend
from evaluation.result_store import Unit
from evaluation.statistics import (
    Interval,
    difference,
    holds_for_all,
    holds_for_any,
    is_above,
    is_within,
    median,
    wilson,
)
from evaluation.study import Claim, Report, Row, Study, signed
from ttt_apps.studies.trees import (
    BOARDS,
    DEPTH,
    GAMES,
    SAMPLED,
    SKIP,
    SOURCE,
    VALUE,
    ReportBoard,
    counts_agree,
    edge,
    format_counts,
    format_rates,
    is_gap,
    match,
    mean_result,
    name_of,
    one_by_one,
    parts,
    rates_of_seat,
    square,
    total,
)
from ttt_envs.agents.policy import VALUE_TOLERANCE, best_shares, sample
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards

SMALL = (3, 3)
"""The board with exact results."""
WHOLE = f"expectiminimax:depth={DEPTH},width=15"
"""The tree on that board; it tries every move."""
EXACT = ((WHOLE, "random"), (WHOLE, "optimal"), ("optimal", "optimal"))
"""Pairings on that board, in either seat."""
FIRST, SECOND = range(2)
"""Seats of the tree, which was published for the second."""
PIECE = 1_000
"""Number of games in each seat per unit."""
OTHERS = 2_000
"""Number of games in each seat of trees other than our reading of the report's."""
TURNS = 16
TIMES = {10: "almost 10 hours"}
"""Duration of the published games, by size."""
MOST = 0.5
RARE = 0.05
"""Probability of a match below which it is not a plausible sample of ours."""
GOOD, WONDERFUL = 0.99, 0.9
"""Win rates taken for "a very good performance" and "a wonderful winning rate"."""
CLOSE_RATES, CLOSE_LENGTHS = 0.01, 2
"""Maximum differences of rates, and of stones, taken for "very close"."""
SEARCHES: tuple[Pruning, ...] = ("star1", "none")
"""Our search, and the report's, which visits its whole tree."""


@dataclass
class CountingTree:
    """A tree search that plays its policy's moves and counts their cost, by slot and search.

    Attributes:
        policy: the policy, without a leaf policy.
        nodes: number of positions visited.
        seconds: of CPU time.
    """

    policy: Expectiminimax
    nodes: dict[tuple[int, str], int] = field(default_factory=dict)
    seconds: dict[tuple[int, str], float] = field(default_factory=dict)
    pure = False

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return the policy's probabilities."""
        return self.policy.probabilities(boards, rng)

    def player(self) -> CountingTree:
        """Return itself, so that the counts can be read after a match."""
        return self

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
            luck = rng.integers(0, 1 << 64, 1, dtype=np.uint64)
            for pruning in SEARCHES:
                board = boards.take(np.array([row]))
                begun = time.process_time()
                search = Search(
                    policy.game,
                    board,
                    heuristic=policy.heuristic,
                    pruning=pruning,
                    width=policy.width,
                    luck=luck,
                    every_move=False,
                )
                search.run(policy.depth)
                self.seconds[slot, pruning] += time.process_time() - begun
                self.nodes[slot, pruning] += int(search.nodes[0])
            # both searches find the same
            out[row] = sample(best_shares(search.move_values, VALUE_TOLERANCE), rng.random(1))[0]
        return out


# ---------------------------------------------------------------------------------------------------------------------
# Measurement


def units(quick: bool) -> list[Unit]:
    """Return for each board the games as published, ours with the report's tree and with others; exact results."""
    games, others, published = (50, 20, 20) if quick else (SAMPLED, OTHERS, GAMES)
    boards = [(board, [board.size, board.win_length]) for board in BOARDS]
    trees = [(board, size, board.spec(), games) for board, size in boards]
    trees += [(board, size, board.spec("consecutive"), others) for board, size in boards]
    trees += [(board, size, board.spec(wide=True), others) for board, size in boards if board.close]
    return [
        # seeds that no unit of the matches has
        *(
            {"what": "published", "board": size, "tree": board.spec(), "games": published, "seed": SAMPLED}
            for board, size in boards
        ),
        *(
            {"what": "match", "board": size, "tree": tree, "games": count, "seed": seed}
            for _, size, tree, all_games in trees
            for count, seed in parts(all_games, PIECE)
        ),
        {"what": "exact", "board": SMALL},
    ]


def measure(unit: Unit) -> Any:
    """Return counts of a match, or of every game as published, or exact results."""
    game = square(*unit["board"])
    if unit["what"] == "exact":
        return [[list(outcome(game, b, a).turned()), list(outcome(game, a, b))] for a, b in EXACT]
    if unit["what"] == "published":
        return _published(unit)
    return match(game, unit["tree"], "random", unit["games"], unit["seed"])


def _published(unit: Unit) -> dict[str, Any]:
    """Measure every game of the tree, moving second: result, stones, nodes; and the total CPU time."""
    game, tree = square(*unit["board"]), unit["tree"]
    policy = make_policy(tree, game)
    assert isinstance(policy, Expectiminimax)
    counting = CountingTree(policy)
    for _ in one_by_one(game, counting, "random", SECOND, 1, unit["seed"]):
        pass  # compiles or loads at the first move, outside the measurement
    found: dict[str, Any] = {
        "results": [],
        "stones": [],
        "nodes": {pruning: [] for pruning in SEARCHES},
        "seconds": dict.fromkeys(SEARCHES, 0.0),
    }
    for result, stones in one_by_one(game, counting, "random", SECOND, unit["games"], unit["seed"]):
        found["results"].append(result)
        found["stones"].append(stones)
        for pruning in SEARCHES:
            found["nodes"][pruning].append(counting.nodes[SECOND, pruning])
            found["seconds"][pruning] += counting.seconds[SECOND, pruning]
    start = Search(game, Boards.start(game), pruning="none", width=policy.width, luck=np.zeros(1, np.uint64))
    start.run(policy.depth)
    return {**found, "first_move": int(start.nodes[0])}


# ---------------------------------------------------------------------------------------------------------------------
# Analysis


class Found(NamedTuple):
    """Measurements on one board."""

    published: dict[str, Any]
    """games like the published ones, see :func:`_published`"""
    tree: Score
    """of the report's tree, as we read it"""
    consecutive: Score
    """of a tree that compares the longest runs of stones"""
    wide: Score | None
    """of a tree that tries every move; None if not measured"""

    @property
    def won(self) -> Int64Array:
        """int64[cells + 1]: games that the tree won, moving second, by the stones on the board at the end."""
        assert self.tree.lengths is not None
        return np.asarray(self.tree.lengths[SECOND, 0])

    @property
    def counts(self) -> list[int]:
        """Wins, draws and losses of the games like the published ones."""
        return [self.published["results"].count(result) for result in range(3)]


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report all boards, and verdicts on the report's sentences."""
    found = {}
    for board in BOARDS:
        mine = [(unit, result) for unit, result in results if tuple(unit["board"]) == (board.size, board.win_length)]
        [published] = [result for unit, result in mine if unit["what"] == "published"]
        trees = [
            [result for unit, result in mine if unit["what"] == "match" and unit["tree"] == tree]
            for tree in (board.spec(), board.spec("consecutive"), board.spec(wide=True))
        ]
        tree, consecutive, wide = (total(pieces) if pieces else None for pieces in trees)
        assert tree is not None
        assert consecutive is not None
        found[board] = Found(published, tree, consecutive, wide)
    [exact] = [result for unit, result in results if unit["what"] == "exact"]
    rows = [row for board, one in found.items() for row in _rows(board, one)]
    for (a, b), seats in zip(EXACT, exact, strict=True):
        for seat, result in zip(("second", "first"), seats, strict=True):
            told = " / ".join(f"{share:.4f}" for share in result)
            what = f"{name_of(square(*SMALL))}, {a.replace(WHOLE, 'tree')} {seat}, against {b}"
            rows.append(Row(what, "", "", told))
    full = all(one.tree.games >= 2 * SAMPLED for one in found.values())
    claims = [claim if full else claim._replace(holds=None) for claim in _claims(found)]
    return Report(
        rows,
        claims,
        {"tree-search": lambda figure: _draw_figure(figure, found)},
        data=[{**unit, "result": result} for unit, result in results],
    )


def _rows(board: ReportBoard, one: Found) -> list[Row]:
    """Return the rows of a board."""
    few, games = len(one.published["results"]), one.tree.games // 2
    nodes, seconds = one.published["nodes"], one.published["seconds"]
    spent = "; ".join(
        f"{pruned}{seconds[pruning]:.1f} s CPU, {np.mean(nodes[pruning]):,.0f} nodes a game"
        for pruned, pruning in zip(("", "without pruning "), SEARCHES, strict=True)
    )
    published = format_counts(board.tree)
    rows = [
        Row(
            f"{board.name}, tree second, {few:,} games",
            published,
            format_counts(one.counts),
            "",
            counts_agree(board.tree, one.tree.table[SECOND]),
        ),
        Row(f"{board.name}, tree second, {games:,} games", "", format_rates(rates_of_seat(one.tree, SECOND)), ""),
        Row(f"{board.name}, tree first, {games:,} games", "", format_rates(rates_of_seat(one.tree, FIRST)), ""),
        Row(
            f"{board.name}, tree second, comparing runs, {one.consecutive.games // 2:,} games",
            published,
            format_rates(rates_of_seat(one.consecutive, SECOND)),
            "",
            counts_agree(board.tree, one.consecutive.table[SECOND]),
        ),
    ]
    if one.wide is not None:
        what = f"{board.name}, tree second, trying every move, {one.wide.games // 2:,} games"
        rows.append(Row(what, "", format_rates(rates_of_seat(one.wide, SECOND)), ""))
    return [*rows, Row(f"{board.name}, the tree's moves in {few:,} games", TIMES.get(board.size, ""), spent, "")]


def _claims(found: Mapping[ReportBoard, Found]) -> list[Claim]:
    """Return verdicts on the report's sentences."""
    second = {board: rates_of_seat(one.tree, SECOND) for board, one in found.items()}
    lengths = {board: median(one.won) for board, one in found.items()}
    seven, eight, nine, ten, thirteen = found  # in the report's order, by size
    edges = [edge(one.tree) for one in found.values()]
    claims = [
        Claim(
            "To show the performance better, we let random AI play first and tree-based AI go second",
            is_above(edges),
            "taken as: the tree does worse second, on every board; wins less losses of who moves first, the mean of "
            "both seats: "
            + "; ".join(f"{board.name} {signed(value)}" for board, value in zip(found, edges, strict=True)),
        ),
        Claim(
            "The number of nodes searched each turn should be valid positions on the chessboard * the sum of the nodes "
            "on each layer of the search tree. We should double the nodes of each layer except the first layer",
            all(one.published["first_move"] == tree_size(board) for board, one in found.items()),
            "nodes of the tree of the first move, in which no game can end: "
            + "; ".join(f"{board.name} {one.published['first_move']:,}" for board, one in found.items()),
        ),
        _won_all(seven, second[seven][0]),
        *_turns(seven, found[seven].won),
    ]
    for board in (nine, thirteen):
        rates = difference(second[board][0], second[seven][0])
        stones = _longer(lengths[board], lengths[seven])
        claims.append(
            Claim(
                f"{board.name}: the result is very close to the previous one",
                holds_for_all(
                    [is_within(rates, -CLOSE_RATES, CLOSE_RATES), is_within(stones, -CLOSE_LENGTHS, CLOSE_LENGTHS)]
                ),
                f"the tree wins {format_rates(second[board][:1])}, half of its wins by {_stones(lengths[board])} "
                f"stones; "
                f"{seven.name}: {format_rates(second[seven][:1])}, {_stones(lengths[seven])} stones; taken as: rates "
                f"within "
                f"{CLOSE_RATES}, stones within {CLOSE_LENGTHS}",
            )
        )
    far = [second[board][0] for board in found if not board.close]
    claims += [
        Claim(
            "Our tree-based AI has a very good performance on games that the board sizes are larger enough than the "
            "winning goals",
            is_above(far, GOOD),
            f"taken as: it wins more than {GOOD} there; " + _wins(second, [seven, nine, thirteen]),
        ),
        Claim(
            "Board sizes and winning goals that are relatively close: many draw games came out",
            is_gap({board: rates[1] for board, rates in second.items()}),
            "draws " + "; ".join(f"{board.name} {rates[1].mean:.4f}" for board, rates in second.items()),
        ),
        Claim(
            f"{eight.name}: AI needs more turns to win the game",
            is_above(_longer(lengths[eight], lengths[board]) for board in found if not board.close),
            "half of its wins by so many stones: "
            + "; ".join(f"{board.name} {_stones(middle)}" for board, middle in lengths.items()),
        ),
        _as_many_draws(eight, found[eight]),
        _lost(ten, found[ten]),
        _few_nodes(ten, found[ten], eight, found[eight]),
        Claim(
            "Our tree-based AI has a wonderful winning rate for most cases",
            _mostly([is_above(rates[:1], WONDERFUL) for rates in second.values()]),
            f"taken as: it wins more than {WONDERFUL} on most of the boards; " + _wins(second, found),
        ),
    ]
    return claims


def _longer(one: Interval, other: Interval) -> Interval:
    """Return the difference of two medians, from the ends of both intervals."""
    return Interval(one.mean - other.mean, one.low - other.high, one.high - other.low)


def _stones(middle: Interval) -> str:
    ends = "" if middle.low == middle.high else f" ({middle.low:.0f} to {middle.high:.0f})"
    return f"{middle.mean:.0f}{ends}"


def _mostly(verdicts: Sequence[bool | None]) -> bool | None:
    """Return whether more than half hold; None if the open ones decide it."""
    half = len(verdicts) / 2
    return True if verdicts.count(True) > half else None if len(verdicts) - verdicts.count(False) > half else False


def tree_size(board: ReportBoard) -> int:
    """Return the nodes of a three-ply tree from the empty board, by the report's formula: two turns after every
    move.
    """
    return board.game.cells * (1 + 2 * board.width + 2 * board.width * 2 * board.width)


def _wins(second: Mapping[ReportBoard, Sequence[Interval]], boards: Iterable[ReportBoard]) -> str:
    return "; ".join(f"{board.name} {format_rates(second[board][:1])}" for board in boards)


def _won_all(board: ReportBoard, rate: Interval) -> Claim:
    matches = Interval(*(share**GAMES for share in rate))
    return Claim(
        f"{board.name}: the tree-based AI won all the games",
        is_above([matches], MOST),
        f"it wins {format_rates([rate])}; taken as: it wins most matches of {GAMES} games so, here a share of "
        f"{format_rates([matches])}",
    )


def _turns(board: ReportBoard, won: Int64Array) -> list[Claim]:
    """Return claims for two readings of one sentence."""
    found = f"stones on the board at the end of the games that the tree won: most often {won.argmax()}, median "
    total = max(1, int(won.sum()))
    claims = []
    for reading, games in (("exactly", won[TURNS]), ("at most", won[: TURNS + 1].sum())):
        share = wilson(float(games / total), total)
        claims.append(
            Claim(
                f"{board.name}: most of the games were ended in {TURNS} turns (in {reading} so many)",
                is_above([share], MOST),
                f"{found}{_stones(median(won))}; {format_rates([share])} of them end with {reading} {TURNS}; taken "
                f"as: more "
                f"than {MOST}",
            )
        )
    return claims


def _as_many_draws(board: ReportBoard, one: Found) -> Claim:
    won, drawn, _ = board.tree
    told = (won - drawn) / GAMES
    more = mean_result(one.tree.table[SECOND], (1, -1, 0))
    return Claim(
        f"{board.name}: the number of draw games is very close to AI winning games",
        is_within(more, -told, told),
        f"wins less draws {signed(more)}; taken as: no further apart than the {won - drawn} of {GAMES} of which the "
        f"report says so",
    )


def _lost(board: ReportBoard, one: Found) -> Claim:
    lost, holds, said = board.tree[2], [], []
    for reading, score in (("", one.tree), ("comparing runs ", one.consecutive)):
        losses, games = int(score.table[SECOND, 2]), int(score.table[SECOND].sum())
        chance = Interval(*(float(binom.sf(lost - 1, GAMES, rate)) for rate in wilson(losses / games, games)))
        holds.append(is_above([chance], RARE))
        said.append(
            f"{reading}it loses {losses:,} of {games:,}, and {lost} or more of {GAMES} with chance "
            f"{format_rates([chance])}"
        )
    return Claim(
        f"{board.name}: tree-based AI lost {lost} games this time",
        holds_for_any(holds),
        f"{'; '.join(said)}; taken as: with a chance above {RARE}, by either reading",
    )


def _few_nodes(board: ReportBoard, one: Found, other: ReportBoard, other_one: Found) -> Claim:
    """Claim that a tree that tries every move does better."""
    told = []
    for name, measured in ((board.name, one), (other.name, other_one)):
        assert measured.wide is not None
        narrow, wide = (score.table[SECOND] for score in (measured.tree, measured.wide))
        told.append((name, difference(mean_result(wide, VALUE), mean_result(narrow, VALUE)), narrow, wide))
    more = told[0][1]
    return Claim(
        f"{board.name}: the reason is probably that we searched a relatively small number of nodes each layer",
        is_above([more]),
        "taken as: a tree that tries every move does better; its wins less losses are higher by "
        + "; ".join(
            f"{signed(value)} on {name}, {format_counts(wide)} against {format_counts(narrow)}"
            for name, value, narrow, wide in told
        ),
    )


def _draw_figure(figure: Any, found: Mapping[ReportBoard, Found]) -> None:
    """Draw the tree's win rate on each board, published and ours, and the length of these games."""
    figure.set_size_inches(8, 6)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    boards = list(found)
    few, many = GAMES, found[boards[0]].tree.games // 2
    kinds: list[tuple[str, list[Interval | None]]] = [
        (f"published, second ({few} games)", [wilson(board.tree[0] / few, few) for board in boards]),
        (f"ours, second ({many:,})", [rates_of_seat(found[board].tree, SECOND)[0] for board in boards]),
        ("ours, first", [rates_of_seat(found[board].tree, FIRST)[0] for board in boards]),
        ("comparing runs, second", [rates_of_seat(found[board].consecutive, SECOND)[0] for board in boards]),
        (
            "trying every move, second",
            [
                None if wide is None else rates_of_seat(wide, SECOND)[0]
                for wide in (found[board].wide for board in boards)
            ],
        ),
    ]
    for index, ((name, rates), marker) in enumerate(zip(kinds, "Do^sv", strict=True)):
        known = [(place, rate) for place, rate in enumerate(rates) if rate is not None]
        left.errorbar(
            interval_means([rate for _, rate in known]),
            [place + 0.15 * (index - 2) for place, _ in known],
            xerr=error_bars([rate for _, rate in known]),
            fmt=marker,
            ms=5,
            capsize=3,
            color="black" if index == 0 else SERIES[index - 1],
            label=name,
        )
    left.set(xlabel="share of games that the tree wins, with 95% interval", xlim=(0, 1.02))
    left.set_yticks(range(len(boards)), [f"{board.name}\nwidth {board.width}" for board in boards])
    left.invert_yaxis()
    for place, board in enumerate(boards):
        lengths = np.repeat(np.arange(len(found[board].won)), found[board].won)
        if len(lengths):
            low, quarter, middle, more, high = np.quantile(lengths, (0.05, 0.25, 0.5, 0.75, 0.95))
            right.plot([low, high], [place, place], color=SERIES[0], lw=1)
            right.plot([quarter, more], [place, place], color=SERIES[0], lw=6, solid_capstyle="butt")
            right.plot(middle, place, "o", color="white", mec=SERIES[0], ms=6)
    right.plot(TURNS, 0, "D", color="black", ms=5)
    right.annotate(f'published:\n"{TURNS} turns"', (TURNS, 0), (8, -4), textcoords="offset points", fontsize="small")
    right.set(xlabel="stones at the end of its wins, second:\nmedian, middle half, middle 90%", xlim=(0, None))
    legend(figure, left, 3)


STUDY = Study(
    title="A tree search against random on five boards",
    source=f"{SOURCE}, milestone 2, second table and figures",
    about=(
        f"Turns are skipped with probability {SKIP}. The tree looks {DEPTH} plies ahead, with as many moves drawn at a "
        f"node below the root as the report drew (7 x 7: 15, 8 x 8: 10, 9 x 9: 12, 10 x 10: 9, 13 x 13: 8). Numbers "
        f"are wins / draws / losses of the tree. The published games had it second; ours have it in either seat, "
        f"{SAMPLED:,} games in each, with 95% intervals. Published counts agree where they may well be drawn with the "
        f'rates of our games (exact multinomial test, 5%). At the horizon the report compares "the maximum pieces in '
        f'a row that have potential to win", which we read as stones in one open window; comparing runs is the other '
        f"reading, the longest chain in one. The {GAMES} games as published are searched twice, with pruning and "
        f"without, which looks at all of the tree, as the report's did. Times are of one core. The report's figures "
        f"have a bar for each of {GAMES} games, its nodes or its turns; these numbers of single games of ours are in "
        f"result.json, and the picture has all games together."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"most games: 50 in a seat in place of {SAMPLED:,}, 20 in place of {GAMES} as published",
)
