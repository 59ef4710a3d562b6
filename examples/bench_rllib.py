"""RLlib's PPO as an agent of the benchmark ttt-exact, with its masking module.

The environment is a multi-agent one for RLlib: in self-play each player has own decisions and rewards, and one policy
plays for both. RLlib makes environments from a registered name, so the one to learn from is found by a number. Its
runner steps it in this process, until it raises an exception because all steps are taken.

RLlib pins an older Gymnasium, so it needs a virtual environment of its own:

    python -m venv rllib
    rllib/bin/pip install . -r examples/rllib-requirements.txt
    rllib/bin/python evaluate.py bench run --agent examples.bench_rllib:PPO --task random --out submissions/rllib-ppo

The file is examples/bench_rllib.py.
"""

import itertools
import logging

import gymnasium
import numpy as np
import ray
import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

SETTINGS = {
    "train_batch_size_per_learner": 2_000,
    "minibatch_size": 256,
    "num_epochs": 4,
    "lr": 1e-3,
    "lambda_": 0.95,
    "gamma": 1.0,
    "hidden": [128, 128],
}
ENVS, NUMBERS = {}, itertools.count()


class PPO:
    """An agent: of its policy the move of highest probability is played."""

    library, returns, batch = "ray", "values", True

    def __init__(self, task, seed):
        torch.set_num_threads(1)  # for a small net, more threads only wait for each other
        self.hyperparameters, self.seed, self.both = SETTINGS, seed, task.opponent == "self"
        self.module = None

    def learn(self, env, steps):
        """Collect and learn, until the environment ends it."""
        if not ray.is_initialized():
            ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        number = next(NUMBERS)
        ENVS[number] = Players(env, self.both)
        register_env("ttt-exact", find_env)
        training = {name: value for name, value in SETTINGS.items() if name != "hidden"}
        module = RLModuleSpec(
            module_class=ActionMaskingTorchRLModule, model_config={"head_fcnet_hiddens": SETTINGS["hidden"]}
        )
        config = (
            PPOConfig()
            .environment("ttt-exact", env_config={"number": number}, disable_env_checking=True)
            .env_runners(num_env_runners=0)
            .debugging(seed=self.seed, log_level="ERROR")
            .training(**training)
            .multi_agent(policies={"both"}, policy_mapping_fn=lambda agent, *args, **kwargs: "both")
            .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"both": module}))
        )
        algorithm = config.build_algo()
        self.module = algorithm.get_module("both")
        try:
            while True:
                algorithm.train()
        except RuntimeError as problem:  # in which RLlib wraps what an environment raises
            raise problem.__cause__ or problem from None
        finally:
            algorithm.stop()
            del ENVS[number]

    def model(self, observation, mask):
        """Return the logits of all moves for a batch of observations."""
        seen = {"observations": torch.as_tensor(observation), "action_mask": torch.as_tensor(mask, dtype=torch.float32)}
        with torch.no_grad():
            return self.module.forward_inference({"obs": seen})["action_dist_inputs"]


def find_env(config):
    """Return the environment of a number: RLlib copies what makes environments, and not this module."""
    return ENVS[config["number"]]


class Players(MultiAgentEnv):
    """The players as agents "0" and "1" in self-play, else the learner as agent "0"."""

    def __init__(self, env, both):
        super().__init__()
        self.env, self.both = env, both
        cells = env.action_space.n
        seen = gymnasium.spaces.Dict(
            observations=env.observation_space, action_mask=gymnasium.spaces.Box(0, 1, (cells,), np.float32)
        )
        self.agents = self.possible_agents = ["0", "1"] if both else ["0"]
        self.observation_spaces = dict.fromkeys(self.agents, seen)
        self.action_spaces = dict.fromkeys(self.agents, env.action_space)

    def reset(self, *, seed=None, options=None):
        """Begin a game."""
        observation, info = self.env.reset()
        return {self.mover(info): show(observation, info)}, {}

    def step(self, actions):
        """Make the move of the player whose turn it is."""
        [(agent, action)] = actions.items()
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        over = terminated or truncated
        rewards = {one: float(reward) if one == agent else -float(reward) for one in self.agents}
        seen = show(observation, info)
        shown = dict.fromkeys(self.agents, seen) if over else {self.mover(info): seen}  # all agents see the end
        return shown, rewards, {"__all__": terminated}, {"__all__": truncated}, {}

    def mover(self, info):
        """Return the agent that moves next."""
        return str(info["mover"]) if self.both else "0"


def show(observation, info):
    """Return the observation of RLlib's masking module."""
    return {"observations": observation, "action_mask": info["action_mask"].astype(np.float32)}
