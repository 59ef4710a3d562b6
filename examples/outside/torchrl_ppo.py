"""TorchRL's PPO that ``check_learner`` trains, without action masks."""

import torch
from gymnasium.vector import AutoresetMode
from tensordict.nn import TensorDictModule
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from examples.checks.nets import make_net, to_agent

FRAMES = 1_024


def update(loss, advantage, data, optimizer):
    advantage(data)
    for part in data.reshape(-1)[torch.randperm(FRAMES)].split(256):
        losses = loss(part)
        optimizer.zero_grad()
        sum(value for name, value in losses.items() if name.startswith("loss_")).backward()
        optimizer.step()


def make_ppo(games):
    [num_inputs] = games.single_observation_space.shape
    net = make_net(num_inputs, int(games.single_action_space.n))
    module = TensorDictModule(net, ["observation"], ["logits"])
    options = {"distribution_class": Categorical, "return_log_prob": True}
    actor = ProbabilisticActor(module, in_keys=["logits"], **options)
    critic = ValueOperator(make_net(num_inputs, 1), ["observation"])
    advantage = GAE(gamma=1.0, lmbda=0.95, value_network=critic)
    return net, actor, advantage, ClipPPOLoss(actor, critic, entropy_coeff=0.02)


def train_ppo(make_env, steps, seed):
    if make_env.self_play:
        return None
    games = make_env(64, autoreset_mode=AutoresetMode.DISABLED)
    envs = GymWrapper(games, categorical_action_encoding=True)
    envs.set_seed(seed)
    net, actor, advantage, loss = make_ppo(games)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-3)
    total = -(-steps // FRAMES) * FRAMES
    for data in Collector(envs, actor, frames_per_batch=FRAMES, total_frames=total):
        for _ in range(4):
            update(loss, advantage, data, optimizer)
    return to_agent(net)
