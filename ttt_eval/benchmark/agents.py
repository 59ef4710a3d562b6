"""Agents that the benchmark trains: their interface, those that have a name here, and Stable-Baselines3 in one line."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np

from learners import LEARNERS
from learners.config import load_learner
from learners.sb3 import DQNConfig, MaskablePPOConfig, PPOConfig, RandomState, load_algorithm, sign_buffer
from learners.training import Decisions, make_initial_rng
from ttt_envs.agents.adapters import Returns, as_policy, as_value_function
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import load_object, make_policy
from ttt_envs.core.checks import closest_names
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.rules import NOT_OVER
from ttt_eval.benchmark.episodes import (
    OBSERVATION,
    combine_learners,
    episode_skip_chance,
    games_to_learn,
    read_boards,
)
from ttt_eval.benchmark.illegal_moves import Unmasked
from ttt_eval.benchmark.scoring import PolicyWithValues
from ttt_eval.benchmark.tasks import Task

Env = gymnasium.Env[Any, Any]
SB3_ALGORITHMS = {config.name: config.algorithm for config in (PPOConfig, DQNConfig, MaskablePPOConfig)}
"""Maps the name of an agent to its algorithm, "package:Class"."""
POLICIES = ("random", "win-or-block")
LEARNER_NAMES = ("q-learning", "naive-mc", "q-net")
"""learners that learn from transitions"""
ALPHA_ZERO = "alpha-zero"
AGENTS = (*POLICIES, *LEARNER_NAMES, ALPHA_ZERO, *SB3_ALGORITHMS)
"""names of agents of this package"""


@runtime_checkable
class Agent(Protocol):
    """What the benchmark trains.

    An agent is also an argument of :func:`ttt_envs.as_policy`: a function of (observation, mask), a model with
    ``predict``, or a policy; or its attribute ``model`` is one, which ``learn`` may set; or its method
    ``policy_for(game)`` returns the policy in a game. It may have these attributes:

    - ``env_options``: arguments of the environment, see ``ttt_eval.benchmark.tasks.AGENT_CHOICES``;
    - ``returns``, ``batch``: arguments of ``as_policy``, by default actions, and no batches for functions;
    - ``values(boards)``, or ``critic``, an argument of :func:`ttt_envs.agents.adapters.as_value_function`: values of
      positions for the mover, which the task ``critic`` measures;
    - ``hyperparameters``: JSON-ready settings, which the submission reports;
    - ``library``: name of the package that it is of, whose version the submission reports.
    """

    def learn(self, env: Env, steps: int) -> object:
        """Learn from so many steps of the environment.

        The environment counts the steps and stores policies between two of them; further steps raise
        :class:`~ttt_eval.benchmark.runs.BudgetSpent`, which ends the run.
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
    if name in POLICIES:
        return functools.partial(PolicyAgent, name)
    if name in LEARNER_NAMES:
        return functools.partial(LearnerAgent, name)
    if name == ALPHA_ZERO:
        from ttt_eval.benchmark.alpha_zero_agent import AlphaZeroAgent

        return AlphaZeroAgent
    if name in SB3_ALGORITHMS:
        return functools.partial(_make_sb3_baseline, name)
    if ":" not in name:
        near = closest_names(name[:80], AGENTS)
        raise ValueError(f"there is no agent {name[:80]!r}: {near}, or write module:make of your own")
    make: MakeAgent = load_object(name)
    if not callable(make) or not _takes_two_arguments(make):
        raise ValueError(f"{name} is no function of a task and a seed: write make(task, seed), which returns an agent")
    return make


def _takes_two_arguments(make: Callable[..., Any]) -> bool:
    """Return whether a function can be called with two arguments, as far as its signature is known."""
    try:
        inspect.signature(make).bind(None, None)
    except ValueError:  # of a function in C that has none
        return True
    except TypeError:
        return False
    return True


def source_hash(name: str) -> str:
    """Return the SHA-256 of the file that defines the agent ``module:make``; "" for an agent of this package."""
    if ":" not in name:
        return ""
    try:
        return hashlib.sha256(Path(inspect.getfile(inspect.unwrap(load_agent(name)))).read_bytes()).hexdigest()
    except (TypeError, OSError):  # a callable without a file
        return ""


def agent_policy(agent: Agent, task: Task, game: Game) -> Policy:
    """Return the agent's policy in a game, with ``values`` if the agent has them.

    In a task without masks its probabilities are those before masking, over all cells.

    Raises:
        TypeError, ValueError: the agent is no argument of ``as_policy``.
    """
    model = agent.policy_for(game) if hasattr(agent, "policy_for") else getattr(agent, "model", agent)
    options = dict(getattr(agent, "env_options", {}))
    shown: dict[str, Any] = {"observe_skip_chance": task.observe_skip_chance}
    shown |= {name: options[name] for name in ("observation", "dtype") if name in options}
    returns: Returns = getattr(agent, "returns", "actions")
    policy = as_policy(model, game, returns=returns, batch=getattr(agent, "batch", None), **shown)
    values = _value_function(agent, model, game, shown)
    if task.hides_masks:
        policy = Unmasked(policy)
    return policy if values is None else PolicyWithValues(policy, values)


