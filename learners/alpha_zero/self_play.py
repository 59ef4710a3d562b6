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
from ttt_envs.boards import Boards
from ttt_envs.compiling import Cells, Flags, Integers, Reals
from ttt_envs.policy import Judge, sample
from ttt_envs.rules import DRAW, NOT_OVER, Game, play_rows

BLOCK = 128
"""games that one process plays side by side; what is in a game depends on its block alone, and on the net"""
NOISE = 0.25
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


def play_block(config: AlphaZeroConfig, game: Game, weights: Arrays, count: int, seed: int, number: int) -> Lessons:
    """Block ``number`` of the games of a training: ``count`` games that a net with these weights plays.

    The same arguments give the same games, in whatever process.
    """
    net = AlphaZero(config, game, np.random.default_rng(0))
    net.from_arrays(weights)
    return play_games(
        config, game, net, count, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2, number)))
    )


def play_games(config: AlphaZeroConfig, game: Game, judge: Judge, count: int, rng: np.random.Generator) -> Lessons:
    """``count`` games side by side, every position of which is searched, those of the random moves too."""
    cells, mover = Boards.start(game, count)
    stones, outcome = np.zeros(count, np.int64), np.full(count, NOT_OVER, np.int8)
    opening = rng.integers(0, config.opening_of(game) + 1, count)
    plies: list[_Ply] = []
    while len(rows := np.flatnonzero(outcome == NOT_OVER)):
        boards = Boards(cells[rows], mover[rows])
        policy, worth, found = _searched(config, game, boards, judge, rng)
        strays = (stones[rows] < opening[rows]) | (rng.random(len(rows)) < config.epsilon)
        drawn = sample(_shares(boards.legal(game)), rng.random(len(rows)))
        moves = np.where(strays, drawn, found)
        plies.append(_Ply(rows, boards, policy.astype(np.float32), worth, moves != found))
        luck = rng.integers(0, 1 << 64, count, np.uint64)
        play_rows(cells, mover, stones, luck, rows, moves, game.parameters, outcome)
    results = np.where(outcome == DRAW, 0.0, 1.0 - 2.0 * outcome)
    return Lessons(
        np.concatenate([ply.boards.own_first() for ply in plies]),
        np.concatenate([ply.policy for ply in plies]),
        np.concatenate(_traced(plies, results, config.trace)),
        results,
    )


def _searched(
    config: AlphaZeroConfig, game: Game, boards: Boards, judge: Judge, rng: np.random.Generator
) -> tuple[Reals, Reals, Integers]:
    """What a search makes of the policy float64[G, cells], and of the positions float64[G], and its moves."""
    met = game if config.chance_nodes else dataclasses.replace(game, skip_chance=0.0)
    shape = boards.cells.shape
    if config.search == "gumbel":
        gumbel = GumbelSearch(
            met,
            boards,
            judge,
            simulations=config.simulations,
            considered=config.considered,
            noise=rng.gumbel(size=shape),
            visit_scale=config.visit_scale,
            value_scale=config.value_scale,
        )
        return gumbel.improved, gumbel.worth, np.argmax(gumbel.scores, axis=1)
    puct = MCTSSearch(met, boards, np.zeros(len(boards.mover), np.uint64), c=config.c, leaf=judge)
    legal = boards.legal(game)
    concentration = np.where(legal, CONCENTRATION / legal.sum(axis=1, keepdims=True), 0.0)
    puct.stir(_shares(rng.standard_gamma(concentration)), NOISE)
    puct.run(config.simulations)
    policy = puct.probabilities(temperature=1.0)
    return policy, puct.root_values, sample(policy, rng.random(len(policy)))


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
