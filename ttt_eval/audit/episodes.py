"""Episodes of a learner against an opponent, in padded arrays: sampled from seeds, or all that can occur.

A step is a decision of the learner: from one of its own turns to the next, or to the end of the game.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy, act_in_episodes
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, from_keys, keys, play_moves
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
        return Episodes(
            self.cells,
            self.positions[rows],
            self.actions[rows],
            self.rewards[rows],
            self.terminated[rows],
            self.truncated[rows],
            self.mask[rows],
            weights,
            self.exact,
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
    game, seat = players.game, players.seat
    cells, mover = np.empty((count, game.cells), np.int8), np.empty(count, np.int8)
    stones, episode_keys = np.empty(count, np.int64), np.empty(count, np.uint64)
    begin_rows(cells, mover, stones, episode_keys, draw_key(np.random.default_rng(seed)), np.arange(count))
    cells[:], mover[:], stones[:] = players.start.cells, players.start.mover, np.count_nonzero(players.start.cells)
    trace = _Trace(game, count, players.max_steps)
    outcomes, actions = np.full(count, NOT_OVER, np.int8), np.zeros(count, np.int64)
    active = np.arange(count)
    while len(active):
        own = active[mover[active] == seat]
        cut = trace.truncate(own, cells)
        active = np.setdiff1d(active, cut, assume_unique=True)
        for player in (0, 1):
            rows = active[mover[active] == player]
            if len(rows):
                boards = Boards(cells[rows], mover[rows])
                actions[rows] = players.act(player, boards, episode_keys[rows], stones[rows])
                if player == seat:
                    trace.decide(rows, cells, actions[rows])
        play_rows(cells, mover, stones, episode_keys, active, actions[active], game.parameters, outcomes)
        ended = active[outcomes[active] != NOT_OVER]
        trace.end(ended, _results(outcomes[ended], seat))
        active = active[outcomes[active] == NOT_OVER]
    return trace.episodes(np.full(count, 1 / count), exact=False)


class _Trace:
    """Arrays of episodes while they are played."""

    def __init__(self, game: Game, count: int, max_steps: int | None) -> None:
        steps = game.cells if max_steps is None else min(max_steps, game.cells)
        self.max_steps = max_steps
        self.boards = np.zeros((count, steps + 1), np.uint64)
        self.game = game
        self.steps = np.zeros(count, np.int64)
        self.actions = np.full((count, steps), -1)
        self.rewards = np.zeros((count, steps))
        self.terminated, self.truncated = np.zeros((count, steps), np.bool_), np.zeros((count, steps), np.bool_)

    def truncate(self, own: Int64Array, cells: Int8Array) -> Int64Array:
        """End the episodes in which the learner is to move after its last allowed decision; return their rows."""
        if self.max_steps is None:
            return own[:0]
        cut: Int64Array = own[self.steps[own] == self.max_steps]
        self.boards[cut, self.steps[cut]] = keys(cells[cut])
        self.truncated[cut, self.steps[cut] - 1] = True
        return cut

    def decide(self, rows: Int64Array, cells: Int8Array, actions: Int64Array) -> None:
        """Record decisions of the learner."""
        self.boards[rows, self.steps[rows]] = keys(cells[rows])
        self.actions[rows, self.steps[rows]] = actions
        self.steps[rows] += 1

    def end(self, rows: Int64Array, results: Float64Array) -> None:
        """Record ends of games; a game that ended before the learner's first turn is an episode without decisions."""
        some = self.steps[rows] > 0
        rows, results = rows[some], results[some]
        self.rewards[rows, self.steps[rows] - 1] = results
        self.terminated[rows, self.steps[rows] - 1] = True

    def episodes(self, weights: Float64Array, *, exact: bool) -> Episodes:
        """Return the recorded episodes, without columns that none reaches."""
        length = max(1, int(self.steps.max(initial=0)))
        mask = np.arange(length) < self.steps[:, None]
        present = np.zeros((len(mask), length + 1), np.bool_)
        present[:, :-1] = mask
        present[:, 1:] |= self.truncated[:, :length]
        distinct, inverse = np.unique(self.boards[:, : length + 1][present], return_inverse=True)
        positions = np.full(present.shape, -1)
        positions[present] = inverse.reshape(-1)
        cells = from_keys(distinct, self.game)
        return Episodes(
            cells,
            positions,
            self.actions[:, :length],
            self.rewards[:, :length],
            self.terminated[:, :length],
            self.truncated[:, :length],
            mask,
            weights,
            exact,
        )


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
    game, seat = players.game, players.seat
    parts: list[tuple[_Branches, Float64Array]] = []
    branches = _Branches.start(players)
    total = 0
    while len(branches.weights):
        if players.max_steps is not None:
            done = (branches.mover == seat) & (branches.steps == players.max_steps)
            parts.append((branches.take(done), np.full(int(done.sum()), np.nan)))
            branches = branches.take(~done)
        moved, outcomes = branches.expand(players)
        ended = outcomes != NOT_OVER
        parts.append((moved.take(ended), _results(outcomes[ended], seat)))
        total += sum(len(part.weights) for part, _ in parts[-2:])
        branches = moved.take(~ended).fork(game.skip_chance)
        if total + len(branches.weights) > MAX_ENUMERATED:
            raise ValueError(
                f"more than {MAX_ENUMERATED:,} episodes can occur from the start: sample them, or begin in a later "
                "position"
            )
    return _join(players, parts)


