"""Matches: pairs of games with seats swapped, from the same opening and with the same skips in both."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np

from ttt_envs.agents.policy import Forfeit, Player, Policy, act_in_episodes
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, keys, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, ILLEGAL, NOT_OVER, Outcome, begin_rows, play_rows
from ttt_eval.matches.corrected_pairs import CorrectedPairs
from ttt_eval.matches.games import Move, PlayedGame
from ttt_eval.matches.luck import OFF, ExpectedValues, LuckTracker, StateValues, make_correction, make_expected_values
from ttt_eval.matches.openings import Openings, draw_openings
from ttt_eval.matches.score import Forfeits, Score

if TYPE_CHECKING:  # an untimed match loads no search
    from baselines.timed import Clock

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

Log = Callable[[Sequence[PlayedGame]], object]
"""Receives the games played."""
Result = TypeVar("Result")


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


def play_pairs(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    pairs: int,
    *,
    seed: int = 0,
    jobs: Jobs = 1,
    openings: str | Openings | None = None,
    luck_correction: str | StateValues = OFF,
    log: Log | None = None,
) -> Score:
    """Play pairs of games, a first and then b first, both with the same skips.

    Args:
        game, a, b, seed: of :class:`MatchSettings`.
        pairs: number of pairs, at least 1.
        jobs: the workers; other processes require a and b to be spec strings or picklable.
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
    match = MatchSettings(game, a, b, seed, openings, luck_correction=luck_correction)
    return sum(play_blocks(match, pairs, jobs=jobs, log=log), Score.empty(game))


