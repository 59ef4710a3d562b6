"""Losses of trainers in torch, as ``ttt_eval.checks.check_loss`` takes them.

``logp``, ``old_logp``, ``ref_logp``, ``advantages`` and ``mask`` are tensors [episodes, decisions];
KL estimators k1, k2 and k3 are those of Schulman (2020, http://joschu.net/blog/kl-approx.html).

The file is examples/checks/losses.py.
"""

from __future__ import annotations


def mean(terms, mask):
    """Return the mean over episodes of the sums over decisions."""
    return (terms * mask).sum(-1).mean()


def policy_gradient(logp, advantages, mask):
    """Return the loss of REINFORCE."""
    return -mean(logp * advantages, mask)


def weighted(logp, old_logp, advantages, mask):
    """Return the surrogate, ratio times advantage."""
    return -mean((logp - old_logp).exp() * advantages, mask)


def ppo_clip(logp, old_logp, advantages, mask):
    """Return the clipped surrogate (Schulman et al., 2017, equation 7)."""
    ratio = (logp - old_logp).exp()
    return -mean((ratio * advantages).minimum(ratio.clamp(0.8, 1.2) * advantages), mask)


def ppo_clip_with_bonus(logp, old_logp, advantages, entropy, mask):
    """Return the same with an entropy bonus (equation 9)."""
    return ppo_clip(logp, old_logp, advantages, mask) - 0.01 * mean(entropy, mask)


def ppo_clip_with_divergence(logp, old_logp, ref_logp, advantages, mask):
    """Return the same with the divergence k3 from the reference (Shao et al., 2024, equation 3)."""
    return ppo_clip(logp, old_logp, advantages, mask) + 0.04 * k3(logp, ref_logp, mask)


def cispo(logp, old_logp, advantages, mask):
    """Return log-probabilities weighted by clipped, constant ratios (MiniMax, 2025,
    arXiv:2506.13585).
    """
    ratio = (logp - old_logp).exp().clamp(0.8, 1.2).detach()
    return -mean(ratio * advantages * logp, mask)


def k1(logp, ref_logp, mask):
    """Return the log ratio in the loss."""
    return mean(logp - ref_logp, mask)


def k2(logp, ref_logp, mask):
    """Return half its square in the loss."""
    return mean((logp - ref_logp) ** 2 / 2, mask)


def k3(logp, ref_logp, mask):
    """Return exp(-x) - 1 + x of it in the loss, as GRPO does."""
    ratio = ref_logp - logp
    return mean(ratio.exp() - 1 - ratio, mask)


def weighted_k1(logp, old_logp, ref_logp, mask):
    """Return ratio times k1."""
    return mean((logp - old_logp).exp() * (logp - ref_logp), mask)


def weighted_k2(logp, old_logp, ref_logp, mask):
    """Return ratio times k2."""
    return mean((logp - old_logp).exp() * (logp - ref_logp) ** 2 / 2, mask)


def weighted_k3(logp, old_logp, ref_logp, mask):
    """Return ratio times k3."""
    ratio = ref_logp - logp
    return mean((logp - old_logp).exp() * (ratio.exp() - 1 - ratio), mask)


def k1_in_reward(logp, ref_logp, mask):
    """Return k1 as a part of the reward of its own decision, detached."""
    return mean(logp * (logp - ref_logp).detach(), mask)


def costs_to_go(logp, ref_logp, mask):
    """Return the sums of k1 from each decision on."""
    return ((logp - ref_logp) * mask).flip(-1).cumsum(-1).flip(-1)


def k1_in_return(logp, ref_logp, mask):
    """Return k1 as a part of the rewards from each decision on, detached."""
    return mean(logp * costs_to_go(logp, ref_logp, mask).detach(), mask)


def k1_in_return_attached(logp, ref_logp, mask):
    """Return the same, not detached."""
    return mean(logp * costs_to_go(logp, ref_logp, mask), mask)


def entropy_of_all(entropy, mask, logp):
    """Return minus the entropy over all actions."""
    return -mean(entropy, mask)


def entropy_of_played(logp, mask):
    """Return the log-probability of what was played."""
    return mean(logp, mask)


def sequence_mean(logp, advantages, mask):
    """Return the mean over the tokens of each sequence (GRPO)."""
    return -((logp * advantages * mask).sum(-1) / mask.sum(-1).clamp_min(1)).mean()


def batch_mean(logp, advantages, mask):
    """Return the mean over all tokens of the batch (DAPO)."""
    return -(logp * advantages * mask).sum() / mask.sum()


def constant_mean(logp, advantages, mask):
    """Return the sum over the tokens, over a constant (Dr. GRPO)."""
    return -mean(logp * advantages, mask) / 30


POLICY_LOSSES = (policy_gradient, weighted, ppo_clip, cispo)
REGULARISED_LOSSES = (ppo_clip_with_bonus, ppo_clip_with_divergence)
DIVERGENCES = (
    k1,
    k2,
    k3,
    weighted_k1,
    weighted_k2,
    weighted_k3,
    k1_in_reward,
    k1_in_return,
    k1_in_return_attached,
)
ENTROPIES = (entropy_of_all, entropy_of_played)
TOKEN_LOSSES = (policy_gradient, constant_mean, sequence_mean, batch_mean)
