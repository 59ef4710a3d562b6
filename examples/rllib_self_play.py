"""RLlib's PPO in self-play on the PettingZoo environment with skipped turns, one masked policy for
both seats.

Its masking module expects the observation under ``observations`` and all arrays as floats; the
wrapper below converts them. At the end, ``as_policy`` wraps the trained net: it returns logits of
all moves, and illegal ones are masked. With skips an agent may not have moved when the game ends;
RLlib gives it no reward, for lack of a step.

RLlib pins an older Gymnasium, so it needs a virtual environment of its own:

    python -m venv rllib
    rllib/bin/pip install . -r examples/rllib-requirements.txt
    rllib/bin/python examples/rllib_self_play.py --steps 16000
"""

import logging
from dataclasses import dataclass

import gymnasium
import numpy as np
import ray
import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
import tyro
from pettingzoo.utils import BaseWrapper
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

from ttt_envs import Game, as_policy, mnk_v0
from ttt_eval.exact import exploitability, result_lines


@dataclass
class Options:
    """What the command line sets."""

    steps: int = 16_000
    """moves that it learns from, of both seats"""
    skip_chance: float = 0.25
    """probability that a turn is skipped"""
    seed: int = 0
    """of all that is drawn"""


options = tyro.cli(Options, description=__doc__)
game = Game(3, 3, 3, options.skip_chance)
batch = 2_000


class Named(BaseWrapper):
    """Names observations as RLlib's masking module expects, with floats."""

    def observation_space(self, agent):
        """Return the space of either agent."""
        stones = gymnasium.spaces.Box(0, 1, (18,), np.float32)
        return gymnasium.spaces.Dict(
            observations=stones, action_mask=gymnasium.spaces.Box(0, 1, (9,), np.float32)
        )

    def observe(self, agent):
        """Return an agent's observation."""
        observation = self.env.observe(agent)
        stones = observation["observation"].ravel()
        mask = observation["action_mask"]
        return {"observations": stones.astype(np.float32), "action_mask": mask.astype(np.float32)}

    def last(self, observe=True):
        """Return the last step of the agent to move."""
        return (self.observe(self.agent_selection), *self.env.last(observe=False)[1:])


ray.init(
    "local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
)
register_env("mnk", lambda config: PettingZooEnv(Named(mnk_v0.env(**config))))
module = RLModuleSpec(
    module_class=ActionMaskingTorchRLModule, model_config={"head_fcnet_hiddens": [128, 128]}
)
config = (
    PPOConfig()
    .environment("mnk", env_config={"skip_chance": options.skip_chance})
    .env_runners(num_env_runners=0)
    .debugging(seed=options.seed, log_level="ERROR")
    .training(
        train_batch_size_per_learner=batch, minibatch_size=256, num_epochs=4, gamma=1.0, lr=1e-3
    )
    .multi_agent(policies={"both"}, policy_mapping_fn=lambda agent, *args, **kwargs: "both")
    .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"both": module}))
)
algorithm = config.build_algo()
learned = algorithm.get_module("both")


def logits(planes, mask):
    """Return the logits of all moves for a batch: planes float32[B, 3, 3, 2], mask int8[B, 9]."""
    inputs = {
        "observations": planes.reshape(len(planes), -1),
        "action_mask": mask.astype(np.float32),
    }
    with torch.no_grad():
        answer = learned.forward_inference(
            {"obs": {name: torch.as_tensor(part) for name, part in inputs.items()}}
        )
    return answer["action_dist_inputs"]


policy = as_policy(logits, game, "planes", "logits", batch=True)
iterations = max(1, options.steps // batch)
for iteration in range(iterations):
    algorithm.train()
    if (iteration + 1) % max(1, iterations // 5) == 0:
        moves = batch * (iteration + 1)
        print(
            f"{moves:8,} moves, exploitability of its distribution "
            f"{exploitability(game, policy):.4f}"
        )

# the legal move of the highest logit
policy = as_policy(logits, game, "planes", "values", batch=True)
print(result_lines(game, policy))
algorithm.stop()
ray.shutdown()
