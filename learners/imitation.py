"""Training examples for a value net: positions from games of a search, labelled with its values."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from learners.base import from_bytes, to_bytes
from learners.checkpoint import TEACHER_FOLDER, load_arrays, save_arrays
from learners.training import SPAWN_TEACHER, Progress, Task, make_rng
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import subfolder
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.core.parallel import Cluster, Jobs, check_jobs, map_blocks
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, visible
from ttt_envs.game.rules import DRAW, NOT_OVER, legal, next_mover, place

BLOCK = 4
"""Number of teacher's games played and stored together; a game depends on its number alone."""
MIN_SECONDS_FOR_WORKERS = 10.0
"""Minimum seconds of work for which processes are started, as starting them takes time."""


@runtime_checkable
class ScoresMoves(Protocol):
    """A policy that scores moves by a search."""

    @property
    def depth(self) -> int:
        """Search depth in plies: the score of an immediate win."""
        ...

    def scores(self, boards: Boards, rng: np.random.Generator) -> Float64Array:
        """Return scores float64[B, cells] from the mover's view, NaN where illegal; the best moves' scores are
        values.
        """
        ...


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
        if isinstance(policy, ScoresMoves):
            depth = float(policy.depth)
            return cls(policy.scores, depth + 1, depth / (depth + 1))
        if (values := policy.action_values) is not None:
            return cls(lambda boards, rng: values(boards), 1.0, 1 - 2.0**-10)
        raise ValueError(f"teacher={spec} has no action values: choose a search, as expectiminimax:depth=3, or optimal")


class TrainingExamples(NamedTuple):
    """Positions of some games, in order, with their values."""

    seen: Int8Array
    """int8[N, cells], own stones first"""
    value: Float64Array
    """float64[N], the teacher's values from the mover's view"""
    results: Float64Array
    """float64[games], for player_0"""


def _play(game: Game, teacher: Teacher, epsilon: float, rng: np.random.Generator) -> TrainingExamples:
    """Play one game of the teacher against itself; moves within 1e-9 of the best have equal shares."""
    seen, value = [], []
    boards = Boards.start(game)
    cells, mover = boards.cells[0], boards.mover
    outcome = NOT_OVER
    while outcome == NOT_OVER:
        scores = teacher.scores(boards, rng)[0]
        best = np.nanmax(scores)
        seen.append(boards.own_first()[0])
        value.append(float(best))
        good = np.flatnonzero(scores >= best - VALUE_TOLERANCE)
        if epsilon > 0 and rng.random() < epsilon:
            good = np.flatnonzero(legal(game, cells))
        outcome = place(cells, int(mover[0]), int(rng.choice(good)), len(seen) - 1, game.parameters)
        mover[0] = next_mover(int(mover[0]), rng.random(), game.parameters)
    result = 0.0 if outcome == DRAW else 1.0 - 2.0 * outcome
    return TrainingExamples(np.array(seen, np.int8), np.array(value), np.array([result]))


def play_training_games(game: Game, teacher: str, epsilon: float, seed: int, numbers: range) -> TrainingExamples:
    """Return the examples of the teacher's games with these numbers; each depends on its number and the seed alone."""
    scorer = Teacher.from_spec(teacher, game)
    games = [_play(game, scorer, epsilon, make_rng(seed, SPAWN_TEACHER, number)) for number in numbers]
    return TrainingExamples(*(np.concatenate(parts) for parts in zip(*games, strict=True)))


def training_examples(task: Task, teacher: str, epsilon: float, jobs: int, done: Progress) -> list[TrainingExamples]:
    """Return the teacher's games block by block in order: load stored ones, and play and store the others.

    Args:
        task: gives the game, the number of games, the seed, and the run in which games are stored once played.
        teacher: a spec string.
        epsilon: probability of a random move.
        jobs: number of processes, -1 one for each core; short work takes none. The task's cluster takes precedence.
        done: finished games are added to it.

    Raises:
        ValueError: a teacher that does not score moves, games on disk that are damaged.
    """
    provenance = {
        "game": task.game.to_dict(),
        "teacher": teacher,
        "epsilon": epsilon,
        "seed": task.seed,
    }
    numbers = [range(start, min(start + BLOCK, task.games)) for start in range(0, task.games, BLOCK)]
    folder = subfolder(task.run, TEACHER_FOLDER)
    paths = [folder / f"{block:06d}.npz" for block in range(len(numbers))]
    examples: dict[int, TrainingExamples] = {}

    def add(block: int, block_examples: TrainingExamples) -> None:
        examples[block] = block_examples
        done.count(block_examples.results)
        task.progress(done)

    missing = []
    for block, path in enumerate(paths):
        block_examples = _load_examples(path, task.game, provenance, len(numbers[block]))
        if block_examples is None:
            missing.append(block)
        else:
            add(block, block_examples)
    play = partial(play_training_games, visible(task.game), teacher, epsilon, task.seed)

    def save(block: int, block_examples: TrainingExamples) -> None:
        save_arrays(paths[block], {**block_examples._asdict(), "provenance": to_bytes(provenance)})
        add(block, block_examples)

    workers: Jobs = Cluster(task.cluster) if task.cluster else jobs
    check_jobs(workers)
    seconds: list[float] = []
    while missing and (len(seconds) < 2 or seconds[-1] * len(missing) < MIN_SECONDS_FOR_WORKERS or workers == 1):
        start = time.perf_counter()  # the first block compiles, the second measures the duration
        save(missing[0], play(numbers[missing[0]]))
        seconds.append(time.perf_counter() - start)
        del missing[0]
    played = map_blocks(play, ((numbers[block],) for block in missing), workers) if missing else ()
    for number, block_examples in played:
        save(missing[number], block_examples)
    return [examples[block] for block in range(len(numbers))]


def _load_examples(path: Path, game: AnyGame, provenance: Mapping[str, Any], games: int) -> TrainingExamples | None:
    """Load the games in a file; None if there is no file, or if it holds other games.

    Raises:
        ValueError: a damaged file.
    """
    if not os.path.lexists(path):
        return None
    longest = game.cells * games
    arrays = load_arrays(path, limit=longest * (game.cells + 8) + 8 * games + (1 << 16))
    try:
        if from_bytes(arrays["provenance"]) != provenance or arrays["results"].shape != (games,):
            return None
        block_examples = TrainingExamples(arrays["seen"], arrays["value"], arrays["results"])
        count = len(block_examples.value)
        fits = (
            block_examples.seen.shape == (count, game.cells)
            and [array.dtype.str for array in block_examples] == ["|i1", "<f8", "<f8"]
            and ((block_examples.seen >= 0) & (block_examples.seen <= 2)).all()
            and (np.abs(block_examples.value) <= np.finfo(np.float32).max).all()  # the net's dtype; excludes NaN
        )
    except (KeyError, TypeError, ValueError, IndexError):
        fits = False
    if not fits:
        raise ValueError(f"{path} is damaged: delete it, and its games are played again")
    return block_examples
