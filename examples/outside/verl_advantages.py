"""Estimators of advantages of verl, as ``check_advantages`` takes them; GAE before whitening."""

from types import SimpleNamespace

import torch
from verl.trainer.ppo import core_algos as verl

from examples.checks.advantages import from_verl


def gae(rewards, values, mask):
    tensors = map(torch.as_tensor, (rewards, values, mask.astype(float)))
    return verl.compute_gae_advantage_return(*tensors, gamma=1.0, lam=0.95)[1] - values


def reinforce_plus_plus(rewards, mask):
    tensors = map(torch.as_tensor, (rewards, mask.astype(float)))
    config = SimpleNamespace(gamma=1.0)
    return verl.compute_reinforce_plus_plus_outcome_advantage(*tensors, config=config)[0]


grpo = from_verl(verl.compute_grpo_outcome_advantage)
grpo_vectorized = from_verl(verl.compute_grpo_vectorized_outcome_advantage)
grpo_passk = from_verl(
    verl.compute_grpo_passk_outcome_advantage, config={"norm_adv_by_std_in_grpo": False}
)
gdpo = from_verl(verl.compute_gdpo_outcome_advantage)
rloo = from_verl(verl.compute_rloo_outcome_advantage)
rloo_vectorized = from_verl(verl.compute_rloo_vectorized_outcome_advantage)
opo = from_verl(verl.compute_opo_outcome_advantage)
gpg = from_verl(verl.compute_gpg_outcome_advantage)
reinforce_plus_plus_baseline = from_verl(
    verl.compute_reinforce_plus_plus_baseline_outcome_advantage
)