def play_blocks(
    match: MatchSettings, pairs: int, *, jobs: Jobs = 1, block: int | None = None, log: Log | None = None
) -> Iterator[Score]:
    """Play pairs as :func:`play_pairs`, yielding one block at a time, so that the caller can stop early.

    Args:
        match: the match, without a clock.
        pairs, jobs, log: as there.
        block: number of pairs in a block; by default a 32nd of all, within bounds. The games do not depend on it,
            except those of stateful players.

    Yields:
        The score of the next block.

    Raises:
        ValueError: as there, or ``block`` is not positive.
    """
    check_pairs(pairs)
    if block is not None and block < 1:
        raise ValueError(f"block={block} leaves nothing to play: choose 1 or more pairs")
    name = uuid4().hex
    policies = cached_policies(name, match)  # reports a wrong name before workers start
    if block is None:
        stateful = any(policy.player is not None for policy in policies)
        block = min(STATEFUL_BLOCK if stateful else PAIRS_PER_SEED_BLOCK, max(MIN_BLOCK, -(-pairs // MIN_BLOCKS)))
    limit = ForfeitLimit(match)
    blocks = split_blocks(pairs, block, match.openings)
    with closing(run_blocks(_play_block, match, name, blocks, jobs, log)) as scores:
        for score in scores:
            limit.check(score)
            yield score


def check_pairs(pairs: int) -> None:
    """Raise ValueError for less than one pair."""
    if pairs < 1:
        raise ValueError(f"pairs={pairs} leaves nothing to play: choose 1 or more")


def run_blocks(
    play: Callable[[MatchSettings, str, bool, PairBlock], tuple[Result, Sequence[PlayedGame]]],
    match: MatchSettings,
    name: str,
    blocks: Iterable[PairBlock],
    jobs: Jobs,
    log: Log | None,
) -> Generator[Result, None, None]:
    """Yield the results of blocks in order, and log their games.

    Args:
        play: plays a block: called with the match, the name, whether games are logged, and the block.
        name: of this call, for :func:`cached_policies`.
        match, blocks, jobs, log: as of :func:`play_blocks`.
    """
    # a block has its own openings: workers do not need the others
    sent = replace(match, openings=match.openings and match.openings._replace(boards=None))
    try:
        with closing(map_blocks(partial(play, sent, name, log is not None), zip(blocks), jobs)) as results:
            for result, played in results_in_order(results):
                if log is not None:
                    log(played)
                yield result
    finally:
        _policies.pop(name, None)
        _known.pop(name, None)


def play_part(match: MatchSettings, numbers: range, name: str = "") -> Score:
    """Play the pairs ``numbers``, all of one seed block, of a match without an end, so that a match can be resumed.

    They are those of :func:`play_pairs` where it plays whole seed blocks. For a call with a ``name``, each process
    makes the policies once.
    """
    return _play_block(match, name, False, part_block(match, numbers))[0]


def part_block(match: MatchSettings, numbers: range) -> PairBlock:
    """Return the pairs ``numbers``, all of one seed block, of a match without an end."""
    seed_block, first = divmod(numbers.start, PAIRS_PER_SEED_BLOCK)
    openings = 0 if match.openings is None else match.openings.for_pairs(numbers)
    return PairBlock(seed_block, PAIRS_PER_SEED_BLOCK, range(first, first + len(numbers)), openings)


def split_blocks(pairs: int, block: int, openings: Openings | None) -> Iterator[PairBlock]:
    """Yield the blocks of a match, of up to ``block`` pairs."""
    for seed_block, start in enumerate(range(0, pairs, PAIRS_PER_SEED_BLOCK)):
        count = min(PAIRS_PER_SEED_BLOCK, pairs - start)
        for first in range(0, count, block):
            numbers = range(first, min(first + block, count))
            in_match = range(start + numbers.start, start + numbers.stop)
            yield PairBlock(seed_block, count, numbers, 0 if openings is None else openings.for_pairs(in_match))


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
        numbers = 2 * keys(boards.cells) + boards.mover.astype(np.uint64)
        _, rows, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        return np.asarray(self.policy.probabilities(boards.take(rows), rng)).take(inverse, axis=0)

    def __str__(self) -> str:
        return str(self.policy)


def make_player(policy: Policy, keys: UInt64Array, stones: Int64Array | None = None) -> Player:
    """Return the player of a policy in a match: its own stateful ``player()`` if it has one."""
    if policy.player is not None:
        return policy.player()
    distinct = policy.pure and not policy.has_own_act
    return StatelessPlayer(DeduplicatedPolicy(policy) if distinct else policy, keys, stones)


_policies: dict[str, tuple[Policy, Policy]] = {}
"""Policies of the call that this process played last: making them may take longer than playing a block."""


def cached_policies(name: str, match: MatchSettings) -> tuple[Policy, Policy]:
    """Return the policies of a match, made once per process for a call of this name; without a name, make them now."""
    if not name:
        return match.make_policies()
    if name not in _policies:
        _policies.clear()
        _policies[name] = match.make_policies()
    return _policies[name]


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
        game, numbers = match.game, block.numbers
        rng = np.random.default_rng(np.random.SeedSequence(match.seed, spawn_key=(block.seed_block,)))
        count = 2 * len(numbers)
        pair = np.tile(np.asarray(numbers), 2)
        swapped = np.arange(count) >= len(numbers)
        cells, mover = Boards.start(game, count)
        stones, (skip_keys, action_keys) = np.zeros(count, np.int64), np.zeros((2, count), np.uint64)
        begin_rows(cells, mover, stones, skip_keys, draw_key(rng), pair)
        begin_rows(cells, mover, stones, action_keys, draw_key(rng), pair + block.seed_block_pairs * swapped)
        if block.openings:
            first = block.openings
            if not isinstance(first, Boards):
                first = _draw_openings(game, first, rng, numbers)
            cells[:], mover[:] = np.tile(first.cells, (2, 1)), np.tile(first.mover, 2)
            stones[:] = np.count_nonzero(cells, axis=1)
        return cls(cells, mover, stones, skip_keys, action_keys, np.full(count, NOT_OVER, np.int8), swapped)

    def rows_by_pairs(self) -> Iterator[int]:
        """Yield the rows pair by pair, a first and then b first."""
        pairs = len(self.mover) // 2
        for index in range(pairs):
            yield from (index, index + pairs)

    def score(self, game: Game, forfeits: Mapping[int, str], tracker: LuckTracker | None = None) -> Score:
        """Return the score, given the reasons of forfeited games by row, corrected by the luck of the games."""
        pairs = len(self.mover) // 2
        # a's results: 0 win, 1 draw, 2 loss
        result = np.where(self.outcome == DRAW, 1, np.where(self.outcome == self.swapped, 0, 2))
        results = np.zeros((3, 3), np.int64)
        np.add.at(results, (result[:pairs], result[pairs:]), 1)
        lengths = np.zeros((2, 3, game.cells + 1), np.int64)
        np.add.at(lengths, (self.swapped.astype(np.int64), result, self.stones), 1)
        lost = result[list(forfeits)] == 2
        given_up = Forfeits(int(lost.sum()), int((~lost).sum()), next(iter(forfeits.values()), ""))
        corrected = None
        if tracker is not None:
            luck = np.where(self.swapped, -tracker.luck, tracker.luck)  # a's
            points = (2 - result - luck) / 2
            corrected = CorrectedPairs.from_scores((points[:pairs] + points[pairs:]) / 2)
        return Score(results, lengths, given_up, corrected)


class Side(NamedTuple):
    """One of the two players in a block."""

    policy: Policy
    player: Player
    rng: np.random.Generator
    """of a stateful player"""


def make_sides(match: MatchSettings, name: str, block: PairBlock, games: PairBatch) -> tuple[Side, Side]:
    """Return a and b, with policies of :func:`cached_policies`."""
    generators = np.random.SeedSequence(match.seed, spawn_key=(block.seed_block, block.numbers.start))
    rng_a, rng_b = np.random.default_rng(generators).spawn(2)
    a, b = cached_policies(name, match)
    return (
        Side(a, make_player(a, games.action_keys, games.stones), rng_a),
        Side(b, make_player(b, games.action_keys, games.stones), rng_b),
    )


_known: dict[str, tuple[ExpectedValues | None, ExpectedValues | None]] = {}
"""Expected values of the players of the call that this process played last, see ``_policies``."""


def make_tracker(match: MatchSettings, name: str, sides: Sequence[Side], games: PairBatch) -> LuckTracker | None:
    """Return the tracker of the luck in the games of a block; None if luck is not corrected.

    Draws from known probabilities are corrected in untimed matches only: a clock changes what a player does.
    """
    correction = make_correction(match.luck_correction, match.game)
    if correction is None:
        return None
    known = _known.get(name)
    if known is None:
        a, b = (make_expected_values(side.policy, correction) if match.clock is None else None for side in sides)
        known = a, b
        if name:
            _known.clear()
            _known[name] = known
    return LuckTracker(correction, known, games.cells)


def _play_block(match: MatchSettings, name: str, logged: bool, block: PairBlock) -> tuple[Score, Sequence[PlayedGame]]:
    """Play a block of pairs; return their games too if ``logged``."""
    games = PairBatch.begin(match, block)
    cells, mover, stones, skip_keys, _, outcome, swapped = games
    sides = make_sides(match, name, block, games)
    record = MoveRecorder(match, block, games) if logged else None
    tracker = make_tracker(match, name, sides, games)
    forfeits: dict[int, str] = {}
    for side in sides:
        side.player.begin(np.arange(len(mover)))
    while (running := outcome == NOT_OVER).any():
        turn = running & (mover == swapped)  # where a is to move
        for which, (side, mine) in enumerate(zip(sides, (turn, running & ~turn), strict=True)):
            rows = np.flatnonzero(mine)
            if not len(rows):
                continue
            boards = Boards(cells.take(rows, axis=0), mover.take(rows))  # take is twice as fast as cells[rows]
            try:
                actions = side.player.act(boards, rows, side.rng)
            except Forfeit as problem:
                actions, reasons = _replace_forfeits(problem, side, boards, rows)
                forfeits |= reasons
                outcome[list(reasons)] = 1 - mover[list(reasons)]
                remaining = outcome[rows] == NOT_OVER
                rows, boards, actions = rows[remaining], boards.take(np.flatnonzero(remaining)), actions[remaining]
            play_rows(cells, mover, stones, skip_keys, rows, actions, match.game.parameters, outcome)
            check_legal(side.policy, outcome)
            if record is not None:
                record.add(rows, actions, (mover[rows] == boards.mover) & (outcome[rows] == NOT_OVER))
            if tracker is not None:
                tracker.add(which, rows, boards, actions, mover, outcome)
    score = games.score(match.game, forfeits, tracker)
    if record is None:
        return score, ()
    return score, [record.played(row, forfeits.get(row)) for row in games.rows_by_pairs()]


def check_legal(policy: Policy, outcome: Int8Array) -> None:
    """Raise ValueError if a policy's move in one of the games was illegal."""
    if outcome.min() == ILLEGAL:
        raise ValueError(f"{policy} moved to a cell that is not empty: choose another policy, or correct this one")


def _replace_forfeits(
    problem: Forfeit, side: Side, boards: Boards, rows: Int64Array
) -> tuple[Int64Array, dict[int, str]]:
    """Return the moves in the games ``rows``, one of which was forfeited; and all forfeits, reasons by row.

    Raises:
        ValueError: the player forfeits one game after another.
    """
    actions, reasons, at, in_a_row = np.zeros(len(rows), np.int64), dict[int, str](), 0, 0
    while True:
        known = len(problem.actions)
        actions[at : at + known] = problem.actions
        in_a_row = 1 if known else in_a_row + 1
        at += known
        reasons[int(rows[at])] = str(problem)
        if in_a_row >= MAX_FORFEITS:
            raise _too_many_forfeits(side.policy, in_a_row, str(problem))
        at += 1
        if at == len(rows):
            return actions, reasons
        rest = np.arange(at, len(rows))
        try:
            actions[at:] = side.player.act(boards.take(rest), rows[at:], side.rng)
            return actions, reasons
        except Forfeit as another:
            problem = another


class ForfeitLimit:
    """Aborts a match after ``MAX_FORFEITS`` consecutive games that a player forfeited, counted over whole blocks."""

    def __init__(self, match: MatchSettings) -> None:
        self._players, self._in_a_row = (match.a, match.b), [0, 0]

    def check(self, score: Score) -> None:
        """Check the score of the next block, in order.

        Raises:
            ValueError: too many forfeits.
        """
        for who, count in enumerate(score.forfeits[:2]):
            self._in_a_row[who] = self._in_a_row[who] + count if count == score.games else 0
            if self._in_a_row[who] >= MAX_FORFEITS:
                raise _too_many_forfeits(self._players[who], self._in_a_row[who], score.forfeits.first)


def _too_many_forfeits(player: str | Policy, count: int, reason: str) -> ValueError:
    return ValueError(f"{player} forfeited {count} games in a row, so the match is aborted: {reason}")


def _draw_openings(game: Game, plies: int, rng: np.random.Generator, numbers: range) -> Boards:
    """Draw the random openings of the pairs ``numbers`` of a seed block: with own keys, the same in any block."""
    key = draw_key(rng)
    pair_keys = np.zeros(len(numbers), np.uint64)
    nothing = np.zeros((len(numbers), 0), np.int8), np.zeros(len(numbers), np.int8), np.zeros(len(numbers), np.int64)
    begin_rows(*nothing, pair_keys, key, np.asarray(numbers))
    return draw_openings(game, plies, pair_keys)


class MoveRecorder:
    """Records the moves of the games of a block, from their first positions."""

    def __init__(self, match: MatchSettings, block: PairBlock, games: PairBatch) -> None:
        self.match, self.block, self.games = match, block, games
        self.first = Boards(games.cells.copy(), games.mover.copy())
        count = len(games.mover)
        self.actions = np.zeros((count, match.game.cells), np.int64)
        self.skipped = np.zeros((count, match.game.cells), np.bool_)
        self.moves = np.zeros(count, np.int64)

    def add(self, rows: Int64Array, actions: Int64Array, skipped: BoolArray) -> None:
        """Record a move in each of the games ``rows``, int64[R], and whether the other player's turn was skipped."""
        self.actions[rows, self.moves[rows]] = actions
        self.skipped[rows, self.moves[rows]] = skipped
        self.moves[rows] += 1

    def played(self, row: int, forfeit: str | None, **settings: Any) -> PlayedGame:
        """Return a finished game, with the reason of a forfeit and JSON-ready settings."""
        match, block, length = self.match, self.block, self.moves[row]
        moves = map(Move, self.actions[row, :length].tolist(), self.skipped[row, :length].tolist())
        swapped, index = divmod(row, len(block.numbers))
        a, b = str(match.a), str(match.b)
        return PlayedGame(
            match.game,
            (b, a) if swapped else (a, b),
            tuple(moves),
            Outcome(self.games.outcome[row]),
            seed=match.seed,
            episode=2 * (block.seed_block * PAIRS_PER_SEED_BLOCK + block.numbers[index]) + swapped,
            opening=to_text(self.first.position(row), match.game) if self.first.cells[row].any() else None,
            forfeit=forfeit,
            settings={**({} if match.openings is None else {"openings": match.openings.text}), **settings},
        )
