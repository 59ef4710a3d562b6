"""Matches: pairs of games with seats swapped and the same skips in both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evaluation.statistics import Interval, of_pairs
from ttt_envs.boards import Boards
from ttt_envs.compiling import Integers, Keys, Reals
from ttt_envs.parallel import Jobs, do_blocks, in_order
from ttt_envs.policy import HasPlayer, Player, Policy, act_in_episodes
from ttt_envs.rules import DRAW, ILLEGAL, NOT_OVER, Game, begin_rows, key_of, play_rows
from ttt_envs.specs import make_policy

CHAPTER = 2048
"""pairs whose luck has one key: results depend on the seed and on this, never on the number of workers"""
REMEMBERED = 64
"""pairs in a block of players with a memory, whose games draw from one generator: their results depend on it"""
BLOCKS = 32
"""into how many blocks a match is divided at least, so that workers have something to share and progress is seen"""


@dataclass(frozen=True)
class Score:
    """How a played against b.

    Attributes:
        pairs: int64[3, 3]: pairs of games by a's result as player_0 (row) and as player_1 (column): win, draw, loss.
        lengths: int64[2, 3, cells + 1]: games by a's seat, a's result and the stones on the board at the end; None
            where nobody counted them.
    """

    pairs: Integers
    lengths: Integers | None = None

    @classmethod
    def nothing(cls, game: Game) -> Score:
        """Of no games."""
        return cls(np.zeros((3, 3), np.int64), np.zeros((2, 3, game.cells + 1), np.int64))

    def __add__(self, other: Score) -> Score:
        """Of the games of both."""
        lengths = None if self.lengths is None or other.lengths is None else self.lengths + other.lengths
        return Score(self.pairs + other.pairs, lengths)

    @property
    def games(self) -> int:
        """Games played."""
        return 2 * int(self.pairs.sum())

    @property
    def table(self) -> Integers:
        """int64[2, 3]: a's wins, draws and losses as player_0 and as player_1."""
        return np.stack([self.pairs.sum(axis=1), self.pairs.sum(axis=0)])

    @property
    def pentanomial(self) -> Integers:
        """int64[5]: pairs in which a made 0, 1/2, 1, 3/2 and 2 points."""
        half_points = np.array([2, 1, 0])
        total = (half_points[:, None] + half_points).ravel()
        return np.bincount(total, self.pairs.ravel(), minlength=5).astype(np.int64)

    def rate(self, result: str, confidence: float = 0.95) -> Interval:
        """Of ``"wins"``, ``"draws"``, ``"losses"`` or ``"score"`` (wins and half the draws), per game."""
        of_game = {"wins": [1, 0, 0], "draws": [0, 1, 0], "losses": [0, 0, 1], "score": [1, 0.5, 0]}[result]
        worth = np.array(of_game, np.float64)
        per_pair = (worth[:, None] + worth) / 2
        count = int(self.pairs.sum())
        mean = float((per_pair * self.pairs).sum() / count)
        variance = float(((per_pair - mean) ** 2 * self.pairs).sum() / max(1, count - 1))
        return of_pairs(mean, variance, count, confidence)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data; the keys are documented in docs/files.md."""
        rates = {name: self.rate(name)._asdict() for name in ("score", "wins", "draws", "losses")}
        return {
            "games": self.games,
            **rates,
            "first": [int(n) for n in self.table[0]],
            "second": [int(n) for n in self.table[1]],
            "pentanomial": [int(n) for n in self.pentanomial],
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
) -> Score:
    """Play pairs of games, a first and then b first, both with the same skips.

    Args:
        game: what is played.
        a, b: spec strings or policies.
        pairs: how many pairs, at least 1.
        seed: of all chance; the same seed plays the same games, however many workers play them.
        jobs: who plays; where that is not this process, a and b must be spec strings or can be pickled.
        progress: called with the number of pairs of each block that is done.

    Raises:
        ValueError: too few pairs, an unknown policy, a policy that moves to a cell that is not empty.
    """
    total = Score.nothing(game)
    for score in play_blocks(game, a, b, pairs, seed=seed, jobs=jobs):
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
) -> Iterator[Score]:
    """:func:`play_pairs`, a block at a time and in order: whoever has seen enough stops asking.

    Args:
        game, a, b, pairs, seed, jobs: as there.
        block: pairs in a block; by default as many as play fast and still leave something for each worker. The games
            do not depend on it, but for those of players with a memory.

    Yields:
        What the pairs of the next block came to.
    """
    if pairs < 1:
        raise ValueError(f"pairs={pairs} leaves nothing to play: choose 1 or more")
    players = (make_policy(a, game), make_policy(b, game))  # so that a wrong name is told before workers start
    if any(isinstance(player, HasPlayer) for player in players):
        block = REMEMBERED
    elif block is None:
        block = min(CHAPTER, max(16, -(-pairs // BLOCKS)))
    parts = _parts(pairs, block)
    with closing(do_blocks(partial(_play_block, game, a, b, seed), parts, jobs)) as results:
        yield from in_order(results)


def _parts(pairs: int, block: int) -> Iterator[tuple[int, int, range]]:
    """The arguments of blocks: a chapter, how many pairs it has, and which of them are the block's."""
    for chapter, start in enumerate(range(0, pairs, CHAPTER)):
        of_chapter = min(CHAPTER, pairs - start)
        for first in range(0, of_chapter, block):
            yield chapter, of_chapter, range(first, min(first + block, of_chapter))


