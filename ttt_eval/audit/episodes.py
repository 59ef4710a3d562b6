"""Episodes of a learner against an opponent, in padded arrays: sampled from seeds, or all that can occur.

A step is a decision of the learner: from one of its own turns to the next, or to the end of the game.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    def act(self, mover: int, boards: Boards, episode_keys: UInt64Array, plies: Int64Array) -> Int64Array:
        """Return int64[B]: moves of the player to move, see ``policy.act_in_episodes``."""
        return act_in_episodes(self._player(mover), boards, episode_keys, plies)

    def probabilities(self, mover: int, boards: Boards) -> Float64Array:
        """Return float64[B, cells] of the player to move."""
        return np.asarray(self._player(mover).probabilities(boards), np.float64)

    def _player(self, mover: int) -> Policy:
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

    @classmethod
    def start(cls, players: Players, count: int) -> _Games:
        size, start = players.game.cells, players.start
        cells, mover = np.tile(start.cells, (count, 1)), np.full(count, start.mover, np.int8)
        steps, boards = np.zeros(count, np.int64), np.zeros((count, size + 1), np.uint64)
        return cls(cells, mover, np.full(count, 1 / count), steps, boards, np.full((count, size), -1))

    def take(self, rows: Int64Array | BoolArray) -> _Games:
        return _Games._make(array[rows] for array in self)

    @classmethod
    def join(cls, parts: Sequence[_Games]) -> _Games:
        """Return the games of all parts."""
        return cls._make(map(np.concatenate, zip(*parts, strict=True)))

    def truncated(self, players: Players, rows: Int64Array) -> BoolArray:
        """Record the boards where the learner is to move, and return which games end there: bool[rows]."""
        own = self.mover[rows] == players.seat
        self.boards[rows[own], self.steps[rows[own]]] = keys(self.cells[rows[own]])
        return np.asarray(own & (self.steps[rows] == (players.max_steps or -1)))

    def decide(self, rows: Int64Array, actions: Int64Array) -> None:
        """Record decisions of the learner."""
        self.actions[rows, self.steps[rows]] = actions
        self.steps[rows] += 1

    def episodes(self, game: Game, results: Float64Array, exact: bool) -> Episodes:
        """Return games that are over as episodes; a result of NaN marks a truncated one.

        A game that ended before the learner's first turn is an episode without decisions.
        """
        cut, steps = np.isnan(results)[:, None], self.steps[:, None]
        length = max(1, int(steps.max(initial=0)))
        column = np.arange(length + 1)
        present, last = column < steps + cut, column[:-1] == steps - 1
        distinct, inverse = np.unique(self.boards[:, : length + 1][present], return_inverse=True)
        positions = np.full(present.shape, -1)
        positions[present] = inverse.reshape(-1)
        rewards = np.where(last & ~cut, results[:, None], 0.0)
        mask, actions = column[:-1] < steps, self.actions[:, :length]
        return Episodes(
            from_keys(distinct, game), positions, actions, rewards, last & ~cut, last & cut, mask, self.weights, exact
        )


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
    game, seat, all_rows = players.game, players.seat, np.arange(count)
    games, stones, episode_keys = _Games.start(players, count), np.empty(count, np.int64), np.empty(count, np.uint64)
    cells, mover = np.empty_like(games.cells), np.empty_like(games.mover)
    begin_rows(cells, mover, stones, episode_keys, draw_key(np.random.default_rng(seed)), all_rows)
    cells, mover = games.cells, games.mover
    stones[:] = np.count_nonzero(cells[0])
    outcomes, actions, results = np.full(count, NOT_OVER, np.int8), np.zeros(count, np.int64), np.full(count, np.nan)
    active = all_rows
    while len(active):
        active = active[~games.truncated(players, active)]
        for player in (0, 1):
            rows = active[mover[active] == player]
            if len(rows):
                actions[rows] = players.act(player, Boards(cells[rows], mover[rows]), episode_keys[rows], stones[rows])
                if player == seat:
                    games.decide(rows, actions[rows])
        play_rows(cells, mover, stones, episode_keys, active, actions[active], game.parameters, outcomes)
        ended = active[outcomes[active] != NOT_OVER]
        results[ended] = _results(outcomes[ended], seat)
        active = active[outcomes[active] == NOT_OVER]
    return games.episodes(game, results, exact=False)


def _results(outcomes: Int8Array, seat: int) -> Float64Array:
    """Return the results of finished games for the learner: 1, 0 or -1."""
    return np.where(outcomes == DRAW, 0.0, np.where(outcomes == seat, 1.0, -1.0))


# ---------------------------------------------------------------------------------------------------------------------
# Enumeration


def enumerate_episodes(players: Players) -> Episodes:
    """Return all episodes that can occur, with their probabilities, in depth order.

    Args:
        players: the players, both pure.

    Raises:
        ValueError: there are more than :data:`MAX_ENUMERATED` episodes.
    """
    game, games = players.game, _Games.start(players, 1)
    parts: list[_Games] = []
    results: list[Float64Array] = []
    total = 0
    while len(games.weights):
        cut = games.truncated(players, np.arange(len(games.weights)))
        moved, outcomes = _expand(games.take(~cut), players)
        ended = outcomes != NOT_OVER
        parts += [games.take(cut), moved.take(ended)]
        results += [np.full(int(cut.sum()), np.nan), _results(outcomes[ended], players.seat)]
        total += sum(len(part.weights) for part in parts[-2:])
        games = _fork(moved.take(~ended), game.skip_chance)
        if total + len(games.weights) > MAX_ENUMERATED:
            raise ValueError(
                f"more than {MAX_ENUMERATED:,} episodes can occur from the start: sample them, or begin in a later "
                "position"
            )
    return _merge_equal(_Games.join(parts).episodes(game, np.concatenate(results), exact=True))


def _expand(games: _Games, players: Players) -> tuple[_Games, Int8Array]:
    """Make all moves that can occur; return the games after them, before the turn, and their outcomes."""
    chances = np.zeros(games.cells.shape)
    for mover in (0, 1):
        rows = np.flatnonzero(games.mover == mover)
        if len(rows):
            chances[rows] = players.probabilities(mover, Boards(games.cells[rows], games.mover[rows]))
    rows, actions = np.nonzero(chances)
    moved = games.take(rows)
    moved.weights[:] *= chances[rows, actions]
    own = np.flatnonzero(moved.mover == players.seat)
    moved.decide(own, actions[own])
    cells, outcomes = play_moves(players.game, Boards(games.cells, games.mover), rows, actions)
    return moved._replace(cells=cells), outcomes


def _fork(games: _Games, skip_chance: float) -> _Games:
    """Follow both turns after a move."""
    other = games._replace(mover=(1 - games.mover).astype(np.int8), weights=games.weights * (1 - skip_chance))
    if skip_chance == 0:
        return other
    return _Games.join([other, games._replace(weights=games.weights * skip_chance)])


def _merge_equal(episodes: Episodes) -> Episodes:
    """Return enumerated episodes in which those that are equal for the learner are one, with the sum of weights."""
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
