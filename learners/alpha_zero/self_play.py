"""Self-play: many games in parallel, each move chosen by search, and the resulting training examples."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from baselines.mcts import GumbelSearch, MCTSSearch
from learners.alpha_zero.config import AlphaZeroConfig
from learners.alpha_zero.learner import AlphaZero
from learners.base import Arrays
from learners.dense import Floats
from learners.training import training_key
from ttt_envs.boards import Boards
from ttt_envs.jit import Cells, Flags, Integers, Keys, Reals
from ttt_envs.policy import Judge, sample
from ttt_envs.rules import DRAW, NOT_OVER, POOL, Game, begin_rows, play_rows, uniforms

OPENING, STRAY, ANY_MOVE, NOISE = range(POOL + 1, POOL + 5)
"""Random streams of a game, in addition to those of the rules."""
DIRICHLET = 0.25
"""Weight of the Dirichlet noise in the root priors of PUCT."""
CONCENTRATION = 10.0
"""Total concentration of that noise, split over the moves: close to the choices of Silver et al. for three games."""


class Lessons(NamedTuple):
    """Training examples: positions of some games with the targets from searches and results."""

    seen: Cells
    """int8[N, cells], own stones first"""
    policy: Floats
    """float32[N, cells]: the policy improved by the search"""
    value: Floats
    """float32[N], from the mover's view"""
    results: Reals
    """float64[games], for player_0"""

    @classmethod
    def of(cls, parts: list[Lessons]) -> Lessons:
        """Concatenate several batches in order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class _Ply(NamedTuple):
    """The next move in each unfinished game."""

    rows: Integers
    """int64[G]: indices of the games"""
    boards: Boards
    policy: Floats
    worth: Reals
    """float64[G]: values of the positions from the search, from their movers' view"""
    random: Flags
    """bool[G]: True where the move played was random, not the search's"""


def play_block(config: AlphaZeroConfig, game: Game, weights: Arrays, seed: int, numbers: range) -> Lessons:
    """Play the games with the given numbers, with a net of these weights.

    A game depends on its number, the seed and the weights alone, not on the process or the other games.
    """
    net = AlphaZero(config, game, np.random.default_rng(0))
    net.from_arrays(weights)
    return play_games(config, game, net, training_key(seed), numbers)


def play_games(config: AlphaZeroConfig, game: Game, judge: Judge, key: np.uint64, numbers: range) -> Lessons:
    """Play games in parallel and search every position, including those before random moves.

    Args:
        config: the settings.
        game: the game.
        judge: the net that guides the searches.
        key: derived from a seed; a game's random numbers come from this key and its number.
        numbers: the numbers of the games.

    Returns:
        The training examples, game by game.
    """
    count = len(numbers)
    (cells, mover), stones = Boards.start(game, count), np.zeros(count, np.int64)
    luck, outcome = np.zeros(count, np.uint64), np.full(count, NOT_OVER, np.int8)
    begin_rows(cells, mover, stones, luck, key, np.arange(numbers.start, numbers.stop))
    opening = (_drawn(luck, OPENING, stones) * (config.opening_of(game) + 1)).astype(np.int64)
    plies: list[_Ply] = []
    while len(rows := np.flatnonzero(outcome == NOT_OVER)):
        boards, placed, mine = Boards(cells[rows], mover[rows]), stones[rows], luck[rows]
        policy, worth, found = _searched(config, game, boards, judge, mine, placed)
        strays = (placed < opening[rows]) | (_drawn(mine, STRAY, placed) < config.epsilon)
        drawn = sample(_shares(boards.legal(game)), _drawn(mine, ANY_MOVE, placed))
        moves = np.where(strays, drawn, found)
        plies.append(_Ply(rows, boards, policy.astype(np.float32), worth, moves != found))
        play_rows(cells, mover, stones, luck, rows, moves, game.parameters, outcome)
    results = np.where(outcome == DRAW, 0.0, 1.0 - 2.0 * outcome)
    by_game = np.argsort(np.concatenate([ply.rows for ply in plies]), kind="stable")
    return Lessons(
        np.concatenate([ply.boards.own_first() for ply in plies])[by_game],
        np.concatenate([ply.policy for ply in plies])[by_game],
        np.concatenate(_traced(plies, results, config.trace))[by_game],
        results,
    )


def _searched(
    config: AlphaZeroConfig, game: Game, boards: Boards, judge: Judge, luck: Keys, stones: Integers
) -> tuple[Reals, Reals, Integers]:
    """Return the improved policy float64[G, cells], the values float64[G], and the selected moves of a search."""
    met = game if config.chance_nodes else dataclasses.replace(game, skip_chance=0.0)
    shape = boards.cells.shape
    if config.search == "gumbel":
        each = (stones[:, None] * game.cells + np.arange(game.cells)).ravel()
        u = _drawn(np.repeat(luck, game.cells), NOISE, each).reshape(shape)
        gumbel = GumbelSearch(
            met,
            boards,
            judge,
            simulations=config.simulations,
            considered=config.considered,
            noise=-np.log(-np.log(u + 2.0**-54)),
            visit_scale=config.visit_scale,
            value_scale=config.value_scale_of(game),
        )
        return gumbel.improved, gumbel.worth, np.argmax(gumbel.scores, axis=1)
    puct = MCTSSearch(met, boards, np.zeros(len(luck), np.uint64), c=config.c, leaf=judge)
    gammas = np.zeros(shape)
    for row, (legal, *key) in enumerate(zip(boards.legal(game), luck.tolist(), stones.tolist(), strict=True)):
        gammas[row, legal] = np.random.default_rng(key).standard_gamma(CONCENTRATION / legal.sum(), legal.sum())
    puct.stir(_shares(gammas), DIRICHLET)
    puct.run(config.simulations)
    policy = puct.probabilities(temperature=1.0)
    return policy, puct.root_values, sample(policy, _drawn(luck, NOISE, stones))


def _drawn(luck: Keys, stream: int, n: Integers) -> Reals:
    """Return float64[G] in [0, 1): random number ``n`` int64[G] of a stream of each game."""
    out = np.empty(len(luck))
    uniforms(luck, stream, n, out)
    return out


def _shares(weights: np.ndarray[Any, Any]) -> Reals:
    """Normalize the rows of ``weights`` to sum 1."""
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _traced(plies: list[_Ply], results: Reals, trace: float) -> list[Floats]:
    """Return TD(lambda) value targets: float32[G] for each ply, from the mover's view.

    Computed backwards from the end of a game: the target is (1 - ``trace``) times the search's value plus ``trace``
    times the target after the move. Before a random move it is the search's value.
    """
    after = results.copy()
    values = []
    for ply in reversed(plies):
        sign = 1.0 - 2.0 * ply.boards.mover
        value = ply.worth + np.where(ply.random, 0.0, trace) * (sign * after[ply.rows] - ply.worth)
        after[ply.rows] = sign * value
        values.append(value.astype(np.float32))
    return values[::-1]
