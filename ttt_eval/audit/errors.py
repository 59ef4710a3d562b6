"""Bias, variance and mean squared error of estimated advantages, and of the policy gradients made
from them.

The gradient is that of the expected result in the logits of a softmax policy, float64[positions,
cells]. An episode contributes ratio * estimate * (one-hot action - probabilities) at each of its
decisions, where the ratio is 1 on policy (Sutton et al., 2000, theorem 1; off policy Degris, White
and Sutton, 2012, equation 5). With exact advantages in place of estimates its mean is called the
exact gradient. So the mean of the difference is the bias, and it is measured with little noise.

The exact gradient is that of the expected result if there is no discount and the audited policy
plays. With a discount it is the quantity that actor-critics use (Schulman et al., 2016, section 2):
decisions count equally, whereas ``ttt_eval.exact.policy_gradient`` discounts later ones (Thomas,
2014). Off policy, positions count as often as the behaviour visits them.

Squares of means are estimated from products of independent blocks of episodes, so that noise does
not add to them (a U-statistic; Hoeffding, 1948). Their intervals are those of the jackknife over
blocks (Tukey, 1958). The squared bias of advantages is that of the decisions sampled at least
twice; docs/exact.md has the coverage of the bias of all decisions. Enumerated episodes are one
block, weighed by their probabilities, whose square is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_eval.store.statistics import Interval, interval_from_seeds

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ROUNDING = 1e-18
"""Maximum squared length of an exact vector that counts as rounding."""
NUM_BLOCKS = 40
"""Number of blocks of sampled episodes."""


class Errors(NamedTuple):
    """Errors of an estimator; the interval of an exact number is a point."""

    bias_squared: Interval
    variance: Interval
    mse: Interval
    """mean squared error, their sum"""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        return {name: value.to_dict() for name, value in self._asdict().items()}


class Groups(NamedTuple):
    """The G groups of episodes whose mean gradients are estimates; most estimators have groups of
    one episode.
    """

    size: int
    """number of episodes in a group. The variance of gradients is multiplied by it, and so is that
    of one episode if episodes are independent"""
    weights: Float64Array
    """float64[G]: probabilities of enumerated groups; 1 for each sampled one"""
    exact: bool
    """whether these are all groups that can occur"""

    @property
    def blocks(self) -> Int64Array:
        """int64[G]: the block of each sampled group, up to ``NUM_BLOCKS`` of equal size; 0 of
        enumerated ones.
        """
        count = len(self.weights)
        return np.arange(count) * (not self.exact) * min(NUM_BLOCKS, count) // max(1, count)

    @property
    def own(self) -> int:
        """How often the product of a sample with itself is in a square of sums and has to be taken
        out.
        """
        return 0 if self.exact else 1


class Visits(NamedTuple):
    """All decisions of episodes, in order; V in all."""

    group: Int64Array
    """int64[V]: of the episode"""
    row: Int64Array
    """int64[V]: position"""
    action: Int64Array
    ratio: Float64Array


def advantage_errors(
    visits: Visits, groups: Groups, error: Float64Array, num_cells: int
) -> tuple[Errors, float]:
    """Return the errors of estimates, and the share of decisions from which bias and variance are.

    Args:
        visits: the decisions.
        groups: of the episodes.
        error: float64[V], estimate minus exact.
        num_cells: of the board.
    """
    _, pair = np.unique(visits.row * num_cells + visits.action, return_inverse=True)
    block, weight, own = groups.blocks[visits.group], groups.weights[visits.group], groups.own
    shape = int(block.max(initial=-1)) + 1, int(pair.max(initial=-1)) + 1
    places, size = block * shape[1] + pair, shape[0] * shape[1]
    moments = np.stack(
        [np.bincount(places, weight * error**power, size).reshape(shape) for power in range(3)]
    )
    whole = moments.sum(axis=1)

    def measure(keep: BoolArray) -> Float64Array:
        count, first, second = whole - moments[:, ~keep].sum(axis=1)
        mse = second.sum() / (count.sum() or 1.0)
        count, first, second = (array[count > own] for array in (count, first, second))
        if not len(count):
            return np.array([np.nan, np.nan, mse])
        square = float(((first**2 - own * second) / (count - own)).sum() / count.sum())
        return np.array([square, max(0.0, second.sum() / count.sum() - square), mse])

    coverage = float(whole[0][whole[0] > own].sum() / (whole[0].sum() or 1.0))
    return Errors(*_jackknife(measure, shape[0], groups.exact)), coverage


def gradient_errors(
    visits: Visits,
    groups: Groups,
    estimates: tuple[Float64Array, Float64Array],
    probabilities: Float64Array,
) -> tuple[Errors, Interval, Interval]:
    """Return the errors of policy gradients, the cosine of the expected and the exact one, and the
    latter's square.

    Args:
        visits: the decisions.
        groups: of the episodes.
        estimates: float64[V] each: estimated and exact advantages.
        probabilities: float64[P, cells], of the policy.
    """
    from scipy.sparse import csr_array

    blocks, weights, own = groups.blocks, groups.weights, groups.own
    estimate, exact = (
        _gradients(visits, groups, advantages, probabilities) for advantages in estimates
    )
    squares = np.asarray(estimate.multiply(estimate).sum(axis=1), np.float64).reshape(-1)
    sums = csr_array((weights, (blocks, np.arange(len(blocks)))))
    total, true, bias = (sums @ matrix for matrix in (estimate, exact, estimate - exact))
    pairs = (total, total), (true, true), (total, true), (bias, bias)
    grams = np.stack([(a @ b.T).toarray() for a, b in pairs])
    block_weights, block_squares = (
        np.bincount(blocks, weights),
        np.bincount(blocks, weights * squares),
    )

    def measure(keep: BoolArray) -> Float64Array:
        count, submatrices = block_weights[keep].sum(), grams[:, keep][:, :, keep]
        products = submatrices.sum(axis=(1, 2)) - own * np.trace(submatrices, axis1=1, axis2=2)
        whole, true, both, bias = products / (count**2 - own * (block_weights[keep] ** 2).sum())
        variance = groups.size * (block_squares[keep].sum() / count - whole)
        cosine = both / np.sqrt(whole * true) if min(whole, true) > ROUNDING else np.nan
        return np.array([bias, variance, bias + variance, cosine, true])

    results = _jackknife(measure, len(block_weights), groups.exact)
    results[3] = Interval(*np.clip(results[3], -1.0, 1.0).tolist())  # within its range; NaN stays
    return Errors(*results[:3]), results[3], results[4]


def _gradients(
    visits: Visits, groups: Groups, advantages: Float64Array, probabilities: Float64Array
) -> csr_array:
    """Return the mean gradient of the episodes of each group, float64[G, P * cells]."""
    from scipy.sparse import csr_array

    num_positions, cells = probabilities.shape
    scale = visits.ratio * advantages / groups.size
    dense = -scale[:, None] * probabilities[visits.row]
    dense[np.arange(len(scale)), visits.action] += scale
    visit, cell = np.nonzero(dense)
    places = visits.group[visit], visits.row[visit] * cells + cell
    gradients = csr_array(
        (dense[visit, cell], places), shape=(len(groups.weights), num_positions * cells)
    )
    gradients.sum_duplicates()
    return gradients


def _jackknife(
    measure: Callable[[BoolArray], Float64Array], num_blocks: int, exact: bool
) -> list[Interval]:
    """Return the numbers that ``measure`` gives for selected blocks, with their jackknife
    intervals; exact numbers, of one block, are points.
    """
    whole = measure(np.ones(num_blocks, np.bool_))
    if exact:
        return [Interval(value, value, value) for value in whole.tolist()]
    intervals = [Interval(value, -np.inf, np.inf) for value in whole.tolist()]
    if num_blocks < 3:
        return intervals
    parts = np.stack([measure(np.arange(num_blocks) != block) for block in range(num_blocks)])
    pseudo = num_blocks * whole - (num_blocks - 1) * parts
    for place in np.flatnonzero(np.isfinite(pseudo).all(axis=0)).tolist():
        value, spread = intervals[place].mean, interval_from_seeds(pseudo[:, place].tolist())
        intervals[place] = Interval(
            value, spread.low + (value - spread.mean), spread.high + (value - spread.mean)
        )
    return intervals
