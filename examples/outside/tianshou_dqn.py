"""Tianshou's DQN that ``check_learner`` trains, without action masks, in single environments."""

from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import MLP

from examples.outside.nets import to_agent

NUM_ENVS = 16
SETTINGS = {
    "max_epochs": 1, "collection_step_num_env_steps": 32, "batch_size": 256,
    "update_step_num_gradient_steps_per_sample": 0.1, "show_progress": False, "verbose": False,
}  # fmt: skip


class Net(MLP):
    def forward(self, obs, state=None, info=None):
        return super().forward(obs), state


def train_dqn(make_env, steps, seed):
    if make_env.self_play:
        return None
    envs = DummyVectorEnv([make_env] * NUM_ENVS)
    envs.seed(seed)
    [space, *_] = envs.action_space
    net = Net(
        input_dim=envs.observation_space[0].shape[0], output_dim=space.n, hidden_sizes=[64, 64]
    )
    policy = DiscreteQLearningPolicy(model=net, action_space=space, eps_training=0.3)
    optim = AdamOptimizerFactory(lr=2e-3)
    dqn = DQN(policy=policy, optim=optim, gamma=1.0, target_update_freq=100)
    buffer = VectorReplayBuffer(20_000, NUM_ENVS)
    collector = Collector(dqn, envs, buffer, exploration_noise=True)
    collector.reset()
    params = {"training_collector": collector, "epoch_num_steps": steps, **SETTINGS}
    dqn.run_training(OffPolicyTrainerParams(**params))
    return to_agent(net.model)
