"""Training examples for a value net: positions from games of a search, labelled with its values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from learners.training import SPAWN_TEACHER, make_rng
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import DRAW, NOT_OVER, legal, next_mover, place

BLOCK = 4
"""Number of teacher's games played together; a game depends on its number alone."""
MIN_SECONDS_FOR_WORKERS = 10.0
"""Minimum seconds of work for which processes are started, as starting them takes time."""


class Teacher(NamedTuple):
    """Scoring function of a teacher, with its scale."""

    scores: Callable[[Boards, np.random.Generator], Float64Array]
    """Scores moves: float64[B, cells] from the mover's view, NaN where illegal; the best moves' scores are values."""
    scale: float
    """Score of an immediate win, one ply before the teacher's scores."""
    bound: float
    """Maximum score, as a fraction of ``scale``."""

    @classmethod
    def from_spec(cls, spec: str | Policy, game: AnyGame) -> Teacher:
        """Return the teacher named by a spec string.

        Raises:
            ValueError: not a policy, or one that does not score moves.
        """
        policy = make_policy(spec, game)
        if hasattr(policy, "scores") and hasattr(policy, "depth"):  # a search: a win is worth its depth
            depth = float(policy.depth)
            return cls(policy.scores, depth + 1, depth / (depth + 1))
        if (values := policy.action_values) is not None:
            return cls(lambda boards, rng: values(boards), 1.0, 1 - 2.0**-10)
        raise ValueError(f"teacher={spec} has no action values: choose a search, as expectiminimax:depth=3, or optimal")


class TrainingExamples(NamedTuple):
    """Positions of some games, in order, with their values."""

    obs: Int8Array
    """int8[N, cells], own stones first"""
    value: Float64Array
    """float64[N], the teacher's values from the mover's view"""
    game: Int64Array
    """int64[N]: the number of the game"""
    results: Float64Array
    """float64[games], for player_0"""

    @classmethod
    def empty(cls, cells: int) -> TrainingExamples:
        """Return the examples of no game."""
        return cls(np.zeros((0, cells), np.int8), np.zeros(0), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def concatenate(cls, parts: list[TrainingExamples]) -> TrainingExamples:
        """Concatenate several batches in order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def play_training_games(game: Game, teacher: str, epsilon: float, seed: int, numbers: range) -> TrainingExamples:
    """Return the examples of the teacher's games with these numbers; each depends on its number and the seed alone.

    Moves within 1e-9 of the best have equal shares.
    """
    scorer = Teacher.from_spec(teacher, game)
    obs, value, games, results = [], [], [], []
    for number in numbers:
        rng, boards, outcome = make_rng(seed, SPAWN_TEACHER, number), Boards.start(game), NOT_OVER
        cells, mover = boards.cells[0], boards.mover
        while outcome == NOT_OVER:
            scores = scorer.scores(boards, rng)[0]
            best = float(np.nanmax(scores))
            obs.append(boards.own_first()[0])
            value.append(best)
            games.append(number)
            moves = np.flatnonzero(scores >= best - VALUE_TOLERANCE)
            if epsilon > 0 and rng.random() < epsilon:
                moves = np.flatnonzero(legal(game, cells))
            outcome = place(cells, int(mover[0]), int(rng.choice(moves)), int(np.count_nonzero(cells)), game.parameters)
            mover[0] = next_mover(int(mover[0]), rng.random(), game.skip_chance)
        results.append(0.0 if outcome == DRAW else 1.0 - 2.0 * outcome)
    return TrainingExamples(np.array(obs, np.int8), np.array(value), np.array(games), np.array(results))


def play_blocks(
    game: Game, teacher: str, epsilon: float, seed: int, games: range, workers: Jobs
) -> Iterator[TrainingExamples]:
    """Play the teacher's games with these numbers, and yield the examples of up to :data:`BLOCK` games, in order.

    Args:
        game: the game.
        teacher: a spec string.
        epsilon: probability of a random move.
        seed: of the games.
        games: their numbers.
        workers: the processes, or a cluster. Games that are known to take little time are played here.

    Raises:
        ValueError: a teacher that does not score moves.
    """
    play = partial(play_training_games, game, teacher, epsilon, seed)
    blocks = [(games[start : start + BLOCK],) for start in range(0, len(games), BLOCK)]
    for number, block in enumerate(blocks, start=1):
        begun = time.perf_counter()
        examples = play(*block)
        seconds = time.perf_counter() - begun
        yield examples
        if workers != 1 and number > 1 and seconds * (len(blocks) - number) > MIN_SECONDS_FOR_WORKERS:
            yield from results_in_order(map_blocks(play, blocks[number:], workers))  # the first block compiles
            return
