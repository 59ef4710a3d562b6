"""skrl's GAE, as ``check_advantages`` takes it: returns minus values, before it is normalised."""

import torch
from skrl.agents.torch.ppo.ppo import compute_gae

from examples.outside.rollouts import next_steps


def gae(rewards, values, dones, next_value, next_done, kind="terminated"):
    _, ends = next_steps(values, dones, next_value, next_done)
    flags = {name: torch.zeros(ends.shape) > 0 for name in ("terminated", "truncated")}
    flags[kind] = torch.as_tensor(ends)
    columns = {"rewards": rewards, "values": values, "last_values": next_value}
    tensors = {name: torch.as_tensor(array) for name, array in columns.items()}
    options = {"discount_factor": 0.9, "lambda_coefficient": 0.95, "time_limit_bootstrap": False}
    return compute_gae(**tensors, **flags, **options)[0] - tensors["values"]


def gae_of_truncated(rewards, values, dones, next_value, next_done):
    return gae(rewards, values, dones, next_value, next_done, "truncated")
