"""TorchRL: its checkers, masks, both wrappers, and PPO."""

import shutil

import pytest

pytest.importorskip("torchrl")

import gymnasium
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import (
    ActionMask,
    Compose,
    DTypeCastTransform,
    FlattenObservation,
    GymEnv,
    GymWrapper,
    PettingZooWrapper,
    TransformedEnv,
    check_env_specs,
)
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

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


def test_vectors():
    """`GymWrapper` of `make_vec` with 8 games, autoreset in the same step"""
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.make_vec(ID, num_envs=8, autoreset_mode=mode)
    rollout = GymWrapper(envs, categorical_action_encoding=True).rollout(50, break_when_any_done=False)
    assert rollout.batch_size == (8, 50)
    assert rollout["next", "done"].any()


def test_masked_vectors(timed):
    """`GymWrapper` of `make_vec` with 64 games and masks, `AutoresetMode.DISABLED`: `check_env_specs`, rollouts"""
    mode = gymnasium.vector.AutoresetMode.DISABLED
    envs = gymnasium.make_vec(ID, num_envs=64, observation="dict", autoreset_mode=mode)
    env = GymWrapper(envs, categorical_action_encoding=True)
    to_bool = DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
    env = TransformedEnv(env, Compose(to_bool, ActionMask()))
    check_env_specs(env)
    with timed(64 * 100):
        rollout = env.rollout(100, break_when_any_done=False)
    assert rollout.batch_size == (64, 100)
    chosen = rollout["action_mask"].gather(-1, rollout["action"].unsqueeze(-1))
    assert chosen.all()
    assert rollout["next", "done"].sum() > 1000
    assert set(rollout["next", "reward"].unique().tolist()) == {-1.0, 0.0, 1.0}


def test_pettingzoo(timed):
    """`PettingZooWrapper` of `mnk_v0`: `check_env_specs`, masked rollouts with skips"""
    env = PettingZooWrapper(mnk_v0.env(skip_chance=0.25), use_mask=True)
    check_env_specs(env)
    masks = (ActionMask(action_key=(name, "action"), mask_key=(name, "action_mask")) for name in env.group_map)
    with timed(1000):
        rollout = TransformedEnv(env, Compose(*masks)).rollout(1000, break_when_any_done=False)
    first, second = (rollout["next", name, "reward"] for name in env.group_map)
    assert set(first.unique().tolist()) == {-1.0, 0.0, 1.0}
    assert (first + second == 0).all()  # no illegal move


def test_its_own_test(checkout, their_tests, tmp_path):
    """its `test/libs/test_multiagent.py` of tic-tac-toe, unchanged, on `mnk_v0`"""
    shutil.copytree(checkout("rl") / "test", tmp_path / "test")
    their_tests(tmp_path / "test", "libs/test_multiagent.py", "-k", "test_envs_one_group_aec and tictactoe")


def test_ppo(timed):
    """PPO with `MaskedCategorical`, `Collector`, `GAE` and `ClipPPOLoss`, 16,384 frames: better than random"""
    torch.manual_seed(0)
    env = masked(illegal_action="raise", opponent="random")
    env.append_transform(FlattenObservation(-3, -1, in_keys=["observation"]))
    env.set_seed(0)

    def net(outputs):
        return nn.Sequential(nn.Linear(18, 64), nn.Tanh(), nn.Linear(64, outputs))

    actor = ProbabilisticActor(
        TensorDictModule(net(9), in_keys=["observation"], out_keys=["logits"]),
        in_keys={"logits": "logits", "mask": "action_mask"},
        distribution_class=MaskedCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(net(1), in_keys=["observation"])
    advantage = GAE(gamma=1.0, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    means = []
    with timed(16_384):
        collector = Collector(env, actor, frames_per_batch=1024, total_frames=16_384)
        for data in collector:
            for _ in range(4):
                advantage(data)
                for batch in data.reshape(-1)[torch.randperm(1024)].split(256):
                    losses = loss(batch)
                    total = sum(value for name, value in losses.items() if name.startswith("loss_"))
                    optimizer.zero_grad()
                    total.backward()
                    optimizer.step()
            rewards, done = data["next", "reward"], data["next", "done"]
            means.append(rewards[done].mean().item())
        collector.shutdown()
    assert sum(means[-4:]) / 4 > sum(means[:2]) / 2 + 0.1


def test_example(example, timed):
    """`examples/torchrl_ppo.py --steps 4096`: masked PPO, to its exact number"""
    with timed(4096):
        assert set(example("torchrl_ppo.py", "--steps", 4096).results) == {"random", "optimal"}
