"""RLlib: PPO of its new stack in self-play with a shared policy, its masking module, and single agents by id."""

import re

import pytest

pytest.importorskip("ray.rllib")
pytest.importorskip("torch")

HEAD = """
import gymnasium
import numpy as np
import ray
from pettingzoo.utils import BaseWrapper
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
"""
SELF_PLAY = """
class Named(BaseWrapper):
    \"\"\"Observations as the masking module of RLlib names them, in floats.\"\"\"

    def observation_space(self, agent):
        stones = gymnasium.spaces.Box(0, 1, (18,), np.float32)
        return gymnasium.spaces.Dict(observations=stones, action_mask=gymnasium.spaces.Box(0, 1, (9,), np.float32))

    def observe(self, agent):
        seen = self.env.observe(agent)
        stones, mask = seen["observation"].ravel(), seen["action_mask"]
        return {"observations": stones.astype(np.float32), "action_mask": mask.astype(np.float32)}

    def last(self, observe=True):
        return (self.observe(self.agent_selection), *self.env.last(observe=False)[1:])


def make(config):
    from ttt_envs import mnk_v0

    return PettingZooEnv(Named(mnk_v0.env(**config)))


register_env("mnk", make)
module = RLModuleSpec(module_class=ActionMaskingTorchRLModule, model_config={"head_fcnet_hiddens": [64, 64]})
config = (
    PPOConfig()
    .environment("mnk", env_config={"skip_chance": 0.25})
    .env_runners(num_env_runners=RUNNERS)
    .debugging(seed=0)
    .training(train_batch_size_per_learner=2000, minibatch_size=256, num_epochs=4)
    .multi_agent(policies={"both"}, policy_mapping_fn=lambda agent, *args, **kwargs: "both")
    .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"both": module}))
)
"""
ONE = """
config = (
    PPOConfig()
    .environment("ttt_envs:ttt/TicTacToe-v0", env_config={"opponent": "random"})
    .env_runners(num_env_runners=RUNNERS)
    .debugging(seed=0)
    .training(train_batch_size_per_learner=2000, minibatch_size=256, num_epochs=4)
)
"""
TAIL = """
algorithm = config.build_algo()
for _ in range(ITERATIONS):
    results = algorithm.train()["env_runners"]
    print("RETURNS", results["episode_return_mean"], results["num_episodes"], results["episode_len_max"])
algorithm.stop()
ray.shutdown()
"""


def train(python, config, runners, iterations):
    """(mean return, games, longest game) of each iteration."""
    text = "".join((HEAD, config, TAIL)).replace("RUNNERS)", f"{runners})").replace("ITERATIONS", str(iterations))
    printed = python("-W", "ignore", "-c", text)
    return [tuple(map(float, words)) for words in re.findall(r"^RETURNS (\S+) (\S+) (\S+)$", printed, re.M)]


def test_self_play(python, timed):
    """PPO of the new stack, `PettingZooEnv` of `mnk_v0` with skips, one policy for both seats, masked, 6,000 steps"""
    with timed(3 * 2000):
        results = train(python, SELF_PLAY, 0, 3)
    assert len(results) == 3
    for _, games, longest in results:
        assert games > 200  # with illegal moves games would be shorter than three moves
        assert longest <= 9


def check(results):
    assert len(results) == 4
    for mean, games, longest in results:
        assert -1 <= mean <= 1
        assert games > 300
        assert longest <= 5  # own moves


def test_one_agent(python, timed):
    """PPO of the new stack on `ttt_envs:ttt/TicTacToe-v0`, 8,000 steps: it gets better"""
    with timed(4 * 2000):
        results = train(python, ONE, 0, 4)
    check(results)
    assert results[-1][0] > results[0][0]


def test_remote_runner(python):
    """the same with a remote runner, whose process finds the id by its prefix"""
    check(train(python, ONE, 1, 4))  # not timed: what Ray starts is not ours to wait for


def test_example(example, timed):
    """`examples/rllib_self_play.py --steps 4000`: masked self-play with skips, to its exact number"""
    with timed(4000):
        assert set(example("rllib_self_play.py", "--steps", 4000).results) == {"random", "optimal"}
