"""Matches: pairs of games with seats swapped, from the same opening and with the same skips in both.

In a timed match both players have a clock, a player without time left loses, and each process plays one game at a time:
its results depend on the machine and its load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np

from ttt_envs.agents.policy import Forfeit, Player, Policy, act_in_episodes
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array, compile_at_once
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, ILLEGAL, NOT_OVER, Outcome, begin_rows, play_rows
from ttt_eval.matches.corrected_pairs import CorrectedPairs
from ttt_eval.matches.games import Move, PlayedGame
from ttt_eval.matches.luck import OFF, ExpectedValues, LuckTracker, StateValues, make_correction, make_expected_values
from ttt_eval.matches.openings import Openings, distinct_boards, draw_openings
from ttt_eval.matches.score import Forfeits, Score, Times

if TYPE_CHECKING:  # an untimed match loads no search
    from baselines.timed import Clock
    from baselines.timed.clock import Now

PAIRS_PER_SEED_BLOCK = 2048
"""Number of pairs per seed block: results depend on the seed and on this, never on the number of workers."""
MIN_BLOCKS = 32
"""Minimum number of blocks of a match, to share work between workers and show progress."""
STATEFUL_BLOCK = 64
"""Maximum number of pairs in a block of stateful players: its games share one generator, so results depend on it."""
MIN_BLOCK = 4
"""Minimum number of pairs in a block: fewer games in parallel take longer."""

MAX_FORFEITS = 8
"""Number of consecutive forfeited games after which a match is aborted; equal to the games of the smallest block,
``2 * MIN_BLOCK``."""
OUT_OF_TIME = "time"
"""Reason of a loss on time."""

Log = Callable[[Sequence[PlayedGame]], object]
"""Receives the games played."""


@dataclass(frozen=True)
class MatchSettings:
    """Definition of a match: everything that determines its games, except their number.

    Attributes:
        game: the game.
        a, b: spec strings or policies.
        seed: seed of all random numbers; the same seed plays the same games with any number of workers.
        openings: start positions of the pairs; None for the empty board.
        clock: of both players in each game of a timed match; None in an untimed one.
        luck_correction: value function of :func:`ttt_eval.matches.luck.value_function`, which corrects the scores.
    """

    game: Game
    a: str | Policy
    b: str | Policy
    seed: int = 0
    openings: Openings | None = None
    clock: Clock | None = None
    luck_correction: str | StateValues = OFF

    def make_policies(self) -> tuple[Policy, Policy]:
        """Return a and b as policies.

        Raises:
            ValueError: an unknown policy.
        """
        return make_policy(self.a, self.game), make_policy(self.b, self.game)


class PairBlock(NamedTuple):
    """A block of pairs, which are played together: some pairs of one seed block."""

    seed_block: int
    seed_block_pairs: int
    """number of pairs in the seed block"""
    numbers: range
    """the block's pairs, numbered in the seed block"""
    openings: int | Boards
    """their number of random plies, or a position for each pair"""

    @classmethod
    def of_match(cls, numbers: range, openings: Openings | None, pairs: int | None = None) -> PairBlock:
        """Return the pairs ``numbers``, all of one seed block, of a match of ``pairs``, or of one without an end."""
        seed_block, first = divmod(numbers.start, PAIRS_PER_SEED_BLOCK)
        rest = PAIRS_PER_SEED_BLOCK if pairs is None else pairs - seed_block * PAIRS_PER_SEED_BLOCK
        start = 0 if openings is None else openings.for_pairs(numbers)
        return cls(seed_block, min(rest, PAIRS_PER_SEED_BLOCK), range(first, first + len(numbers)), start)


def play_pairs(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    pairs: int,
    *,
    seed: int = 0,
    jobs: Jobs = 1,
    openings: str | Openings | None = None,
    clock: Clock | None = None,
    luck_correction: str | StateValues = OFF,
    log: Log | None = None,
) -> Score:
    """Play pairs of games, a first and then b first, both with the same skips.

    With a clock, a player whose clock is negative after a move loses; the move is not played. A player that cannot use
    a clock takes its usual time. Players compile their code before the games.

    Args:
        game, a, b, seed, clock: of :class:`MatchSettings`.
        pairs: number of pairs, at least 1.
        jobs: the workers; other processes require a and b to be spec strings or picklable. In a timed match, more
            workers than cores slow each other down.
        openings: start positions of the pairs, see :meth:`Openings.from_text`; None is the empty board.
        luck_correction: of :class:`MatchSettings`.
        log: called with the games of each block, in order, pair by pair; such as ``partial(append_games, path)``.

    Raises:
        OSError: openings of a file that cannot be read, a log that cannot be written.
        ValueError: too few pairs, an unknown policy, a policy that moves to a cell that is not empty, no openings, a
            player that forfeits game after game.
    """
    if isinstance(openings, str):
        openings = Openings.from_text(openings, game)
    match = MatchSettings(game, a, b, seed, openings, clock, luck_correction)
    return sum(play_blocks(match, pairs, jobs=jobs, log=log), Score.empty(game))


