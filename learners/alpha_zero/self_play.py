"""Games of a net against itself, each move found by search: many side by side, and what is to be learned from them."""

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
from ttt_envs.compiling import Cells, Flags, Integers, Keys, Reals
from ttt_envs.policy import Judge, sample
from ttt_envs.rules import DRAW, NOT_OVER, POOL, Game, begin_rows, play_rows, uniforms

OPENING, STRAY, ANY_MOVE, NOISE = range(POOL + 1, POOL + 5)
"""streams of a game's luck, beside those of the rules"""
DIRICHLET = 0.25
"""weight of the Dirichlet noise in the root's policy, of the search by PUCT"""
CONCENTRATION = 10.0
"""of that noise, shared by the moves: about what Silver et al. chose for each of three games"""


class Lessons(NamedTuple):
    """Positions of some games, and what their searches and ends say of them."""

    seen: Cells
    """int8[N, cells], own stones first"""
    policy: Floats
    """float32[N, cells]: what the search makes of the policy"""
    value: Floats
    """float32[N], to the mover"""
    results: Reals
    """float64[games], to player_0"""

    @classmethod
    def of(cls, parts: list[Lessons]) -> Lessons:
        """Several together, in order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class _Ply(NamedTuple):
    """The next move in each of the games that go on."""

    rows: Integers
    """int64[G]: which games"""
    boards: Boards
    policy: Floats
    worth: Reals
    """float64[G]: what the search says of the positions, to their movers"""
    random: Flags
    """bool[G]: where the move played was not the search's"""


def play_block(config: AlphaZeroConfig, game: Game, weights: Arrays, seed: int, numbers: range) -> Lessons:
    """Games of a training by their numbers, that a net with these weights plays.

    A game depends on its number, the seed and the weights alone, in whatever process and beside whatever others.
    """
    net = AlphaZero(config, game, np.random.default_rng(0))
    net.from_arrays(weights)
    return play_games(config, game, net, training_key(seed), numbers)


def play_games(config: AlphaZeroConfig, game: Game, judge: Judge, key: np.uint64, numbers: range) -> Lessons:
    """Games side by side, every position of which is searched, those of the random moves too.

    Args:
        config: the settings.
        game: what is played.
        judge: what guides the searches.
        key: of a seed; what is random in a game comes from this and its number.
        numbers: of the games.

    Returns:
        What is to be learned, game by game.
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
    """What a search makes of the policy float64[G, cells], and of the positions float64[G], and its moves."""
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
    """float64[G] in [0, 1): number ``n`` int64[G] of a stream of each game."""
    out = np.empty(len(luck))
    uniforms(luck, stream, n, out)
    return out


def _shares(weights: np.ndarray[Any, Any]) -> Reals:
    """Rows of ``weights`` as parts of their sums."""
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _traced(plies: list[_Ply], results: Reals, trace: float) -> list[Floats]:
    """What is to be learned of each position's value: float32[G] for each ply, to the mover.

    From the end of a game back to its start the value is a mean of what the search says, 1 - ``trace`` of it, and of
    the value after the move, ``trace``; before a random move it is what the search says.
    """
    after = results.copy()
    values = []
    for ply in reversed(plies):
        sign = 1.0 - 2.0 * ply.boards.mover
        value = ply.worth + np.where(ply.random, 0.0, trace) * (sign * after[ply.rows] - ply.worth)
        after[ply.rows] = sign * value
        values.append(value.astype(np.float32))
    return values[::-1]
