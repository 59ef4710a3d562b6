"""Matches: pairs of games with seats swapped, from the same opening and with the same skips in
both.

In a timed match both players have a clock, a player without time left loses, and each process plays
one game at a time: its results depend on the machine and its load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import numpy as np
from msgspec import convert

from ttt_envs.agents.policy import (
    Forfeit,
    Player,
    Policy,
    act_in_episodes,
    note_question,
)
from ttt_envs.agents.specs import is_built_in
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array, compile_at_once
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, PositionValues, distinct_boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, ILLEGAL, NOT_OVER, Outcome, begin_rows, play_rows
from ttt_envs.graph.layers import check_distributions, query_policy
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.matches.games import Move, PlayedGame
from ttt_eval.matches.luck import OFF, LuckCorrection, LuckTracker, StateValues, make_correction
from ttt_eval.matches.openings import Openings
from ttt_eval.matches.score import Forfeits, Score, StoredScore, Times
from ttt_eval.store.policy_identity import policy_identity
from ttt_eval.store.result_store import Data, Unit, do_units

if TYPE_CHECKING:  # an untimed match loads no search
    from baselines.timed import Clock
    from baselines.timed.clock import Now

PAIRS_PER_SEED_BLOCK = 2048
"""Number of pairs per seed block: results depend on the seed and on this, never on the number of
workers.
"""
MIN_BLOCKS = 32
"""Minimum number of blocks of a match, to share work between workers and show progress."""
STATEFUL_BLOCK = 64
"""Maximum number of pairs in a block of stateful players: its games share one generator, so results
depend on it.
"""
MIN_BLOCK = 4
"""Minimum number of pairs in a block: fewer games in parallel take longer."""

MAX_FORFEITS = 8
"""Number of forfeits in the first games asked for moves, or in all games of a block, after which a
match is aborted.
"""

BLOCK = 64
"""Number of pairs per unit of work."""
TIMED_BLOCK = 4
"""Number of pairs per unit of work in timed matches, whose games take long."""

MAX_GAMES = 10_000_000
"""Maximum number of games of a stored match."""

Log = Callable[[Sequence[PlayedGame]], object]
"""Receives the games played."""


@dataclass(frozen=True)
class MatchSettings:
    """Definition of a match: everything that determines its games, except their number.

    Attributes:
        game: the game.
        players: a and b, spec strings or policies; of a tournament, all.
        seed: seed of all random numbers; the same seed plays the same games with any number of
            workers.
        openings: start positions of the pairs; None for the empty board.
        clock: of both players in each game of a timed match; None in an untimed one.
        luck_correction: value function of :func:`ttt_eval.matches.luck.make_correction`, which
            corrects the scores.
    """

    game: Game
    players: Sequence[str | Policy]
    seed: int = 0
    openings: Openings | None = None
    clock: Clock | None = None
    luck_correction: str | StateValues = OFF

    def to_dict(self) -> Data:
        """Return the settings without the players, JSON-ready; docs/files.md documents the keys."""
        return {
            "game": self.game.to_dict(),
            "seed": self.seed,
            "openings": self.openings and self.openings.text,
            "openings_sha256": self.openings and self.openings.digest(),
            "block": BLOCK if self.clock is None else TIMED_BLOCK,
            "luck_correction": str(self.luck_correction),
            **({} if self.clock is None else {"clock": str(self.clock)}),
        }

    def describe_pair(self) -> Data:
        """Return the two players, their identities and the settings, JSON-ready; docs/files.md
        documents the keys.
        """
        a, b = map(str, self.players)
        return {"a": a, "b": b, "identities": self.identities(), **self.to_dict()}

    def identities(self) -> dict[str, str]:
        """Return the identities of players by spec, see
        :func:`ttt_eval.store.policy_identity.policy_identity`.

        Raises:
            ValueError: an unknown policy or value function, so that it is reported before anything
                is written.
        """
        make_correction(self.luck_correction, self.game)
        for player in self.players:
            make_policy_once(self.game, player)
        return {str(player): policy_identity(str(player)) for player in self.players}


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

    With a clock, a player whose clock is negative after a move loses; the move is not played. A
    player that cannot use a clock takes its usual time. Players compile their code before the
    games.

    Args:
        game, seed, clock: of :class:`MatchSettings`.
        a, b: the players.
        pairs: number of pairs, at least 1.
        jobs: the workers; other processes require a and b to be spec strings or picklable. In a
            timed match, more workers than cores slow each other down.
        openings: start positions of the pairs, see :meth:`Openings.from_text`; None is the empty
            board.
        luck_correction: of :class:`MatchSettings`.
        log: called with the games of each block, in order, pair by pair; such as
            ``partial(append_games, path)``.

    Raises:
        OSError: openings of a file that cannot be read, a log that cannot be written.
        ValueError: too few pairs, an unknown policy, a policy that moves to a cell that is not
            empty, no openings, a player that forfeits game after game.
    """
    if isinstance(openings, str):
        openings = Openings.from_text(openings, game)
    match = MatchSettings(game, (a, b), seed, openings, clock, luck_correction)
    return sum(play_blocks(match, pairs, jobs=jobs, log=log), Score.empty(game))


