"""Matches: pairs of games with seats swapped, from the same opening and with the same skips in both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from evaluation.matches.games import Move, PlayedGame
from evaluation.matches.openings import Openings, draw_openings
from evaluation.statistics import Interval, of_pairs
from ttt_envs.agents.policy import Forfeit, HasPlayer, Player, Policy, act_in_episodes, acts_fast
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, keys, to_text
from ttt_envs.game.rules import DRAW, ILLEGAL, NOT_OVER, Game, begin_rows, play_rows

PAIRS_PER_SEED_BLOCK = 2048
"""Number of pairs per seed block: results depend on the seed and on this, never on the number of workers."""
BLOCKS = 32
"""Minimum number of blocks of a match, to share work between workers and show progress."""
STATEFUL_BLOCK = 64
"""Maximum number of pairs in a block of stateful players: its games share one generator, so results depend on it."""
MIN_BLOCK = 4
"""Minimum number of pairs in a block: fewer games in parallel take longer."""

MAX_FORFEITS = 8
"""Maximum number of games that a player forfeits in a row, without a move between them, before the match is aborted:
the minimum number of games in a block."""

Log = Callable[[Sequence[PlayedGame]], object]
"""Receives the games played."""


class Forfeits(NamedTuple):
    """Forfeited games, lost by their players: see :class:`ttt_envs.agents.policy.Forfeit`."""

    a: int = 0
    b: int = 0
    first: str = ""
    """reason for the first forfeit"""

    @classmethod
    def of(cls, data: object) -> Forfeits:
        """Parse forfeits from a file.

        Raises:
            ValueError: anything else.
        """
        match data:
            case [int(a), int(b), str(first)] if min(a, b) >= 0:
                return cls(a, b, first)
        raise ValueError(f"{ascii(data)[:60]} are no games that were given up: a's number, b's and a reason are")

    def together(self, other: Forfeits) -> Forfeits:
        """Return the sum over the games of both."""
        return Forfeits(self.a + other.a, self.b + other.b, self.first or other.first)

    def describe(self, a: str, b: str) -> str:
        """Describe the forfeits in a sentence."""
        by = ", ".join(f"{count:,} by {name}" for count, name in ((self.a, a), (self.b, b)) if count)
        return f"games were given up, and so lost: {by}. The first: {self.first}"

    def turned(self) -> Forfeits:
        """Return the same forfeits from the other player's view."""
        return Forfeits(self.b, self.a, self.first)


NONE_GIVEN_UP = Forfeits()


@dataclass(frozen=True)
class Score:
    """Result of a against b.

    Attributes:
        pairs: int64[3, 3]: pairs of games by a's result as player_0 (row) and as player_1 (column): win, draw, loss.
        lengths: int64[2, 3, cells + 1]: games by a's seat, a's result and the stones on the board at the end; None if
            not counted.
        forfeits: games among them that a and b forfeited.
    """

    pairs: Int64Array
    lengths: Int64Array | None = None
    forfeits: Forfeits = NONE_GIVEN_UP

    @classmethod
    def nothing(cls, game: Game) -> Score:
        """Return the score of no games."""
        return cls(np.zeros((3, 3), np.int64), np.zeros((2, 3, game.cells + 1), np.int64))

    def __add__(self, other: Score) -> Score:
        """Return the sum over the games of both."""
        lengths = None if self.lengths is None or other.lengths is None else self.lengths + other.lengths
        return Score(self.pairs + other.pairs, lengths, self.forfeits.together(other.forfeits))

    @property
    def games(self) -> int:
        """Number of games."""
        return 2 * int(self.pairs.sum())

    @property
    def table(self) -> Int64Array:
        """int64[2, 3]: a's wins, draws and losses as player_0 and as player_1."""
        return np.stack([self.pairs.sum(axis=1), self.pairs.sum(axis=0)])

    @property
    def alike(self) -> bool:
        """Whether, of several pairs, all games in each seat ended in the same result after as many stones.

        Games that fill the board have equal lengths anyway: if all do, this is False.
        """
        if self.lengths is None or self.games <= 2 or not self.lengths[..., :-1].any():
            return False
        return bool((np.count_nonzero(self.lengths, axis=(1, 2)) == 1).all())

    @property
    def pentanomial(self) -> Int64Array:
        """int64[5]: number of pairs in which a made 0, 1/2, 1, 3/2 and 2 points."""
        half_points = np.array([2, 1, 0])
        total = (half_points[:, None] + half_points).ravel()
        return np.bincount(total, self.pairs.ravel(), minlength=5).astype(np.int64)

    @property
    def variance_left(self) -> float:
        """Variance of a pair's score, relative to that of two independent games.

        A value below 1 is the variance reduction from shared skips and openings: fewer games give the same precision.
        NaN where all games in a seat end alike.
        """
        points = np.array([1, 0.5, 0])
        shares = self.pairs / self.pairs.sum()
        first, second = shares.sum(axis=1), shares.sum(axis=0)
        alone = sum(points**2 @ each - (points @ each) ** 2 for each in (first, second))
        common = points @ shares @ points - (points @ first) * (points @ second)
        return float(1 + 2 * common / alone) if alone else float("nan")

    def rate(self, result: str, confidence: float = 0.95) -> Interval:
        """Return the rate per game of ``"wins"``, ``"draws"``, ``"losses"`` or ``"score"`` (wins and half the
        draws).
        """
        of_game = {"wins": [1, 0, 0], "draws": [0, 1, 0], "losses": [0, 0, 1], "score": [1, 0.5, 0]}[result]
        worth = np.array(of_game, np.float64)
        per_pair = (worth[:, None] + worth) / 2
        count = int(self.pairs.sum())
        mean = float((per_pair * self.pairs).sum() / count)
        variance = float(((per_pair - mean) ** 2 * self.pairs).sum() / max(1, count - 1))
        return of_pairs(mean, variance, count, confidence)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        rates = {name: self.rate(name)._asdict() for name in ("score", "wins", "draws", "losses")}
        return {
            "games": self.games,
            **rates,
            "first": [int(n) for n in self.table[0]],
            "second": [int(n) for n in self.table[1]],
            "pentanomial": [int(n) for n in self.pentanomial],
            **({"forfeits": self.forfeits._asdict()} if self.forfeits.first else {}),
        }


