"""Bias, variance and mean squared error of estimated advantages, and of the policy gradients made from them.

The gradient is that of the expected result in the logits of a softmax policy, float64[positions, cells]. An episode
contributes ratio * estimate * (one-hot action - probabilities) at each of its decisions, where the ratio is 1 on
policy (Sutton et al., 2000, theorem 1; off policy Degris, White and Sutton, 2012, equation 5). With exact advantages
in place of estimates its mean is called the exact gradient. So the mean of the difference is the bias, and it is
measured with little noise.

The exact gradient is that of the expected result if there is no discount and the audited policy plays. With a discount
it is the quantity that actor-critics use (Schulman et al., 2016, section 2): decisions count equally, whereas
``ttt_eval.exact.policy_gradient`` discounts later ones (Thomas, 2014). Off policy, positions count as often as the
behaviour visits them.

Squares of means are estimated from products of independent blocks of episodes, so that noise does not add to them (a
U-statistic; Hoeffding, 1948). Their intervals are those of the jackknife over blocks (Tukey, 1958).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_eval.statistics import Interval, interval_from_seeds

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


class PositionErrors(NamedTuple):
    """Errors of estimates by position, most visited first; P positions."""

    rows: Int64Array
    """int64[P]: rows of ``Episodes.cells``"""
    visits: Float64Array
    """float64[P]: expected number per episode, or the mean number of sampled ones"""
    bias: Float64Array
    """float64[P]: mean error of the estimates"""
    standard_error: Float64Array
    """float64[P]: of the bias; 0 where exact, NaN if all visits are of one group"""
    mse: Float64Array
    """float64[P]"""


class Visits(NamedTuple):
    """All decisions of episodes, in order; V in all."""

    group: Int64Array
    """int64[V]: of the episode"""
    row: Int64Array
    """int64[V]: position"""
    action: Int64Array
    weight: Float64Array
    """float64[V]: of the episode"""
    ratio: Float64Array


# ---------------------------------------------------------------------------------------------------------------------
# Advantages


def advantage_errors(
    visits: Visits, error: Float64Array, num_cells: int, blocks: Int64Array | None
) -> tuple[Errors, float]:
    """Return the errors of estimates, and the share of decisions from which bias and variance are.

    Args:
        visits: the decisions.
        error: float64[V], estimate minus exact.
        num_cells: of the board.
        blocks: int64[G], of sampled groups; None if all episodes are enumerated.
    """
    _, pair = np.unique(visits.row * num_cells + visits.action, return_inverse=True)
    if blocks is None:
        weight, first, second = _moments(pair, visits.weight, error)
        bias, mse = float((first**2 / weight).sum() / weight.sum()), float(second.sum() / weight.sum())
        return Errors(*(Interval(x, x, x) for x in (bias, max(0.0, mse - bias), mse))), 1.0
    shape = int(blocks.max(initial=-1)) + 1, int(pair.max(initial=-1)) + 1
    places, ones = blocks[visits.group] * shape[1] + pair, np.ones(len(error))
    moments = _moments(places, ones, error, shape[0] * shape[1]).reshape(3, *shape)
    whole = moments.sum(axis=1)

    def measure(keep: BoolArray) -> Float64Array:
        count, first, second = whole - moments[:, ~keep].sum(axis=1)
        mse = second.sum() / max(1.0, count.sum())
        count, first, second = (array[count > 1] for array in (count, first, second))
        if not len(count):
            return np.array([np.nan, np.nan, mse])
        square = float(((first**2 - second) / (count - 1)).sum() / count.sum())
        return np.array([square, second.sum() / count.sum() - square, mse])

    coverage = float(whole[0][whole[0] > 1].sum() / max(1.0, whole[0].sum()))
    return Errors(*_jackknife(measure, shape[0])), coverage


def _moments(places: Int64Array, weight: Float64Array, error: Float64Array, count: int = 0) -> Float64Array:
    """Return the sums of weights, weighted errors and their squares at each place, float64[3, places]."""
    return np.stack([np.bincount(places, weight * error**power, count) for power in range(3)]).astype(np.float64)


def position_errors(visits: Visits, error: Float64Array, exact: bool, num_episodes: int) -> PositionErrors:
    """Return the errors of estimates by position, over all actions."""
    rows, inverse = np.unique(visits.row, return_inverse=True)
    weight, first, second = _moments(inverse, visits.weight, error)
    bias, mse = first / weight, second / weight
    standard_error = np.zeros(len(rows))
    if not exact:  # episodes of a group depend on each other, groups do not
        most = int(visits.group.max(initial=0)) + 1
        pair, place = np.unique(inverse * most + visits.group, return_inverse=True)
        num_groups = np.bincount(pair // most)
        squares = np.bincount(pair // most, np.bincount(place, error - bias[inverse]) ** 2)
        variance = squares * num_groups / np.maximum(num_groups - 1, 1)
        standard_error = np.where(num_groups > 1, np.sqrt(variance) / (weight * num_episodes), np.nan)
    order = np.argsort(-weight, kind="stable")
    return PositionErrors(rows[order], weight[order], bias[order], standard_error[order], mse[order])


# ---------------------------------------------------------------------------------------------------------------------
# Gradients


def gradient_errors(
    visits: Visits, estimates: tuple[Float64Array, Float64Array], probabilities: Float64Array, group_size: int,
    blocks: Int64Array | None,
) -> tuple[Errors, Interval, Interval]:  # fmt: skip
    """Return the errors of policy gradients, the cosine of the expected and the exact one, and the latter's square.

    Args:
        visits: the decisions.
        estimates: float64[V] each: estimated and exact advantages.
        probabilities: float64[P, cells], of the policy.
        group_size: number of episodes whose mean gradient is one estimate. Its variance is multiplied by this number,
            and so is that of one episode if episodes are independent.
        blocks: int64[G], of the sampled groups; None if all groups are enumerated.
    """
    num_groups = int(visits.group.max(initial=-1)) + 1 if blocks is None else len(blocks)
    estimate, exact = (
        _gradients(visits, advantages, probabilities, num_groups) / group_size for advantages in estimates
    )
    squares = np.asarray(estimate.multiply(estimate).sum(axis=1), np.float64).reshape(-1)

    def numbers(products: Sequence[float], square: float) -> Float64Array:
        """Return bias squared, variance, mean squared error, cosine and the squared length of the exact gradient.

        products: of the expected estimate with itself, of the exact gradient with itself, of both, of the bias with
        itself. square: the expected square of an estimate.
        """
        whole, true, both, bias = products
        variance = group_size * (square - whole)
        cosine = both / np.sqrt(whole * true) if min(whole, true) > ROUNDING else np.nan
        return np.array([bias, variance, bias + variance, cosine, true])

    if blocks is None:
        weights = np.zeros(num_groups)
        np.maximum.at(weights, visits.group, visits.weight * group_size)
        mean, true = (np.asarray(weights @ matrix) for matrix in (estimate, exact))
        products = [float(a @ b) for a, b in ((mean, mean), (true, true), (mean, true), (mean - true, mean - true))]
        results = [Interval(x, x, x) for x in numbers(products, float(weights @ squares)).tolist()]
    else:
        sizes = np.bincount(blocks)
        total, true, bias = (_sum_rows(matrix, blocks) for matrix in (estimate, exact, estimate - exact))
        grams = [(a @ b.T).toarray() for a, b in ((total, total), (true, true), (total, true), (bias, bias))]
        block_squares = np.bincount(blocks, squares)

        def measure(keep: BoolArray) -> Float64Array:
            count = sizes[keep].sum()
            pairs = float(count) ** 2 - float((sizes[keep] ** 2).sum())
            kept = [gram[np.ix_(keep, keep)] for gram in grams]
            return numbers([(gram.sum() - np.trace(gram)) / pairs for gram in kept], block_squares[keep].sum() / count)

        results = _jackknife(measure, len(sizes))
        results[3] = Interval(*np.clip(results[3], -1.0, 1.0).tolist())  # within its range; NaN stays
    return Errors(*results[:3]), results[3], results[4]


def _gradients(visits: Visits, advantages: Float64Array, probabilities: Float64Array, num_groups: int) -> csr_array:
    """Return the sum of the gradients of each group, float64[G, P * cells]."""
    from scipy.sparse import csr_array

    num_positions, cells = probabilities.shape
    scale = visits.ratio * advantages
    dense = -scale[:, None] * probabilities[visits.row]
    dense[np.arange(len(scale)), visits.action] += scale
    visit, cell = np.nonzero(dense)
    places = visits.group[visit], visits.row[visit] * cells + cell
    gradients = csr_array((dense[visit, cell], places), shape=(num_groups, num_positions * cells))
    gradients.sum_duplicates()
    return gradients


def _sum_rows(matrix: csr_array, blocks: Int64Array) -> csr_array:
    """Return the sum of the rows of each block."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(blocks)), (blocks, np.arange(len(blocks))))) @ matrix


# ---------------------------------------------------------------------------------------------------------------------
# Intervals


def assign_blocks(num_groups: int) -> Int64Array:
    """Return int64[G]: the block of each sampled group of episodes, up to ``NUM_BLOCKS`` of equal size."""
    return np.arange(num_groups) * min(NUM_BLOCKS, num_groups) // max(1, num_groups)


def _jackknife(measure: Callable[[BoolArray], Float64Array], num_blocks: int) -> list[Interval]:
    """Return the numbers that ``measure`` gives for selected blocks, with their jackknife intervals."""
    whole = measure(np.ones(num_blocks, np.bool_))
    intervals = [Interval(value, -np.inf, np.inf) for value in whole.tolist()]
    if num_blocks < 3:
        return intervals
    parts = np.stack([measure(np.arange(num_blocks) != block) for block in range(num_blocks)])
    pseudo = num_blocks * whole - (num_blocks - 1) * parts
    for place in np.flatnonzero(np.isfinite(pseudo).all(axis=0)).tolist():
        value, spread = intervals[place].mean, interval_from_seeds(pseudo[:, place].tolist())
        intervals[place] = Interval(value, spread.low + (value - spread.mean), spread.high + (value - spread.mean))
    return intervals
