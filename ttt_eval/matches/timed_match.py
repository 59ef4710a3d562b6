"""Timed matches: both players have a clock, and a player without time left loses.

Openings, skips and pairs are those of :mod:`ttt_eval.matches.match`; each process plays one game at a time. Results
depend on the machine and its load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from baselines.timed.clock import Now
from baselines.timed.policy import TimedPlayer
from ttt_envs.agents.policy import Forfeit, Policy
from ttt_envs.core.jit import Float64Array, compile_at_once
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.rules import NOT_OVER, play_rows
from ttt_eval.matches.games import PlayedGame
from ttt_eval.matches.luck import LuckTracker
from ttt_eval.matches.match import (
    ForfeitLimit,
    Log,
    MatchSettings,
    MoveRecorder,
    PairBatch,
    PairBlock,
    Side,
    cached_policies,
    check_legal,
    check_pairs,
    make_player,
    make_sides,
    make_tracker,
    part_block,
    run_blocks,
    split_blocks,
)
from ttt_eval.matches.score import Score

FORFEIT = "time"
"""Reason of a loss on time."""


@dataclass(frozen=True)
class Times:
    """Time statistics of one player.

    Attributes:
        seconds: float64[moves], for each of its moves.
        least_left: minimum time left after a move, before the increment, in seconds; below 0 if it lost on time.
        lost: number of games lost on time.
        guesses, hits: number of times that it pondered until its turn came, and number of ponder hits.
    """

    seconds: Float64Array
    least_left: float
    lost: int = 0
    guesses: int = 0
    hits: int = 0

    @classmethod
    def empty(cls) -> Times:
        """Return the statistics of no moves."""
        return cls(np.zeros(0), float("inf"))

    def __add__(self, other: Times) -> Times:
        """Return the statistics of the games of both."""
        return Times(
            np.concatenate([self.seconds, other.seconds]),
            min(self.least_left, other.least_left),
            self.lost + other.lost,
            self.guesses + other.guesses,
            self.hits + other.hits,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        moved = len(self.seconds) > 0
        return {
            "moves": len(self.seconds),
            "median_s": float(np.median(self.seconds)) if moved else None,
            "largest_s": float(self.seconds.max()) if moved else None,
            "least_left_s": self.least_left if moved else None,
            "lost_on_time": self.lost,
            "ponder_guesses": self.guesses,
            "ponder_hits": self.hits,
        }


@dataclass(frozen=True)
class TimedScore:
    """Result of a timed match of a against b."""

    score: Score
    times: tuple[Times, Times]

    @classmethod
    def empty(cls, game: Game) -> TimedScore:
        """Return the score of no games."""
        return cls(Score.empty(game), (Times.empty(), Times.empty()))

    def __add__(self, other: TimedScore) -> TimedScore:
        """Return the sum over the games of both."""
        (a, b), (other_a, other_b) = self.times, other.times
        return TimedScore(self.score + other.score, (a + other_a, b + other_b))


def play_timed_pairs(match: MatchSettings, pairs: int, *, jobs: Jobs = 1, log: Log | None = None) -> TimedScore:
    """Play pairs of timed games.

    A player whose clock is negative after a move loses; the move is not played. A player that cannot use a clock takes
    its usual time. Players compile their code before the games.

    Args:
        match: the match, with a clock.
        pairs, log: as of :func:`ttt_eval.matches.match.play_pairs`.
        jobs: the workers; each process plays one game at a time. More workers than cores slow each other down.

    Raises:
        OSError, ValueError: as there; no clock.
    """
    return sum(play_timed_blocks(match, pairs, jobs=jobs, log=log), TimedScore.empty(match.game))


def play_timed_blocks(
    match: MatchSettings, pairs: int, *, jobs: Jobs = 1, log: Log | None = None
) -> Iterator[TimedScore]:
    """Play pairs as :func:`play_timed_pairs`, yielding the score of one pair at a time.

    Raises:
        ValueError: as there.
    """
    check_pairs(pairs)
    if match.clock is None:
        raise ValueError("a timed match needs a clock: choose one such as Clock(10, 0.1)")
    name = uuid4().hex
    cached_policies(name, match)  # reports a wrong name before workers start
    limit = ForfeitLimit(match)
    blocks = split_blocks(pairs, 1, match.openings)
    with closing(run_blocks(play_timed_block, match, name, blocks, jobs, log)) as results:
        for result in results:
            limit.check(result.score)
            yield result


def play_timed_part(match: MatchSettings, numbers: range, name: str = "") -> TimedScore:
    """Play a part of a timed match, as :func:`ttt_eval.matches.match.play_part`."""
    return play_timed_block(match, name, False, part_block(match, numbers))[0]


def play_timed_block(
    match: MatchSettings, name: str, logged: bool, block: PairBlock, now: Now = time.perf_counter
) -> tuple[TimedScore, Sequence[PlayedGame]]:
    """Play a block with clocks, game by game, pair by pair; return the games too if ``logged``.

    Args:
        match, name, logged, block: as of :func:`ttt_eval.matches.match.run_blocks`.
        now: returns seconds from an arbitrary start.
    """
    global _warm_for
    assert match.clock is not None
    games = PairBatch.begin(match, block)
    record = MoveRecorder(match, block, games)
    sides = make_sides(match, name, block, games)
    tracker = make_tracker(match, name, sides, games)
    for side in sides:
        side.player.use_clock(*match.clock)
        if name != _warm_for:
            _warm(match.game, side.policy, games)
    _warm_for = name or None
    times, played = [Times.empty(), Times.empty()], []
    forfeits: dict[int, str] = {}
    try:
        for row in games.rows_by_pairs():
            for side in sides:
                side.player.begin(np.array([row]))
            taken, forfeit = _play_game(match, games, row, sides, (record, tracker), now)
            times = [sum_ + one for sum_, one in zip(times, taken, strict=True)]
            if forfeit not in (None, FORFEIT):
                forfeits[row] = forfeit
            if logged:
                by_seat = reversed(taken) if games.swapped[row] else taken
                seconds = [one.seconds.round(4).tolist() for one in by_seat]
                played.append(record.played(row, forfeit, clock=str(match.clock), seconds=seconds))
    finally:
        for side in sides:
            side.player.close()
    for who, side in enumerate(sides):
        if isinstance(side.player, TimedPlayer):
            times[who] += Times(np.zeros(0), float("inf"), 0, side.player.guesses, side.player.hits)
    return TimedScore(games.score(match.game, forfeits, tracker), (times[0], times[1])), played


_warm_for: str | None = None
"""Call of which this process has played a block."""


@compile_at_once()
def _warm(game: Game, policy: Policy, games: PairBatch) -> None:
    """Compile the code of a first move: a temporary player makes one, with no time to think."""
    player = make_player(policy, games.action_keys, games.stones)
    first = Boards(games.cells[:1].copy(), games.mover[:1].copy())
    player.begin(np.zeros(1, np.int64))
    with suppress(Forfeit):
        player.act(first, np.zeros(1, np.int64), np.random.default_rng(0), np.zeros(1))
    player.close()


def _play_game(
    match: MatchSettings,
    games: PairBatch,
    row: int,
    sides: Sequence[Side],
    records: tuple[MoveRecorder, LuckTracker | None],
    now: Now,
) -> tuple[list[Times], str | None]:
    """Play one game to its end; return both players' times, and the reason of a forfeit."""
    clock, (record, tracker) = match.clock, records
    assert clock is not None
    cells, mover, stones, skip_keys, _, outcome, swapped = games
    rows = np.array([row])
    left = [clock.seconds, clock.seconds]
    least = [float("inf"), float("inf")]
    taken: list[list[float]] = [[], []]
    lost, forfeit = [0, 0], None
    while outcome[row] == NOT_OVER:
        which = int(mover[row] != swapped[row])
        side = sides[which]
        boards = Boards(cells.take(rows, axis=0), mover.take(rows))
        start = now()
        try:
            actions = side.player.act(boards, rows, side.rng, np.array([left[which]]))
        except Forfeit as problem:
            outcome[row], forfeit = 1 - mover[row], str(problem)
            break
        spent = now() - start
        left[which] -= spent
        taken[which].append(spent)
        least[which] = min(least[which], left[which])
        if left[which] < 0:
            outcome[row] = 1 - mover[row]
            lost[which], forfeit = 1, FORFEIT
            break
        left[which] += clock.increment
        play_rows(cells, mover, stones, skip_keys, rows, actions, match.game.parameters, outcome)
        check_legal(side.policy, outcome[rows])
        record.add(rows, actions, (mover[rows] == boards.mover) & (outcome[rows] == NOT_OVER))
        if tracker is not None:
            tracker.add(which, rows, boards, actions, mover, outcome)
    return [Times(np.array(taken[who]), least[who], lost[who]) for who in (0, 1)], forfeit
