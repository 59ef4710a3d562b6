"""Episodes of a learner against an opponent, in padded arrays: sampled from seeds, or all that can occur.

A step is a decision of the learner: from one of its own turns to the next, or to the end of the game.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy, act_in_episodes
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import Boards, from_keys, keys, play_moves
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import DRAW, NOT_OVER, begin_rows, play_rows

MAX_ENUMERATED = 200_000
"""Maximum number of enumerated episodes."""
MAX_GROUPS = 250_000
"""Maximum number of enumerated groups of episodes."""
MAX_EPISODES = 1_000_000
"""Maximum number of sampled episodes."""


class TooManyGroups(ValueError):  # noqa: N818  # a limit of one kind of estimators, which callers may leave out
    """Episodes make too many groups to enumerate."""


class Players(NamedTuple):
    """The players of all episodes."""

    game: Game
    behaviour: Policy
    """plays for the learner"""
    opponent: Policy
    seat: int
    """the learner's: 0 or 1"""
    max_steps: int | None
    """number of decisions after which an episode is truncated; None for never"""
    start: Position
    """first position of every episode"""

    def policy(self, mover: int) -> Policy:
        """Return the policy of the player to move."""
        return self.behaviour if mover == self.seat else self.opponent


@dataclass(frozen=True)
class Episodes:
    """E episodes of up to T decisions; see :mod:`ttt_eval.audit.estimators` for the arrays of estimators."""

    cells: Int8Array
    """int8[P, cells]: the distinct boards with the learner to move, in these episodes"""
    positions: Int64Array
    """int64[E, T + 1]: row in ``cells`` of each decision, then of the position that follows a truncation; else -1"""
    actions: Int64Array
    """int64[E, T]: -1 where there is no decision"""
    rewards: Float64Array
    terminated: BoolArray
    truncated: BoolArray
    mask: BoolArray
    weights: Float64Array
    """float64[E]: probabilities, which sum to 1; of sampled episodes all are 1 / E"""
    exact: bool
    """whether these are all episodes that can occur"""

    def take(self, rows: Int64Array, weights: Float64Array) -> Episodes:
        """Return the selected episodes with other weights."""
        arrays = {name: getattr(self, name)[rows] for name in _BY_EPISODE}
        return replace(self, **arrays, weights=weights)


_BY_EPISODE = ("positions", "actions", "rewards", "terminated", "truncated", "mask")


class _Games(NamedTuple):
    """Games, each with the decisions so far."""

    number: Int64Array
    """int64[B]: of the episode if it is sampled"""
    cells: Int8Array
    """int8[B, cells]"""
    mover: Int8Array
    """int8[B]"""
    weights: Float64Array
    steps: Int64Array
    """int64[B]: number of decisions"""
    boards: UInt64Array
    """uint64[B, cells + 1]: keys of the boards of the decisions, and of the position after the last if it has been
    reached"""
    actions: Int64Array
    """int64[B, cells]"""
    results: Float64Array
    """float64[B]: of the learner; NaN of a game that is not over"""

    @classmethod
    def start(cls, players: Players, count: int) -> _Games:
        size, start = players.game.cells, players.start
        cells, mover = np.tile(start.cells, (count, 1)), np.full(count, start.mover, np.int8)
        steps, boards = np.zeros(count, np.int64), np.zeros((count, size + 1), np.uint64)
        weights, actions = np.full(count, 1 / count), np.full((count, size), -1)
        return cls(np.arange(count), cells, mover, weights, steps, boards, actions, np.full(count, np.nan))

    def take(self, rows: Int64Array | BoolArray) -> _Games:
        return _Games._make(array[rows] for array in self)

    @classmethod
    def join(cls, parts: Sequence[_Games]) -> _Games:
        """Return the games of all parts."""
        return cls._make(map(np.concatenate, zip(*parts, strict=True)))

    def see(self, players: Players) -> BoolArray:
        """Record the boards where the learner is to move, and return which games are truncated there: bool[B]."""
        own = self.mover == players.seat
        self.boards[own, self.steps[own]] = keys(self.cells[own])
        return np.asarray(own & (self.steps == (players.max_steps or -1)))

    def decide(self, own: BoolArray, actions: Int64Array) -> None:
        """Record decisions of the learner, in the games ``own``."""
        self.actions[own, self.steps[own]] = actions[own]
        self.steps[own] += 1

    def episodes(self, game: Game, *, exact: bool) -> Episodes:
        """Return games that are over or truncated as episodes.

        A game that ended before the learner's first turn is an episode without decisions.
        """
        cut, steps = np.isnan(self.results)[:, None], self.steps[:, None]
        length = max(1, int(steps.max(initial=0)))
        column = np.arange(length + 1)
        present, last = column < steps + cut, column[:-1] == steps - 1
        distinct, inverse = np.unique(self.boards[:, : length + 1][present], return_inverse=True)
        positions = np.full(present.shape, -1)
        positions[present] = inverse.reshape(-1)
        rewards = np.where(last & ~cut, self.results[:, None], 0.0)
        mask, actions = column[:-1] < steps, self.actions[:, :length]
        return Episodes(
            from_keys(distinct, game), positions, actions, rewards, last & ~cut, last & cut, mask, self.weights, exact
        )