class _Branches(NamedTuple):
    """Unfinished games, each with the decisions so far."""

    cells: Int8Array
    mover: Int8Array
    weights: Float64Array
    steps: Int64Array
    boards: UInt64Array
    """uint64[B, cells + 1]: keys of the boards of the decisions"""
    actions: Int64Array

    @classmethod
    def start(cls, players: Players) -> _Branches:
        size = players.game.cells
        return cls(
            players.start.cells[None].copy(),
            np.array([players.start.mover], np.int8),
            np.ones(1),
            np.zeros(1, np.int64),
            np.zeros((1, size + 1), np.uint64),
            np.full((1, size), -1),
        )

    def take(self, rows: Int64Array | BoolArray) -> _Branches:
        return _Branches(
            self.cells[rows],
            self.mover[rows],
            self.weights[rows],
            self.steps[rows],
            self.boards[rows],
            self.actions[rows],
        )

    @classmethod
    def join(cls, parts: Sequence[_Branches]) -> _Branches:
        """Return the games of all parts."""
        return cls(
            np.concatenate([part.cells for part in parts]),
            np.concatenate([part.mover for part in parts]),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.steps for part in parts]),
            np.concatenate([part.boards for part in parts]),
            np.concatenate([part.actions for part in parts]),
        )

    def expand(self, players: Players) -> tuple[_Branches, Int8Array]:
        """Make all moves that can occur; return the games after them, before the turn, and their outcomes."""
        chances = np.zeros(self.cells.shape)
        for mover in (0, 1):
            rows = np.flatnonzero(self.mover == mover)
            if len(rows):
                chances[rows] = players.probabilities(mover, Boards(self.cells[rows], self.mover[rows]))
        rows, actions = np.nonzero(chances)
        out = self.take(rows)
        out.weights[:] *= chances[rows, actions]
        own = np.flatnonzero(out.mover == players.seat)
        if len(own):
            out.boards[own, out.steps[own]] = keys(out.cells[own])
            out.actions[own, out.steps[own]] = actions[own]
            out.steps[own] += 1
        cells, outcomes = play_moves(players.game, Boards(self.cells, self.mover), rows, actions)
        return out._replace(cells=cells), outcomes

    def fork(self, skip_chance: float) -> _Branches:
        """Follow both turns after a move."""
        other = self._replace(mover=(1 - self.mover).astype(np.int8), weights=self.weights * (1 - skip_chance))
        if skip_chance == 0:
            return other
        again = self._replace(weights=self.weights * skip_chance)
        return _Branches.join([other, again])


def _join(players: Players, parts: list[tuple[_Branches, Float64Array]]) -> Episodes:
    """Return finished games as episodes; a result of NaN marks a truncated one."""
    found = _Branches.join([part for part, _ in parts])
    results = np.concatenate([result for _, result in parts])
    trace = _Trace(players.game, len(results), players.max_steps)
    width = trace.boards.shape[1]
    trace.boards[:] = found.boards[:, :width]
    trace.actions[:] = found.actions[:, : width - 1]
    trace.steps[:] = found.steps
    cut = np.flatnonzero(np.isnan(results))
    trace.truncate(cut, found.cells)
    rest = np.flatnonzero(~np.isnan(results))
    trace.end(rest, results[rest])
    return _merge_equal(trace.episodes(found.weights, exact=True))


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


def check_board(game: Game) -> None:
    """Raise ValueError for a board whose positions have no key of one word."""
    if game.cells > MAX_CELLS_BASE_3:
        raise ValueError(f"{game} is too large for an audit: choose a board of up to {MAX_CELLS_BASE_3} cells")
