"""Evaluators that guide searches in tests."""

import zlib
from functools import cache

import numpy as np
import plain

from ttt_envs import Policy, make_policy


class Perfect:
    """Exact values, and equal shares for the best moves."""

    pure = True

    def __init__(self, game):
        self.optimal = make_policy("optimal", game)
        self.values = self.optimal.values
        self.action_values = self.optimal.action_values
        self.probabilities = self.optimal.probabilities

    def evaluate(self, boards):
        shares = self.probabilities(boards)
        logits = np.log(shares, out=np.full(shares.shape, -np.inf), where=shares > 0)
        return logits.astype(np.float32), self.values(boards)


class PlainEvaluator(Policy):
    """An evaluator whose method `of` gives the logits and the value of one position."""

    def __str__(self):
        return type(self).__name__.lower()

    def evaluate(self, boards):
        prior_logits = [
            self.of(cells.tobytes(), int(mover)) for cells, mover in zip(*boards, strict=True)
        ]
        return np.array([logits for logits, _ in prior_logits], np.float32), np.array(
            [value for _, value in prior_logits]
        )

    def values(self, boards):
        return self.evaluate(boards)[1]

    def action_values(self, boards):
        return np.where(boards.cells == 0, 0.0, np.nan)

    def probabilities(self, boards, rng=None):
        return plain.shares_of(boards.cells == 0)


class Noise(PlainEvaluator):
    """Random logits and values, a function of the position."""

    def __init__(self, spread=1.0):
        self.spread = spread
        self.of = cache(self._of)

    def _of(self, cells, mover):
        rng = np.random.default_rng(zlib.crc32(cells + bytes([mover])))
        return self.spread * rng.normal(size=len(cells)), rng.uniform(-1, 1)


class Nothing(PlainEvaluator):
    """Equal logits, and values 0."""

    def evaluate(self, boards):
        return np.zeros(boards.cells.shape, np.float32), np.zeros(len(boards.mover))


def find_rows(table, boards):
    own = boards.own_first().astype(int)
    return [table.find(cells) for cells in np.where(own == 2, -1, own)]
