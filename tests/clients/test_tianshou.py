"""Tianshou: its own test of tic-tac-toe (2.x), PettingZoo's tutorials of it (0.5), and its
collector.
"""

import shutil

import numpy as np
import pytest

tianshou = pytest.importorskip("tianshou")


from ttt_envs import mnk_v0

OLD = int(tianshou.__version__.split(".")[0]) == 0
ID = "ttt_envs:ttt/TicTacToe-v0"


if OLD:

    @pytest.mark.parametrize("name", ["2_training_agents", "3_cli_and_logging"])
    def test_tutorial(name, checkout, python, here):
        """PettingZoo's tutorial `Tianshou/{name}.py`, unchanged, to its end: masked DQN"""
        python(
            here / "stand_in.py",
            checkout("PettingZoo") / "tutorials" / "Tianshou" / f"{name}.py",
            path=[here],
        )

else:

    def test_its_own_test(checkout, their_tests, tmp_path):
        """its `test/pettingzoo/test_tic_tac_toe.py`, unchanged: masked DQN beats random in 60% of
        games
        """
        shutil.copytree(checkout("tianshou") / "test" / "pettingzoo", tmp_path / "theirs")
        their_tests(tmp_path, "theirs/test_tic_tac_toe.py")

    def test_example(example):
        """`examples/tianshou_dqn.py --steps 4000`: masked DQN of the Gymnasium environment, to its
        exact number
        """
        assert set(example("tianshou_dqn.py", "--steps", 4000).results) == {"random", "optimal"}


def test_collector():
    """`Collector` with a random policy that reads the mask, over 8 environments of
    `PettingZooEnv`
    """
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

        env = make()
        policy = MultiAgentOffPolicyAlgorithm(
            algorithms=[Random(action_space=env.action_space) for _ in env.agents], env=env
        )
    buffer = VectorReplayBuffer(20_000, 8)
    collector = Collector(policy, envs, buffer)
    collector.reset()
    collector.collect(n_step=10_000)
    assert len(buffer) == 10_000
    rewards = buffer.rew
    assert set(np.unique(rewards)) == {-1.0, 0.0, 1.0}
    assert (rewards.sum(axis=1) == 0).all()  # no illegal move
