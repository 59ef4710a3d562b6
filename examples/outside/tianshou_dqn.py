"""Tianshou's DQN that ``check_learner`` trains, without action masks, in single environments."""

from functools import partial

from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import MLP

from examples.checks.nets import to_agent

NUM_ENVS = 128
SETTINGS = {
    "max_epochs": 1, "collection_step_num_env_steps": 128, "batch_size": 512,
    "update_step_num_gradient_steps_per_sample": 0.03, "show_progress": False, "verbose": False,
}  # fmt: skip


class Net(MLP):
    def forward(self, obs, state=None, info=None):
        return super().forward(obs), state


def make_dqn(envs):
    [space, *_] = envs.action_space
    num_inputs = envs.observation_space[0].shape[0]
    net = Net(input_dim=num_inputs, output_dim=space.n, hidden_sizes=[64, 64])
    policy = DiscreteQLearningPolicy(model=net, action_space=space, eps_training=0.3)
    optim = AdamOptimizerFactory(lr=4e-3)
    return net, DQN(policy=policy, optim=optim, gamma=1.0, target_update_freq=40)


def train_dqn(make_env, steps, seed):
    if make_env.self_play:
        return None
    envs = DummyVectorEnv([partial(make_env, disable_env_checker=True)] * NUM_ENVS)
    envs.seed(seed)
    net, dqn = make_dqn(envs)
    buffer = VectorReplayBuffer(20_000, NUM_ENVS)
    collector = Collector(dqn, envs, buffer, exploration_noise=True)
    collector.reset()
    params = {"training_collector": collector, "epoch_num_steps": steps, **SETTINGS}
    dqn.run_training(OffPolicyTrainerParams(**params))
    return to_agent(net.model)
