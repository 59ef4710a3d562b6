"""TorchRL: its checkers, masks, both wrappers, and PPO in an example and as an agent of the
benchmark.
"""

import shutil

import pytest

pytest.importorskip("torchrl")

import gymnasium
import torch
from torchrl.envs import (
    ActionMask,
    Compose,
    DTypeCastTransform,
    GymEnv,
    GymWrapper,
    PettingZooWrapper,
    TransformedEnv,
    check_env_specs,
)

from ttt_envs import mnk_v0
from ttt_envs.envs.registration import PRESETS

ID = "ttt_envs:ttt/TicTacToe-v0"


def masked(name=ID, **kwargs):
    """A Gymnasium environment with the legal actions in TorchRL's form."""
    env = GymEnv(name, observation="dict", categorical_action_encoding=True, **kwargs)
    to_bool = DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
    return TransformedEnv(env, Compose(to_bool, ActionMask()))


@pytest.mark.parametrize("name", PRESETS)
def test_checker(name):
    """`check_env_specs` of `GymEnv` on all ids, with flat observations and with masks"""
    check_env_specs(GymEnv(f"ttt_envs:{name}"))
    env = masked(f"ttt_envs:{name}", illegal_action="raise")
    check_env_specs(env)
    rewards = env.rollout(100, break_when_any_done=False)["next", "reward"]
    assert set(rewards.unique().tolist()) <= {-1.0, 0.0, 1.0}


def test_vectors_of_its_own():
    """`check_env_specs` of `GymEnv` with `num_envs=2`, which also reads infos"""
    check_env_specs(GymEnv(ID, num_envs=2))


def test_masked_vectors():
    """`GymWrapper` of `make_vec` with 64 games and masks, `AutoresetMode.DISABLED`:
    `check_env_specs`, rollouts
    """
    mode = gymnasium.vector.AutoresetMode.DISABLED
    envs = gymnasium.make_vec(ID, num_envs=64, observation="dict", autoreset_mode=mode)
    env = GymWrapper(envs, categorical_action_encoding=True)
    to_bool = DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
    env = TransformedEnv(env, Compose(to_bool, ActionMask()))
    check_env_specs(env)
    rollout = env.rollout(100, break_when_any_done=False)
    assert rollout.batch_size == (64, 100)
    chosen = rollout["action_mask"].gather(-1, rollout["action"].unsqueeze(-1))
    assert chosen.all()
    assert rollout["next", "done"].sum() > 1000
    assert set(rollout["next", "reward"].unique().tolist()) == {-1.0, 0.0, 1.0}


def test_pettingzoo():
    """`PettingZooWrapper` of `mnk_v0`: `check_env_specs`, masked rollouts with skips"""
    env = PettingZooWrapper(mnk_v0.env(skip_chance=0.25), use_mask=True)
    check_env_specs(env)
    masks = (
        ActionMask(action_key=(name, "action"), mask_key=(name, "action_mask"))
        for name in env.group_map
    )
    rollout = TransformedEnv(env, Compose(*masks)).rollout(1000, break_when_any_done=False)
    first, second = (rollout["next", name, "reward"] for name in env.group_map)
    assert set(first.unique().tolist()) == {-1.0, 0.0, 1.0}
    assert (first + second == 0).all()  # no illegal move


def test_its_own_test(checkout, their_tests, tmp_path):
    """its `test/libs/test_multiagent.py` of tic-tac-toe, unchanged, on `mnk_v0`"""
    shutil.copytree(checkout("rl") / "test", tmp_path / "test")
    their_tests(
        tmp_path / "test", "libs/test_multiagent.py", "-k", "test_envs_one_group_aec and tictactoe"
    )


def test_example(example):
    """`examples/torchrl_ppo.py --steps 4096`: masked PPO, to its exact number"""
    assert set(example("torchrl_ppo.py", "--steps", 4096).results) == {"random", "optimal"}