@dataclass(frozen=True)
class WithoutMemory:
    """A policy as a player: the moves of a game are drawn from the game's own luck, uint64[slots]."""

    policy: Policy
    luck: Keys

    def begin(self, slots: Integers) -> None:
        """There is nothing to forget."""

    def act(
        self, boards: Boards, slots: Integers, rng: np.random.Generator, time_left: Reals | None = None
    ) -> Integers:
        """int64[B]; neither ``rng`` nor ``time_left`` is looked at."""
        return act_in_episodes(self.policy, boards, self.luck[slots], np.count_nonzero(boards.cells, axis=1))


def player_of(policy: Policy, luck: Keys) -> Player:
    """What plays a policy in a match: its own ``player()``, with a memory between moves, where it offers one."""
    return policy.player() if isinstance(policy, HasPlayer) else WithoutMemory(policy, luck)


def _play_block(
    game: Game, a: str | Policy, b: str | Policy, seed: int, chapter: int, of_chapter: int, numbers: range
) -> Score:
    """The pairs ``numbers`` of a chapter that has ``of_chapter`` pairs.

    Game i and game ``of_chapter + i`` of a chapter are a pair, a first in the former.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chapter,)))
    policies = (make_policy(a, game), make_policy(b, game))
    pairs, count = len(numbers), 2 * len(numbers)
    slots = np.arange(count)
    pair = np.tile(np.asarray(numbers), 2)
    swapped = slots >= pairs
    cells, mover = Boards.start(game, count)
    stones, luck, moves_luck = np.zeros(count, np.int64), np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    outcome = np.full(count, NOT_OVER, np.int8)
    begin_rows(cells, mover, stones, luck, key_of(rng), pair)
    # the players' moves are drawn for each game by itself: games of one pair share their skips and nothing more
    begin_rows(cells, mover, stones, moves_luck, key_of(rng), pair + of_chapter * swapped)
    players = [player_of(policy, moves_luck) for policy in policies]
    own = np.random.SeedSequence(seed, spawn_key=(chapter, numbers.start))
    generators = np.random.default_rng(own).spawn(2)
    for player in players:
        player.begin(slots)
    while (running := outcome == NOT_OVER).any():
        turn = running & (mover == swapped)  # where a is to move
        for which, mine in enumerate((turn, running & ~turn)):
            rows = np.flatnonzero(mine)
            if not len(rows):
                continue
            actions = players[which].act(Boards(cells[rows], mover[rows]), rows, generators[which])
            play_rows(cells, mover, stones, luck, rows, actions, game.parameters, outcome)
            if (outcome[rows] == ILLEGAL).any():
                raise ValueError(f"{policies[which]} moved to a cell that is not empty: it is at fault")
    # a's results: 0 win, 1 draw, 2 loss
    result = np.where(outcome == DRAW, 1, np.where(outcome == swapped, 0, 2))
    pairs_of = np.zeros((3, 3), np.int64)
    np.add.at(pairs_of, (result[:pairs], result[pairs:]), 1)
    lengths = np.zeros((2, 3, game.cells + 1), np.int64)
    np.add.at(lengths, (swapped.astype(np.int64), result, stones), 1)
    return Score(pairs_of, lengths)
