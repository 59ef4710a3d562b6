"""DQN in the style of CleanRL that ``check_learner`` trains, against an opponent or in self-play.

pip install torch
python evaluate.py check learner examples.checks.dqn:train --family dqn
"""

import gymnasium
import numpy as np
import torch
from torch import nn

from examples.checks.final_steps import last_decisions
from examples.checks.nets import make_net, to_value_agent
from examples.checks.q_learning import explore

NUM_ENVS = 32
BUFFER_SIZE = 20_000
BATCH_SIZE = 256
LEARNING_STARTS = 500
UPDATES = 2  # after each step of all environments
TARGET_INTERVAL = 100  # updates
LEARNING_RATE = 2e-3
MIN_EPSILON = 0.15
GAMMA = 1.0
torch.set_num_threads(1)  # for a small net, more threads only wait for each other


def loss_of(q_network, target_network, batch):
    """Return the mean square TD error."""
    obs, action, reward, discount, next_obs, next_mask = map(torch.as_tensor, batch)
    with torch.no_grad():
        next_q = target_network(next_obs).masked_fill(~next_mask, -torch.inf).max(dim=1).values
        target = reward + GAMMA * torch.where(discount == 0, 0, discount * next_q)
    q = q_network(obs).gather(1, action[:, None]).squeeze(1)
    return nn.functional.mse_loss(q, target)


def train(make_env, steps, seed):
    """Return the learned values of actions as a function of observations."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    envs = make_env(NUM_ENVS, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    num_actions = int(envs.single_action_space.n)
    [num_inputs] = envs.single_observation_space.shape
    q_network = make_net(num_inputs, num_actions)
    target_network = make_net(num_inputs, num_actions)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=LEARNING_RATE)
    buffer = [
        np.zeros((BUFFER_SIZE, num_inputs), np.float32),
        np.zeros(BUFFER_SIZE, np.int64),
        np.zeros(BUFFER_SIZE, np.float32),
        np.zeros(BUFFER_SIZE, np.float32),
        np.zeros((BUFFER_SIZE, num_inputs), np.float32),
        np.zeros((BUFFER_SIZE, num_actions), bool),
    ]
    num_updates = 0
    obs, info = envs.reset(seed=seed)
    for step in range(0, steps, NUM_ENVS):
        mask = (info["action_mask"] == 1) | (not make_env.masks)
        mover = info["mover"]
        with torch.no_grad():
            values = q_network(torch.as_tensor(obs)).numpy()
        epsilon = max(MIN_EPSILON, 1 - 2 * step / steps)
        action = explore(values, mask, epsilon, rng)
        next_obs, reward, terminated, truncated, info = envs.step(action)
        done = terminated | truncated
        last_obs, last_mask, last_mover = last_decisions(next_obs, info, done)
        last_mask |= not make_env.masks
        sign = np.where(last_mover == mover, 1, -1)  # self-play has two movers
        discount = sign * ~terminated
        places = np.arange(step, step + NUM_ENVS) % BUFFER_SIZE
        transitions = (obs, action, reward, discount, last_obs, last_mask)
        for column, entries in zip(buffer, transitions, strict=True):
            column[places] = entries
        obs = next_obs
        if step < LEARNING_STARTS:
            continue
        for _ in range(UPDATES):
            rows = rng.integers(0, min(BUFFER_SIZE, step + NUM_ENVS), BATCH_SIZE)
            loss = loss_of(q_network, target_network, [column[rows] for column in buffer])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            num_updates += 1
            if num_updates % TARGET_INTERVAL == 0:
                target_network.load_state_dict(q_network.state_dict())
    return to_value_agent(q_network)
