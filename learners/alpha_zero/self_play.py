"""Self-play: many games in parallel, each move chosen by search, and the resulting training examples."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from baselines.mcts import MCTSSearch, gumbel_search
from learners.alpha_zero.learner import AlphaZero
from learners.alpha_zero.settings import AlphaZeroSettings, value_scale_for
from learners.base import Arrays
from learners.training import training_key
from ttt_envs.agents.policy import Evaluator, sample
from ttt_envs.core.jit import BoolArray, Float32Array, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.random import uniforms
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, NOT_OVER, STREAM_POOL, begin_rows, play_rows

OPENING, STREAM_EXPLORE, STREAM_RANDOM_ACTION, NOISE = range(STREAM_POOL + 1, STREAM_POOL + 5)
"""Random streams of a game, in addition to those of the rules."""
DIRICHLET = 0.25
"""Weight of the Dirichlet noise in the root priors of PUCT."""
CONCENTRATION = 10.0
"""Total concentration of that noise, split over the moves: close to the choices of Silver et al. for three games."""


class TrainingExamples(NamedTuple):
    """Training examples: positions of some games with the targets from searches and results."""

    obs: Int8Array
    """int8[N, cells], own stones first"""
    policy: Float32Array
    """float32[N, cells]: the policy improved by the search"""
    value: Float32Array
    """float32[N], from the mover's view"""
    results: Float64Array
    """float64[games], for player_0"""

    @classmethod
    def concatenate(cls, parts: list[TrainingExamples]) -> TrainingExamples:
        """Concatenate several batches in order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class Ply(NamedTuple):
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
    net.state = weights
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
    games = SelfPlayGames(config, game, evaluator, keys)
    while len(rows := np.flatnonzero(outcome == NOT_OVER)):
        moves = games.choose_moves(rows, Boards(cells[rows], mover[rows]))
        play_rows(cells, mover, stones, keys, rows, moves, game.parameters, outcome)
    return games.examples(np.where(outcome == DRAW, 0.0, 1.0 - 2.0 * outcome))


class SelfPlayGames:
    """The moves of games of a net against itself, and the training examples from them.

    Args:
        config: the settings.
        game: the game, as the search plays it.
        evaluator: the net that guides the searches.
        keys: uint64[games]: determine the random numbers of each game.

    Attributes:
        plies: all searched positions, in the order of play.
    """

    def __init__(self, config: AlphaZeroSettings, game: Game, evaluator: Evaluator, keys: UInt64Array) -> None:
        self.config, self.game, self.evaluator, self.keys = config, game, evaluator, keys
        first, longest = np.zeros(len(keys), np.int64), config.opening_for(game)
        self._openings = (_draw_uniforms(keys, OPENING, first) * (longest + 1)).astype(np.int64)  # in random moves
        self.plies: list[Ply] = []

    def choose_moves(self, rows: Int64Array, boards: Boards) -> Int64Array:
        """Search the next positions of some games, and choose their moves, of which some are random.

        Args:
            rows: int64[G]: indices of the games.
            boards: their positions.

        Returns:
            The moves int64[G].
        """
        keys, stones = self.keys[rows], np.count_nonzero(boards.cells, axis=1)
        policy, values, selected = self._search(boards, keys, stones)
        is_random = _draw_uniforms(keys, STREAM_EXPLORE, stones) < self.config.epsilon
        legal = _normalise(boards.legal(self.game))
        random_moves = sample(legal, _draw_uniforms(keys, STREAM_RANDOM_ACTION, stones))
        moves = np.where((stones < self._openings[rows]) | is_random, random_moves, selected)
        self.plies.append(Ply(rows, boards, policy.astype(np.float32), values, moves != selected))
        return moves

    def examples(self, results: Float64Array) -> TrainingExamples:
        """Return the training examples of the finished games, game by game; their results are float64[games], for
        player_0.
        """
        by_game = np.argsort(np.concatenate([ply.rows for ply in self.plies]), kind="stable")
        return TrainingExamples(
            np.concatenate([ply.boards.own_first() for ply in self.plies])[by_game],
            np.concatenate([ply.policy for ply in self.plies])[by_game],
            np.concatenate(_td_lambda_targets(self.plies, results, self.config.td_lambda))[by_game],
            results,
        )

    def _search(
        self, boards: Boards, keys: UInt64Array, stones: Int64Array
    ) -> tuple[Float64Array, Float64Array, Int64Array]:
        """Return the improved policy float64[G, cells], the values float64[G], and the selected moves of a search."""
        config, shape, cells = self.config, boards.cells.shape, self.game.cells
        game = self.game if config.chance_nodes else dataclasses.replace(self.game, skip_chance=0.0)
        if config.search == "gumbel":
            each = (stones[:, None] * cells + np.arange(cells)).ravel()
            u = _draw_uniforms(np.repeat(keys, cells), NOISE, each).reshape(shape)
            gumbel = gumbel_search(
                game,
                boards,
                self.evaluator,
                simulations=config.simulations,
                max_num_considered_actions=config.max_num_considered_actions,
                noise=-np.log(-np.log(u + 2.0**-54)),
                maxvisit_init=config.maxvisit_init,
                value_scale=value_scale_for(self.game, config.value_scale),
                threads=config.threads,
            )
            return gumbel.improved, gumbel.improved_values, np.argmax(gumbel.scores, axis=1)
        no_keys = np.zeros(len(keys), np.uint64)
        puct = MCTSSearch(game, boards, no_keys, c=config.c, leaf=self.evaluator, threads=config.threads)
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


def _td_lambda_targets(plies: list[Ply], results: Float64Array, td_lambda: float) -> list[Float32Array]:
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
