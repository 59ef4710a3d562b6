"""Advantage estimators on padded arrays of episodes, each after its source.

The arrays of E episodes of up to T decisions of the learner:

- ``rewards`` float64[E, T]: after each decision; the result of the game, -1 to 1, at the last one;
- ``values`` float64[E, T + 1]: of the position of each decision, for the learner. The entry after the last decision is
  the value of the position that follows a truncated episode, 0 after a terminated one;
- ``terminated``, ``truncated`` bool[E, T]: true at the last decision, if the game or only the episode ended there;
- ``mask`` bool[E, T]: whether there is a decision. All other arrays are 0 where there is none.

The arrays of CleanRL and Stable-Baselines3 have the same meaning, transposed: see :mod:`ttt_eval.audit.adapters`. An
estimator returns float64[E, T]; entries without a decision are ignored. It may have keyword arguments of these names:

- ``discount``: float, of the audit;
- ``ratios`` float64[E, T]: probability of each action under the audited policy, divided by that under the policy that
  played;
- ``group_size``: int: so many consecutive episodes form a group. An estimator without this argument must treat every
  episode by itself.

Other keyword arguments with a default are settings, as in ``"gae:lam=0.9"``.
"""

from __future__ import annotations

import numpy as np

from ttt_envs.core.jit import BoolArray, Float64Array

EPSILON = 1e-6
"""Added to standard deviations before a division."""


# ---------------------------------------------------------------------------------------------------------------------
# Single episodes


def monte_carlo(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    discount: float = 1.0,
    baseline: float = 0.0,
) -> Float64Array:
    """Return the discounted sum of rewards from each decision on, minus a constant (Williams, 1992, section 4).

    Args:
        rewards, values, terminated, truncated, mask: see the module.
        discount: per decision.
        baseline: the constant.
    """
    return returns_to_go(rewards, mask, discount) - baseline


def return_minus_value(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    discount: float = 1.0,
) -> Float64Array:
    """Return the discounted sum of rewards minus the value of the position (Sutton and Barto, 2018, equation 13.11).

    Rewards after a truncation are missing and are not replaced: see :func:`gae` with ``lam=1`` for that.
    """
    return returns_to_go(rewards, mask, discount) - values[:, :-1]


def n_step(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    discount: float = 1.0,
    n: int = 3,
) -> Float64Array:
    """Return the n-step return minus the value of the position (Mnih et al., 2016, section 4; Schulman et al., 2016,
    equation 15).

    Raises:
        ValueError: n is below 1.
    """
    if n < 1:
        raise ValueError(f"n={n} is no number of steps: choose 1 or more")
    errors = td_errors(rewards, values, terminated, discount)
    decay = discount * _continues(terminated, truncated, mask)
    out = errors
    for _ in range(min(n, errors.shape[1]) - 1):
        out = errors + decay * _next_column(out)
    return out


def td_lambda(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    discount: float = 1.0,
    lam: float = 0.95,
) -> Float64Array:
    """Return the lambda-return (Sutton and Barto, 2018, equation 12.2): the target of a critic, without a baseline."""
    return gae(rewards, values, terminated, truncated, mask, discount=discount, lam=lam) + values[:, :-1]


def gae(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    discount: float = 1.0,
    lam: float = 0.95,
    bootstrap: bool = True,
) -> Float64Array:
    """Return generalised advantage estimates (Schulman et al., 2016, equation 16).

    Args:
        rewards, values, terminated, truncated, mask: see the module.
        discount: per decision.
        lam: the weight of longer returns: 0 is the one-step temporal-difference error, 1 the return minus the value.
        bootstrap: add the value of the position that follows a truncated episode (Pardo et al., 2018, equation 6).
            Without it, a truncation counts as the end of the game.

    Raises:
        ValueError: ``lam`` is outside [0, 1].
    """
    _check_lambda(lam)
    ends = terminated if bootstrap else terminated | truncated
    errors = td_errors(rewards, values, ends, discount)
    return _accumulate(errors, discount * lam * _continues(terminated, truncated, mask))