def _value_function(
    agent: Agent, model: Any, game: Game, shown: Mapping[str, Any]
) -> Callable[[Boards], Float64Array] | None:
    critic = getattr(agent, "critic", None)
    if critic is not None:
        return as_value_function(critic, game, **shown)
    for owner in (agent, model):
        if callable(getattr(owner, "values", None)):
            return as_value_function(owner, game)
    return None


# ---------------------------------------------------------------------------------------------------------------------
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
        self.hyperparameters: dict[str, Any] = {}

    def learn(self, env: Env, steps: int) -> None:
        """Take no step."""


class LearnerAgent:
    """A learner of this package, which learns game by game from a Gymnasium environment.

    In a task that shows the skip chance there is a learner for each value of it. In a game with another skip chance
    the agent plays by action values that are interpolated between them.

    Args:
        name: of the learner.
        task: the task.
        seed: of the learner.
        settings: those that are not the default ones, of self-play in a task of self-play.

    Raises:
        ValueError: there is no such learner, it trains in a loop of its own, or a setting is invalid.
    """

    def __init__(self, name: str, task: Task, seed: int, **settings: Any) -> None:
        kind = load_learner(name)
        defaults = kind.self_play if task.opponent == SELF else {}
        config = kind(**{**defaults, **settings})
        if config.loop:
            raise ValueError(f"{name} trains in a loop of its own: choose one of {', '.join(LEARNERS)} that does not")
        self.env_options = {"observation": OBSERVATION}
        self.hyperparameters = {**asdict(kind(**settings)), "self_play": dict(kind.self_play)}
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        self._task = task
        self.learners: dict[float, Any] = {
            game.skip_chance: config.build(game, make_initial_rng(seed)) for game in games_to_learn(task)
        }
        self._decisions = {skip: Decisions(learner, 1, rng) for skip, learner in self.learners.items()}

    def learn(self, env: Env, steps: int) -> None:
        """Play and learn until so many steps are taken."""
        only = np.zeros(1, np.int64)
        observation, info = env.reset()
        for _ in range(steps):
            decisions = self._decisions[episode_skip_chance(self._task, self._decisions, observation)]
            begun = info["result"] == NOT_OVER  # else the opponent has won before the first move
            action = int(decisions.act(only, read_boards(self._task, observation, info))[0]) if begun else 0
            observation, reward, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                if begun:
                    last = np.array([info["seat"]], np.int8)
                    decisions.end(only, last, np.array([reward], np.float64))
                observation, info = env.reset()

    def policy_for(self, game: Game) -> Policy:
        """Return the policy in a game."""
        return combine_learners(game, self.learners)


# ---------------------------------------------------------------------------------------------------------------------
# Stable-Baselines3


class SB3Agent:
    """An algorithm of Stable-Baselines3 or sb3-contrib.

    In self-play its buffers get the sign of the next position's value, which is mostly the opponent's. It runs on one
    thread of torch, so that the same seed gives the same agent.

    Args:
        algorithm: the class, such as ``PPO``.
        task: the task.
        seed: of the algorithm.
        policy: of the algorithm.
        env_options: arguments of the environment.
        settings: further arguments of the algorithm.
    """

    def __init__(
        self,
        algorithm: Any,
        task: Task,
        seed: int,
        policy: str = "MlpPolicy",
        env_options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.env_options = dict(env_options or {})
        self.hyperparameters = {"policy": policy, **settings}
        self.model: Any = None
        self.critic: Any = None
        self._make = functools.partial(algorithm, policy, seed=seed, device="cpu", verbose=0, **settings)
        self._both = task.opponent == SELF
        # without masks a distribution shows how often it errs; DQN has values, and errs where the best is illegal
        self._distribution = task.hides_masks
        self.returns: Returns = "actions"

    def learn(self, env: Env, steps: int) -> None:
        """Learn; the algorithm may ask for more steps than there are."""
        with RandomState(threads=1):
            if self.model is None:
                self._begin(SignedEnv(env))
            self.model.learn(steps, reset_num_timesteps=False)

    def _begin(self, env: SignedEnv) -> None:
        self.model = self.critic = self._make(env=env)
        if self._both:
            sign_buffer(env, getattr(self.model, "rollout_buffer", None) or self.model.replay_buffer)
        if self._distribution and hasattr(self.model.policy, "get_distribution"):
            self.returns = "probabilities"


class SignedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Shows after each step the sign of the next position's value, which buffers of self-play need.

    Attributes:
        discount: float32[1]: 0 if the game is over, +1 if the same player moves again, -1 if the other one does.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.discount = np.ones(1, np.float32)
        self._mover = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See :class:`gymnasium.Env`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._mover = info["mover"]
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See :class:`gymnasium.Env`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        over = terminated or truncated
        self.discount = np.array([0 if over else 1 if info["mover"] == self._mover else -1], np.float32)
        self._mover = info["mover"]
        return observation, reward, terminated, truncated, info


def _make_sb3_baseline(name: str, task: Task, seed: int) -> SB3Agent:
    """Return an algorithm with its own default settings, but for the discount, which games do not have."""
    return SB3Agent(load_algorithm(name, SB3_ALGORITHMS[name]), task, seed, gamma=1.0)
