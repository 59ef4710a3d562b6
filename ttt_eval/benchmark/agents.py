"""Agents that the benchmark trains: their interface, learners of this package, and
Stable-Baselines3 in one line.
"""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict
from statistics import fmean
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from learners.alpha_zero.self_play import SelfPlay, SelfPlayGames, TrainingExamples
from learners.config import load_learner
from learners.ppo import PPO, PPOTraining
from learners.sb3 import (
    DQNConfig,
    MaskablePPOConfig,
    PPOConfig,
    RandomState,
    load_algorithm,
    sign_buffer,
)
from learners.training import Decisions, check_opposite_values, make_initial_rng, make_rng
from ttt_envs.agents.adapters import Returns, as_policy, as_value_function
from ttt_envs.agents.policy import GreedyPolicy, Policy, PolicyWrapper
from ttt_envs.agents.specs import load_object, make_policy
from ttt_envs.core.checks import Refusal, find_named
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.records import concatenate
from ttt_envs.envs.config import SELF
from ttt_envs.game.actions import num_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import NOT_OVER
from ttt_eval.benchmark.scoring import Unmasked
from ttt_eval.benchmark.tasks import Task, TaskEnv

GAMES_PER_BATCH, UPDATES_PER_BATCH = 64, 50
"""Games between updates of AlphaZero and their number: as many updates per game as by default,
which makes them after 256 games."""
ROLLOUT = 1_024
"""Number of steps between updates of PPO."""
ROW = np.zeros(1, np.int64)
"""The number of the only game."""


@runtime_checkable
class Agent(Protocol):
    """What the benchmark trains.

    An agent is also an argument of :func:`ttt_envs.as_policy`: a function of (observation, mask), a
    network or model, or a policy; or its attribute ``model`` is one, which ``learn`` may set; or
    its method ``policy_for(game)`` returns the policy in a game. It may have these attributes:

    - ``env_options``: arguments of the environment, see ``ttt_eval.benchmark.tasks.AGENT_CHOICES``;
    - ``returns``, ``batch``: arguments of ``as_policy``, by default actions, and no batches for
      functions;
    - ``critic``, an argument of :func:`ttt_envs.agents.adapters.as_value_function`: values of
      positions for the mover, which the task ``critic`` measures; by default those of its policy,
      if it has ``values``;
    - ``hyperparameters``: JSON-ready settings, which the submission reports;
    - ``library``: name of the package that it is of, whose version the submission reports.
    """

    def learn(self, env: TaskEnv, steps: int) -> object:
        """Learn from so many steps of the environment.

        The environment counts the steps and stores policies between two of them; further steps
        raise :class:`~ttt_eval.benchmark.tasks.BudgetSpent`, which ends the run.
        """
        ...


MakeAgent = Callable[[Task, int], Agent]
"""makes an untrained agent for a task and a seed"""


def load_agent(name: str) -> MakeAgent:
    """Return the function that makes an agent.

    Args:
        name: one of :data:`AGENTS`, or ``"module:make"``, whose code is run.

    Raises:
        ValueError: there is none.
    """
    if ":" not in name:
        return find_named("agent or module:make", name, AGENTS)
    make: MakeAgent = load_object(name)
    try:
        inspect.signature(make).bind(None, None)
    except (TypeError, ValueError):
        raise Refusal(
            f"{name} is no function of a task and a seed: write make(task, seed), which returns an "
            "agent"
        ) from None
    return make


def agent_policy(agent: Agent, task: Task, game: AnyGame) -> Policy:
    """Return the agent's policy in a game, with ``values`` if the agent has them.

    In a task without masks its probabilities are those before masking, over all cells.

    Raises:
        TypeError, ValueError: the agent is no argument of ``as_policy``.
    """
    model = (
        agent.policy_for(game) if hasattr(agent, "policy_for") else getattr(agent, "model", agent)
    )
    options = getattr(agent, "env_options", {})
    arguments: dict[str, Any] = {
        "observe_skip_chance": task.observe_skip_chance,
        **{name: options[name] for name in ("observation", "dtype") if name in options},
    }
    policy = as_policy(
        model,
        game,
        returns=getattr(agent, "returns", "actions"),
        batch=getattr(agent, "batch", False),
        **arguments,
    )
    if task.hides_masks:
        policy = Unmasked(policy)
    critic = getattr(agent, "critic", None)
    if critic is not None:
        policy = PolicyWrapper(policy)  # the agent's own stays as it is
        policy.values = as_value_function(critic, game, **arguments)
    return policy


# --------------------------------------------------------------------------------------------------
# Agents of this package