def gae_finite(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    discount: float = 1.0,
    lam: float = 0.95,
) -> Float64Array:
    """Return generalised advantage estimates whose weights are normalised over the existing k-step estimates.

    With m decisions left, the k-step estimate has the weight (1 - lam) lam**(k - 1) / (1 - lam**m). :func:`gae` gives
    the longest of them lam**(m - 1), the sum of the weights of all longer ones. Doering et al. (2026,
    arXiv:2602.03386) propose such a correction.

    Raises:
        ValueError: ``lam`` is outside [0, 1].
    """
    _check_lambda(lam)
    continues = _continues(terminated, truncated, mask)
    errors = td_errors(rewards, values, terminated, discount)
    left = _accumulate(mask.astype(np.float64), continues)
    if lam == 1.0:  # equal weights, the limit
        return _accumulate(left * errors, discount * continues) / np.maximum(left, 1.0)
    longest = _accumulate(errors, discount * continues)
    tail = lam ** np.maximum(left, 1.0)
    return (_accumulate(errors, discount * lam * continues) - tail * longest) / (1.0 - tail)


def _check_lambda(lam: float) -> None:
    if not 0 <= lam <= 1:
        raise ValueError(f"lam={lam:g} is no weight of longer returns: choose 0 to 1")


def v_trace(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    ratios: Float64Array,
    discount: float = 1.0,
    max_rho: float = 1.0,
    max_c: float = 1.0,
) -> Float64Array:
    """Return the advantages of V-trace without the weight of the action (Espeholt et al., 2018, equation 1 and
    section 4.2). In an audit this weight is the whole ratio; the paper truncates it, too.

    Args:
        rewards, values, terminated, truncated, mask, ratios: see the module.
        discount: per decision.
        max_rho: maximum weight of a temporal-difference error.
        max_c: maximum weight of what follows it.
    """
    continues = _continues(terminated, truncated, mask)
    weighted = np.minimum(ratios, max_rho) * td_errors(rewards, values, terminated, discount)
    corrections = _accumulate(weighted, discount * np.minimum(ratios, max_c) * continues)
    following = values[:, 1:] * ~terminated + continues * _next_column(corrections)
    return rewards + discount * following - values[:, :-1]


def importance_sampling(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    ratios: Float64Array,
    discount: float = 1.0,
) -> Float64Array:
    """Return the return minus the value, each later reward weighted by the ratios of the actions that led to it.

    This is per-decision importance sampling (Precup, Sutton and Singh, 2000, section 3). A truncated episode ends with
    the value that follows.
    """
    continues = _continues(terminated, truncated, mask)
    ends = rewards + discount * values[:, 1:] * truncated
    return _accumulate(ends, discount * continues * _next_column(ratios)) - values[:, :-1]


# ---------------------------------------------------------------------------------------------------------------------
# Groups of episodes


def rloo(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    group_size: int,
    discount: float = 1.0,
) -> Float64Array:
    """Return the return of the episode minus the mean return of the other episodes of its group (Kool et al., 2019,
    equation 8; Ahmadian et al., 2024, equation 9).
    """
    returns = _group(_episode_returns(rewards, discount), group_size)
    others = (returns.sum(axis=1, keepdims=True) - returns) / (group_size - 1)
    return _spread(returns - others, mask)


def grpo(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    group_size: int,
    discount: float = 1.0,
    scale: bool = True,
) -> Float64Array:
    """Return the return of the episode minus the mean of its group, over the group's standard deviation (Shao et al.,
    2024, section 4.1.2).

    Args:
        rewards, values, terminated, truncated, mask, group_size: see the module.
        discount: per decision.
        scale: divide by the standard deviation, of a sample. Liu et al. (2025, arXiv:2503.20783) do not.
    """
    returns = _group(_episode_returns(rewards, discount), group_size)
    centred = returns - returns.mean(axis=1, keepdims=True)
    if scale:
        centred = centred / (returns.std(axis=1, ddof=1, keepdims=True) + EPSILON)
    return _spread(centred, mask)


