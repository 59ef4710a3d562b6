"""Samples for estimators, and decisions that are spelled in several tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array, Int64Array


class Sample(NamedTuple):
    """Arrays for an estimator, and the decisions to which its estimates belong."""

    arrays: dict[str, np.ndarray]
    places: Int64Array
    """of each estimate, in the sums of a source; -1 where no decision is made"""
    exact: Float64Array
    """float64[R, ...]: R kinds of advantages whose mean gradient is exact"""

    def rows(self, rows: slice) -> Sample:
        """Return some rows."""
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        return Sample(arrays, self.places[rows], self.exact[:, rows])


def spell(sample: Sample, num_actions: int) -> Sample:
    """Return episodes with a column for each token: action a is a certain tokens and one that
    decides, which has the reward.
    """
    rows, columns = sample.places.shape
    action = np.where(sample.places >= 0, sample.places % num_actions, -1)[..., None]
    order = np.arange(num_actions)

    def repeat(array: np.ndarray) -> np.ndarray:
        return np.repeat(array, num_actions, axis=-1)

    used = (order <= action).reshape(rows, -1)
    decides = (order == action).reshape(rows, -1)
    arrays = {
        name: repeat(array) if array.shape == (rows, columns) else array
        for name, array in sample.arrays.items()
    }
    for name in arrays.keys() & {"rewards", "logp", "old_logp", "ref_logp", "entropy"}:
        arrays[name] = arrays[name] * decides
    arrays |= {"mask": used, "lengths": used.sum(axis=1)}
    return Sample(arrays, np.where(decides, repeat(sample.places), -1), repeat(sample.exact))
