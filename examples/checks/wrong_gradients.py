"""Wrong advantages and losses, each with one error that trainers make.

``python tools/gradient_tables.py errors`` checks them all; ``WRONG`` lists them with the options of
their check.

The file is examples/checks/wrong_gradients.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ttt_eval.checks import GradientCheck, check_advantages, check_loss

Function = Callable[..., Any]
GAMMA = 0.9
LAM = 0.95


def rollout(error: str) -> Function:
    """Return CleanRL's loop with an error."""

    def advantages(rewards, values, dones, next_value, next_done):
        steps = len(rewards)
        out = np.zeros_like(rewards)
        carried = 0.0
        for t in range(steps) if error == "loop forward" else reversed(range(steps)):
            last = t + 1 == steps
            if last and error == "off by one at the end":
                continue
            following = next_value if last else values[t + 1]
            alive = 1 - (next_done if last else dones[t + 1])
            if error == "dones[t] for dones[t + 1]":
                alive = 1 - dones[t]
            if error == "no mask" or (last and error == "next_done ignored"):
                alive = 1.0
            if error == "truncation as termination" and last:
                alive = 0.0
            if error == "next_done at every step":
                alive = 1 - next_done
            bootstrap = 1.0 if error == "bootstrap at termination" else alive
            carry = 1.0 if error == "lambda through ends" else alive
            gamma = GAMMA**2 if error == "discount twice" else GAMMA
            of_value = 1.0 if error == "value without discount" else gamma
            reward = rewards[max(t - 1, 0)] if error == "reward of the step before" else rewards[t]
            if error == "negated next value":
                of_value = -gamma
            baseline = following if error == "baseline of the next step" else values[t]
            delta = reward + of_value * following * bootstrap - baseline
            lam = {"lambda without gamma": LAM / gamma, "lambda left out": 0.0}.get(error, LAM)
            carried = delta + gamma * lam * carry * carried
            out[t] = carried
        changes = {
            "sign": lambda: -out,
            "absolute": lambda: np.abs(out),
            "other environment": lambda: np.roll(out, 1, axis=1),
            "positive only": lambda: np.maximum(out, 0),
        }
        return changes.get(error, lambda: out)()

    return advantages


def self_play(error: str) -> Function:
    """Return the loop for both players with an error."""

    def advantages(rewards, values, dones, next_value, next_done, movers):
        following, alive = (
            np.vstack(rows)[1:] for rows in ([values, next_value], [1 - dones, 1 - next_done])
        )
        signs = movers[1:] * movers[:-1]
        if error == "turns alternate":
            signs = -np.ones_like(signs)
        if error == "no signs":
            signs = np.ones_like(signs)
        out = np.zeros_like(rewards)
        carried = 0.0
        for t in reversed(range(len(rewards))):
            further = GAMMA * alive[t] * signs[t] * (following[t] + LAM * carried)
            out[t] = carried = rewards[t] + further - values[t]
        return out * movers[:-1] if error == "first player's advantage for both" else out

    return advantages


def _others(results, order):
    grouped = results[order]
    return (grouped.sum(1, keepdims=True) - grouped) / (order.shape[1] - 1)


def batch(error: str) -> Function:
    """Return RLOO in groups of 2, or whitened returns, with an error."""

    def advantages(rewards, mask, roles):
        results = rewards.sum(1)
        count = len(rewards)
        if error == "result of the last column":
            results = rewards[:, -1]
        if error == "first player's result for both":
            results = np.where(roles == 1, -results, results)
        order = np.arange(count).reshape(-1, 2)
        if error == "groups mixed up":
            order = np.arange(count).reshape(2, -1).T
        out = np.zeros(count)
        out[order] = results[order] - _others(results, order)
        if error == "own sample in the baseline":
            out[order] = results[order] - results[order].mean(1, keepdims=True)
        if error == "rows shifted":
            out = np.roll(out, 1)
        decisions = out[:, None] * mask
        if error == "wrong axis":
            number = np.maximum(mask.sum(0), 1)
            centred = (results[:, None] - (results[:, None] * mask).sum(0) / number) * mask
            decisions = centred / (np.sqrt((centred**2).sum(0) / number) + 1e-8)
        if error == "rewards so far":
            decisions = rewards.cumsum(1) * mask
        return decisions

    return advantages


def minus_mean_value(rewards, values, mask):
    """Return the result minus the mean of a row's values, also of those behind the mask."""
    return (rewards.sum(1, keepdims=True) - values.mean(1, keepdims=True)) * mask


def _mean(terms, mask):
    return (terms * mask).sum(-1).mean()


def _clipped(ratio):
    return ratio.clamp(0.8, 1.2)


