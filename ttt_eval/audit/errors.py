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
from typing import TYPE_CHECKING, NamedTuple

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

    def to_dict(self) -> dict[str, object]:
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
        if self.exact:
            return np.zeros(count, np.int64)
        return np.arange(count) * min(NUM_BLOCKS, count) // max(1, count)

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
    block = groups.blocks[visits.group]
    weight = groups.weights[visits.group]
    own = groups.own
    shape = int(block.max(initial=-1)) + 1, int(pair.max(initial=-1)) + 1
    places = block * shape[1] + pair
    size = shape[0] * shape[1]
    moments = np.stack(
        [np.bincount(places, weight * error**power, size).reshape(shape) for power in range(3)]
    )
    totals = moments.sum(axis=1)

    def measure(keep: BoolArray) -> Float64Array:
        count, error_sum, square_sum = totals - moments[:, ~keep].sum(axis=1)
        mse = square_sum.sum() / (count.sum() or 1.0)
        is_covered = count > own
        if not is_covered.any():
            return np.array([np.nan, np.nan, mse])
        count = count[is_covered]
        error_sum = error_sum[is_covered]
        square_sum = square_sum[is_covered]
        # of each pair count times the mean of products, see _mean_products
        squares = (error_sum**2 - own * square_sum) / (count - own)
        bias = float(squares.sum() / count.sum())
        variance = max(0.0, square_sum.sum() / count.sum() - bias)
        return np.array([bias, variance, mse])

    counts = totals[0]
    coverage = float(counts[counts > own].sum() / (counts.sum() or 1.0))
    return Errors(*_jackknife(measure, shape[0], groups.exact)), coverage


def _mean_products(products: Float64Array, counts: Float64Array, own: int) -> Float64Array:
    """Return the means of products of two samples: ``(sum of all - own * sum of the diagonal) / (n
    ** 2 - own * sum of n_b ** 2)``, a U-statistic where ``own`` is 1.

    Args:
        products: float64[K, B, B]: K kinds of products of the sums of B blocks.
        counts: float64[B]: the weights n_b of the blocks, whose sum is n.
        own: 1 to take out the products of blocks with themselves, else 0.
    """
    sums = products.sum(axis=(1, 2)) - own * np.trace(products, axis1=1, axis2=2)
    return np.asarray(sums / (counts.sum() ** 2 - own * (counts**2).sum()))


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

    blocks = groups.blocks
    weights = groups.weights
    own = groups.own
    estimate, exact = (
        _gradients(visits, groups, advantages, probabilities) for advantages in estimates
    )
    squares = np.asarray(estimate.multiply(estimate).sum(axis=1), np.float64).reshape(-1)
    sums = csr_array((weights, (blocks, np.arange(len(blocks)))))
    estimated_sums = sums @ estimate
    exact_sums = sums @ exact
    bias_sums = sums @ (estimate - exact)
    pairs = [
        (estimated_sums, estimated_sums),
        (exact_sums, exact_sums),
        (estimated_sums, exact_sums),
        (bias_sums, bias_sums),
    ]
    grams = np.stack([(a @ b.T).toarray() for a, b in pairs])
    block_weights = np.asarray(np.bincount(blocks, weights), np.float64)
    block_squares = np.bincount(blocks, weights * squares)

    def measure(keep: BoolArray) -> Float64Array:
        counts = block_weights[keep]
        mean_square, exact_square, product, bias = _mean_products(
            grams[:, keep][:, :, keep], counts, own
        )
        variance = groups.size * (block_squares[keep].sum() / counts.sum() - mean_square)
        cosine = np.nan
        if min(mean_square, exact_square) > ROUNDING:
            cosine = product / np.sqrt(mean_square * exact_square)
        return np.array([bias, variance, bias + variance, cosine, exact_square])

    bias, variance, mse, cosine, exact_square = _jackknife(
        measure, len(block_weights), groups.exact
    )
    # within its range; NaN stays
    cosine = Interval(*np.clip(cosine, -1.0, 1.0).tolist())
    return Errors(bias, variance, mse), cosine, exact_square


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
    values = measure(np.ones(num_blocks, np.bool_))
    if exact:
        return [Interval(value, value, value) for value in values.tolist()]
    intervals = [Interval(value, -np.inf, np.inf) for value in values.tolist()]
    if num_blocks < 3:
        return intervals
    parts = np.stack([measure(np.arange(num_blocks) != block) for block in range(num_blocks)])
    pseudo_values = num_blocks * values - (num_blocks - 1) * parts
    for number in np.flatnonzero(np.isfinite(pseudo_values).all(axis=0)).tolist():
        value = intervals[number].mean
        spread = interval_from_seeds(pseudo_values[:, number].tolist())
        shift = value - spread.mean
        intervals[number] = Interval(value, spread.low + shift, spread.high + shift)
    return intervals