class PolicyAgent:
    """A policy that does not learn.

    Args:
        spec: its spec string.
        task: the task.
        seed: without effect.
    """

    def __init__(self, spec: str, task: Task, seed: int) -> None:
        self.model = make_policy(spec, task.games[0])

    def learn(self, env: TaskEnv, steps: int) -> None:
        """Take no step."""


class GameAgent:
    """Learns game by game. Subclasses choose moves, and learn from results.

    In a task that shows the skip chance there is a learner for each value of it. In a game with
    another skip chance the agent plays by action values that are interpolated between them. In any
    other task there is one learner, whose game has the mean skip chance.

    Args:
        task: the task.
        name: of the learner.
        settings: of the learner, those that are not the default ones, also in self-play.
        defaults: default settings of the agent, in place of those of the learner.

    Attributes:
        config: the settings of the learner in the task.
        hyperparameters: see :class:`Agent`.
        learners: by the skip chance of their games.

    Raises:
        TypeError: there is no such setting.
        ValueError: there is no such learner, or a setting is invalid.
    """

    env_options: Mapping[str, Any] = {"observation": "flat"}
    learners: Mapping[float, Any]

    def __init__(self, task: Task, name: str, settings: Mapping[str, Any], **defaults: Any) -> None:
        self._task = task
        kind = load_learner(name)
        own = {**defaults, **settings}
        self_play = dict(kind.self_play)
        if task.phantom:  # players see different boards: none learns from every ply
            self_play.pop("backup", None)
        self_play |= own
        self.config: Any = kind(**(self_play if task.opponent == SELF else own))
        self.config.check_game(task.games[0])
        self.hyperparameters = {**asdict(kind(**own)), "self_play": self_play}
        skips = (
            sorted(set(task.skip_chances))
            if task.observe_skip_chance
            else [fmean(task.skip_chances)]
        )
        self._games = [task.game_at(skip) for skip in skips]

    def learn(self, env: TaskEnv, steps: int) -> None:
        """Play and learn until so many steps are taken; what follows the last finished game may not
        be learned from.
        """
        is_over = True
        skip = 0.0
        for _ in range(steps):
            if is_over:
                observation, info = env.reset()
                skip = info["skip_chance"] if len(self._games) > 1 else self._games[0].skip_chance
                self.begin(skip)
            is_open = info["result"] == NOT_OVER  # else the opponent has won before the first move
            cell = self._choose(skip, self.boards(observation, info)) if is_open else 0
            observation, reward, terminated, truncated, info = env.step(
                cell % num_actions(self._games[0])  # with gravity the column
            )
            is_over = terminated or truncated
            if is_over and is_open:
                self._end(skip, info["seat"], float(reward))

    def begin(self, skip: float) -> None:
        """Begin a game, of the learner for a skip chance."""

    def _choose(self, skip: float, boards: Boards) -> int:
        """Return the move in a position, a batch of one."""
        raise NotImplementedError

    def _end(self, skip: float, seat: int, reward: float) -> None:
        """End a game with a reward to the agent's seat, of both that which moved last."""
        raise NotImplementedError

    def boards(self, observation: NDArray[np.float32], info: Mapping[str, Any]) -> Boards:
        """Return the position in which the agent moves, a batch of one."""
        cells = self._task.games[0].cells
        mover = info["mover"]
        own, other = observation[: 2 * cells].reshape(2, cells)
        stones = own * (1 + mover) + other * (2 - mover)
        return Boards(stones.astype(np.int8)[None], np.array([mover], np.int8))

    def policy_for(self, game: Game) -> Policy:
        """Return the policy in a game: that of the only learner, or one that is interpolated."""
        if len(self.learners) > 1:
            return InterpolatedPolicy(game, self.learners)
        policy: Policy = next(iter(self.learners.values()))
        return policy


class LearnerAgent(GameAgent):
    """A learner that learns from transitions.

    Args:
        name: of the learner.
        task: the task.
        seed: of the learner.
        settings: those that are not the default ones, of self-play in a task of self-play.

    Raises:
        ValueError: there is no such learner, it trains in a loop of its own, or a setting is
            invalid.
    """

    def __init__(self, name: str, task: Task, seed: int, **settings: Any) -> None:
        super().__init__(task, name, settings)
        if self.config.loop:
            raise Refusal(
                f"{name} trains in a loop of its own: choose one that evaluate.py list agents names"
            )
        self.learners = {
            game.skip_chance: self.config.build(game, make_initial_rng(seed))
            for game in self._games
        }
        rng = make_rng(seed, 1)
        self._decisions = {
            skip: Decisions(learner, 1, rng) for skip, learner in self.learners.items()
        }

    def _choose(self, skip: float, boards: Boards) -> int:
        return int(self._decisions[skip].act(ROW, boards)[0])

    def _end(self, skip: float, seat: int, reward: float) -> None:
        self._decisions[skip].end(ROW, np.array([seat], np.int8), np.array([reward]))