def play_blocks(
    match: MatchSettings,
    pairs: int,
    *,
    jobs: Jobs = 1,
    block: int | None = None,
    log: Log | None = None,
) -> Generator[Score, None, None]:
    """Play pairs as :func:`play_pairs`, yielding one block at a time, so that the caller can stop
    early.

    Args:
        match: the match.
        pairs, jobs, log: as there.
        block: number of pairs in a block; by default a 32nd of all, within bounds, and 1 in a timed
            match. The games do not depend on it, except those of stateful players.

    Yields:
        The score of the next block.

    Raises:
        ValueError: as there, or ``block`` is not positive.
    """
    for name, value in (("pairs", pairs), ("block", block)):
        check_range(name, value, 1, problem="leaves nothing to play", hint=" pairs")
    call = Call(match)
    policies = _prepare(call).policies  # reports a wrong name at once
    if block is None:
        block = min(_max_block(match, policies), max(MIN_BLOCK, -(-pairs // MIN_BLOCKS)))
    play = partial(play_block, call, log is not None)
    try:
        with closing(map_blocks(play, _split_pairs(pairs, block), jobs)) as results:
            for score, games in results_in_order(results):
                if log is not None:
                    log(games)
                yield score
    finally:
        _prepare.cache_clear()


def _max_block(match: MatchSettings, policies: Sequence[Policy]) -> int:
    """Return the maximum number of pairs in a block."""
    if match.clock is not None:
        return 1
    is_stateful = any(policy.player is not None for policy in policies)
    return STATEFUL_BLOCK if is_stateful else PAIRS_PER_SEED_BLOCK


def _split_pairs(pairs: int, block: int) -> Iterator[tuple[range, int]]:
    """Yield blocks of pairs, each with the number of pairs of its seed block."""
    for start in range(0, pairs, PAIRS_PER_SEED_BLOCK):
        numbers = range(start, min(start + PAIRS_PER_SEED_BLOCK, pairs))
        for i in range(0, len(numbers), block):
            yield numbers[i : i + block], len(numbers)


# --------------------------------------------------------------------------------------------------
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
        self,
        boards: Boards,
        slots: Int64Array,
        rng: np.random.Generator,
        time_left: Float64Array | None = None,
    ) -> Int64Array:
        """Return moves int64[B]; ``rng`` and ``time_left`` are ignored."""
        if self.stones is None:
            plies = np.count_nonzero(boards.cells, axis=1)
        else:
            plies = self.stones.take(slots)
        return act_in_episodes(self.policy, boards, self.keys.take(slots), plies)


class QueriedPolicy(Policy):
    """A policy without an ``act`` of its own, as matches query it.

    A pure one is queried once per distinct position of a batch: parallel games share many. The
    answers of all but built-in policies are checked.

    Args:
        policy: the policy.
        game: the game.
    """

    def __init__(self, policy: Policy, game: Game) -> None:
        self.policy = policy
        self.game = game
        self.pure = policy.pure
        self._is_trusted = is_built_in(policy)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return move probabilities float64[B, cells].

        Raises:
            ValueError: another policy gave no distribution over legal moves.
        """
        inverse = None
        # larger boards have no one-word key, and hardly any are equal
        if self.pure and boards.cells.shape[1] < MAX_CELLS_BASE_3:
            boards, inverse = distinct_boards(boards)
        try:  # which costs nothing, as a context would
            p = query_policy(self.policy, boards, rng)
        except BaseException:
            with note_question(self, self.game, boards):
                raise
        if not self._is_trusted:
            check_distributions(self, self.game, boards, p)
        return p if inverse is None else p.take(inverse, axis=0)

    def __str__(self) -> str:
        return str(self.policy)


def make_player(
    policy: Policy, game: Game, keys: UInt64Array, stones: Int64Array | None = None
) -> Player:
    """Return the player of a policy in a match: its own stateful ``player()`` if it has one."""
    if policy.player is not None:
        return policy.player()
    return StatelessPlayer(
        policy if policy.has_own_act else QueriedPolicy(policy, game), keys, stones
    )


class OutOfTimeError(Forfeit):
    """A loss on time, after the move that took too long."""


class TimedGames(Player):
    """A player with a clock, in one game at a time.

    Args:
        player: the player.
        clock: its clock in each game.
        now: returns seconds from an arbitrary start.
    """

    def __init__(self, player: Player, clock: Clock, now: Now) -> None:
        self.player = player
        self.clock = clock
        self.now = now
        self.time_left = clock.seconds
        self.seconds: dict[int, list[float]] = {}
        """of its moves, by game"""
        self.least_left = float("inf")
        self.lost = 0
        player.use_clock(*clock)

    def begin(self, slots: Int64Array) -> None:
        """Start the game of the only slot."""
        self.player.begin(slots)
        self.time_left = self.clock.seconds

    def act(
        self,
        boards: Boards,
        slots: Int64Array,
        rng: np.random.Generator,
        time_left: Float64Array | None = None,
    ) -> Int64Array:
        """Return the move int64[1] of the game ``slots``, whose time counts.

        Raises:
            OutOfTimeError: the move took more than the time left.
        """
        start = self.now()
        actions = self.player.act(boards, slots, rng, np.array([self.time_left]))
        seconds = self.now() - start
        self.time_left -= seconds
        self.seconds.setdefault(int(slots[0]), []).append(seconds)
        self.least_left = min(self.least_left, self.time_left)
        if self.time_left < 0:
            self.lost += 1
            raise OutOfTimeError("time")
        self.time_left += self.clock.increment
        return actions

    def close(self) -> None:
        """Release threads and processes."""
        self.player.close()

    @property
    def times(self) -> Times:
        """Time statistics of all games."""
        seconds = np.array(list(chain.from_iterable(self.seconds.values())), np.float64)
        return Times(seconds, self.least_left, self.lost)


@dataclass(frozen=True)
class Call:
    """One call that plays blocks of a match: each process makes what its blocks share once, for the
    last call only.

    So all games of a call have the same policies, even if a file changes meanwhile.
    """

    match: MatchSettings = field(compare=False)
    name: str = field(default_factory=lambda: uuid4().hex)


class _Shared(NamedTuple):
    """What the blocks of a match share."""

    policies: list[Policy]
    correction: LuckCorrection | None
    values: list[PositionValues | None]
    """expected values of both players; a clock changes what a player does, so those of a timed
    match are not known
    """


@lru_cache(maxsize=1)
def _prepare(call: Call) -> _Shared:
    """Return what the blocks of a match share; in a timed match, compile what both players need for
    a move.
    """
    match = call.match
    policies = [make_policy_once(match.game, player) for player in match.players]
    correction = make_correction(match.luck_correction, match.game)
    values: list[PositionValues | None] = [None, None]
    if match.clock is not None:
        for policy in policies:
            compile_move(policy, match.game)
    elif correction is not None:
        values = list(map(correction.expected_values, policies))
    return _Shared(policies, correction, values)


def compile_move(policy: Policy, game: Game) -> None:
    """Let a temporary player make a move, with no time to think."""
    slots = np.zeros(1, np.int64)
    with compile_at_once():
        player = make_player(policy, game, np.zeros(1, np.uint64))
        player.begin(slots)
        with suppress(Forfeit):
            player.act(Boards.start(game), slots, np.random.default_rng(0), np.zeros(1))
        player.close()


# --------------------------------------------------------------------------------------------------
# Blocks


def play_block(
    call: Call,
    is_logged: bool,
    numbers: range,
    seed_block_pairs: int = PAIRS_PER_SEED_BLOCK,
    now: Now = time.perf_counter,
) -> tuple[Score, Sequence[PlayedGame]]:
    """Play a block of pairs; with a clock, game by game.

    With the default ``seed_block_pairs`` they are pairs of a match without an end, which can be
    resumed; they are those of :func:`play_pairs` where it plays whole seed blocks.

    Args:
        call: the call that it belongs to.
        is_logged: whether to return the games, pair by pair.
        numbers: the pairs, all of one seed block.
        seed_block_pairs: number of pairs of that seed block in the match.
        now: returns seconds from an arbitrary start.
    """
    block = _Block(call, numbers, seed_block_pairs, is_logged, now)
    groups = [np.arange(2 * len(numbers))]
    if call.match.clock is not None:
        groups = list(block.rows_by_pairs[:, None])
    try:
        for rows in groups:
            for player in block.players:
                player.begin(rows)
            block.play(rows)
    finally:
        for player in block.players:
            player.close()
    games = [block.played_game(row) for row in block.rows_by_pairs.tolist()] if is_logged else ()
    return block.score(), games


class _Block:
    """The games of a block while they are played, with all that is kept of them.

    Rows i and P + i of all arrays are pair i of P, with a first in the former.
    """

    def __init__(
        self, call: Call, numbers: range, seed_block_pairs: int, is_logged: bool, now: Now
    ) -> None:
        match = call.match
        game = match.game
        pairs = len(numbers)
        self.match = match
        self.numbers = numbers
        self.policies, correction, values = _prepare(call)
        seed_block, start = divmod(numbers.start, PAIRS_PER_SEED_BLOCK)
        rng = np.random.default_rng(np.random.SeedSequence(match.seed, spawn_key=(seed_block,)))
        episodes = np.arange(start, start + pairs)
        self.swapped = np.arange(2 * pairs) >= pairs
        """bool[2 P]: whether a moves second"""
        self.skip_keys = np.tile(_episode_keys(draw_key(rng), episodes), 2)
        """uint64[2 P]: the same in both games of a pair"""
        both_episodes = np.concatenate([episodes, episodes + seed_block_pairs])
        action_keys = _episode_keys(draw_key(rng), both_episodes)
        self.cells, self.mover = Boards.start(game, 2 * pairs)
        if match.openings is not None:
            opening_keys = _episode_keys(draw_key(rng), episodes)
            openings = match.openings.for_pairs(numbers, game, opening_keys)
            self.cells[:] = np.tile(openings.cells, (2, 1))
            self.mover[:] = np.tile(openings.mover, 2)
        self.stones = np.count_nonzero(self.cells, axis=1)
        self.outcome = np.full(2 * pairs, NOT_OVER, np.int8)
        self.rows_by_pairs = np.arange(2 * pairs).reshape(2, pairs).T.ravel()
        """int64[2 P]: the rows pair by pair, a first and then b first"""
        self.players = [
            make_player(policy, game, action_keys, self.stones) for policy in self.policies
        ]
        if match.clock is not None:
            self.players = [TimedGames(player, match.clock, now) for player in self.players]
        generators = np.random.SeedSequence(match.seed, spawn_key=(seed_block, start))
        self.generators = np.random.default_rng(generators).spawn(2)
        """of stateful players"""
        self.first = Boards(self.cells.copy(), self.mover.copy()) if is_logged else None
        self.moves: list[list[Move]] | None = [[] for _ in self.mover] if is_logged else None
        """of each game"""
        self.luck = None if correction is None else LuckTracker(correction, values, self.cells)
        self.forfeits: dict[int, Forfeit] = {}
        """by row, with losses on time"""

    def play(self, group: Int64Array) -> None:
        """Play the games of a group of rows to their ends."""
        while True:
            group = group[self.outcome.take(group) == NOT_OVER]
            if not len(group):
                return
            # where a is to move
            is_turn = self.mover.take(group) == self.swapped.take(group)
            for side, rows in enumerate((group[is_turn], group[~is_turn])):
                if len(rows):
                    self._move(side, rows)

    def _request_moves(
        self, side: int, boards: Boards, rows: Int64Array
    ) -> tuple[Int64Array, dict[int, Forfeit]]:
        """Return the moves int64[R] of a or b in the games ``rows``, and the forfeits by row.

        Raises:
            ValueError: the player forfeits one game after another.
        """
        actions = np.zeros(len(rows), np.int64)
        forfeits: dict[int, Forfeit] = {}
        start = 0
        while start < len(rows):
            remaining = boards.take(np.arange(start, len(rows))) if start else boards
            try:
                actions[start:] = self.players[side].act(
                    remaining, rows[start:], self.generators[side]
                )
                break
            except Forfeit as problem:
                stop = start + len(problem.actions)
                actions[start:stop] = problem.actions
                start = stop + 1
                forfeits[int(rows[stop])] = problem
                count = len(self.forfeits) + len(forfeits)
                total = len(self.outcome)
                gives_up = start == len(forfeits) == MAX_FORFEITS or count == total >= MAX_FORFEITS
                if gives_up and not isinstance(problem, OutOfTimeError):
                    raise Refusal(
                        f"{self.policies[side]} forfeited {count} games in a row, so the match is "
                        f"aborted: {problem}"
                    ) from None
        return actions, forfeits

    def _move(self, side: int, rows: Int64Array) -> None:
        """Make a move of a or b in each of the games ``rows``."""
        mover = self.mover
        outcome = self.outcome
        # take is twice as fast as cells[rows]
        boards = Boards(self.cells.take(rows, axis=0), mover.take(rows))
        actions, forfeits = self._request_moves(side, boards, rows)
        if forfeits:
            self.forfeits |= forfeits
            outcome[list(forfeits)] = 1 - mover[list(forfeits)]
            remaining = np.flatnonzero(outcome[rows] == NOT_OVER)
            rows = rows[remaining]
            boards = boards.take(remaining)
            actions = actions[remaining]
            if not len(rows):
                return
        parameters = self.match.game.parameters
        play_rows(
            self.cells, mover, self.stones, self.skip_keys, rows, actions, parameters, outcome
        )
        if outcome.min() == ILLEGAL:
            raise Refusal(
                f"{self.policies[side]} moved to a cell that is not empty: choose another policy, "
                "or correct this one"
            )
        if self.moves is not None:
            skips = (mover[rows] == boards.mover) & (outcome[rows] == NOT_OVER)
            for row, action, skip in zip(rows, actions.tolist(), skips.tolist(), strict=True):
                self.moves[row].append(Move(action, skip))
        if self.luck is not None:
            self.luck.add(side, rows, boards, mover, outcome)

    def score(self) -> Score:
        """Return the score of the finished games, corrected by their luck."""
        swapped = self.swapped
        shape = (2, len(self.numbers))
        # a's results: 0 win, 1 draw, 2 loss
        result = np.where(self.outcome == DRAW, 1, np.where(self.outcome == swapped, 0, 2))
        lengths = np.zeros((2, 3, self.match.game.cells + 1), np.int64)
        np.add.at(lengths, (swapped.astype(np.int64), result, self.stones), 1)
        luck = None
        if self.luck is not None:
            luck = np.where(swapped, -self.luck.luck, self.luck.luck).reshape(shape)
        times = [player.times for player in self.players if isinstance(player, TimedGames)]
        return Score.from_games(
            result.reshape(shape),
            luck,
            lengths=lengths,
            forfeits=self._count_forfeits(result),
            times=tuple(times) or None,
        )

    def _count_forfeits(self, result: Int64Array) -> Forfeits:
        """Return the forfeits, without losses on time; ``result`` is 2 where a lost."""
        reasons = {
            row: str(problem)
            for row, problem in self.forfeits.items()
            if not isinstance(problem, OutOfTimeError)
        }
        is_loss = result[list(reasons)] == 2
        reason = next(iter(reasons.values()), "")
        return Forfeits(int(is_loss.sum()), int((~is_loss).sum()), reason)

    def played_game(self, row: int) -> PlayedGame:
        """Return a finished game."""
        match = self.match
        first = self.first
        assert self.moves is not None
        assert first is not None
        number, index = divmod(row, len(self.numbers))
        seats = (1, 0) if number else (0, 1)
        settings: dict[str, object] = {}
        if match.openings is not None:
            settings["openings"] = match.openings.text
        if match.clock is not None:
            players = [self.players[side] for side in seats]
            seconds = [
                np.round(player.seconds.get(row, []), 4).tolist()
                for player in players
                if isinstance(player, TimedGames)
            ]
            settings |= {"clock": str(match.clock), "seconds": seconds}
        return PlayedGame(
            match.game,
            (str(match.players[seats[0]]), str(match.players[seats[1]])),
            tuple(self.moves[row]),
            Outcome(self.outcome[row]),
            seed=match.seed,
            episode=2 * self.numbers[index] + number,
            opening=to_text(first.position(row), match.game) if first.cells[row].any() else None,
            forfeit=str(self.forfeits[row]) if row in self.forfeits else None,
            settings=settings,
        )


def _episode_keys(key: np.uint64, episodes: Int64Array) -> UInt64Array:
    """Return the keys of episodes, uint64[B]."""
    count = len(episodes)
    episode_keys = np.zeros(count, np.uint64)
    # boards without cells
    cells = np.zeros((count, 0), np.int8)
    mover = np.zeros(count, np.int8)
    plies = np.zeros(count, np.int64)
    begin_rows(cells, mover, plies, episode_keys, key, episodes)
    return episode_keys


# --------------------------------------------------------------------------------------------------
# Matches as stored units of work, each a block of pairs, so that a match can be resumed or extended


def play_matches(
    match: MatchSettings,
    pairings: Sequence[tuple[str, str]],
    pairs: int,
    folder: Path,
    provenance: Mapping[str, object],
    *,
    jobs: Jobs = 1,
) -> Generator[tuple[int, Score], None, None]:
    """Play the blocks of matches that are not stored yet; the first ones of a longer match are the
    same.

    Args:
        match: everything but who plays whom.
        pairings: specs of a and b of each match.
        pairs: number of pairs of each.
        folder, provenance, jobs: as of :func:`ttt_eval.store.result_store.do_units`.

    Yields:
        The number of a match, and the score of its next block, as soon as it is available.

    Raises:
        ValueError: an invalid number of pairs, an unknown policy, another process that works in the
            folder.
    """
    check_range("pairs", pairs, 1, MAX_GAMES // 2, "makes no match")
    settings = match.to_dict()
    identities = match.identities()
    settings["correction_identity"] = policy_identity(str(match.luck_correction))
    block = settings["block"]
    starts = range(0, pairs, block)

    def unit(a: str, b: str, start: int) -> Unit:
        return {
            **settings,
            "players": [a, b],
            "identities": [identities[a], identities[b]],
            "first": start,
            "pairs": min(block, pairs - start),
        }

    units = [unit(a, b, start) for a, b in pairings for start in starts]
    play = partial(_play_unit, match, uuid4().hex)
    with closing(do_units(play, units, folder, provenance, jobs=jobs)) as results:
        for number, result in enumerate(results_in_order(results)):
            yield number // len(starts), convert(result, StoredScore).played


def _play_unit(match: MatchSettings, name: str, unit: Unit) -> Data:
    """Play a block of :func:`play_matches` in the call with a name; return its record, see
    :meth:`Score.to_record`.
    """
    call = Call(replace(match, players=unit["players"]), f"{name} {unit['players']}")
    score, _ = play_block(call, False, range(unit["first"], unit["first"] + unit["pairs"]))
    return score.to_record()
