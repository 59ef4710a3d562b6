"""Shared parts of the studies of the report on tree search: its boards, matches counted by seat, figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baselines.expectiminimax import Heuristic
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.game import Game
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.statistics import Interval, interval_from_pairs, is_sample, wilson
from ttt_eval.study import format_interval

SOURCE = "Song, Li, Liu and Cheng, CIS 667 Project Final Report (Syracuse University; https://github.com/JiaxinSong/tictactoe)"
SKIP = 0.25
DEPTH = 3
GAMES = 100
"""Number of games of each published match."""
GAMES_PER_SEAT = 10_000
"""Number of our games in each seat."""
MIN_CLOSE_RATIO = 0.8
"""Minimum ratio of goal to size that the report calls close; it names 8 of 8 and 8 of 10."""
DRAW_GAP = (
    f"read as: each board with a goal of at least {MIN_CLOSE_RATIO:.0%} of its size has more draws than any other"
)
"""Criterion of :func:`has_draw_gap`."""
MIN_GAMES_RATIO = 10
"""Minimum ratio of our games to the published ones for comparing rates."""
VALUE = (1, 0, -1)
"""Values of a win, a draw and a loss."""


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
    pairs = np.sum([result["pairs"] for result in results], axis=0)
    return Score(pairs, np.sum([result["lengths"] for result in results], axis=0))


def play_games(
    game: Game, a: str | Policy, b: str | Policy, seat: int, games: int, seed: int
) -> Iterator[tuple[int, int]]:
    """Play games of a in one seat; yield a's result, 0 win, 1 draw, 2 loss, and the stones on the board."""
    for number in range(games):
        score = play_pairs(game, a, b, 1, seed=seed + number)  # the game of the other seat is ignored
        assert score.lengths is not None
        result, stones = np.argwhere(score.lengths[seat])[0]
        yield int(result), int(stones)


def split_games(games: int, size: int) -> list[tuple[int, int]]:
    """Split games into units of ``size`` and the rest: the number of each, and a unique seed."""
    return [(min(size, games - start), start) for start in range(0, games, size)]


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


def format_counts(counts: Sequence[int] | Int64Array) -> str:
    """Format win / draw / loss in games."""
    return " / ".join(f"{count:,}" for count in counts)


def format_rates(intervals: Sequence[Interval]) -> str:
    """Format win / draw / loss as rates with their intervals."""
    return " / ".join(format_interval(rate, 4) for rate in intervals)
