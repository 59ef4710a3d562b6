"""Timed matches: both players have a clock, and a player without time left loses.

Openings, skips and pairs are those of :mod:`evaluation.matches.match`; each process plays one game at a time. Results
depend on the machine and its load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from baselines.timed import Clock, TimedPlayer, estimated_moves_left
from evaluation.matches.games import PlayedGame
from evaluation.matches.match import (
    PAIRS_PER_SEED_BLOCK,
    ForfeitLimit,
    Log,
    PairBatch,
    Record,
    Score,
    generators_of,
    parts_of,
    player_of,
    policies_of,
    rows_by_pairs,
)
from evaluation.matches.openings import Openings
from ttt_envs.agents.policy import Forfeit, Player, Policy, ReadsClocks
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.jit_settings import compile_at_once
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import ILLEGAL, NOT_OVER, Game, play_rows

FORFEIT = "time"
"""Reason of a loss on time."""

Now = Callable[[], float]


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
    def nothing(cls) -> Times:
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
    def nothing(cls, game: Game) -> TimedScore:
        """Return the score of no games."""
        return cls(Score.nothing(game), (Times.nothing(), Times.nothing()))

    def __add__(self, other: TimedScore) -> TimedScore:
        """Return the sum over the games of both."""
        (a, b), (other_a, other_b) = self.times, other.times
        return TimedScore(self.score + other.score, (a + other_a, b + other_b))


def play_timed_pairs(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    pairs: int,
    clock: Clock,
    *,
    seed: int = 0,
    jobs: Jobs = 1,
    progress: Callable[[int], None] | None = None,
    openings: str | Openings | None = None,
    log: Log | None = None,
) -> TimedScore:
    """Play pairs of timed games.

    A player whose clock is negative after a move loses; the move is not played. A player that cannot use a clock takes
    its usual time. Players compile their code before the games.

    Args:
        game, a, b, pairs, seed, progress, openings, log: as of :func:`evaluation.matches.match.play_pairs`.
        clock: of both players in each game.
        jobs: the workers; each process plays one game at a time. More workers than cores slow each other down.

    Raises:
        OSError, ValueError: as there.
    """
    total = TimedScore.nothing(game)
    if pairs < 1:
        raise ValueError(f"pairs={pairs} leaves nothing to play: choose 1 or more")
    match = uuid4().hex
    policies_of(match, game, a, b)  # reports a wrong name before workers start
    if isinstance(openings, str):
        openings = Openings.of(openings, game)
    work = partial(play_timed_block, game, a, b, clock, seed, openings and openings.text, log is not None, match=match)
    patience = ForfeitLimit(a, b)
    with closing(map_blocks(work, parts_of(pairs, 1, openings), jobs)) as results:
        for score, played in results_in_order(results):
            if log is not None:
                log(played)
            patience.see(score.score)
            total += score
            if progress is not None:
                progress(score.score.games // 2)
    return total


def play_timed_part(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    clock: Clock,
    numbers: range,
    *,
    seed: int = 0,
    openings: Openings | None = None,
    match: str = "",
) -> TimedScore:
    """Play a part of a timed match, as :func:`evaluation.matches.match.play_part`."""
    chapter, first = divmod(numbers.start, PAIRS_PER_SEED_BLOCK)
    beginning = 0 if openings is None else openings.of_pairs(numbers)
    own = range(first, first + len(numbers))
    text = openings and openings.text
    return play_timed_block(
        game, a, b, clock, seed, text, False, chapter, PAIRS_PER_SEED_BLOCK, own, beginning, match=match
    )[0]


def play_timed_block(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    clock: Clock,
    seed: int,
    openings: str | None,
    logged: bool,
    chapter: int,
    of_chapter: int,
    numbers: range,
    beginning: int | Boards,
    match: str = "",
    now: Now = time.perf_counter,
) -> tuple[TimedScore, Sequence[PlayedGame]]:
    """Play pairs of a seed block with clocks, game by game, pair by pair; return the games too if ``logged``.

    Args:
        now: returns seconds from an arbitrary start.
    """
    global _warm_for
    policies = policies_of(match, game, a, b)
    games = PairBatch.begin(game, seed, chapter, of_chapter, numbers, beginning)
    record = Record(game, Boards(games.cells.copy(), games.mover.copy()))
    players = [player_of(policy, games.moves_luck, games.stones) for policy in policies]
    generators = generators_of(seed, chapter, numbers)
    for policy, player in zip(policies, players, strict=True):
        if isinstance(player, ReadsClocks):
            player.use_clock(*clock)
        if match != _warm_for:
            _warm(game, policy, games)
    _warm_for = match or None
    times, played = [Times.nothing(), Times.nothing()], []
    given_up: dict[int, str] = {}
    try:
        for number, turned, row in rows_by_pairs(numbers):
            for player in players:
                player.begin(np.array([row]))
            taken, forfeit = _play_game(game, games, row, policies, players, generators, clock, record, now)
            times = [sum_ + one for sum_, one in zip(times, taken, strict=True)]
            if forfeit not in (None, FORFEIT):
                given_up[row] = forfeit
            if logged:
                first, second = (b, a) if turned else (a, b)
                seconds = [one.seconds.round(4).tolist() for one in (reversed(taken) if turned else taken)]
                played.append(
                    record.played(
                        row,
                        (str(first), str(second)),
                        int(games.outcome[row]),
                        seed=seed,
                        episode=2 * (chapter * PAIRS_PER_SEED_BLOCK + number) + turned,
                        forfeit=forfeit,
                        settings={
                            **({} if openings is None else {"openings": openings}),
                            "clock": str(clock),
                            "seconds": seconds,
                        },
                    )
                )
    finally:
        for player in players:
            if isinstance(player, TimedPlayer):
                player.close()
    for who, player in enumerate(players):
        if isinstance(player, TimedPlayer):
            times[who] += Times(np.zeros(0), float("inf"), 0, player.guesses, player.hits)
    return TimedScore(games.score(game, given_up), (times[0], times[1])), played


_warm_for: str | None = None
"""Match of which this process has played a block."""


@compile_at_once()
def _warm(game: Game, policy: Policy, games: PairBatch) -> None:
    """Compile the code of a first move: a temporary player makes one, with no time to think."""
    player = player_of(policy, games.moves_luck, games.stones)
    first = Boards(games.cells[:1].copy(), games.mover[:1].copy())
    player.begin(np.zeros(1, np.int64))
    with suppress(Forfeit):
        player.act(first, np.zeros(1, np.int64), np.random.default_rng(0), np.zeros(1))
    if isinstance(player, TimedPlayer):
        player.close()


def _play_game(
    game: Game,
    games: PairBatch,
    row: int,
    policies: Sequence[Policy],
    players: Sequence[Player],
    generators: Sequence[np.random.Generator],
    clock: Clock,
    record: Record,
    now: Now,
) -> tuple[list[Times], str | None]:
    """Play one game to its end; return both players' times, and the reason of a forfeit."""
    cells, mover, stones, luck, _, outcome, swapped = games
    rows = np.array([row])
    left = [clock.seconds, clock.seconds]
    least = [float("inf"), float("inf")]
    taken: list[list[float]] = [[], []]
    lost, forfeit = [0, 0], None
    while outcome[row] == NOT_OVER:
        which = int(mover[row] != swapped[row])
        boards = Boards(cells.take(rows, axis=0), mover.take(rows))
        begun = now()
        try:
            actions = players[which].act(boards, rows, generators[which], np.array([left[which]]))
        except Forfeit as problem:
            outcome[row], forfeit = 1 - mover[row], str(problem)
            break
        spent = now() - begun
        left[which] -= spent
        taken[which].append(spent)
        least[which] = min(least[which], left[which])
        if left[which] < 0:
            outcome[row] = 1 - mover[row]
            lost[which], forfeit = 1, FORFEIT
            break
        left[which] += clock.increment
        play_rows(cells, mover, stones, luck, rows, actions, game.parameters, outcome)
        if outcome[row] == ILLEGAL:
            raise ValueError(f"{policies[which]} moved to a cell that is not empty: it is at fault")
        record.note(rows, actions, (mover[rows] == boards.mover) & (outcome[rows] == NOT_OVER))
    return [Times(np.array(taken[who]), least[who], lost[who]) for who in (0, 1)], forfeit


def count_moves_left(game: Game, games: Iterable[PlayedGame]) -> Float64Array:
    """Return the mean number of own moves to come by stones on the board, float64[cells + 1], from finished games.

    For :func:`baselines.timed.write_moves_left`; see :func:`baselines.timed.estimated_moves_left`.
    """
    return estimated_moves_left(game, _moves_by_game(game, games))


def _moves_by_game(game: Game, games: Iterable[PlayedGame]) -> Iterator[tuple[int, list[int]]]:
    for played in games:
        if (played.game.rows, played.game.columns) != (game.rows, game.columns):
            raise ValueError(f"a game of {played.game} tells nothing of {game}: choose games on the same board")
        if played.result is not None:
            yield int(np.count_nonzero(played.start().cells)), [position.mover for position, _, _ in played.positions()]
