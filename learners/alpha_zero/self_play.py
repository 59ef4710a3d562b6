"""Self-play: many games in parallel, each move chosen by search, and the resulting training examples."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from baselines.mcts import GumbelSearch, MCTSSearch
from learners.alpha_zero.learner import AlphaZero
from learners.alpha_zero.settings import AlphaZeroSettings
from learners.base import Arrays
from learners.dense import Float32Array
from learners.training import training_key
from ttt_envs.agents.policy import Evaluator, sample
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.random import uniforms
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import DRAW, NOT_OVER, STREAM_POOL, Game, begin_rows, play_rows

OPENING, STREAM_EXPLORE, STREAM_RANDOM_ACTION, NOISE = range(STREAM_POOL + 1, STREAM_POOL + 5)
"""Random streams of a game, in addition to those of the rules."""
DIRICHLET = 0.25
"""Weight of the Dirichlet noise in the root priors of PUCT."""
CONCENTRATION = 10.0
"""Total concentration of that noise, split over the moves: close to the choices of Silver et al. for three games."""


class TrainingExamples(NamedTuple):
    """Training examples: positions of some games with the targets from searches and results."""

    seen: Int8Array
    """int8[N, cells], own stones first"""
    policy: Float32Array
    """float32[N, cells]: the policy improved by the search"""
    value: Float32Array
    """float32[N], from the mover's view"""
    results: Float64Array
    """float64[games], for player_0"""

    @classmethod
    def of(cls, parts: list[TrainingExamples]) -> TrainingExamples:
        """Concatenate several batches in order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class _Ply(NamedTuple):
    """The next move in each unfinished game."""

    rows: Int64Array
    """int64[G]: indices of the games"""
    boards: Boards
    policy: Float32Array
    value: Float64Array
    """float64[G]: values of the positions from the search, from their movers' view"""
    random: BoolArray
    """bool[G]: True where the move played was random, not the search's"""


def play_block(config: AlphaZeroSettings, game: Game, weights: Arrays, seed: int, numbers: range) -> TrainingExamples:
    """Play the games with the given numbers, with a net of these weights.

    A game depends on its number, the seed and the weights alone, not on the process or the other games.
    """
    net = AlphaZero(config, game, np.random.default_rng(0))
    net.from_arrays(weights)
    return play_games(config, game, net, training_key(seed), numbers)


def play_games(
    config: AlphaZeroSettings, game: Game, evaluator: Evaluator, key: np.uint64, numbers: range
) -> TrainingExamples:
    """Play games in parallel and search every position, including those before random moves.

    Args:
        config: the settings.
        game: the game.
        evaluator: the net that guides the searches.
        key: derived from a seed; a game's random numbers come from this key and its number.
        numbers: the numbers of the games.

    Returns:
        The training examples, game by game.
    """
    count = len(numbers)
    (cells, mover), stones = Boards.start(game, count), np.zeros(count, np.int64)
    keys, outcome = np.zeros(count, np.uint64), np.full(count, NOT_OVER, np.int8)
    begin_rows(cells, mover, stones, keys, key, np.arange(numbers.start, numbers.stop))
    opening = (_draw_uniforms(keys, OPENING, stones) * (config.opening_of(game) + 1)).astype(np.int64)
    plies: list[_Ply] = []
    while len(rows := np.flatnonzero(outcome == NOT_OVER)):
        boards, num_stones, episode_keys = Boards(cells[rows], mover[rows]), stones[rows], keys[rows]
        policy, values, selected = _search(config, game, boards, evaluator, episode_keys, num_stones)
        u = _draw_uniforms(episode_keys, STREAM_EXPLORE, num_stones)
        explores = (num_stones < opening[rows]) | (u < config.epsilon)
        u = _draw_uniforms(episode_keys, STREAM_RANDOM_ACTION, num_stones)
        random_moves = sample(_normalise(boards.legal(game)), u)
        moves = np.where(explores, random_moves, selected)
        plies.append(_Ply(rows, boards, policy.astype(np.float32), values, moves != selected))
        play_rows(cells, mover, stones, keys, rows, moves, game.parameters, outcome)
    results = np.where(outcome == DRAW, 0.0, 1.0 - 2.0 * outcome)
    by_game = np.argsort(np.concatenate([ply.rows for ply in plies]), kind="stable")
    return TrainingExamples(
        np.concatenate([ply.boards.own_first() for ply in plies])[by_game],
        np.concatenate([ply.policy for ply in plies])[by_game],
        np.concatenate(_td_lambda_targets(plies, results, config.td_lambda))[by_game],
        results,
    )


def _search(
    config: AlphaZeroSettings, game: Game, boards: Boards, evaluator: Evaluator, keys: UInt64Array, stones: Int64Array
) -> tuple[Float64Array, Float64Array, Int64Array]:
    """Return the improved policy float64[G, cells], the values float64[G], and the selected moves of a search."""
    search_game = game if config.chance_nodes else dataclasses.replace(game, skip_chance=0.0)
    shape = boards.cells.shape
    if config.search == "gumbel":
        each = (stones[:, None] * game.cells + np.arange(game.cells)).ravel()
        u = _draw_uniforms(np.repeat(keys, game.cells), NOISE, each).reshape(shape)
        gumbel = GumbelSearch(
            search_game,
            boards,
            evaluator,
            simulations=config.simulations,
            max_num_considered_actions=config.max_num_considered_actions,
            noise=-np.log(-np.log(u + 2.0**-54)),
            maxvisit_init=config.maxvisit_init,
            value_scale=config.value_scale_of(game),
            threads=config.threads,
        )
        return gumbel.improved, gumbel.improved_values, np.argmax(gumbel.scores, axis=1)
    no_keys = np.zeros(len(keys), np.uint64)
    puct = MCTSSearch(search_game, boards, no_keys, c=config.c, leaf=evaluator, threads=config.threads)
    gammas = np.zeros(shape)
    for row, (legal, *key) in enumerate(zip(boards.legal(game), keys.tolist(), stones.tolist(), strict=True)):
        gammas[row, legal] = np.random.default_rng(key).standard_gamma(CONCENTRATION / legal.sum(), legal.sum())
    puct.add_root_noise(_normalise(gammas), DIRICHLET)
    puct.run(config.simulations)
    policy = puct.probabilities(temperature=1.0)
    return policy, puct.root_values, sample(policy, _draw_uniforms(keys, NOISE, stones))


def _draw_uniforms(keys: UInt64Array, stream: int, n: Int64Array) -> Float64Array:
    """Return float64[G] in [0, 1): random number ``n`` int64[G] of a stream of each game."""
    out = np.empty(len(keys))
    uniforms(keys, stream, n, out)
    return out


def _normalise(weights: np.ndarray[Any, Any]) -> Float64Array:
    """Normalize the rows of ``weights`` to sum 1."""
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _td_lambda_targets(plies: list[_Ply], results: Float64Array, td_lambda: float) -> list[Float32Array]:
    """Return TD(lambda) value targets: float32[G] for each ply, from the mover's view.

    Computed backwards from the end of a game: the target is (1 - ``td_lambda``) times the search's value plus
    ``td_lambda`` times the target after the move. Before a random move it is the search's value.
    """
    after = results.copy()
    values = []
    for ply in reversed(plies):
        sign = 1.0 - 2.0 * ply.boards.mover
        value = ply.value + np.where(ply.random, 0.0, td_lambda) * (sign * after[ply.rows] - ply.value)
        after[ply.rows] = sign * value
        values.append(value.astype(np.float32))
    return values[::-1]