def per_turn(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    group_size: int,
    scale: bool = False,
    leave_one_out: bool = False,
) -> Float64Array:
    """Return sums of rewards that are normalised turn by turn: the construction of verl issue 7244.

    Each reward is centred by the mean reward of those episodes of its group that reach the turn, and the estimate of
    a decision is the sum of the centred rewards from it to the episode's own end (after Wei et al., 2025). So the
    number of subtracted means depends on when the episode ends.

    Args:
        rewards, values, terminated, truncated, mask, group_size: see the module.
        scale: also divide by the standard deviation of these rewards.
        leave_one_out: use the means of the other episodes alone.
    """
    shape = (-1, group_size, rewards.shape[1])
    grouped, present = rewards.reshape(shape), mask.reshape(shape)
    count, total = present.sum(axis=1, keepdims=True), grouped.sum(axis=1, keepdims=True)
    mean = total / np.maximum(count, 1)
    others = (total - grouped) / np.maximum(count - present, 1)
    centred = np.where(present, grouped - (others if leave_one_out else mean), 0.0)
    if scale:
        squares = (np.where(present, grouped - mean, 0.0) ** 2).sum(axis=1, keepdims=True)
        centred = centred / (np.sqrt(squares / np.maximum(count - 1, 1)) + EPSILON)
    return _accumulate(centred.reshape(rewards.shape), np.ones(rewards.shape))


def per_turn_return(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    group_size: int,
    discount: float = 1.0,
) -> Float64Array:
    """Return the return from each turn on minus the mean of the same of all other episodes of the group.

    An episode that ended before the turn counts with 0. So the baseline does not depend on the episode's own actions,
    which :func:`per_turn` does not guarantee.
    """
    returns = returns_to_go(rewards, np.ones_like(mask), discount).reshape(-1, group_size, rewards.shape[1])
    others = (returns.sum(axis=1, keepdims=True) - returns) / (group_size - 1)
    advantages: Float64Array = (returns - others).reshape(rewards.shape)
    return advantages


# ---------------------------------------------------------------------------------------------------------------------
# Parts


def returns_to_go(rewards: Float64Array, mask: BoolArray, discount: float) -> Float64Array:
    """Return the discounted sums of rewards from each decision on, float64[E, T]."""
    return _accumulate(rewards, discount * mask.astype(np.float64))


def td_errors(rewards: Float64Array, values: Float64Array, ends: BoolArray, discount: float) -> Float64Array:
    """Return reward + discount * next value - value, without a next value at ``ends`` (Schulman et al., 2016, section
    3).
    """
    return rewards + discount * values[:, 1:] * ~ends - values[:, :-1]


def _accumulate(terms: Float64Array, decay: Float64Array) -> Float64Array:
    """Return x[:, t] = terms[:, t] + decay[:, t] * x[:, t + 1]."""
    out = terms.astype(np.float64)
    for step in range(out.shape[1] - 2, -1, -1):
        out[:, step] += decay[:, step] * out[:, step + 1]
    return out


def _continues(terminated: BoolArray, truncated: BoolArray, mask: BoolArray) -> Float64Array:
    """Return 1 where the episode has another decision, else 0."""
    return (mask & ~terminated & ~truncated).astype(np.float64)


def _next_column(array: Float64Array) -> Float64Array:
    """Return the array of the next decision, 0 after the last."""
    return np.concatenate([array[:, 1:], np.zeros((len(array), 1))], axis=1)


def _episode_returns(rewards: Float64Array, discount: float) -> Float64Array:
    """Return float64[E]: discounted from the first decision."""
    weighted: Float64Array = rewards @ discount ** np.arange(rewards.shape[1])
    return weighted


def _group(returns: Float64Array, group_size: int) -> Float64Array:
    """Return float64[E / group_size, group_size].

    Raises:
        ValueError: a group of one episode.
    """
    if group_size < 2:
        raise ValueError(f"group_size={group_size} leaves nothing to compare with: choose 2 or more episodes")
    return returns.reshape(-1, group_size)


def _spread(advantages: Float64Array, mask: BoolArray) -> Float64Array:
    """Return float64[E, T]: the number of each episode at each of its decisions."""
    return advantages.reshape(-1, 1) * mask