def _play(players: Players, games: _Games, move: Callable[[_Games], tuple[_Games, Int8Array]], most: int) -> _Games:
    """Play games to their ends or truncations, and return them in the order in which these occur.

    Args:
        players: the players.
        games: at their start.
        move: makes moves and turns in games; returns the games and the outcomes int8[B]. There may be more of them.
        most: maximum number of games.

    Raises:
        ValueError: there are more games.
    """
    parts, total = list[_Games](), 0
    while len(games.number):
        cut = games.see(players)
        moved, outcomes = move(games.take(~cut))
        over = outcomes != NOT_OVER
        results = np.where(outcomes == DRAW, 0.0, np.where(outcomes == players.seat, 1.0, -1.0))
        parts += [games.take(cut), moved._replace(results=results).take(over)]
        total += sum(len(part.number) for part in parts[-2:])
        games = moved.take(~over)
        if total + len(games.number) > most:
            raise ValueError(
                f"more than {most:,} episodes can occur from the start: sample them, or begin in a later position"
            )
    return _Games.join(parts)


# ---------------------------------------------------------------------------------------------------------------------
# Sampling


def sample_episodes(players: Players, count: int, seed: int) -> Episodes:
    """Return episodes; the first N of a seed are the same for every ``count`` of N or more.

    Args:
        players: the players.
        count: number of episodes.
        seed: of all random numbers.

    Raises:
        ValueError: an invalid count.
    """
    if not 1 <= count <= MAX_EPISODES:
        raise ValueError(f"episodes={count} cannot be sampled: choose 1 to {MAX_EPISODES:,}")
    game, start = players.game, _Games.start(players, count)
    stones, episode_keys = np.empty(count, np.int64), np.empty(count, np.uint64)
    begin = np.empty_like(start.cells), np.empty_like(start.mover), stones, episode_keys
    begin_rows(*begin, draw_key(np.random.default_rng(seed)), start.number)

    def move(games: _Games) -> tuple[_Games, Int8Array]:
        streams, num_stones = episode_keys[games.number], np.count_nonzero(games.cells, axis=1)
        actions, outcomes = np.zeros(len(num_stones), np.int64), np.full(len(num_stones), NOT_OVER, np.int8)
        for player in (0, 1):
            rows = np.flatnonzero(games.mover == player)
            if len(rows):
                boards = Boards(games.cells[rows], games.mover[rows])
                actions[rows] = act_in_episodes(players.policy(player), boards, streams[rows], num_stones[rows])
        games.decide(games.mover == players.seat, actions)
        state = games.cells, games.mover, num_stones, streams
        play_rows(*state, np.arange(len(actions)), actions, game.parameters, outcomes)
        return games, outcomes

    games = _play(players, start, move, count)
    return games.take(np.argsort(games.number)).episodes(game, exact=False)


# ---------------------------------------------------------------------------------------------------------------------
# Enumeration


def enumerate_episodes(players: Players) -> Episodes:
    """Return all episodes that can occur, with their probabilities, in depth order.

    Args:
        players: the players, both pure.

    Raises:
        ValueError: there are more than :data:`MAX_ENUMERATED` episodes.
    """
    game = players.game

    def move(games: _Games) -> tuple[_Games, Int8Array]:
        """Make all moves and turns that can occur."""
        boards, chances = Boards(games.cells, games.mover), np.zeros(games.cells.shape)
        for mover in (0, 1):
            rows = np.flatnonzero(games.mover == mover)
            if len(rows):
                chances[rows] = players.policy(mover).probabilities(boards.take(rows))
        rows, actions = np.nonzero(chances)
        cells, outcomes = play_moves(game, boards, rows, actions)
        moved = games.take(rows)._replace(cells=cells)
        moved.weights[:] *= chances[rows, actions]
        moved.decide(moved.mover == players.seat, actions)
        is_open, skip = outcomes == NOT_OVER, game.skip_chance
        turn = moved._replace(
            mover=(1 - moved.mover).astype(np.int8), weights=moved.weights * np.where(is_open, 1 - skip, 1.0)
        )
        if skip == 0:
            return turn, outcomes
        skipped = moved._replace(weights=moved.weights * skip).take(is_open)
        return _Games.join([turn, skipped]), np.concatenate([outcomes, outcomes[is_open]])

    episodes = _play(players, _Games.start(players, 1), move, MAX_ENUMERATED).episodes(game, exact=True)
    # episodes that are equal for the learner become one
    codes = np.concatenate([episodes.positions, episodes.actions, episodes.rewards.astype(np.int64)], axis=1)
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(inverse.reshape(-1), episodes.weights).astype(np.float64)
    order = np.argsort(first)  # by depth
    return episodes.take(first[order].astype(np.int64), weights[order])


# ---------------------------------------------------------------------------------------------------------------------
# Groups


def enumerate_groups(episodes: Episodes, size: int) -> Episodes:
    """Return every ordered group of ``size`` independent episodes, one after the other, with its probability divided
    by ``size`` as the weight of each of its episodes.

    Raises:
        TooManyGroups: there are more than :data:`MAX_GROUPS` groups.
    """
    count = len(episodes.weights)
    if count ** min(size, 64) > MAX_GROUPS:
        raise TooManyGroups(
            f"{count:,} episodes make more than {MAX_GROUPS:,} groups of {size}: sample them, or choose a later "
            "position"
        )
    rows = np.stack(np.meshgrid(*[np.arange(count)] * size, indexing="ij"), axis=-1).reshape(-1, size)
    weights = episodes.weights[rows].prod(axis=1)
    return episodes.take(rows.reshape(-1), np.repeat(weights / size, size))
