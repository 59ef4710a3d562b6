"""Tianshou: its own test of tic-tac-toe (2.x), PettingZoo's tutorials of it (0.5), and its collector."""

import shutil
from functools import partial

import numpy as np
import pytest

tianshou = pytest.importorskip("tianshou")

import gymnasium

from ttt_envs import mnk_v0

OLD = int(tianshou.__version__.split(".")[0]) == 0
ID = "ttt_envs:ttt/TicTacToe-v0"


if OLD:

    @pytest.mark.parametrize("name", ["2_training_agents", "3_cli_and_logging"])
    def test_tutorial(name, checkout, python, here):
        """PettingZoo's tutorial `Tianshou/{name}.py`, unchanged, to its end: masked DQN"""
        python(here / "stand_in.py", checkout("PettingZoo") / "tutorials" / "Tianshou" / f"{name}.py", path=[here])

else:

    def test_its_own_test(checkout, their_tests, tmp_path):
        """its `test/pettingzoo/test_tic_tac_toe.py`, unchanged: masked DQN beats random in 60% of games"""
        shutil.copytree(checkout("tianshou") / "test" / "pettingzoo", tmp_path / "theirs")
        their_tests(tmp_path, "theirs/test_tic_tac_toe.py")

    def test_example(example):
        """`examples/tianshou_dqn.py --steps 4000`: masked DQN of the Gymnasium environment, to its exact number"""
        assert set(example("tianshou_dqn.py", "--steps", 4000).results) == {"random", "optimal"}


def test_collector():
    """`Collector` with a random policy that reads the mask, over 8 environments of `PettingZooEnv`"""
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.env.pettingzoo_env import PettingZooEnv

    def make():
        return PettingZooEnv(mnk_v0.env(skip_chance=0.25))

    envs = DummyVectorEnv([make for _ in range(8)])
    envs.seed(0)
    if OLD:
        from tianshou.policy import MultiAgentPolicyManager, RandomPolicy

        policy = MultiAgentPolicyManager([RandomPolicy(), RandomPolicy()], make())
    else:
        from tianshou.algorithm import MARLRandomDiscreteMaskedOffPolicyAlgorithm as Random
        from tianshou.algorithm import MultiAgentOffPolicyAlgorithm

        one = make()
        policy = MultiAgentOffPolicyAlgorithm(
            algorithms=[Random(action_space=one.action_space) for _ in one.agents], env=one
        )
    buffer = VectorReplayBuffer(20_000, 8)
    collector = Collector(policy, envs, buffer)
    collector.reset()
    collector.collect(n_step=10_000)
    assert len(buffer) == 10_000
    rewards = buffer.rew
    assert set(np.unique(rewards)) == {-1.0, 0.0, 1.0}
    assert (rewards.sum(axis=1) == 0).all()  # no illegal move


def test_gymnasium_collector():
    """`Collector` over 8 environments of Gymnasium, `info` stacked over time with its masks and numbers"""
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv

    envs = DummyVectorEnv([lambda: gymnasium.make(ID) for _ in range(8)])
    envs.seed(0)
    if OLD:
        from tianshou.policy import RandomPolicy as Random
    else:
        from tianshou.algorithm.random import MARLRandomDiscreteMaskedOffPolicyAlgorithm

        Random = partial(MARLRandomDiscreteMaskedOffPolicyAlgorithm, action_space=envs.action_space[0])  # noqa: N806
    policy = Random()  # not asked: with random=True the collector samples the space
    buffer = VectorReplayBuffer(4000, 8)
    collector = Collector(policy, envs, buffer)
    collector.reset()
    collector.collect(n_step=4000, random=True)
    assert len(buffer) == 4000
    batch = buffer.sample(0)[0]
    assert batch.info.action_mask.shape == (4000, 9)
    assert set(np.unique(batch.info.result)) <= set(range(-1, 6))
