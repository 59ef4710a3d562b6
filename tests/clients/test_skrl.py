"""skrl: PPO with masks from the observation, on its wrapper of Gymnasium's vectors."""

import pytest

pytest.importorskip("skrl")

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.spaces.torch import unflatten_tensorized_space

from ttt_envs import Game, as_policy

ID = "ttt_envs:ttt/TicTacToe-v0"
SAME_STEP = gymnasium.vector.AutoresetMode.SAME_STEP


class SkrlModel(Model):
    """A net over planes and mask, which skrl hands over as one flat row."""

    def __init__(self, env, outputs):
        Model.__init__(
            self,
            observation_space=env.observation_space,
            action_space=env.action_space,
            device="cpu",
        )
        nn = torch.nn
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(18, 64), nn.Tanh(), nn.Linear(64, outputs)
        )

    def compute(self, inputs, role=""):
        obs = unflatten_tensorized_space(self.observation_space, inputs["observations"])
        out = self.layers(obs["observation"])
        return (out.masked_fill(obs["action_mask"] == 0, -1e8) if out.shape[1] > 1 else out), {}


class SkrlActor(CategoricalMixin, SkrlModel):
    def __init__(self, env):
        SkrlModel.__init__(self, env, 9)
        CategoricalMixin.__init__(self)


class SkrlCritic(DeterministicMixin, SkrlModel):
    def __init__(self, env):
        SkrlModel.__init__(self, env, 1)
        DeterministicMixin.__init__(self)


def test_ppo(tmp_path):
    """`PPO` with masks on `make_vec` with 64 games, unmodified, 16,384 steps: exactly better than
    before
    """
    from ttt_eval.exact import match_outcome

    torch.manual_seed(0)
    games = gymnasium.make_vec(
        ID,
        num_envs=64,
        observation="dict",
        illegal_action="raise",
        opponent="random",
        autoreset_mode=SAME_STEP,
    )
    env = wrap_env(games)
    actor = SkrlActor(env)
    settings = {"rollouts": 32, "learning_epochs": 4, "mini_batches": 4, "discount_factor": 1.0}
    files = {
        "experiment": {"directory": str(tmp_path), "write_interval": 0, "checkpoint_interval": 0}
    }
    agent = PPO(
        models={"policy": actor, "value": SkrlCritic(env)},
        memory=RandomMemory(memory_size=32, num_envs=64, device="cpu"),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg={**settings, **files},
    )
    game = Game(3, 3, 3)
    policy = as_policy(actor.layers, Game(3, 3, 3), "planes", "logits")
    before = match_outcome(game, policy, "random")
    trainer = {"timesteps": 256, "disable_progressbar": True, "close_environment_at_exit": False}
    SequentialTrainer(env=env, agents=agent, cfg=trainer).train()
    trained = match_outcome(game, policy, "random")
    assert trained.win - trained.loss > before.win - before.loss + 0.1
    env.close()
