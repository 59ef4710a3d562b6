"""Which known change of right estimates of batches an estimator, or a loss, makes.

Right estimates are changed in all ways of a list, for samples of batches. A change explains other
estimates if it is proportional to them, and much nearer than right ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from ttt_envs.agents.policy import normalise
from ttt_envs.core.files import read_table
from ttt_eval.checks.samples import Estimator, Source

CHANGES: Mapping[str, Sequence[str]] = read_table(__file__)
"""Changes in words, "" where there is none: by the mean that is subtracted and by the deviation by
which is divided, of no games, of the group and of the batch, the last two also weighted by lengths;
and by the factor of each estimate."""
MUCH = 400
"""Times that an explanation must be nearer than others; distances are 1 minus the cosine."""
EXACT = 1e-5
"""Largest distance that counts as 0."""
TINY = 1e-9


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
    own = source.ask(estimator, classes).reshape(count, -1)[:, :width] * mask
    right = arrays.get("advantages", arrays.get("rewards", 0 * mask).sum(axis=1, keepdims=True))
    parts = [np.zeros((count, count))]
    for size in sorted(set(source.size)):
        number = np.arange(count) // (size * source.num_rows)
        same = number == number[:, None]
        parts += [normalise(same), normalise(same * arrays["lengths"])]
    factors = mask, mask * normalise(mask + TINY), mask & (np.diff(1 * mask, append=0) >= 0)
    found = []
    for named in product(*map(zip, CHANGES.values(), (parts, parts, factors))):
        words, (mean, spread, factor) = zip(*named, strict=True)
        known = [*filter(None, words)]
        centred = right - mean @ right
        for numbers in (right, centred):
            variance = spread @ (numbers - spread @ numbers) ** 2
            changed = centred * factor * (variance + TINY) ** -0.5 + TINY
            found.append((cosine(own.ravel(), changed.ravel()), len(known), "; ".join(known)))
    limit = MUCH * min(found)[0] + EXACT
    near = sorted({(number, text) for distance, number, text in found if distance <= limit})
    return ", or perhaps ".join(text for number, text in near if number == near[0][0])
