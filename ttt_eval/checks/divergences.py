"""Exact gradients of what a loss may descend: the surrogate, divergences, the entropy.

Visits are those of the old policy, as in the batch that a loss is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.checks.decisions import DecisionModel


class PolicyPair(NamedTuple):
    """A present policy and a reference, after a step of an update."""

    process: DecisionModel
    """with the old policy"""
    present: Float64Array
    """float64[S, A], probabilities"""
    reference: Float64Array
    """float64[S, A]"""

    @property
    def logs(self) -> Float64Array:
        """float64[S, A]: logarithms of the ratio present / reference, 0 where illegal."""
        return log(self.present) - log(self.reference)

    def ascend(self, terms: Float64Array) -> Float64Array:
        """Return the gradient of the expected term of a decision, float64[S, A]."""
        centred = terms - (self.present * terms).sum(axis=1, keepdims=True)
        return np.asarray(self.process.visits()[:, None] * self.present * centred)


def log(probabilities: Float64Array) -> Float64Array:
    """Return logarithms, 0 of 0."""
    return np.asarray(np.log(np.where(probabilities > 0, probabilities, 1.0)))


def _kl_of_episodes(pair: PolicyPair) -> Float64Array:
    _, costs = pair.process.evaluate(pair.logs, policy=pair.present)
    return -pair.ascend(np.where(pair.process.legal, costs, 0.0))


def _reverse_kl(pair: PolicyPair) -> Float64Array:
    return pair.process.visits()[:, None] * (pair.reference - pair.present)


POLICY = "policy"
TARGETS: Mapping[str, Callable[[PolicyPair], Float64Array]] = {
    POLICY: lambda pair: pair.ascend(pair.process.advantages),
    "kl": lambda pair: -pair.ascend(pair.logs),
    "kl of episodes": _kl_of_episodes,
    "reverse kl": _reverse_kl,
    "entropy": lambda pair: -pair.ascend(log(pair.present)),
}
"""Directions of descent of a loss: the surrogate E[ratio x advantage]; KL(policy, reference) at
each position, or as a sum over the rest of the episode; KL(reference, policy); the entropy."""
