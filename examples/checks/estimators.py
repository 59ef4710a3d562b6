"""Named advantage estimators of whole games, as trainers compute them, with their sources.

    python evaluate.py check advantages examples.checks.estimators:rloo --batch=8

Arrays are those of ``ttt_eval.checks.samples``. All return float64[N, T].

The file is examples/checks/estimators.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]

EPSILON = 1e-6
"""Added to standard deviations."""
RAE_DECAY = 0.95


# --------------------------------------------------------------------------------------------------
# Statistics


def _to_go(rewards: Float64Array) -> Float64Array:
    """Return the sum of rewards from each decision on."""
    return np.asarray(rewards[:, ::-1].cumsum(axis=1)[:, ::-1])


def _mean(numbers: Float64Array, keys: Int64Array, weights: Float64Array) -> Float64Array:
    """Return the weighted mean of the numbers with the same key, for each number."""
    _, place = np.unique(keys, return_inverse=True)
    totals = np.maximum(np.bincount(place, weights), 1e-300)
    return np.asarray((np.bincount(place, weights * numbers) / totals)[place])


def _spread(totals: Float64Array, mask: BoolArray) -> Float64Array:
    """Return the number of each episode at all of its decisions."""
    return np.asarray(totals[:, None] * mask)


def _centred(numbers: Float64Array, keys: Int64Array) -> Float64Array:
    return numbers - _mean(numbers, keys, np.ones(len(numbers)))


def _scaled(numbers: Float64Array, keys: Int64Array) -> Float64Array:
    """Return centred numbers over the sample standard deviation of those with the same key."""
    centred = _centred(numbers, keys)
    size = np.bincount(keys)[keys]
    variance = _mean(centred**2, keys, np.ones(len(keys))) * size / np.maximum(size - 1, 1)
    return centred / (np.sqrt(variance) + EPSILON)


def _whiten(numbers: Float64Array, mask: BoolArray) -> Float64Array:
    """Return numbers minus their mean over their standard deviation, over all decisions."""
    whitened = np.zeros(numbers.shape)
    whitened[mask] = _scaled(numbers[mask], np.zeros(mask.sum(), np.int64))
    return whitened


# --------------------------------------------------------------------------------------------------
# Single episodes


def reinforce(rewards: Float64Array, mask: BoolArray) -> Float64Array:
    """Return the sum of rewards from each decision on (Williams, 1992, section 4)."""
    return _to_go(rewards) * mask


def return_minus_value(
    rewards: Float64Array, values: Float64Array, mask: BoolArray
) -> Float64Array:
    """Return the return minus the value (Sutton and Barto, 2018, equation 13.11)."""
    return (_to_go(rewards) - values) * mask


def rae(rewards: Float64Array, mask: BoolArray, roles: Int64Array) -> Float64Array:
    """Return the result minus a moving average of earlier results in the same role (SPIRAL, Liu et
    al., 2025, arXiv:2506.24119, section 3).

    The average begins with 0 in each batch, and is updated after its use.
    """
    averages = np.zeros(2)
    advantages = np.zeros(len(rewards))
    for row, (total, role) in enumerate(zip(rewards.sum(axis=1), roles, strict=True)):
        advantages[row] = total - averages[role]
        averages[role] = RAE_DECAY * averages[role] + (1 - RAE_DECAY) * total
    return _spread(advantages, mask)


# --------------------------------------------------------------------------------------------------
# Batches and groups


def reinforce_plus_plus(rewards: Float64Array, mask: BoolArray) -> Float64Array:
    """Return returns whitened over all decisions of the batch (Hu et al., 2025,
    arXiv:2501.03262).
    """
    return _whiten(_to_go(rewards), mask)


def reinforce_plus_plus_baseline(
    rewards: Float64Array, mask: BoolArray, groups: Int64Array
) -> Float64Array:
    """Return the result minus the mean of its group, whitened over all decisions (Hu et al., 2025,
    arXiv:2501.03262).
    """
    return _whiten(grpo_centred(rewards, mask, groups), mask)


def rloo(rewards: Float64Array, mask: BoolArray, groups: Int64Array) -> Float64Array:
    """Return the result minus the mean of the others of its group (Kool et al., 2019, equation 8;
    Ahmadian et al., 2024, equation 9).
    """
    sizes = np.bincount(groups)[groups]
    centred = _centred(rewards.sum(axis=1), groups)
    return _spread(centred * sizes / np.maximum(sizes - 1, 1), mask)


def grpo(rewards: Float64Array, mask: BoolArray, groups: Int64Array) -> Float64Array:
    """Return the result minus the mean of its group, over its standard deviation (Shao et al.,
    2024, arXiv:2402.03300, section 4.1.2).
    """
    return _spread(_scaled(rewards.sum(axis=1), groups), mask)


def grpo_centred(rewards: Float64Array, mask: BoolArray, groups: Int64Array) -> Float64Array:
    """Return the result minus the mean of its group (Dr. GRPO, Liu et al., 2025,
    arXiv:2503.20783).
    """
    return _spread(_centred(rewards.sum(axis=1), groups), mask)


def opo(rewards: Float64Array, mask: BoolArray, groups: Int64Array) -> Float64Array:
    """Return the result minus the mean of its group weighted by lengths (Hao et al., 2025,
    arXiv:2505.23585).
    """
    totals = rewards.sum(axis=1)
    return _spread(totals - _mean(totals, groups, mask.sum(axis=1)), mask)


def gpg(rewards: Float64Array, mask: BoolArray, groups: Int64Array) -> Float64Array:
    """Return the result minus the mean of its group, over the share of results that are not 0 (Chu
    et al., 2025, arXiv:2504.02546).
    """
    share = np.mean(rewards.sum(axis=1) != 0)
    return grpo_centred(rewards, mask, groups) / (share or 1.0)


def pass_at_k(rewards: Float64Array, mask: BoolArray, groups: Int64Array) -> Float64Array:
    """Return for the best of each group its lead over the second, else 0 (arXiv:2503.19595,
    as verl's ``grpo_passk`` without the standard deviation).
    """
    totals = rewards.sum(axis=1)
    advantages = np.zeros(len(totals))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        order = rows[np.argsort(totals[rows], kind="stable")]
        advantages[order[-1]] = totals[order[-1]] - totals[order[-2]]
    return _spread(advantages, mask)


# --------------------------------------------------------------------------------------------------
# Turns


def turn_level(rewards: Float64Array, mask: BoolArray, roles: Int64Array) -> Float64Array:
    """Return returns from each turn on, minus their mean over all turns of the role (after MARSHAL,
    Yuan et al., 2025, arXiv:2510.15414: sums first, then statistics by role).
    """
    return _by_turn(_to_go(rewards), mask, np.broadcast_to(roles[:, None], mask.shape))


def _by_turn(numbers: Float64Array, mask: BoolArray, keys: Int64Array) -> Float64Array:
    """Return numbers of decisions minus the mean of those with the same key."""
    centred = np.zeros(numbers.shape)
    centred[mask] = _centred(numbers[mask], keys[mask])
    return centred


def gigpo(
    rewards: Float64Array, mask: BoolArray, groups: Int64Array, states: Int64Array
) -> Float64Array:
    """Return the result minus the mean of its group, plus the return minus the mean of those from
    the same position in the group (GiGPO, Feng et al., 2025, arXiv:2505.10978, without standard
    deviations).
    """
    keys = groups[:, None] * (states.max() + 1) + states
    return grpo_centred(rewards, mask, groups) + _by_turn(_to_go(rewards), mask, keys)


def per_turn(rewards: Float64Array, mask: BoolArray, groups: Int64Array) -> Float64Array:
    """Return sums of rewards that are centred turn by turn over the episodes of the group that
    reach the turn (the construction of verl issue 7244, after Wei et al., 2025).
    """
    columns = np.arange(mask.shape[1])
    return _to_go(_by_turn(rewards, mask, groups[:, None] * len(columns) + columns)) * mask


ESTIMATORS: Mapping[str, Callable[..., Float64Array]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        reinforce,
        return_minus_value,
        rae,
        reinforce_plus_plus,
        reinforce_plus_plus_baseline,
        rloo,
        grpo,
        grpo_centred,
        opo,
        gpg,
        pass_at_k,
        turn_level,
        gigpo,
        per_turn,
    )
}
"""Estimators of batches by name."""
