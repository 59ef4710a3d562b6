"""Wrong advantages and losses, each with one error that trainers make.

``wrong_gradients.toml`` has the errors, as texts that are replaced in right functions: those of
this file, of ``estimators.py``, of ``losses.py``, and ``ttt_eval.checks.gae``. ``WRONG`` lists them
with the options of their check; ``python tools/gradient_tables.py errors`` checks them all.

The file is examples/checks/wrong_gradients.py.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from examples.checks import estimators, losses
from examples.checks.planting import plant
from ttt_eval.checks import GradientCheck, check_advantages, check_loss, gae

Function = Callable[..., Any]
GAMMA = 0.9
LAM = 0.95


def gymnasium_gae(rewards, values, terminated, truncated, next_values):
    """Return GAE of the flags that Gymnasium's ``step`` returns."""
    advantages = np.zeros_like(rewards)
    carried = 0.0
    for t in reversed(range(len(rewards))):
        done = terminated[t] | truncated[t]
        delta = rewards[t] + GAMMA * (1 - terminated[t]) * next_values[t] - values[t]
        carried = delta + GAMMA * LAM * (1 - done) * carried
        advantages[t] = carried
    return advantages


def rloo_of_pairs(rewards, mask, roles):
    """Return RLOO in groups of 2: the result minus that of the other."""
    results = rewards.sum(1)
    pairs = np.arange(len(rewards)).reshape(-1, 2)
    advantages = np.zeros(len(rewards))
    advantages[pairs] = results[pairs] - results[pairs[:, ::-1]]
    return advantages[:, None] * mask


def whiten_columns(rewards, mask):
    """Return results that are whitened over the rows of each column, which is wrong."""
    number = np.maximum(mask.sum(0), 1)
    results = rewards.sum(1, keepdims=True)
    centred = (results - (results * mask).sum(0) / number) * mask
    return centred / (np.sqrt((centred**2).sum(0) / number) + 1e-8)


def token_gae(rewards, values, mask, lam=LAM, once=False):
    """Return GAE of tokens, carried through gaps of the mask; lambda counts at each token, or once
    at the last of each run of tokens.
    """
    advantages = np.zeros_like(rewards)
    carried = following = np.zeros(len(rewards))
    decays = lam ** (np.diff(1 * mask, append=0) < 0 if once else np.ones(mask.shape))
    for t in reversed(range(mask.shape[1])):
        further = following + decays[:, t] * carried
        advantages[:, t] = (rewards[:, t] + further - values[:, t]) * mask[:, t]
        carried = np.where(mask[:, t], advantages[:, t], carried)
        following = np.where(mask[:, t], values[:, t], following)
    return advantages


class Wrong(NamedTuple):
    """A wrong function, and the options of its check."""

    check: Callable[..., GradientCheck]
    function: Function
    options: Mapping[str, Any]

    def run(self) -> GradientCheck:
        """Check it."""
        return self.check(self.function, **self.options)


FUNCTIONS: Mapping[str, Function] = {
    function.__name__: function
    for function in (
        gymnasium_gae,
        gae,
        rloo_of_pairs,
        whiten_columns,
        token_gae,
        estimators.reinforce,
        estimators.return_minus_value,
        estimators.grpo_centred,
        *losses.POLICY_LOSSES,
        *losses.REGULARISED_LOSSES,
        *losses.DIVERGENCES,
        *losses.ENTROPIES,
        *losses.TOKEN_LOSSES,
    )
}
"""Right functions by name, and one that is wrong as it is."""


def make_wrong(of: str, changes: list[list[str]], options: Mapping[str, Any]) -> Wrong:
    """Return the function ``of`` that name with an error, and the options of its check, by default
    for the first player.
    """
    right = FUNCTIONS[of]
    function = plant(inspect.getsource(right), changes, right.__globals__)[of]
    if right.__module__ == losses.__name__:
        return Wrong(check_loss, function, {"cpu": 6, **options})
    return Wrong(check_advantages, function, {"cpu": 20, "seats": (0,), **options})


WRONG = {
    error: make_wrong(**{"options": {}, **data})
    for error, data in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
"""Wrong functions by their error."""
