"""Advantages of other libraries, unchanged, as ``ttt_eval.checks.check_advantages`` takes them.

    python evaluate.py check advantages examples.checks.advantages:cleanrl_ppo

The file is examples/checks/advantages.py.
"""

from __future__ import annotations


def cleanrl_ppo(rewards, values, dones, next_value, next_done, gamma=0.9, gae_lambda=0.95):
    """Return those of the loop in CleanRL's ``ppo.py``."""
    import torch

    tensors = map(torch.as_tensor, (rewards, values, dones, next_value, next_done))
    rewards, values, dones, next_value, next_done = tensors
    advantages = torch.zeros_like(rewards)
    carried = 0
    for t in reversed(range(len(rewards))):
        last = t == len(rewards) - 1
        alive = 1.0 - (next_done if last else dones[t + 1])
        delta = rewards[t] + gamma * (next_value if last else values[t + 1]) * alive - values[t]
        advantages[t] = carried = delta + gamma * gae_lambda * alive * carried
    return advantages


def from_verl(function, **settings):
    """Return one of verl's ``compute_..._outcome_advantage(token_level_rewards, response_mask,
    index, ...)``, such as those of ``verl.trainer.ppo.core_algos``.
    """
    import torch

    def advantages(rewards, mask, groups):
        tensors = torch.as_tensor(rewards), torch.as_tensor(mask, dtype=torch.float64)
        return function(*tensors, groups, **settings)[0]

    return advantages