def play_pairs(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    pairs: int,
    *,
    seed: int = 0,
    jobs: Jobs = 1,
    progress: Callable[[int], None] | None = None,
    openings: str | Openings | None = None,
    log: Log | None = None,
) -> Score:
    """Play pairs of games, a first and then b first, both with the same skips.

    Args:
        game: the game.
        a, b: spec strings or policies.
        pairs: number of pairs, at least 1.
        seed: seed of all chance; the same seed plays the same games with any number of workers.
        jobs: the workers; other processes require a and b to be spec strings or picklable.
        progress: called with the number of pairs of each finished block.
        openings: start positions of the pairs, see :meth:`Openings.of`; None is the empty board.
        log: called with the games of each block, in order, pair by pair; such as ``partial(append_games, path)``.

    Raises:
        OSError: openings of a file that cannot be read, a log that cannot be written.
        ValueError: too few pairs, an unknown policy, a policy that moves to a cell that is not empty, no openings, a
            player that forfeits game after game.
    """
    total = Score.nothing(game)
    for score in play_blocks(game, a, b, pairs, seed=seed, jobs=jobs, openings=openings, log=log):
        total += score
        if progress is not None:
            progress(score.games // 2)
    return total


def play_blocks(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    pairs: int,
    *,
    seed: int = 0,
    jobs: Jobs = 1,
    block: int | None = None,
    openings: str | Openings | None = None,
    log: Log | None = None,
) -> Iterator[Score]:
    """Play pairs as :func:`play_pairs`, yielding one block at a time, so that the caller can stop early.

    Args:
        game, a, b, pairs, seed, jobs, openings, log: as there.
        block: number of pairs in a block; by default a 32nd of all, within bounds. The games do not depend on it,
            except those of stateful players.

    Yields:
        The score of the next block.
    """
    if pairs < 1:
        raise ValueError(f"pairs={pairs} leaves nothing to play: choose 1 or more")
    if block is not None and block < 1:
        raise ValueError(f"block={block} leaves nothing to play: choose 1 or more pairs")
    match = uuid4().hex
    policies = policies_of(match, game, a, b)  # reports a wrong name before workers start
    if block is None:
        remembered = any(isinstance(policy, HasPlayer) for policy in policies)
        block = min(STATEFUL_BLOCK if remembered else PAIRS_PER_SEED_BLOCK, max(MIN_BLOCK, -(-pairs // BLOCKS)))
    if isinstance(openings, str):
        openings = Openings.of(openings, game)
    parts = parts_of(pairs, block, openings)
    work = partial(_play_block, game, a, b, seed, openings and openings.text, log is not None, match=match)
    patience = ForfeitLimit(a, b)
    try:
        with closing(map_blocks(work, parts, jobs)) as results:
            for score, played in results_in_order(results):
                if log is not None:
                    log(played)
                patience.see(score)
                yield score
    finally:
        _made.pop(match, None)


def play_part(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    numbers: range,
    *,
    seed: int = 0,
    openings: Openings | None = None,
    match: str = "",
) -> Score:
    """Play the pairs ``numbers``, all of one seed block, of a match without an end, so that a match can be resumed.

    They are those of :func:`play_pairs` where it plays whole seed blocks. For a named ``match``, each process makes the
    policies once.
    """
    chapter, first = divmod(numbers.start, PAIRS_PER_SEED_BLOCK)
    beginning = 0 if openings is None else openings.of_pairs(numbers)
    own = range(first, first + len(numbers))
    text = openings and openings.text
    return _play_block(game, a, b, seed, text, False, chapter, PAIRS_PER_SEED_BLOCK, own, beginning, match=match)[0]


def parts_of(pairs: int, block: int, openings: Openings | None) -> Iterator[tuple[int, int, range, int | Boards]]:
    """Yield the arguments of blocks: a seed block, its number of pairs, the block's pairs among them, and their
    openings.
    """
    for chapter, start in enumerate(range(0, pairs, PAIRS_PER_SEED_BLOCK)):
        of_chapter = min(PAIRS_PER_SEED_BLOCK, pairs - start)
        for first in range(0, of_chapter, block):
            numbers = range(first, min(first + block, of_chapter))
            all_numbers = range(start + numbers.start, start + numbers.stop)
            yield chapter, of_chapter, numbers, 0 if openings is None else openings.of_pairs(all_numbers)


@dataclass(frozen=True)
class StatelessPlayer:
    """A stateless policy as a player: a game's moves are drawn from the game's own key, uint64[slots]."""

    policy: Policy
    luck: UInt64Array
    stones: Int64Array | None = None
    """int64[slots]: current number of stones of each game, if it is tracked"""

    def begin(self, slots: Int64Array) -> None:
        """Do nothing: there is no state."""

    def act(
        self, boards: Boards, slots: Int64Array, rng: np.random.Generator, time_left: Float64Array | None = None
    ) -> Int64Array:
        """Return moves int64[B]; ``rng`` and ``time_left`` are ignored."""
        plies = np.count_nonzero(boards.cells, axis=1) if self.stones is None else self.stones[slots]
        return act_in_episodes(self.policy, boards, self.luck[slots], plies)


@dataclass(frozen=True)
class DeduplicatedPolicy:
    """A pure policy queried once per distinct position of a batch: parallel games share many positions."""

    policy: Policy

    pure = True

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return move probabilities float64[B, cells]."""
        if boards.cells.shape[1] >= MAX_CELLS_BASE_3:  # no one-word key, and hardly any equal boards
            return self.policy.probabilities(boards, rng)
        numbers = 2 * keys(boards.cells) + boards.mover.astype(np.uint64)
        _, rows, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        return np.asarray(self.policy.probabilities(boards.take(rows), rng)).take(inverse, axis=0)

    def __str__(self) -> str:
        return str(self.policy)


def player_of(policy: Policy, luck: UInt64Array, stones: Int64Array | None = None) -> Player:
    """Return the player of a policy in a match: its own stateful ``player()`` if it has one."""
    if isinstance(policy, HasPlayer):
        return policy.player()
    distinct = policy.pure and not acts_fast(type(policy))
    return StatelessPlayer(DeduplicatedPolicy(policy) if distinct else policy, luck, stones)


_made: dict[str, tuple[Policy, Policy]] = {}
"""Policies of the match that this process played last: making them may take longer than playing a block."""


def policies_of(match: str, game: Game, a: str | Policy, b: str | Policy) -> tuple[Policy, Policy]:
    """Return the policies of a match, made once per process; for one without a name, make them now."""
    if not match:
        return make_policy(a, game), make_policy(b, game)
    if match not in _made:
        _made.clear()
        _made[match] = make_policy(a, game), make_policy(b, game)
    return _made[match]


class PairBatch(NamedTuple):
    """The games of a block: rows i and P + i are pair i of P, with a first in the former."""

    cells: Int8Array
    """int8[2 P, rows * columns]"""
    mover: Int8Array
    """int8[2 P]"""
    stones: Int64Array
    """int64[2 P], number on the boards"""
    luck: UInt64Array
    """uint64[2 P], key of skips: the same in both games of a pair"""
    moves_luck: UInt64Array
    """uint64[2 P], key of the players' moves: different for each game"""
    outcome: Int8Array
    """int8[2 P]"""
    swapped: BoolArray
    """bool[2 P]: whether a moves second"""

    @classmethod
    def begin(
        cls, game: Game, seed: int, chapter: int, of_chapter: int, numbers: range, beginning: int | Boards
    ) -> PairBatch:
        """Return the pairs ``numbers`` of a seed block with ``of_chapter`` pairs, in their first positions.

        They begin with a number of random plies, or with positions, one for each pair.
        """
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chapter,)))
        count = 2 * len(numbers)
        pair = np.tile(np.asarray(numbers), 2)
        swapped = np.arange(count) >= len(numbers)
        cells, mover = Boards.start(game, count)
        stones, luck, moves_luck = np.zeros(count, np.int64), np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        begin_rows(cells, mover, stones, luck, draw_key(rng), pair)
        begin_rows(cells, mover, stones, moves_luck, draw_key(rng), pair + of_chapter * swapped)
        if beginning:
            first = beginning if isinstance(beginning, Boards) else _draw_openings(game, beginning, rng, numbers)
            cells[:], mover[:] = np.tile(first.cells, (2, 1)), np.tile(first.mover, 2)
            stones[:] = np.count_nonzero(cells, axis=1)
        return cls(cells, mover, stones, luck, moves_luck, np.full(count, NOT_OVER, np.int8), swapped)

    def score(self, game: Game, given_up: Mapping[int, str]) -> Score:
        """Return the score, given the reasons of forfeited games by row."""
        pairs = len(self.mover) // 2
        # a's results: 0 win, 1 draw, 2 loss
        result = np.where(self.outcome == DRAW, 1, np.where(self.outcome == self.swapped, 0, 2))
        pairs_of = np.zeros((3, 3), np.int64)
        np.add.at(pairs_of, (result[:pairs], result[pairs:]), 1)
        lengths = np.zeros((2, 3, game.cells + 1), np.int64)
        np.add.at(lengths, (self.swapped.astype(np.int64), result, self.stones), 1)
        lost = result[list(given_up)] == 2
        return Score(
            pairs_of, lengths, Forfeits(int(lost.sum()), int((~lost).sum()), next(iter(given_up.values()), ""))
        )


def _play_block(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    seed: int,
    openings: str | None,
    logged: bool,
    chapter: int,
    of_chapter: int,
    numbers: range,
    beginning: int | Boards,
    match: str = "",
) -> tuple[Score, Sequence[PlayedGame]]:
    """Play pairs of a seed block, see :meth:`PairBatch.begin`; return their games too if ``logged``."""
    policies = policies_of(match, game, a, b)
    games = PairBatch.begin(game, seed, chapter, of_chapter, numbers, beginning)
    cells, mover, stones, luck, moves_luck, outcome, swapped = games
    record = Record(game, Boards(cells.copy(), mover.copy())) if logged else None
    players = [player_of(policy, moves_luck, stones) for policy in policies]
    generators = generators_of(seed, chapter, numbers)
    given_up: dict[int, str] = {}
    for player in players:
        player.begin(np.arange(len(mover)))
    while (running := outcome == NOT_OVER).any():
        turn = running & (mover == swapped)  # where a is to move
        for which, mine in enumerate((turn, running & ~turn)):
            rows = np.flatnonzero(mine)
            if not len(rows):
                continue
            boards = Boards(cells.take(rows, axis=0), mover.take(rows))  # take is twice as fast as cells[rows]
            try:
                actions = players[which].act(boards, rows, generators[which])
            except Forfeit as problem:
                actions, reasons = _replace_forfeits(
                    problem, policies[which], players[which], boards, rows, generators[which]
                )
                given_up |= reasons
                outcome[list(reasons)] = 1 - mover[list(reasons)]
                going_on = outcome[rows] == NOT_OVER
                rows, boards, actions = rows[going_on], boards.take(np.flatnonzero(going_on)), actions[going_on]
            play_rows(cells, mover, stones, luck, rows, actions, game.parameters, outcome)
            if outcome.min() == ILLEGAL:
                raise ValueError(f"{policies[which]} moved to a cell that is not empty: it is at fault")
            if record is not None:
                record.note(rows, actions, (mover[rows] == boards.mover) & (outcome[rows] == NOT_OVER))
    score = games.score(game, given_up)
    if record is None:
        return score, ()
    settings = {} if openings is None else {"openings": openings}
    return score, [
        record.played(
            row,
            (str(b), str(a)) if turned else (str(a), str(b)),
            int(outcome[row]),
            seed=seed,
            episode=2 * (chapter * PAIRS_PER_SEED_BLOCK + number) + turned,
            forfeit=given_up.get(row),
            settings=settings,
        )
        for number, turned, row in rows_by_pairs(numbers)
    ]


def _replace_forfeits(
    problem: Forfeit, policy: Policy, player: Player, boards: Boards, rows: Int64Array, rng: np.random.Generator
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
            raise _check_forfeits(str(policy), in_a_row, reasons)
        at += 1
        if at == len(rows):
            return actions, reasons
        rest = np.arange(at, len(rows))
        try:
            actions[at:] = player.act(boards.take(rest), rows[at:], rng)
            return actions, reasons
        except Forfeit as another:
            problem = another


class ForfeitLimit:
    """Aborts a match in which a player has forfeited all games of several blocks.

    Args:
        a, b: the players.
    """

    def __init__(self, a: str | Policy, b: str | Policy) -> None:
        self._names, self._in_a_row = (str(a), str(b)), [0, 0]

    def see(self, score: Score) -> None:
        """Check the score of the next block, in order.

        Raises:
            ValueError: too many forfeits.
        """
        forfeits = score.forfeits
        for who, count in enumerate((forfeits.a, forfeits.b)):
            self._in_a_row[who] = self._in_a_row[who] + count if count == score.games else 0
            if self._in_a_row[who] >= MAX_FORFEITS:
                raise _check_forfeits(self._names[who], self._in_a_row[who], {0: forfeits.first})


def _check_forfeits(name: str, count: int, reasons: Mapping[int, str]) -> ValueError:
    return ValueError(f"{name} has given up {count} games in a row, and the match with them: {[*reasons.values()][-1]}")


def rows_by_pairs(numbers: range) -> Iterator[tuple[int, int, int]]:
    """Yield the games of a block pair by pair: the pair's number, whether a moves second, and the row."""
    for index, number in enumerate(numbers):
        for turned in range(2):
            yield number, turned, index + turned * len(numbers)


def generators_of(seed: int, chapter: int, numbers: range) -> list[np.random.Generator]:
    """Return the generators of stateful players in a block, a's and b's."""
    own = np.random.SeedSequence(seed, spawn_key=(chapter, numbers.start))
    return np.random.default_rng(own).spawn(2)


def _draw_openings(game: Game, plies: int, rng: np.random.Generator, numbers: range) -> Boards:
    """Draw the random openings of the pairs ``numbers`` of a seed block: with keys of their own, the same in any
    block.
    """
    key = draw_key(rng)
    luck = np.zeros(len(numbers), np.uint64)
    nothing = np.zeros((len(numbers), 0), np.int8), np.zeros(len(numbers), np.int8), np.zeros(len(numbers), np.int64)
    begin_rows(*nothing, luck, key, np.asarray(numbers))
    return draw_openings(game, plies, luck)


class Record:
    """Records the moves of parallel games.

    Args:
        game: the game.
        first: start positions of the games.
    """

    def __init__(self, game: Game, first: Boards) -> None:
        self.game, self.first = game, first
        count = len(first.mover)
        self.actions = np.zeros((count, game.cells), np.int64)
        self.skipped = np.zeros((count, game.cells), np.bool_)
        self.moves = np.zeros(count, np.int64)

    def note(self, rows: Int64Array, actions: Int64Array, skipped: BoolArray) -> None:
        """Record a move in each of the games ``rows``, int64[R], and whether the other player's turn was skipped."""
        self.actions[rows, self.moves[rows]] = actions
        self.skipped[rows, self.moves[rows]] = skipped
        self.moves[rows] += 1

    def played(self, row: int, players: tuple[str, str], result: int, **known: Any) -> PlayedGame:
        """Return a finished game."""
        length = self.moves[row]
        moves = map(Move, self.actions[row, :length].tolist(), self.skipped[row, :length].tolist())
        begun = self.first.cells[row].any()
        opening = to_text(self.first.position(row), self.game) if begun else None
        return PlayedGame(self.game, players, tuple(moves), result, opening=opening, **known)