class AlphaZeroAgent(GameAgent):
    """AlphaZero, which knows the rules, and searches before each move.

    A step is a move that it plays in the environment. Simulations of its searches are no steps:
    they use the rules of the game, also those of skips, and never the environment or its opponent.
    The search takes the other player to move as it does itself. The policy is that of the network,
    without a search.

    Args:
        task: the task.
        seed: of weights, exploration and minibatches.
        settings: those of AlphaZero that are not the default ones.
    """

    def __init__(self, task: Task, seed: int, **settings: Any) -> None:
        super().__init__(task, "alpha-zero", settings, gradient_steps=UPDATES_PER_BATCH)
        self.hyperparameters |= {"games_per_batch": GAMES_PER_BATCH, "knows_rules": True}
        self._trainings = {
            game.skip_chance: SelfPlay(
                self.config.build(game, make_initial_rng(seed)),
                task.steps,
                batch=GAMES_PER_BATCH,
                seed=seed,
            )
            for game in self._games
        }
        self.learners = {skip: training.learner for skip, training in self._trainings.items()}
        self._examples: defaultdict[float, list[TrainingExamples]] = defaultdict(list)
        self._rng = make_rng(seed, 2)

    def begin(self, skip: float) -> None:
        """Begin a game, of the learner for a skip chance."""
        key = self._rng.integers(2**64, size=1, dtype=np.uint64)
        learner = self.learners[skip]
        self._game = SelfPlayGames(self.config, learner.game, learner, key)

    def _choose(self, skip: float, boards: Boards) -> int:
        return int(self._game.choose_moves(ROW, boards)[0])

    def _end(self, skip: float, seat: int, reward: float) -> None:
        examples = self._examples[skip]
        examples.append(self._game.examples(np.array([reward * (1 - 2 * seat)])))  # for player_0
        if len(examples) == GAMES_PER_BATCH:
            self._trainings[skip].learn(concatenate(examples))
            examples.clear()


class TaskTraining(PPOTraining):
    """PPO in the environment of a task, in place of games of its own. Its progress is counted in
    steps.

    Args:
        learner: the learner.
        agent: reads the positions.
        env: the environment.
        steps: of the whole training.
        seed: of exploration and minibatches.
    """

    def __init__(self, learner: PPO, agent: GameAgent, env: TaskEnv, steps: int, seed: int) -> None:
        super().__init__(learner, SELF, steps, seed=seed)
        self._games: Any = self  # a batch of one
        self._agent = agent
        self._env = env
        self._latest = env.reset()

    def views(self, rows: Int64Array) -> Boards:
        """Return the position."""
        return self._agent.boards(*self._latest)

    def column(self, name: str) -> Any:
        """Return the outcome, which is known before the first move if the opponent has won."""
        return self._latest[1]["result"]

    def move(self, rows: Int64Array, cells: Int64Array) -> Int64Array:
        """Take a step; see :class:`~learners.training.GamesTraining`."""
        observation, reward, terminated, truncated, info = self._env.step(
            cells.sum() % num_actions(self.learner.game)
        )
        self._latest = observation, info
        self._output["rewards"][:] = reward
        self.done.games += 1
        return np.flatnonzero([terminated or truncated])

    def end(self, rows: Int64Array) -> None:
        """Begin the next game if one has ended."""
        if len(rows):
            self._latest = self._env.reset()


class PPOAgent(GameAgent):
    """Proximal policy optimization with masked moves, of this package. Its net does not see the
    skip chance.

    Args:
        task: the task.
        seed: of weights, exploration and minibatches.
        settings: those of PPO that are not the default ones, of self-play in a task of self-play.
    """

    def __init__(self, task: Task, seed: int, **settings: Any) -> None:
        super().__init__(task, "ppo", settings, rollout=ROLLOUT)
        self.learners = {0.0: self.config.build(task.games[0], make_initial_rng(seed))}
        self._seed = seed

    def learn(self, env: TaskEnv, steps: int) -> None:
        """Play rollouts, and learn from them, until the environment ends it."""
        training = TaskTraining(self.learners[0.0], self, env, steps, self._seed)
        while True:
            training.step()


