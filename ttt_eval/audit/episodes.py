"""Episodes of a learner against an opponent, in padded arrays: sampled from seeds, or all that can
occur.

A step is a decision of the learner: from one of its own turns to the next, or to the end of the
game.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.policy import Policy, act_in_episodes
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array
from ttt_envs.core.random import draw_key, splitmix64
from ttt_envs.game.boards import Boards, from_keys, keys, play_moves
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import DRAW, NOT_OVER, play_rows

MAX_ENUMERATED = 200_000
"""Maximum number of enumerated episodes."""
MAX_GROUPS = 250_000
"""Maximum number of enumerated groups of episodes."""
MAX_EPISODES = 1_000_000
"""Maximum number of sampled episodes."""

Games = NDArray[np.void]
"""Records of games, each with the learner's decisions so far:

``number`` of the sampled episode; ``cells`` int8[cells] and ``mover`` now; ``weight``, its
probability; ``steps``, the number of decisions; ``boards`` uint64[cells + 1], the keys of the
boards of the decisions, and of the position after the last if it has been reached; ``actions``
int64[cells], -1 where there is none; ``result`` of the learner, NaN of a game that is not over.
"""


class TooManyGroups(Refusal):  # a limit of one kind of estimators, which callers may leave out
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

    def turns(self, games: Games) -> Iterator[tuple[Int64Array, Boards, Policy]]:
        """Yield the rows of the games in which each player is to move, their positions, and the
        player's policy.
        """
        for mover in (0, 1):
            rows = np.flatnonzero(games["mover"] == mover)
            if len(rows):
                boards = Boards(games["cells"][rows], games["mover"][rows])
                yield rows, boards, self.behaviour if mover == self.seat else self.opponent


class Episodes(NamedTuple):
    """E episodes of up to T decisions; see :mod:`ttt_eval.audit.estimators` for the arrays of
    estimators.
    """

    cells: Int8Array
    """int8[P, cells]: the distinct boards with the learner to move, in these episodes"""
    exact: bool
    """whether these are all episodes that can occur"""
    positions: Int64Array
    """int64[E, T + 1]: row in ``cells`` of each decision, then of the position that follows a
    truncation; else -1
    """
    actions: Int64Array
    """int64[E, T]: -1 where there is no decision"""
    rewards: Float64Array
    terminated: BoolArray
    truncated: BoolArray
    mask: BoolArray
    weights: Float64Array
    """float64[E]: probabilities, which sum to 1; of sampled episodes all are 1 / E"""

    def take(self, rows: Int64Array, weights: Float64Array) -> Episodes:
        """Return the selected episodes with other weights."""
        return self._replace(
            positions=self.positions[rows],
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            terminated=self.terminated[rows],
            truncated=self.truncated[rows],
            mask=self.mask[rows],
            weights=weights,
        )


def _start(players: Players, count: int) -> Games:
    cells = players.game.cells
    fields = [
        ("number", np.int64), ("cells", np.int8, cells), ("mover", np.int8), ("weight", np.float64),
        ("steps", np.int64), ("boards", np.uint64, cells + 1), ("actions", np.int64, cells),
        ("result", np.float64),
    ]  # fmt: skip
    games = np.zeros(count, fields)
    games["number"] = np.arange(count)
    games["cells"] = players.start.cells
    games["mover"] = players.start.mover
    games["weight"] = 1 / count
    games["actions"] = -1
    games["result"] = np.nan
    return games


def _play(
    players: Players, games: Games, move: Callable[[Games], tuple[Games, Int8Array]], limit: int
) -> Games:
    """Play games to their ends or truncations, and return them in the order in which these occur.

    Args:
        players: the players.
        games: at their start.
        move: makes moves and turns in games; returns the games and the outcomes int8[B]. There may
            be more of them.
        limit: maximum number of games.

    Raises:
        ValueError: there are more games.
    """
    parts = [games[:0]]
    while len(games):
        own = games["mover"] == players.seat
        games["boards"][own, games["steps"][own]] = keys(games["cells"][own])
        cut = own & (games["steps"] == (players.max_steps or -1))
        next_games, outcomes = move(games[~cut])
        is_over = outcomes != NOT_OVER
        results = np.where(outcomes == DRAW, 0.0, np.where(outcomes == players.seat, 1.0, -1.0))
        next_games["result"][is_over] = results[is_over]
        parts += [games[cut], next_games[is_over]]
        games = next_games[~is_over]
        if sum(map(len, parts)) + len(games) > limit:
            raise Refusal(
                f"more than {limit:,} episodes can occur from the start: sample them, or begin in "
                "a later position"
            )
    return np.concatenate(parts)


def _decide(games: Games, players: Players, actions: Int64Array) -> None:
    """Record the actions where the learner is to move."""
    own = games["mover"] == players.seat
    games["actions"][own, games["steps"][own]] = actions[own]
    games["steps"][own] += 1


def _to_episodes(games: Games, game: Game, *, exact: bool) -> Episodes:
    """Return games that are over or truncated as episodes.

    A game that ended before the learner's first turn is an episode without decisions.
    """
    cut = np.isnan(games["result"])[:, None]
    steps = games["steps"][:, None]
    length = max(1, int(steps.max(initial=0)))
    column = np.arange(length + 1)
    present = column < steps + cut
    last = column[:-1] == steps - 1
    distinct, inverse = np.unique(games["boards"][:, : length + 1][present], return_inverse=True)
    positions = np.full(present.shape, -1)
    positions[present] = inverse.reshape(-1)
    return Episodes(
        cells=from_keys(distinct, game),
        exact=exact,
        positions=positions,
        actions=games["actions"][:, :length],
        rewards=np.where(last & ~cut, games["result"][:, None], 0.0),
        terminated=last & ~cut,
        truncated=last & cut,
        mask=column[:-1] < steps,
        weights=games["weight"],
    )


# --------------------------------------------------------------------------------------------------
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
    check_range("episodes", count, 1, MAX_EPISODES, "cannot be sampled")
    game = players.game
    key = draw_key(np.random.default_rng(seed))
    streams = np.array([splitmix64(key, number) for number in range(count)], np.uint64)

    def move(games: Games) -> tuple[Games, Int8Array]:
        rows = np.arange(len(games))
        own_streams = streams[games["number"]]
        cells = games["cells"].copy()
        mover = games["mover"].copy()
        stones = np.count_nonzero(cells, axis=1)
        actions = np.zeros_like(rows)
        outcomes = np.zeros_like(mover)
        for turn, boards, policy in players.turns(games):
            actions[turn] = act_in_episodes(policy, boards, own_streams[turn], stones[turn])
        _decide(games, players, actions)
        play_rows(cells, mover, stones, own_streams, rows, actions, game.parameters, outcomes)
        games["cells"] = cells
        games["mover"] = mover
        return games, outcomes

    games = _play(players, _start(players, count), move, count)
    return _to_episodes(games[np.argsort(games["number"])], game, exact=False)


# --------------------------------------------------------------------------------------------------
# Enumeration


def enumerate_episodes(players: Players) -> Episodes:
    """Return all episodes that can occur, with their probabilities, in depth order.

    Args:
        players: the players, both pure.

    Raises:
        ValueError: there are more than :data:`MAX_ENUMERATED` episodes.
    """
    game = players.game
    skip = players.game.skip_chance

    def move(games: Games) -> tuple[Games, Int8Array]:
        """Make all moves and turns that can occur."""
        chances = np.zeros(games["cells"].shape)
        for rows, boards, policy in players.turns(games):
            chances[rows] = policy.probabilities(boards)
        rows, actions = np.nonzero(chances)
        next_games = games[rows]
        boards = Boards(next_games["cells"].copy(), next_games["mover"].copy())
        next_games["cells"], outcomes = play_moves(game, boards, np.arange(len(rows)), actions)
        next_games["weight"] *= chances[rows, actions]
        _decide(next_games, players, actions)
        is_open = outcomes == NOT_OVER
        skips = next_games[is_open & (skip > 0)]
        skips["weight"] *= skip
        next_games["mover"] = 1 - next_games["mover"]
        next_games["weight"][is_open] *= 1 - skip
        skip_outcomes = np.full(len(skips), NOT_OVER, np.int8)
        return np.concatenate([next_games, skips]), np.concatenate([outcomes, skip_outcomes])

    games = _play(players, _start(players, 1), move, MAX_ENUMERATED)
    episodes = _to_episodes(games, game, exact=True)
    # episodes that are equal for the learner become one
    codes = np.concatenate(
        [episodes.positions, episodes.actions, episodes.rewards.astype(np.int64)], axis=1
    )
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(inverse.reshape(-1), episodes.weights).astype(np.float64)
    order = np.argsort(first)  # by depth
    return episodes.take(first[order].astype(np.int64), weights[order])


# --------------------------------------------------------------------------------------------------
# Groups


def enumerate_groups(episodes: Episodes, size: int) -> Episodes:
    """Return every ordered group of ``size`` independent episodes, one after the other, with its
    probability divided by ``size`` as the weight of each of its episodes.

    Raises:
        TooManyGroups: there are more than :data:`MAX_GROUPS` groups.
    """
    count = len(episodes.weights)
    if count ** min(size, 64) > MAX_GROUPS:
        raise TooManyGroups(
            f"{count:,} episodes make more than {MAX_GROUPS:,} groups of {size}: sample them, or "
            "choose a later "
            "position"
        )
    grid = np.meshgrid(*[np.arange(count)] * size, indexing="ij")
    rows = np.stack(grid, axis=-1).reshape(-1, size)
    weights = episodes.weights[rows].prod(axis=1)
    return episodes.take(rows.reshape(-1), np.repeat(weights / size, size))