def play_blocks(
    match: MatchSettings, pairs: int, *, jobs: Jobs = 1, block: int | None = None, log: Log | None = None
) -> Generator[Score, None, None]:
    """Play pairs as :func:`play_pairs`, yielding one block at a time, so that the caller can stop early.

    Args:
        match: the match.
        pairs, jobs, log: as there.
        block: number of pairs in a block; by default a 32nd of all, within bounds, and 1 in a timed match. The games do
            not depend on it, except those of stateful players.

    Yields:
        The score of the next block.

    Raises:
        ValueError: as there, or ``block`` is not positive.
    """
    for name, value in (("pairs", pairs), ("block", block)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} leaves nothing to play: choose 1 or more pairs")
    # a block has its own openings: workers do not need the others
    call = Call(replace(match, openings=match.openings and match.openings._replace(boards=None)))
    stateful = any(policy.player is not None for policy in _policies(call))  # reports a wrong name before workers start
    if block is None:
        most = 1 if match.clock is not None else STATEFUL_BLOCK if stateful else PAIRS_PER_SEED_BLOCK
        block = min(most, max(MIN_BLOCK, -(-pairs // MIN_BLOCKS)))
    in_a_row = [0, 0]
    blocks = zip(_split(match.openings, pairs, block))
    try:
        with closing(map_blocks(partial(play_block, call, log is not None), blocks, jobs)) as results:
            for score, games in results_in_order(results):
                if log is not None:
                    log(games)
                for who, count in enumerate(score.forfeits[:2]):
                    in_a_row[who] = in_a_row[who] + count if count == score.games else 0
                    if in_a_row[who] >= MAX_FORFEITS:
                        raise _too_many_forfeits((match.a, match.b)[who], in_a_row[who], score.forfeits.first)
                yield score
    finally:
        for cached in (_policies, _expected_values):
            cached.cache_clear()


def _split(openings: Openings | None, pairs: int, block: int) -> Iterator[PairBlock]:
    """Yield the blocks of a match, of up to ``block`` pairs."""
    for start in range(0, pairs, PAIRS_PER_SEED_BLOCK):
        end = min(start + PAIRS_PER_SEED_BLOCK, pairs)
        for first in range(start, end, block):
            yield PairBlock.of_match(range(first, min(first + block, end)), openings, pairs)


# ---------------------------------------------------------------------------------------------------------------------
# Players


@dataclass(frozen=True)
class StatelessPlayer(Player):
    """A stateless policy as a player: a game's moves are drawn from the game's own key."""

    policy: Policy
    keys: UInt64Array
    """uint64[slots]"""
    stones: Int64Array | None = None
    """int64[slots]: current number of stones of each game, if it is tracked"""

    def act(
        self, boards: Boards, slots: Int64Array, rng: np.random.Generator, time_left: Float64Array | None = None
    ) -> Int64Array:
        """Return moves int64[B]; ``rng`` and ``time_left`` are ignored."""
        plies = np.count_nonzero(boards.cells, axis=1) if self.stones is None else self.stones[slots]
        return act_in_episodes(self.policy, boards, self.keys[slots], plies)


@dataclass(frozen=True)
class DeduplicatedPolicy(Policy):
    """A pure policy queried once per distinct position of a batch: parallel games share many positions."""

    policy: Policy

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return move probabilities float64[B, cells]."""
        if boards.cells.shape[1] >= MAX_CELLS_BASE_3:  # no one-word key, and hardly any equal boards
            return self.policy.probabilities(boards, rng)
        distinct, inverse = distinct_boards(boards)
        return np.asarray(self.policy.probabilities(distinct, rng)).take(inverse, axis=0)

    def __str__(self) -> str:
        return str(self.policy)


def make_player(policy: Policy, keys: UInt64Array, stones: Int64Array | None = None) -> Player:
    """Return the player of a policy in a match: its own stateful ``player()`` if it has one."""
    if policy.player is not None:
        return policy.player()
    distinct = policy.pure and not policy.has_own_act
    return StatelessPlayer(DeduplicatedPolicy(policy) if distinct else policy, keys, stones)


@dataclass(frozen=True)
class Call:
    """One call that plays blocks of a match: each process makes what its blocks share once, for the last call only.

    Making a policy may take longer than playing a block, and its file may change between calls.
    """

    match: MatchSettings = field(compare=False)
    name: str = field(default_factory=lambda: uuid4().hex)


@lru_cache(maxsize=1)
def _policies(call: Call) -> tuple[Policy, Policy]:
    """Return the policies of a match."""
    return call.match.make_policies()


@lru_cache(maxsize=1)
def _expected_values(call: Call) -> tuple[ExpectedValues | None, ExpectedValues | None]:
    """Return the expected values of both players, None where their probabilities are not known.

    A clock changes what a player does, so those of a timed match are not known.
    """
    correction = make_correction(call.match.luck_correction, call.match.game)
    if correction is None or call.match.clock is not None:
        return None, None
    a, b = _policies(call)
    return make_expected_values(a, correction), make_expected_values(b, correction)


@lru_cache(maxsize=1)
def _compile_first_moves(call: Call) -> None:
    """Compile what both players need for a move: temporary players make one, with no time to think."""
    slots = np.zeros(1, np.int64)
    with compile_at_once():
        for policy in _policies(call):
            player = make_player(policy, np.zeros(1, np.uint64))
            player.begin(slots)
            with suppress(Forfeit):
                player.act(Boards.start(call.match.game), slots, np.random.default_rng(0), np.zeros(1))
            player.close()


class Side(NamedTuple):
    """One of the two players in a block."""

    policy: Policy
    player: Player
    rng: np.random.Generator
    """of a stateful player"""

    def request_moves(
        self, boards: Boards, rows: Int64Array, time_left: Float64Array | None = None
    ) -> tuple[Int64Array, dict[int, str]]:
        """Return the moves int64[R] in the games ``rows``, and the reasons of forfeits by row.

        Raises:
            ValueError: the player forfeits one game after another.
        """
        parts, reasons, start, in_a_row = list[Int64Array](), dict[int, str](), 0, 0
        while start < len(rows):
            rest = boards.take(np.arange(start, len(rows))) if start else boards
            try:
                parts.append(self.player.act(rest, rows[start:], self.rng, time_left))
                break
            except Forfeit as problem:
                count = len(problem.actions)
                parts += [np.array(problem.actions, np.int64), np.zeros(1, np.int64)]
                start += count
                in_a_row = 1 if count else in_a_row + 1
                reasons[int(rows[start])] = str(problem)
                if in_a_row >= MAX_FORFEITS:
                    raise _too_many_forfeits(self.policy, in_a_row, str(problem)) from None
                start += 1
        return np.concatenate(parts) if reasons else parts[0], reasons


def _too_many_forfeits(player: str | Policy, count: int, reason: str) -> ValueError:
    return ValueError(f"{player} forfeited {count} games in a row, so the match is aborted: {reason}")


# ---------------------------------------------------------------------------------------------------------------------
# Blocks


class PairBatch(NamedTuple):
    """The games of a block: rows i and P + i are pair i of P, with a first in the former."""

    cells: Int8Array
    """int8[2 P, rows * columns]"""
    mover: Int8Array
    """int8[2 P]"""
    stones: Int64Array
    """int64[2 P], number on the boards"""
    skip_keys: UInt64Array
    """uint64[2 P], key of skips: the same in both games of a pair"""
    action_keys: UInt64Array
    """uint64[2 P], key of the players' moves: different for each game"""
    outcome: Int8Array
    """int8[2 P]"""
    swapped: BoolArray
    """bool[2 P]: whether a moves second"""

    @classmethod
    def begin(cls, match: MatchSettings, block: PairBlock) -> PairBatch:
        """Return the games of a block in their first positions."""
        game, numbers = match.game, np.asarray(block.numbers)
        rng = np.random.default_rng(np.random.SeedSequence(match.seed, spawn_key=(block.seed_block,)))
        count = 2 * len(numbers)
        pair, swapped = np.tile(numbers, 2), np.arange(count) >= len(numbers)
        skip_keys = _episode_keys(draw_key(rng), pair)
        action_keys = _episode_keys(draw_key(rng), pair + block.seed_block_pairs * swapped)
        cells, mover = Boards.start(game, count)
        stones = np.zeros(count, np.int64)
        if block.openings:
            first = block.openings
            if not isinstance(first, Boards):
                first = draw_openings(game, first, _episode_keys(draw_key(rng), numbers))
            cells[:], mover[:] = np.tile(first.cells, (2, 1)), np.tile(first.mover, 2)
            stones[:] = np.count_nonzero(cells, axis=1)
        return cls(cells, mover, stones, skip_keys, action_keys, np.full(count, NOT_OVER, np.int8), swapped)

    def rows_by_pairs(self) -> Iterator[int]:
        """Yield the rows pair by pair, a first and then b first."""
        pairs = len(self.mover) // 2
        for index in range(pairs):
            yield from (index, index + pairs)


def _episode_keys(key: np.uint64, episodes: Int64Array) -> UInt64Array:
    """Return the keys of episodes, uint64[B]."""
    count = len(episodes)
    episode_keys = np.zeros(count, np.uint64)
    nothing = np.zeros((count, 0), np.int8), np.zeros(count, np.int8), np.zeros(count, np.int64)
    begin_rows(*nothing, episode_keys, key, episodes)
    return episode_keys


def play_block(
    call: Call, logged: bool, block: PairBlock, now: Now = time.perf_counter
) -> tuple[Score, Sequence[PlayedGame]]:
    """Play a block of pairs; with a clock, game by game.

    Args:
        call: the call that it belongs to.
        logged: whether to return the games, pair by pair.
        block: the block.
        now: returns seconds from an arbitrary start.
    """
    table = _Table(call, block, logged, now)
    games, clock = table.games, call.match.clock
    groups = [slice(0, len(games.mover))]
    if clock is not None:
        _compile_first_moves(call)
        groups = [slice(row, row + 1) for row in games.rows_by_pairs()]
    try:
        for side in table.sides:
            if clock is not None:
                side.player.use_clock(*clock)
        for group in groups:
            for side in table.sides:
                side.player.begin(np.arange(group.start, group.stop))
            if clock is not None:
                table.time_left[:] = clock.seconds
            table.play(group)
    finally:
        for side in table.sides:
            side.player.close()
    return table.score(), table.played() if logged else ()


def play_part(call: Call, numbers: range) -> Score:
    """Play the pairs ``numbers``, all of one seed block, of a match without an end, so that a match can be resumed.

    They are those of :func:`play_pairs` where it plays whole seed blocks.
    """
    return play_block(call, False, PairBlock.of_match(numbers, call.match.openings))[0]


class _Table:
    """The games of a block while they are played, with all that is kept of them."""

    def __init__(self, call: Call, block: PairBlock, logged: bool, now: Now) -> None:
        match = self.match = call.match
        self.block, self.now = block, now
        games = self.games = PairBatch.begin(match, block)
        generators = np.random.SeedSequence(match.seed, spawn_key=(block.seed_block, block.numbers.start))
        a, b = (
            Side(policy, make_player(policy, games.action_keys, games.stones), rng)
            for policy, rng in zip(_policies(call), np.random.default_rng(generators).spawn(2), strict=True)
        )
        self.sides = a, b
        self.first = Boards(games.cells.copy(), games.mover.copy()) if logged else None
        self.moves: list[list[Move]] | None = [[] for _ in games.mover] if logged else None
        """of each game"""
        correction = make_correction(match.luck_correction, match.game)
        self.luck = None if correction is None else LuckTracker(correction, _expected_values(call), games.cells)
        self.forfeits: dict[int, str] = {}
        """reasons by row, with losses on time"""
        self.time_left = np.zeros(2)
        """seconds of a and b in the current game of a timed match"""
        self.least_left = [float("inf")] * 2
        self.seconds: tuple[dict[int, list[float]], ...] = ({}, {})
        """of a's and b's moves, by row of a timed match"""
        self.late: tuple[list[int], list[int]] = ([], [])
        """rows that a and b lost on time"""

    def play(self, group: slice) -> None:
        """Play the games of a group of rows to their ends."""
        mover, outcome, swapped = self.games.mover[group], self.games.outcome[group], self.games.swapped[group]
        while (running := outcome == NOT_OVER).any():
            turn = running & (mover == swapped)  # where a is to move
            for who, own in enumerate((turn, running & ~turn)):
                rows = group.start + np.flatnonzero(own)
                if len(rows):
                    self._move(who, rows)

    def _move(self, who: int, rows: Int64Array) -> None:
        """Make a move of a or b in each of the games ``rows``."""
        cells, mover, stones, skip_keys, _, outcome, _ = self.games
        boards = Boards(cells.take(rows, axis=0), mover.take(rows))  # take is twice as fast as cells[rows]
        request = self.sides[who].request_moves if self.match.clock is None else partial(self._request_in_time, who)
        actions, reasons = request(boards, rows)
        if reasons:
            self.forfeits |= reasons
            outcome[list(reasons)] = 1 - mover[list(reasons)]
            remaining = np.flatnonzero(outcome[rows] == NOT_OVER)
            rows, boards, actions = rows[remaining], boards.take(remaining), actions[remaining]
            if not len(rows):
                return
        play_rows(cells, mover, stones, skip_keys, rows, actions, self.match.game.parameters, outcome)
        if outcome.min() == ILLEGAL:
            raise ValueError(
                f"{self.sides[who].policy} moved to a cell that is not empty: choose another policy, or correct this "
                f"one"
            )
        if self.moves is not None:
            skipped = (mover[rows] == boards.mover) & (outcome[rows] == NOT_OVER)
            for row, *move in zip(rows.tolist(), actions.tolist(), skipped.tolist(), strict=True):
                self.moves[row].append(Move(*move))
        if self.luck is not None:
            self.luck.add(who, rows, boards, actions, mover, outcome)

    def _request_in_time(self, who: int, boards: Boards, rows: Int64Array) -> tuple[Int64Array, dict[int, str]]:
        """Request the move of one game by the clock; a late one is a forfeit."""
        row, clock = int(rows[0]), self.match.clock
        assert clock is not None
        start = self.now()
        actions, reasons = self.sides[who].request_moves(boards, rows, self.time_left[who : who + 1].copy())
        spent = self.now() - start
        if reasons:
            return actions, reasons
        self.time_left[who] -= spent
        self.seconds[who].setdefault(row, []).append(spent)
        self.least_left[who] = min(self.least_left[who], float(self.time_left[who]))
        if self.time_left[who] < 0:
            self.late[who].append(row)
            return actions, {row: OUT_OF_TIME}
        self.time_left[who] += clock.increment
        return actions, {}

    def score(self) -> Score:
        """Return the score of the finished games, corrected by their luck."""
        games, pairs = self.games, len(self.games.mover) // 2
        # a's results: 0 win, 1 draw, 2 loss
        result = np.where(games.outcome == DRAW, 1, np.where(games.outcome == games.swapped, 0, 2))
        results = np.zeros((3, 3), np.int64)
        np.add.at(results, (result[:pairs], result[pairs:]), 1)
        lengths = np.zeros((2, 3, self.match.game.cells + 1), np.int64)
        np.add.at(lengths, (games.swapped.astype(np.int64), result, games.stones), 1)
        reasons = {row: reason for row, reason in self.forfeits.items() if row not in self.late[0] + self.late[1]}
        lost = result[list(reasons)] == 2
        given_up = Forfeits(int(lost.sum()), int((~lost).sum()), next(iter(reasons.values()), ""))
        corrected = None
        if self.luck is not None:
            luck = np.where(games.swapped, -self.luck.luck, self.luck.luck)  # a's
            points = (2 - result - luck) / 2
            corrected = CorrectedPairs.from_scores((points[:pairs] + points[pairs:]) / 2)
        times = None if self.match.clock is None else (self._times(0), self._times(1))
        return Score(results, lengths, given_up, corrected, times)

    def _times(self, who: int) -> Times:
        """Return the times of a or b."""
        from baselines.timed.policy import TimedPlayer

        player = self.sides[who].player
        pondered = (player.guesses, player.hits) if isinstance(player, TimedPlayer) else (0, 0)
        seconds = np.array([spent for each in self.seconds[who].values() for spent in each], np.float64)
        return Times(seconds, self.least_left[who], len(self.late[who]), *pondered)

    def played(self) -> list[PlayedGame]:
        """Return the finished games, pair by pair."""
        return [self._played_game(row) for row in self.games.rows_by_pairs()]

    def _played_game(self, row: int) -> PlayedGame:
        match, block, first = self.match, self.block, self.first
        assert self.moves is not None
        assert first is not None
        swapped, index = divmod(row, len(block.numbers))
        seats = (1, 0) if swapped else (0, 1)
        settings: dict[str, Any] = {} if match.openings is None else {"openings": match.openings.text}
        if match.clock is not None:
            seconds = [np.array(self.seconds[who].get(row, [])).round(4).tolist() for who in seats]
            settings |= {"clock": str(match.clock), "seconds": seconds}
        names = str(match.a), str(match.b)
        return PlayedGame(
            match.game,
            (names[seats[0]], names[seats[1]]),
            tuple(self.moves[row]),
            Outcome(self.games.outcome[row]),
            seed=match.seed,
            episode=2 * (block.seed_block * PAIRS_PER_SEED_BLOCK + block.numbers[index]) + swapped,
            opening=to_text(first.position(row), match.game) if first.cells[row].any() else None,
            forfeit=self.forfeits.get(row),
            settings=settings,
        )
