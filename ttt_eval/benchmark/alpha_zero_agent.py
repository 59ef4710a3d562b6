"""AlphaZero as an agent of the benchmark: it searches before each move in the environment, and learns from games."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np

from learners.alpha_zero import AlphaZeroConfig
from learners.alpha_zero.self_play import SelfPlay, SelfPlayGames, TrainingExamples
from learners.base import concatenate
from learners.training import make_initial_rng
from ttt_envs.agents.policy import Policy
from ttt_envs.game.game import Game
from ttt_envs.game.rules import NOT_OVER
from ttt_eval.benchmark.episodes import (
    OBSERVATION,
    combine_learners,
    episode_skip_chance,
    games_to_learn,
    read_boards,
)
from ttt_eval.benchmark.tasks import Task

GAMES_PER_BATCH, UPDATES_PER_BATCH = 64, 50
"""Games between updates and their number: as many updates per game as by default, which makes them after 256 games."""
ROW = np.zeros(1, np.int64)


class AlphaZeroAgent:
    """AlphaZero, which knows the rules and learns game by game from a Gymnasium environment.

    A step is a move that it plays in the environment. Simulations of its searches are no steps: they use the rules of
    the game, also those of skips, and never the environment or its opponent. The search takes the other player to move
    as it does itself. A hidden skip chance is taken to be its mean; for one that is shown see
    :class:`~ttt_eval.benchmark.agents.LearnerAgent`.

    Args:
        task: the task.
        seed: of weights, exploration and minibatches.
        settings: those of AlphaZero that are not the default ones.
    """

    def __init__(self, task: Task, seed: int, **settings: Any) -> None:
        self._config = AlphaZeroConfig(**{"gradient_steps": UPDATES_PER_BATCH, **settings})
        self.env_options = {"observation": OBSERVATION}
        self.hyperparameters = {**asdict(self._config), "games_per_batch": GAMES_PER_BATCH, "knows_rules": True}
        self._task = task
        self._trainings = {
            game.skip_chance: SelfPlay(
                self._config.build(game, make_initial_rng(seed)), task.steps, batch=GAMES_PER_BATCH, seed=seed
            )
            for game in games_to_learn(task)
        }
        self._examples: dict[float, list[TrainingExamples]] = {skip: [] for skip in self._trainings}
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))

    def learn(self, env: gymnasium.Env[Any, Any], steps: int) -> None:
        """Play and learn until so many steps are taken, and the last game is over.

        A game that has not ended after all steps, where the environment ends the call, is not learned from.
        """
        taken = 0
        while taken < steps:
            observation, info = env.reset()
            skip = episode_skip_chance(self._task, self._trainings, observation)
            training = self._trainings[skip]
            key = self._rng.integers(2**64, size=1, dtype=np.uint64)
            games = SelfPlayGames(self._config, training.learner.game, training.learner, key)
            over, result = False, 0.0
            while not over:
                action = 0
                if info["result"] == NOT_OVER:  # else the opponent has won before the first move
                    action = int(games.choose_moves(ROW, read_boards(self._task, observation, info))[0])
                observation, reward, terminated, truncated, info = env.step(action)
                over = terminated or truncated
                result = float(reward) * (1 - 2 * info["seat"])
                taken += 1
            if games.plies:
                examples = self._examples[skip]
                examples.append(games.examples(np.array([result])))  # for player_0
                if len(examples) == GAMES_PER_BATCH:
                    training.learn(concatenate(examples))
                    examples.clear()

    def policy_for(self, game: Game) -> Policy:
        """Return the policy in a game: that of the network, without a search."""
        return combine_learners(game, {skip: training.learner for skip, training in self._trainings.items()})