class ExactAgent(GameAgent):
    """A table with exact policy gradients, or exact self-play, which knows the rules and takes no
    step.

    It learns in the first game that is scored, against the first opponent.

    Args:
        task: the task.
        seed: of the initial logits.
        settings: those that are not the default ones, of self-play in a task of self-play.

    Raises:
        MemoryError: a board that is too large for a table, such as 4 x 4.
    """

    def __init__(self, task: Task, seed: int, **settings: Any) -> None:
        super().__init__(task, "exact-pg", settings)
        self.hyperparameters |= {"updates": self.config.self_play_games, "knows_rules": True}
        self._training = self.config.training(
            task.games[0],
            self.config.self_play_games,
            batch=1,
            seed=seed,
            opponent=task.stages[0][0],
            seat=task.seat,
        )
        self.learners = {0.0: self._training.learner}

    def learn(self, env: TaskEnv, steps: int) -> None:
        """Make all updates, and take no step."""
        self._training.run()


class InterpolatedPolicy(GreedyPolicy):
    """Greedy play by action values, which are interpolated linearly between learners of other skip
    chances.

    Below the lowest skip chance and above the highest one it plays by the action values of that
    learner.

    Args:
        game: the game to play.
        learners: policies with action values, by the skip chance at which they learned.
    """

    colour_blind = True

    def __init__(self, game: Game, learners: Mapping[float, Any]) -> None:
        skips = sorted(learners)
        weights = [np.interp(game.skip_chance, skips, unit) for unit in np.eye(len(skips))]
        self._parts = [
            (learners[skip], weight)
            for skip, weight in zip(skips, weights, strict=True)
            if weight > 0
        ]

    def action_values(self, boards: Boards) -> Float64Array:
        """Return float64[B, cells] from the mover's view, NaN where illegal."""
        return np.asarray(
            sum(weight * learner.action_values(boards) for learner, weight in self._parts)
        )


# --------------------------------------------------------------------------------------------------
# Stable-Baselines3


class SB3Agent:
    """An algorithm of Stable-Baselines3 or sb3-contrib.

    In self-play its buffers get the sign of the next position's value, which is mostly the
    opponent's. It runs on one thread of torch, so that the same seed gives the same agent.

    Args:
        algorithm: the class, such as ``PPO``.
        task: the task.
        seed: of the algorithm.
        policy: of the algorithm.
        settings: further arguments of the algorithm.

    Raises:
        TypeError: it has no such argument.
    """

    def __init__(
        self, algorithm: Any, task: Task, seed: int, policy: str = "MlpPolicy", **settings: Any
    ) -> None:
        inspect.signature(algorithm).bind_partial(**settings)
        if task.opponent == SELF:
            check_opposite_values(task.games[0], "choose tasks without hidden stones")
        self.hyperparameters = {"policy": policy, **settings}
        self.library = algorithm.__module__.partition(".")[0]
        self.model: Any = None
        self.returns: Returns = "actions"
        self._task = task
        self._make = functools.partial(
            algorithm, policy, seed=seed, device="cpu", verbose=0, **settings
        )

    def learn(self, env: TaskEnv, steps: int) -> None:
        """Learn; the algorithm may ask for more steps than there are."""
        with RandomState(threads=1):
            if self.model is None:
                self.model = self.critic = self._make(env=env)
                if self._task.opponent == SELF:
                    sign_buffer(
                        env, getattr(self.model, "rollout_buffer", None) or self.model.replay_buffer
                    )
                # a distribution shows how often it errs; DQN has values, and errs where the best
                # action is illegal
                if self._task.hides_masks and hasattr(self.model.policy, "get_distribution"):
                    self.returns = "probabilities"
            self.model.learn(steps, reset_num_timesteps=False)


def make_sb3_agent(config: Any, task: Task, seed: int, **settings: Any) -> SB3Agent:
    """Return the algorithm of a learner with its own default settings, but for the discount, which
    games do not have, and those given.

    Raises:
        TypeError: there is no such setting.
        ValueError: its package is not installed.
    """
    settings = {"gamma": 1.0, **settings}
    return SB3Agent(load_algorithm(config.name, config.algorithm), task, seed, **settings)


AGENTS: Mapping[str, MakeAgent] = {
    **{name: functools.partial(PolicyAgent, name) for name in ("random", "win-or-block")},
    **{name: functools.partial(LearnerAgent, name) for name in ("q-learning", "naive-mc", "q-net")},
    "alpha-zero": AlphaZeroAgent,
    "ppo": PPOAgent,
    "exact-pg": ExactAgent,
    **{
        config.name: functools.partial(make_sb3_agent, config)
        for config in (PPOConfig, DQNConfig, MaskablePPOConfig)
    },
}
"""Agents of this package by name."""
