"""Training examples for a value net: positions from games of a search, labelled with its values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from learners.base import to_bytes
from learners.checkpoint import TEACHER_FOLDER, load_arrays, save_arrays
from learners.training import SPAWN_TEACHER, Progress, Task, make_rng
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import subfolder
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array
from ttt_envs.core.parallel import Jobs, check_jobs, map_blocks, results_in_order
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, visible
from ttt_envs.game.rules import DRAW, NOT_OVER, legal, next_mover, place

BLOCK = 4
"""Number of teacher's games played and stored together; a game depends on its number alone."""
FILE = "games.npz"
"""File of the games in :data:`~learners.checkpoint.TEACHER_FOLDER`."""
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
    def concatenate(cls, parts: list[TrainingExamples]) -> TrainingExamples:
        """Concatenate several batches in order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _play(game: Game, teacher: Teacher, epsilon: float, seed: int, number: int) -> TrainingExamples:
    """Play one game of the teacher against itself; moves within 1e-9 of the best have equal shares."""
    rng = make_rng(seed, SPAWN_TEACHER, number)
    obs, value = [], []
    boards = Boards.start(game)
    cells, mover = boards.cells[0], boards.mover
    outcome = NOT_OVER
    while outcome == NOT_OVER:
        scores = teacher.scores(boards, rng)[0]
        best = np.nanmax(scores)
        obs.append(boards.own_first()[0])
        value.append(float(best))
        moves = np.flatnonzero(scores >= best - VALUE_TOLERANCE)
        if epsilon > 0 and rng.random() < epsilon:
            moves = np.flatnonzero(legal(game, cells))
        outcome = place(cells, int(mover[0]), int(rng.choice(moves)), len(obs) - 1, game.parameters)
        mover[0] = next_mover(int(mover[0]), rng.random(), game.skip_chance)
    result = 0.0 if outcome == DRAW else 1.0 - 2.0 * outcome
    return TrainingExamples(np.array(obs, np.int8), np.array(value), np.full(len(obs), number), np.array([result]))


def play_training_games(game: Game, teacher: str, epsilon: float, seed: int, numbers: range) -> TrainingExamples:
    """Return the examples of the teacher's games with these numbers; each depends on its number and the seed alone."""
    scorer = Teacher.from_spec(teacher, game)
    return TrainingExamples.concatenate([_play(game, scorer, epsilon, seed, number) for number in numbers])


def training_examples(task: Task, teacher: str, epsilon: float, jobs: int, done: Progress) -> TrainingExamples:
    """Return the teacher's games in order: load stored ones, and play and store the others.

    Args:
        task: gives the game, the number of games, the seed, and the run in which games are stored once played.
        teacher: a spec string.
        epsilon: probability of a random move.
        jobs: number of processes, -1 one for each core; short work takes none. The task's cluster takes precedence.
        done: finished games are added to it.

    Raises:
        ValueError: a teacher that does not score moves, games on disk that are damaged.
    """
    workers: Jobs = task.cluster or jobs
    check_jobs(workers)
    path = subfolder(task.run, TEACHER_FOLDER) / FILE
    provenance = to_bytes({"game": task.game.to_dict(), "teacher": teacher, "epsilon": epsilon, "seed": task.seed})
    play = partial(play_training_games, visible(task.game), teacher, epsilon, task.seed)
    examples: list[TrainingExamples] = []
    if path.exists():
        arrays = load_arrays(path)
        if np.array_equal(arrays.pop("provenance"), provenance):
            examples.append(_first_games(TrainingExamples(**arrays), task.games))
            done.count(examples[0].results)

    def blocks() -> Iterator[tuple[range]]:
        yield from ((range(start, min(start + BLOCK, task.games)),) for start in range(done.games, task.games, BLOCK))

    def store(block: TrainingExamples) -> None:
        examples[:] = [TrainingExamples.concatenate([*examples, block])]
        save_arrays(path, {**examples[0]._asdict(), "provenance": provenance})
        done.count(block.results)
        task.progress(done)

    seconds = 0.0  # of the second block: the first one compiles
    for number, block in enumerate(list(blocks())):
        if workers != 1 and number >= 2 and seconds * (task.games - done.games) / BLOCK > MIN_SECONDS_FOR_WORKERS:
            break
        start = time.perf_counter()
        store(play(*block))
        seconds = time.perf_counter() - start
    for part in results_in_order(map_blocks(play, blocks(), workers)) if done.games < task.games else ():
        store(part)
    return examples[0]


def _first_games(examples: TrainingExamples, games: int) -> TrainingExamples:
    """Return the examples of the games with numbers below ``games``."""
    first = examples.game < games
    return TrainingExamples(examples.obs[first], examples.value[first], examples.game[first], examples.results[:games])
