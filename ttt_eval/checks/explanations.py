"""Which known change of right estimates of batches an estimator, or a loss, makes.

Right estimates are changed in all ways of a list, for samples of batches. A change explains other
estimates if it is proportional to them, and much nearer than right ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.policy import normalise
from ttt_envs.core.files import read_table
from ttt_envs.core.jit import Float64Array
from ttt_eval.checks.samples import EQUAL, Estimator, Source

CHANGES: Mapping[str, Sequence[str]] = read_table(__file__)
"""Changes in words, "" where there is none: by the mean that is subtracted and by the deviation by
which is divided, of no games, of the group and of the batch, the last two also weighted by lengths;
by the factor of each estimate; and that of losses that weigh rows as a whole."""
MUCH = 400
"""Times that an explanation must be nearer than others; distances are 1 minus the cosine. The
nearest change of REINFORCE++ in batches of 2, which none explains, is 325 times nearer than no
change.
"""
EXACT = 1e-5
"""Largest distance that counts as 0: those of the changes of GRPO, OPO and GPG were below 1e-12, in
batches of 2 or 8, and those of the nearest others at least 3.5e-3.
"""
TINY = 1e-9


def list_changes(
    right: Float64Array, averages: Sequence[Float64Array], factors: Sequence[NDArray[Any]]
) -> Iterator[tuple[list[str], Float64Array]]:
    """Yield the words of each combination of changes, and the changed estimates, float64[N, T].

    Args:
        right: results, or derivatives of a loss in advantages, float64[N, 1] or float64[N, T].
        averages: matrices float64[N, N] that average over no games, the group, the group with
            weights, and so for the batch if it is not one group.
        factors: of estimates, float64[N, T].
    """
    means = zip(CHANGES["mean"], averages, strict=False)
    deviations = zip(CHANGES["deviation"], averages, strict=False)
    of_each = zip(CHANGES["factor"], factors, strict=True)
    for (mean_text, mean), (spread_text, spread), (factor_text, factor) in product(
        means, deviations, of_each
    ):
        words = [text for text in (mean_text, spread_text, factor_text) if text]
        centred = right - mean @ right
        for numbers in (right, centred):
            variance = spread @ (numbers - spread @ numbers) ** 2
            yield words, centred * factor / np.sqrt(variance + TINY) + TINY


def explain_estimates(estimator: Estimator, source: Source) -> str:
    """Return in words how an estimator changes results minus means of groups, or the derivatives of
    a loss advantages; "" if no known change explains it.

    Args:
        estimator: the function, whose estimates are not all 0.
        source: of its inputs.
    """
    from scipy.spatial.distance import cosine

    classes = source.draw_tests(np.random.default_rng(0))
    arrays = source.make(classes.ravel())
    mask = arrays["mask"]
    count, width = mask.shape
    estimates = source.ask(estimator, classes).reshape(count, -1)[:, :width] * mask
    right = arrays.get("advantages", arrays.get("rewards", 0 * mask).sum(axis=1, keepdims=True))
    averages = [np.zeros((count, count))]
    for size in sorted(set(source.size)):
        number = np.arange(count) // (size * source.num_rows)
        same = number == number[:, None]
        averages += [normalise(same), normalise(same * arrays["lengths"])]
    is_followed = np.diff(1 * mask, append=0) >= 0
    shares = mask * normalise(mask + TINY)
    factors = [1.0 * mask, shares, 1.0 * (mask & is_followed)]
    of_rows = (estimates * shares).sum(axis=1, keepdims=True)
    if "advantages" in arrays and np.allclose(estimates, of_rows * mask, atol=EQUAL):
        return CHANGES["row"][0]
    distances = [
        (cosine(estimates.ravel(), changed.ravel()), words)
        for words, changed in list_changes(right, averages, factors)
    ]
    limit = MUCH * min(distance for distance, _ in distances) + EXACT
    near = [words for distance, words in distances if distance <= limit]
    fewest = min(map(len, near))
    return ", or perhaps ".join(
        sorted({"; ".join(words) for words in near if len(words) == fewest})
    )
