"""PPO in the style of CleanRL that ``check_learner`` trains, against an opponent or in self-play.

pip install torch
python evaluate.py check learner examples.checks.ppo:train --family ppo --seeds 3
"""

import gymnasium
import numpy as np
import torch
from torch import nn

from examples.checks.final_steps import last_decisions
from examples.checks.nets import make_net, to_agent

NUM_ENVS = 64
NUM_STEPS = 16
NUM_EPOCHS = 4
MINIBATCH_SIZE = 256
LEARNING_RATE = 3e-3
GAMMA = 1.0
GAE_LAMBDA = 0.95
CLIP = 0.2
ENTROPY_COEFFICIENT = 0.02
VALUE_COEFFICIENT = 0.5
MAX_GRAD_NORM = 0.5
torch.set_num_threads(1)  # for a small net, more threads only wait for each other


def log_softmax(logits, mask):
    """Return the logarithms of probabilities, of which illegal actions have none."""
    return torch.log_softmax(logits.masked_fill(~mask, -1e9), dim=1)


def policy_loss(ratio, advantages):
    """Return the clipped loss."""
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    return -torch.min(ratio * advantages, clipped * advantages).mean()


def estimate_advantages(rollout):
    """Return GAE; ``discount`` is the sign of the next value, ``carry`` is 0 where a game ends."""
    advantages = torch.zeros_like(rollout["value"])
    carried = torch.zeros(NUM_ENVS)
    for t in reversed(range(NUM_STEPS)):
        next_value = rollout["discount"][t] * rollout["next_value"][t]
        delta = rollout["reward"][t] + GAMMA * next_value - rollout["value"][t]
        carried = delta + GAMMA * GAE_LAMBDA * rollout["carry"][t] * carried
        advantages[t] = carried
    return advantages


def train(make_env, steps, seed):
    """Return the logits as a function of observations, with a critic."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    envs = make_env(NUM_ENVS, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    [num_inputs] = envs.single_observation_space.shape
    actor = make_net(num_inputs, int(envs.single_action_space.n))
    critic = make_net(num_inputs, 1)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=1e-5)
    obs, info = envs.reset(seed=seed)
    for _ in range(0, steps, NUM_ENVS * NUM_STEPS):
        rows = []
        for _ in range(NUM_STEPS):
            mask = (info["action_mask"] == 1) | (not make_env.masks)
            mover = info["mover"]
            row = {"obs": torch.as_tensor(obs), "mask": torch.as_tensor(mask)}
            with torch.no_grad():
                logp = log_softmax(actor(row["obs"]), row["mask"])
                row["action"] = torch.distributions.Categorical(logits=logp).sample()
                row["logp"] = logp.gather(1, row["action"][:, None]).squeeze(1)
                row["value"] = critic(row["obs"]).squeeze(1)
            obs, reward, terminated, truncated, info = envs.step(row["action"].numpy())
            done = terminated | truncated
            last_obs, _, last_mover = last_decisions(obs, info, done)
            sign = np.where(last_mover == mover, 1, -1)  # self-play has two movers
            with torch.no_grad():
                row["next_value"] = critic(torch.as_tensor(last_obs)).squeeze(1)
            row["reward"] = torch.as_tensor(reward, dtype=torch.float32)
            row["discount"] = torch.as_tensor(sign * ~terminated)
            row["carry"] = torch.as_tensor(sign * ~done)
            rows.append(row)
        rollout = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        rollout["advantage"] = estimate_advantages(rollout)
        batch = {name: column.flatten(0, 1) for name, column in rollout.items()}
        returns = batch["advantage"] + batch["value"]
        advantages = batch["advantage"] - batch["advantage"].mean()
        advantages = advantages / (batch["advantage"].std() + 1e-8)
        for _ in range(NUM_EPOCHS):
            for places in torch.as_tensor(rng.permutation(len(returns))).split(MINIBATCH_SIZE):
                logp = log_softmax(actor(batch["obs"][places]), batch["mask"][places])
                new_logp = logp.gather(1, batch["action"][places, None]).squeeze(1)
                ratio = (new_logp - batch["logp"][places]).exp()
                entropy = -(logp.exp() * logp).sum(dim=1).mean()
                errors = critic(batch["obs"][places]).squeeze(1) - returns[places]
                loss = policy_loss(ratio, advantages[places])
                loss = loss + VALUE_COEFFICIENT * (errors**2).mean()
                loss = loss - ENTROPY_COEFFICIENT * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
                optimizer.step()
    return to_agent(actor, critic)
