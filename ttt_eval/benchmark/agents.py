"""Agents that the benchmark trains: their interface, those that have a name here, and Stable-Baselines3 in one line."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from learners.sb3 import DQNConfig, MaskablePPOConfig, PPOConfig, RandomState, load_algorithm, sign_buffer
from ttt_envs.agents.adapters import Returns, as_policy, as_value_function
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import load_object, make_policy
from ttt_envs.core.checks import closest_names
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
from ttt_eval.benchmark.learner_agents import AlphaZeroAgent, LearnerAgent
from ttt_eval.benchmark.scoring import PolicyWithValues, Unmasked
from ttt_eval.benchmark.tasks import Task, TaskEnv

SB3_ALGORITHMS = {config.name: config.algorithm for config in (PPOConfig, DQNConfig, MaskablePPOConfig)}
"""Maps the name of an agent to its algorithm, "package:Class"."""


@runtime_checkable
class Agent(Protocol):
    """What the benchmark trains.

    An agent is also an argument of :func:`ttt_envs.as_policy`: a function of (observation, mask), a network or
    model, or a policy; or its attribute ``model`` is one, which ``learn`` may set; or its method
    ``policy_for(game)`` returns the policy in a game. It may have these attributes:

    - ``env_options``: arguments of the environment, see ``ttt_eval.benchmark.tasks.AGENT_CHOICES``;
    - ``returns``, ``batch``: arguments of ``as_policy``, by default actions, and no batches for functions;
    - ``values(boards)``, or ``critic``, an argument of :func:`ttt_envs.agents.adapters.as_value_function`: values of
      positions for the mover, which the task ``critic`` measures;
    - ``hyperparameters``: JSON-ready settings, which the submission reports;
    - ``library``: name of the package that it is of, whose version the submission reports.
    """

    def learn(self, env: TaskEnv, steps: int) -> object:
        """Learn from so many steps of the environment.

        The environment counts the steps and stores policies between two of them; further steps raise
        :class:`~ttt_eval.benchmark.tasks.BudgetSpent`, which ends the run.
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
    if name in AGENTS:
        return AGENTS[name]
    if ":" not in name:
        near = closest_names(name[:80], AGENTS)
        raise ValueError(f"there is no agent {name[:80]!r}: {near}, or write module:make of your own")
    make: MakeAgent = load_object(name)
    try:
        inspect.signature(make).bind(None, None)
    except TypeError:
        raise ValueError(
            f"{name} is no function of a task and a seed: write make(task, seed), which returns an agent"
        ) from None
    return make


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
    policy = as_policy(model, game, returns=returns, batch=getattr(agent, "batch", False), **shown)
    policy = Unmasked(policy) if task.hides_masks else policy
    owners = [owner for owner in (agent, model) if callable(getattr(owner, "values", None))]
    for critic in (getattr(agent, "critic", None), *owners):
        if critic is not None:
            return PolicyWithValues(policy, as_value_function(critic, game, **shown))
    return policy


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

    def learn(self, env: TaskEnv, steps: int) -> None:
        """Take no step."""


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
        settings: further arguments of the algorithm.
    """

    def __init__(self, algorithm: Any, task: Task, seed: int, policy: str = "MlpPolicy", **settings: Any) -> None:
        self.hyperparameters = {"policy": policy, **settings}
        self.model: Any = None
        self.critic: Any = None
        self.returns: Returns = "actions"
        self._task = task
        self._make = functools.partial(algorithm, policy, seed=seed, device="cpu", verbose=0, **settings)

    def learn(self, env: TaskEnv, steps: int) -> None:
        """Learn; the algorithm may ask for more steps than there are."""
        with RandomState(threads=1):
            if self.model is None:
                self.model = self.critic = self._make(env=env)
                if self._task.opponent == SELF:
                    sign_buffer(env, getattr(self.model, "rollout_buffer", None) or self.model.replay_buffer)
                # a distribution shows how often it errs; DQN has values, and errs where the best action is illegal
                if self._task.hides_masks and hasattr(self.model.policy, "get_distribution"):
                    self.returns = "probabilities"
            self.model.learn(steps, reset_num_timesteps=False)


def make_sb3_agent(name: str, task: Task, seed: int) -> SB3Agent:
    """Return an algorithm with its own default settings, but for the discount, which games do not have.

    Raises:
        ValueError: its package is not installed.
    """
    return SB3Agent(load_algorithm(name, SB3_ALGORITHMS[name]), task, seed, gamma=1.0)


AGENTS: Mapping[str, MakeAgent] = {
    **{name: functools.partial(PolicyAgent, name) for name in ("random", "win-or-block")},
    **{name: functools.partial(LearnerAgent, name) for name in ("q-learning", "naive-mc", "q-net")},
    "alpha-zero": AlphaZeroAgent,
    **{name: functools.partial(make_sb3_agent, name) for name in SB3_ALGORITHMS},
}
"""Agents of this package by name."""
