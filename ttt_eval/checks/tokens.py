"""Decisions that are spelled in several tokens, with exact probabilities and scores."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array

Tokens = Literal["filler", "unary"]
"""``"filler"``: action a is a certain tokens and one that decides; ``"unary"``: a times no, and
yes, where illegal actions have no token."""


class Sample(NamedTuple):
    """Arrays for an estimator, and the places to which its estimates belong."""

    arrays: dict[str, np.ndarray]
    places: Int64Array
    """of each estimate, in the sums of a source; -1 where there is no decision"""
    exact: Float64Array
    """float64[R, ...]: R kinds of advantages whose mean gradient is exact"""

    def rows(self, rows: slice) -> Sample:
        """Return some rows."""
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        return Sample(arrays, self.places[rows], self.exact[:, rows])


class TokenCode:
    """The tokens of the actions of a policy, L at most.

    Args:
        policy: float64[S, A].
        tokens: the code; None for one token per decision.

    Attributes:
        used: bool[S, A, L], whether an action has a token.
        logp: float64[S, A, L], its log-probability after the tokens before it, 0 where there is
            none.
        scores: float64[S, A, L, A], gradient of the log-probability in the logits.
    """

    def __init__(self, policy: Float64Array, tokens: Tokens | None) -> None:
        num_actions = policy.shape[1]
        unit = np.eye(num_actions)
        legal = policy > 0
        logp = np.log(np.where(legal, policy, 1.0))
        if tokens is None:
            self.used: BoolArray = legal[:, :, None]
            self.logp: Float64Array = logp[:, :, None]
            scores = unit - policy[:, None]
            self.scores: Float64Array = scores[:, :, None] * self.used[..., None]
            return
        order = np.arange(num_actions)
        is_last = order[:, None] == order
        is_used = order[:, None] >= order
        if tokens == "filler":
            self.used = legal[:, :, None] & is_used
            self.logp = logp[:, :, None] * is_last
            scores = (unit - policy[:, None])[:, :, None]
            self.scores = scores * is_last[:, :, None] * self.used[..., None]
            return
        rest = policy[:, ::-1].cumsum(axis=1)[:, ::-1]
        rests = np.concatenate([rest, np.zeros_like(rest[:, :1])], axis=1)
        logs = np.log(np.maximum(rests, 1e-300))
        tails = is_used.T * policy[:, None] / np.maximum(rest, 1e-300)[:, :, None]
        following = np.concatenate([tails[:, 1:], np.zeros_like(tails[:, :1])], axis=1)
        self.used = legal[:, :, None] & legal[:, None] & is_used
        self.logp = np.where(is_last, logp[:, None], logs[:, None, 1:]) - logs[:, None, :-1]
        self.logp = np.where(self.used, self.logp, 0.0)
        scores = np.where(is_last[:, :, None], unit, following[:, None]) - tails[:, None]
        self.scores = scores * self.used[..., None]

    def expand(self, sample: Sample) -> Sample:
        """Return episodes with a column for each token; the reward comes with the last one."""
        count = self.used.shape[2]
        if count == 1:
            return sample
        rows, columns = sample.places.shape
        shape = rows, columns * count
        used = self.used.reshape(-1, count)[sample.places] & (sample.places >= 0)[..., None]
        last = used & (used[..., ::-1].cumsum(axis=2)[..., ::-1] == 1)
        places = sample.places[..., None] * count + np.arange(count)

        def repeat(array: np.ndarray) -> np.ndarray:
            return np.repeat(array, count, axis=-1)

        arrays = {
            name: repeat(array) if array.shape == (rows, columns) else array
            for name, array in sample.arrays.items()
        }
        arrays["rewards"] = arrays["rewards"] * last.reshape(shape)
        arrays["mask"] = used.reshape(shape)
        arrays["lengths"] = used.sum(axis=(1, 2))
        return Sample(arrays, np.where(used, places, -1).reshape(shape), repeat(sample.exact))

    def gradients(self, sums: Float64Array) -> Float64Array:
        """Return gradients, float64[K, S * A], from sums of advantages, float64[K, S * A * L]."""
        weights = sums.reshape(len(sums), *self.used.shape)
        return np.einsum("ksal,salj->ksj", weights, self.scores).reshape(len(sums), -1)
