"""The direction and length of an expected gradient, beside the exact one.

Numbers are exact, or from the means of blocks of samples. Then hypotheses are tested by random
signs of the blocks, which assumes no distribution, and the squares of vectors are U-statistics with
the standard errors of the jackknife, so that noise does not add to them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.checks.check import Status
from ttt_eval.checks.explanations import explain_estimates
from ttt_eval.checks.samples import Estimator, Source
from ttt_eval.store.statistics import Interval

Direction = Literal["unbiased", "length only", "turned", "opposite", "no effect", "undecided"]
STATUSES: Mapping[Direction, Status] = {
    "unbiased": "holds",
    "length only": "holds",
    "undecided": "no evidence",
}
"""Of rows about directions; others fail."""
NUM_BLOCKS = 64
NUM_FLIPS = 20_000
"""Number of random signs of all blocks."""
ALPHA = 1e-4
"""Largest probability under which a difference counts as found."""
STANDARD_ERRORS = 3.5
"""Half width of intervals: a confidence of 99.9% with 64 blocks."""
MAX_BIAS = 0.03
"""Largest error of length, and largest turn, that counts as unbiased, in units of the exact
gradient's length."""
NO_EFFECT = 0.1
"""Maximum length of a gradient without a known sign that counts as no effect."""
ROUNDING = 1e-3
"""Largest length of an exact difference that counts as 0: functions may compute in single
precision."""
TINY = 1e-9
"""Largest turn that counts as rounding."""
MAX_DEGREES = 2.0
"""Largest angle that counts as no turn."""
EXACT_DEGREES = 0.05
"""The same of exact gradients of estimates that do not depend on other games."""

EXACT_TEXT = "{}: length x{.mean:.3f}, turned by {.mean:.2f} degrees"
SAMPLED_TEXT = (
    "{0}: length x{1.mean:.3f} ({1.low:.3f} to {1.high:.3f}), "
    "turned by {2.mean:.2f} degrees ({2.low:.2f} to {2.high:.2f})"
)
"""Effects in words."""


class Effect(NamedTuple):
    """What an estimator or a loss does to the expected gradient."""

    direction: Direction
    length: Interval
    """along the exact gradient, in units of its length"""
    degrees: Interval
    """angle to the exact gradient"""
    exact: bool
    """whether the numbers are exact"""
    explanation: str = ""
    """what turns it, in words; "" if that is unknown"""

    @property
    def status(self) -> Status:
        """Of a row about it."""
        return STATUSES.get(self.direction, "fails")

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready data."""
        return {
            **self._asdict(),
            "length": self.length.to_dict(),
            "degrees": self.degrees.to_dict(),
        }

    def __str__(self) -> str:
        if self.direction == "no effect":
            return self.direction
        return (EXACT_TEXT if self.exact else SAMPLED_TEXT).format(*self)


def measure_length(blocks: Float64Array, rng: np.random.Generator) -> Interval:
    """Return the length of the mean of blocks, float64[K, D]; low is 0 if the mean may be 0."""
    count = len(blocks)
    if count == 1:
        length = float(np.linalg.norm(blocks))
        return Interval(length, length * (length >= ROUNDING), length)
    products = blocks @ blocks.T
    signs = rng.choice([-1.0, 1.0], (NUM_FLIPS, count))
    flips = ((signs @ products) * signs).sum(axis=1)
    extremes = np.count_nonzero(flips >= products.sum() * (1 - 1e-9))
    probability = (1 + extremes) / (1 + NUM_FLIPS)
    with_others = products.sum(axis=1) - np.diag(products)
    mean = with_others.mean() / (count - 1)
    error = 2 * with_others.std() / (math.sqrt(count - 1) * (count - 2))
    width = STANDARD_ERRORS * error
    squares = mean, (mean - width) * (probability <= ALPHA), mean + width
    return Interval(*np.sqrt(np.maximum(squares, 0.0)).tolist())


def to_gradients(sums: Float64Array, policy: Float64Array) -> Float64Array:
    """Return gradients in the logits, float64[K, S * A], from sums of estimates of the same shape.

    Args:
        sums: of K parts.
        policy: float64[S, A].
    """
    by_state = sums.reshape(-1, *policy.shape)
    centred = by_state - policy * by_state.sum(axis=2, keepdims=True)
    return np.asarray(centred.reshape(len(centred), -1))


def compare(
    estimate: Float64Array,
    right: Float64Array,
    target: Float64Array,
    rng: np.random.Generator,
    max_degrees: float = MAX_DEGREES,
) -> Effect:
    """Return the effect of an estimated gradient, or of an exact one.

    Args:
        estimate: float64[K, D], means of K blocks of samples; K = 1 if they are exact.
        right: float64[K, D], the same samples with right estimates, or others with the mean of the
            target.
        target: float64[1, D], the exact mean.
        rng: of the signs.
        max_degrees: the largest angle that counts as no turn.
    """
    count = len(estimate)
    size = np.linalg.norm(target)
    unit = target[0] / size
    lengths = 1 + (estimate - right) @ unit / size
    mean = lengths.mean()
    width = STANDARD_ERRORS * lengths.std() / math.sqrt(max(1, count - 1))
    length = Interval(mean, mean - width, mean + width)
    turns = (estimate - mean * right) / size
    turn = measure_length(turns - np.outer(turns @ unit, unit), rng)
    angles = np.degrees(np.arctan2.outer(turn, length))
    degrees = Interval(angles[0, 0], angles.min(), angles.max())
    is_equal = length.low - ROUNDING <= 1 <= length.high + ROUNDING and turn.low < TINY
    direction: Direction = "undecided"
    if is_equal and max(turn.high, *np.abs(np.subtract(length, 1))) < MAX_BIAS:
        direction = "unbiased"
    elif length.high < -ROUNDING:
        direction = "opposite"
    elif degrees.low > max_degrees and turn.low > 0:
        direction = "turned"
    elif length.low <= ROUNDING and length.high < NO_EFFECT:
        direction = "no effect"
    elif degrees.high <= max_degrees and not is_equal:
        direction = "length only"
    return Effect(direction, length, degrees, exact=count == 1)


def measure_effect(
    estimator: Estimator,
    source: Source,
    rng: np.random.Generator,
    cpu: float,
) -> Effect:
    """Return the effect of an estimator: exactly, or from samples, which double until it is
    decided. And what turns it, of batches.

    Args:
        estimator: the function.
        source: of its inputs.
        rng: of all random numbers.
        cpu: CPU s of samples: after half of them none are added, because the next take as long as
            all before.
    """
    target = to_gradients(source.chances @ source.right, source.policy)
    exact, alone = source.exact_sums(estimator, rng)
    if exact is not None:
        limit = EXACT_DEGREES if alone else MAX_DEGREES
        effect = compare(to_gradients(exact, source.policy), target, target, rng, limit)
    is_open = exact is None
    begin = time.process_time()
    totals: Any = 0.0
    draws = 0
    while is_open:
        new = max(1, draws)
        sums = [source.sample_sums(estimator, new, rng) for _ in range(NUM_BLOCKS)]
        totals = totals + np.stack(sums, axis=1)
        draws += new
        means = totals / (draws * source.size.games)
        estimate, right = (to_gradients(mean, source.policy) for mean in means)
        effect = compare(estimate, right, target, rng, MAX_DEGREES)
        is_open = effect.direction == "undecided" and time.process_time() - begin <= cpu / 2
    if effect.direction == "turned" and "mask" in source.arrays:
        effect = effect._replace(explanation=explain_estimates(estimator, source))
    return effect