def ppo(error: str) -> Function:
    """Return a policy loss in torch with an error."""
    import torch

    def loss(logp, old_logp, advantages, mask):
        ratio = (logp - old_logp).exp()
        losses = {
            "old and new exchanged": lambda: -_mean((old_logp - logp).exp() * advantages, mask),
            "clip on the wrong side": lambda: (
                -_mean(torch.max(ratio * advantages, _clipped(ratio) * advantages), mask)
            ),
            "clip left out": lambda: -_mean(ratio * advantages, mask),
            "lower bound of the clip": lambda: (
                -_mean(torch.min(ratio * advantages, ratio.clamp(0.2, 1.2) * advantages), mask)
            ),
            "clip without minimum": lambda: -_mean(_clipped(ratio) * advantages, mask),
            "old not detached": lambda: -_mean((logp - logp).exp() * advantages, mask),
            "advantage not detached": lambda: -_mean(logp * (advantages - 0.1 * logp), mask),
            "mask left out": lambda: -(logp * advantages).mean(),
            "mean over a sequence's tokens": lambda: (
                -((logp * advantages * mask).sum(1) / mask.sum(1).clamp_min(1)).mean()
            ),
            "ratio without exponential": lambda: -_mean((logp / old_logp) * advantages, mask),
            "probability for its logarithm": lambda: -_mean(logp.exp() * advantages, mask),
            "sum of the batch's mean advantage": lambda: -_mean(logp * advantages.mean(), mask),
        }
        return losses[error]()

    return loss


def bonus(error: str) -> Function:
    """Return a clipped loss in torch whose entropy bonus has an error."""
    import torch

    coefficients = {"sign of the entropy bonus": -0.01, "another entropy bonus": 0.1}

    def loss(logp, old_logp, advantages, entropy, mask):
        ratio = (logp - old_logp).exp()
        terms = torch.min(ratio * advantages, _clipped(ratio) * advantages)
        return -_mean(terms + coefficients[error] * entropy, mask)

    return loss


def divergence(error: str) -> Function:
    """Return a divergence or an entropy in torch with an error."""

    def loss(logp, ref_logp, mask):
        losses = {
            "sign of the divergence": lambda: -_mean((logp - ref_logp) ** 2 / 2, mask),
            "k1 in the loss": lambda: _mean(logp - ref_logp, mask),
            "k3 exchanged": lambda: _mean((logp - ref_logp).exp() - 1 - (logp - ref_logp), mask),
            "entropy of what was played": lambda: _mean(logp, mask),
        }
        return losses[error]()

    return loss


class Wrong(NamedTuple):
    """A wrong function, and the options of its check."""

    check: Callable[..., GradientCheck]
    function: Function
    options: Mapping[str, Any]

    def run(self) -> GradientCheck:
        """Check it."""
        return self.check(self.function, **self.options)


ROLLOUT_ERRORS = (
    "sign", "off by one at the end", "no mask", "dones[t] for dones[t + 1]",
    "bootstrap at termination", "next_done ignored", "discount twice", "truncation as termination",
    "loop forward", "lambda through ends", "next_done at every step", "value without discount",
    "reward of the step before", "baseline of the next step", "absolute", "other environment",
    "positive only", "negated next value", "lambda without gamma",
)  # fmt: skip
SELF_PLAY_ERRORS = ("turns alternate", "no signs", "first player's advantage for both")
BATCH_ERRORS = {
    "groups mixed up": {"batch": 8, "group": 2},
    "own sample in the baseline": {"batch": 8, "group": 2},
    "wrong axis": {"batch": 64},
    "rewards so far": {"batch": 8},
    "rows shifted": {"batch": 8},
    "result of the last column": {"batch": 8},
    "first player's result for both": {"batch": 8, "seats": (0, 1)},
}
LOSS_ERRORS = (
    "old and new exchanged", "clip on the wrong side", "clip without minimum", "old not detached",
    "advantage not detached", "mask left out", "mean over a sequence's tokens",
    "ratio without exponential", "probability for its logarithm",
    "sum of the batch's mean advantage",
)  # fmt: skip
CLIP_ERRORS = ("clip left out", "lower bound of the clip")
BONUS_ERRORS = ("sign of the entropy bonus", "another entropy bonus")
DIVERGENCE_ERRORS = {
    "sign of the divergence": "kl", "k1 in the loss": "kl", "k3 exchanged": "kl",
    "entropy of what was played": "entropy",
}  # fmt: skip


def _list_wrong() -> dict[str, Wrong]:
    advantages = functools.partial(check_advantages, cpu=20)
    losses = functools.partial(check_loss, cpu=6)
    found = {error: Wrong(advantages, rollout(error), {}) for error in ROLLOUT_ERRORS}
    found["lambda left out"] = Wrong(advantages, rollout("lambda left out"), {"lam": LAM})
    found |= {
        error: Wrong(advantages, self_play(error), {"seats": (0, 1)}) for error in SELF_PLAY_ERRORS
    }
    found |= {
        error: Wrong(advantages, batch(error), options) for error, options in BATCH_ERRORS.items()
    }
    found["values behind the mask"] = Wrong(advantages, minus_mean_value, {"batch": 8})
    found |= {error: Wrong(losses, ppo(error), {"tokens": True}) for error in LOSS_ERRORS}
    found |= {error: Wrong(losses, ppo(error), {"meant": "PPO clip"}) for error in CLIP_ERRORS}
    found |= {error: Wrong(losses, bonus(error), {"entropy": 0.01}) for error in BONUS_ERRORS}
    return found | {
        error: Wrong(losses, divergence(error), {"meant": meant})
        for error, meant in DIVERGENCE_ERRORS.items()
    }


WRONG = _list_wrong()
"""Wrong functions by their error."""
