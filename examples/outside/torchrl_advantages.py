"""TorchRL's estimators of advantages, as ``check_advantages`` takes them."""

from functools import partial

import torch
from torchrl.objectives.value import functional as torchrl

from examples.outside.rollouts import next_steps


def estimate(rewards, values, dones, next_value, next_done, function=None, **settings):
    next_values, ends = next_steps(values, dones, next_value, next_done)
    arrays = {
        "state_value": values,
        "next_state_value": next_values,
        "reward": rewards,
        "done": ends,
    }
    columns = {name: torch.as_tensor(array.T)[..., None] for name, array in arrays.items()}
    answer = function(gamma=0.9, **settings, **columns)
    return (answer[0] if isinstance(answer, tuple) else answer)[..., 0].T


def on_policy(reward, **columns):
    same = torch.zeros_like(reward)
    return torchrl.vtrace_advantage_estimate(log_pi=same, log_mu=same, reward=reward, **columns)


gae = partial(estimate, function=torchrl.generalized_advantage_estimate, lmbda=0.95)
vec_gae = partial(estimate, function=torchrl.vec_generalized_advantage_estimate, lmbda=0.95)
td0 = partial(estimate, function=torchrl.td0_advantage_estimate)
td1 = partial(estimate, function=torchrl.td1_advantage_estimate)
vec_td1 = partial(estimate, function=torchrl.vec_td1_advantage_estimate)
td_lambda = partial(estimate, function=torchrl.td_lambda_advantage_estimate, lmbda=0.95)
vec_td_lambda = partial(estimate, function=torchrl.vec_td_lambda_advantage_estimate, lmbda=0.95)
vtrace = partial(estimate, function=on_policy)
