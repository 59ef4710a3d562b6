"""AgileRL's DQN that ``check_learner`` trains, without action masks and mutations."""

import torch
from agilerl.algorithms.dqn import DQN
from agilerl.components.data import Transition
from agilerl.components.replay_buffer import ReplayBuffer
from gymnasium.vector import AutoresetMode

from examples.checks.final_steps import last_decisions
from examples.checks.nets import to_agent

NUM_ENVS = 32
SETTINGS = {
    "net_config": {"latent_dim": 64, "encoder_config": {"hidden_size": [64]}},
    "batch_size": 256, "lr": 2e-3, "gamma": 1.0, "tau": 0.02,
}  # fmt: skip


def train_dqn(make_env, steps, seed):
    if make_env.self_play:
        return None
    torch.manual_seed(seed)
    envs = make_env(NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    agent = DQN(envs.single_observation_space, envs.single_action_space, **SETTINGS)
    memory = ReplayBuffer(20_000)
    obs, _ = envs.reset(seed=seed)
    for step in range(0, steps, NUM_ENVS):
        epsilon = max(0.15, 1 - 2 * step / steps)
        obs = play(agent, envs, obs, epsilon, memory)
        if step >= 500:
            agent.learn(memory.sample(agent.batch_size))
            agent.learn(memory.sample(agent.batch_size))
    return to_agent(agent.actor)


def play(agent, envs, obs, epsilon, memory):
    action = agent.get_action(obs, epsilon)
    next_obs, reward, terminated, truncated, info = envs.step(action)
    last_obs, *_ = last_decisions(next_obs, info, terminated | truncated)
    arrays = {"obs": obs, "action": action, "next_obs": last_obs, "reward": reward}
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    done = torch.tensor(terminated)
    memory.add(Transition(**tensors, done=done, batch_size=[NUM_ENVS]).to_tensordict())
    return next_obs
