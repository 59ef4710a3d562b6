"""Deterministic AlphaZero search as a policy: ``alpha-zero:path=PATH,simulations=32``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import numpy as np

from baselines.mcts import GumbelResult, Tree, check_gumbel, gumbel_search
from baselines.mcts.policy import MEMORY
from learners.alpha_zero.net import AlphaZero, gumbel_options
from learners.checkpoint import RunPolicy
from ttt_envs.agents.policy import ALL_VARIANTS, Evaluator
from ttt_envs.agents.specs import Named
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.work import Threads, count_threads
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

CHUNK_SIZE = 512
"""Maximum number of positions searched side by side, if their trees fit into memory."""


@dataclass(frozen=True)
class AlphaZeroSearch(Named):
    """A Gumbel search without noise, guided by a trained run: a deterministic function of the
    position.

    Raises:
        ValueError: a setting out of range, no such run, or one that cannot guide a search.
    """

    name: ClassVar[str] = "alpha-zero"
    colour_blind = True
    variants = ALL_VARIANTS
    test_specs = ("alpha-zero:path={alpha-zero},simulations=8",)
    refusals: ClassVar = {"hidden": "it reads the whole board, to search the moves of both players"}

    game: Game
    path: str
    """folder of the run, one of alpha-zero"""
    simulations: int = 32
    """number of simulations per move"""
    max_num_considered_actions: int = 16
    """maximum number of root moves that are considered, those with the highest logits"""
    maxvisit_init: float = 50.0
    """visits added to the highest visit count when values are scaled"""
    value_scale: float | None = None
    """scale of the values per such visit; default: 0.5, or 2 where turns are skipped"""
    symmetrize: bool = True
    """average the net over its training symmetries, as run:PATH does; without, each position is
    evaluated once, which is less accurate and, on boards of more than 9 cells, two to five times as
    fast"""
    threads: Threads = 1
    """number of threads that search a batch of positions, or auto for one per core; results do not
    depend on it
    """

    def __post_init__(self) -> None:
        options = gumbel_options(self, self.game)
        count_threads(options.pop("threads"))
        check_gumbel(**options)
        self._evaluator  # noqa: B018  # reports a wrong path at once

    @cached_property
    def _evaluator(self) -> Evaluator:
        policy = RunPolicy(self.game, self.path)
        if isinstance(policy.learner, AlphaZero) and self.symmetrize:
            return policy.learner.mean
        if policy.evaluate is None:
            raise Refusal(
                f"{policy} has no policy to guide a search: choose a run of train.py --learner "
                "alpha-zero"
            )
        return cast("Evaluator", policy)

    def search(self, boards: Boards) -> GumbelResult:
        """Search positions that are not over, and return the finished search."""
        return gumbel_search(self.game, boards, self._evaluator, **gumbel_options(self, self.game))

    def _collect(
        self, boards: Boards, result: Callable[[GumbelResult], Float64Array]
    ) -> Float64Array:
        """Search in chunks whose trees fit into memory, and return their results."""
        size = max(
            1, min(CHUNK_SIZE, MEMORY // Tree.num_bytes(self.simulations + 1, 2, self.game.cells))
        )
        parts = [result(self.search(chunk)) for chunk in boards.chunks(size)]
        return np.concatenate(parts) if parts else result(self.search(boards))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: 1 for the move that the search selects."""
        return self._collect(boards, GumbelResult.probabilities)

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B] from the mover's view: the values of the selected moves."""
        return self._collect(boards, lambda result: result.values)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal or not
        visited.
        """
        return self._collect(boards, lambda result: result.search.action_values)
