"""The direction and length of an estimated gradient, beside the exact one.

Numbers are exact, or from the means of blocks of samples. Then hypotheses are tested by random
signs of the blocks, which assumes no distribution, and the squares of vectors are U-statistics with
the standard errors of the jackknife, so that noise does not add to them.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.store.statistics import Interval

Direction = Literal[
    "unbiased", "length only", "turned", "opposite", "no effect", "undecided"
]  # fmt: skip
NUM_BLOCKS = 64
NUM_FLIPS = 20_000
"""Number of random signs of all blocks."""
ALPHA = 1e-4
"""Largest probability under which a difference counts as found."""
STANDARD_ERRORS = 3.5
"""Half width of intervals: a confidence of 99.9% with 64 blocks."""
MAX_BIAS = 0.03
"""Largest bias of an estimate that counts as unbiased, as a share of the exact gradient."""
ROUNDING = 1e-3
"""The same of exact numbers, which functions may compute in single precision."""
MAX_DEGREES = 2.0
"""Largest angle that counts as no turn."""


class Effect(NamedTuple):
    """What an estimator or a loss does to the expected gradient."""

    direction: Direction
    length: Interval
    """along the exact gradient, in units of its length"""
    degrees: Interval
    """angle to the exact gradient"""
    bias: Interval
    """length of the difference, in units of the exact gradient's length"""
    exact: bool
    """whether the numbers are exact"""

    def __str__(self) -> str:
        if self.direction == "no effect":
            return "no effect"
        length = f"length x{self.length.mean:.3f}"
        turn = f"turned by {self.degrees.mean:.2f} degrees"
        if self.exact:
            return f"{self.direction}: {length}, {turn}"
        return (
            f"{self.direction}: {length} ({self.length.low:.3f} to {self.length.high:.3f}), {turn} "
            f"({self.degrees.low:.2f} to {self.degrees.high:.2f})"
        )


def _point(value: float) -> Interval:
    return Interval(value, value, value)


def compare_exactly(
    gradient: Float64Array, target: Float64Array, max_degrees: float = MAX_DEGREES
) -> Effect:
    """Return the effect of an exact gradient, of the shape of the exact target."""
    size = float(np.linalg.norm(target))
    own_size = float(np.linalg.norm(gradient))
    length = float((gradient * target).sum()) / size**2
    bias = float(np.linalg.norm(gradient - target)) / size
    turn = float(np.linalg.norm(gradient - length * target)) / size
    degrees = math.degrees(math.atan2(turn, length))
    direction: Direction = "length only"
    if own_size < ROUNDING * size:
        direction = "no effect"
        degrees = math.nan
    elif bias < ROUNDING:
        direction = "unbiased"
    elif degrees > max_degrees:
        direction = "turned" if length > 0 else "opposite"
    return Effect(direction, _point(length), _point(degrees), _point(bias), exact=True)


class _Square(NamedTuple):
    """The squared length of the mean of blocks."""

    mean: float
    """unbiased, so that it may be below 0"""
    error: float
    """its standard error"""
    probability: float
    """of a mean as long as this, if the true one is 0"""


def _square(blocks: Float64Array, rng: np.random.Generator) -> _Square:
    """Return the square of the mean of blocks [K, D]."""
    count = len(blocks)
    products = blocks @ blocks.T
    total = products.sum()
    between = total - np.trace(products)
    signs = rng.choice(np.array([-1.0, 1.0]), (NUM_FLIPS, count))
    flips = ((signs @ products) * signs).sum(axis=1)
    probability = (1 + np.count_nonzero(flips >= total * (1 - 1e-9))) / (1 + NUM_FLIPS)
    without = between - 2 * (products.sum(axis=1) - np.diag(products))
    error = math.sqrt((count - 1) * np.var(without)) / ((count - 1) * (count - 2))
    return _Square(float(between) / (count * (count - 1)), error, probability)


def compare_blocks(
    estimate: Float64Array,
    exact: Float64Array,
    target: Float64Array,
    rng: np.random.Generator,
    max_degrees: float = MAX_DEGREES,
) -> Effect:
    """Return the effect of an estimated gradient.

    Args:
        estimate: float64[K, D], means of K blocks of samples.
        exact: float64[K, D], the same samples with exact advantages, or others with the mean of the
            target.
        target: float64[D], the exact mean.
        rng: of the signs.
        max_degrees: the largest angle that counts as no turn.
    """
    size = float(np.linalg.norm(target))
    unit = target / size
    difference = estimate - exact
    lengths = 1 + difference @ unit / size
    length = float(lengths.mean())
    width = STANDARD_ERRORS * float(lengths.std()) / math.sqrt(len(lengths) - 1)
    turns = estimate - length * exact
    turns = turns - np.outer(turns @ unit, unit)
    bias = _square(difference, rng)
    turn = _square(turns, rng)

    def measure(square: float) -> float:
        return math.sqrt(max(square, 0.0)) / size

    found = turn.probability <= ALPHA
    spread = STANDARD_ERRORS * turn.error
    corners = [
        math.degrees(math.atan2(across, along))
        for across in (measure(turn.mean - spread) * found, measure(turn.mean + spread))
        for along in (length - width, length + width)
    ]
    mean = math.degrees(math.atan2(measure(turn.mean), length))
    degrees = Interval(mean, min(corners), max(corners))
    width_of_bias = STANDARD_ERRORS * bias.error
    biases = Interval(*(measure(bias.mean + step * width_of_bias) for step in (0, -1, 1)))
    is_equal = np.abs(difference).max() < 1e-9 * np.abs(exact).max()
    direction: Direction = "undecided"
    if is_equal or (bias.probability > ALPHA and biases.high < MAX_BIAS):
        direction = "unbiased"
    elif length + width < 0:
        direction = "opposite"
    elif np.abs(estimate).max() < ROUNDING * np.abs(exact).max():
        direction = "no effect"
    elif bias.probability <= ALPHA and degrees.high <= max_degrees:
        direction = "length only"
    elif found and degrees.low > max_degrees:
        direction = "turned"
    interval = Interval(length, length - width, length + width)
    return Effect(direction, interval, degrees, biases, exact=False)
