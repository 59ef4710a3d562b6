"""Batches of whole episodes, and their mean gradients at a stated size.

A row of a batch is what one player did in one game; in self-play each game has two rows, the first
player's and the second player's. Arrays are those of :mod:`ttt_eval.checks.estimators`; a result is
the reward of the row's last decision. Gradients are those of one game.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_eval.checks.decisions import NUM_RESULTS, DecisionModel
from ttt_eval.checks.tokens import Sample, spell

MAX_ENUMERATED = 5_000
"""Maximum number of batches that are enumerated."""
CHUNK = 4_096
"""Number of games that are sampled at once."""


class BatchSize(NamedTuple):
    """The size of a batch."""

    games: int
    group: int
    """number of consecutive games that form a group"""


def row_arrays(
    size: BatchSize, num_rows: int, rewards: Float64Array, lengths: Int64Array
) -> dict[str, np.ndarray]:
    """Return the arrays that results and lengths determine.

    Args:
        size: of one batch; there may be more.
        num_rows: number of rows of a game.
        rewards: float64[rows], the results.
        lengths: int64[rows].
    """
    columns = np.arange(max(1, int(lengths.max())))
    game = np.arange(len(lengths)) // num_rows % size.games
    last = columns == np.maximum(lengths - 1, 0)[:, None]
    return {
        "rewards": rewards[:, None] * last,
        "mask": columns < lengths[:, None],
        "groups": game // size.group,
        "roles": np.arange(len(lengths)) % num_rows,
        "lengths": lengths,
    }


class ClassSource:
    """Games as classes of equal results and lengths, which are all that an estimator reads.

    Given the class of a game, its scores do not depend on other games, so that their exact means
    stand for them.

    Attributes:
        probabilities: float64[C].
        results: float64[C, R], of the R rows of a game.
        lengths: int64[C, R].
    """

    def __init__(self, process: DecisionModel, size: BatchSize) -> None:
        self.process = process
        self.size = size
        self.weight = size.games
        shape = *process.legal.shape, NUM_RESULTS
        player = process.boards.mover.astype(np.int64)
        stones = np.stack([(process.boards.cells == stone).sum(axis=1) for stone in (1, 2)], axis=1)
        self.turn = stones[np.arange(len(player)), player]
        lengths = stones + np.eye(2, dtype=np.int64)[player]
        self.signs = np.array([1, -1])
        self.row = player
        if not process.self_play:
            self.signs = process.signs[:1]
            self.row = 0 * player
            lengths = lengths[:, player[:1]]
        results = np.outer(process.signs, np.arange(NUM_RESULTS) - 1)  # of the first player
        ends = [results[..., None], np.repeat(lengths[:, None], NUM_RESULTS, axis=1)]
        table = np.concatenate(ends, axis=2).reshape(-1, 1 + len(self.signs))
        classes, index = np.unique(table, axis=0, return_inverse=True)
        one_hot = np.eye(len(classes))[index.reshape(len(player), NUM_RESULTS)]
        chances = np.einsum("sar,src->sac", process.ends.reshape(shape), one_hot)
        values = np.zeros((len(player), len(classes)))
        for _ in range(process.game.cells):
            action_values = chances + (process.next @ values).reshape(chances.shape)
            values = np.einsum("sa,sac->sc", process.policy, action_values)
        probabilities = process.start @ values
        possible = probabilities > 0
        weights = process.visits()[:, None, None] * process.policy[:, :, None]
        scores = weights * (action_values - values[:, None])
        self.probabilities: Float64Array = probabilities[possible]
        self.scores: Float64Array = scores[:, :, possible] / self.probabilities
        self.results: Float64Array = classes[possible, :1] * self.signs
        self.lengths: Int64Array = classes[possible, 1:].astype(np.int64)
        self.means: Float64Array = self.probabilities @ self.results
        self.num_turns = int(self.lengths.max())
        self.num_places = self.lengths.size * self.num_turns

    def make(self, classes: Int64Array) -> Sample:
        """Return the batch of games of some classes."""
        lengths = self.lengths[classes].ravel()
        rewards = self.results[classes].ravel()
        rows = classes[:, None] * len(self.signs) + np.arange(len(self.signs))
        arrays = row_arrays(self.size, len(self.signs), rewards, lengths)
        mask = arrays["mask"]
        places = rows.reshape(-1, 1) * self.num_turns + np.arange(mask.shape[1])
        means = np.tile(self.means, len(classes))
        exact = np.broadcast_to((rewards - means)[:, None], (1, *mask.shape))
        return Sample(arrays, np.where(mask, places, -1), exact)

    def draw(self, rng: np.random.Generator) -> Sample:
        """Return a random batch."""
        return self.make(rng.choice(len(self.probabilities), self.weight, p=self.probabilities))

    def enumerate(self) -> list[tuple[float, Sample]] | None:
        """Return all batches with their probabilities; None if they are too many."""
        count = len(self.probabilities)
        if count**self.weight > MAX_ENUMERATED:
            return None
        rows = np.array([*itertools.product(range(count), repeat=self.weight)])
        chances = self.probabilities[rows].prod(axis=1).tolist()
        return [(chance, self.make(row)) for chance, row in zip(chances, rows, strict=True)]

    def gradients(self, sums: Float64Array) -> Float64Array:
        """Return gradients, float64[K, S * A], from sums of advantages, float64[K, places]."""
        by_turn = sums.reshape(len(sums), *self.lengths.shape, self.num_turns)
        weights = by_turn[:, :, self.row, np.minimum(self.turn, self.num_turns - 1)]
        gradients = np.einsum("sac,kcs->ksa", self.scores, weights)
        return np.asarray(gradients.reshape(len(sums), -1))


class EpisodeSource:
    """Sampled games, for estimators that read values or positions, and for tokens.

    Args:
        process: the decisions.
        size: of a batch.
        tables: float64[S, A], numbers of decisions by the name of their array.
        tokens: whether decisions are several tokens.
    """

    def __init__(
        self,
        process: DecisionModel,
        size: BatchSize,
        tables: Mapping[str, Float64Array],
        tokens: bool = False,
    ) -> None:
        self.classes = ClassSource(process, size)
        self.process = process
        self.weight = size.games
        self.tables = tables
        self.tokens = tokens
        self.num_places = process.legal.size
        self.gradients = process.sum_scores
        self._samples: list[Sample] = []

    def draw(self, rng: np.random.Generator) -> Sample:
        """Return a random batch, with a column for each token."""
        if not self._samples:
            self._samples = self._play(max(1, CHUNK // self.weight), rng)
        return self._samples.pop()

    def _play(self, count: int, rng: np.random.Generator) -> list[Sample]:
        """Return random batches."""
        process = self.process
        signs = self.classes.signs
        playing = np.arange(count * self.weight)
        states = np.full((len(playing) * len(signs), process.game.cells), -1)
        actions = np.zeros_like(states)
        rewards = np.zeros(len(states))
        now = process.draw_start(len(playing), rng)
        while len(playing):
            moves = process.draw_actions(now, rng)
            places = playing * len(signs) + self.classes.row[now], self.classes.turn[now]
            states[places] = now
            actions[places] = moves
            following = process.draw_next(now, moves, rng)
            over = following >= len(process.start)
            results = (following[over] - len(process.start) - 1) * process.signs[now[over]]
            ended = playing[over, None] * len(signs) + np.arange(len(signs))
            rewards[ended] = results[:, None] * signs
            now = following[~over]
            playing = playing[~over]
        lengths = (states >= 0).sum(axis=1)
        arrays = row_arrays(self.classes.size, len(signs), rewards, lengths)
        mask = arrays["mask"]
        states = states[:, : mask.shape[1]]
        actions = actions[:, : mask.shape[1]]
        arrays["states"] = states * mask
        arrays |= {name: table[states, actions] * mask for name, table in self.tables.items()}
        means = np.tile(self.classes.means, count * self.weight)
        exact = [
            process.advantages[states, actions],
            rewards[:, None] - process.values[states],
            np.broadcast_to((rewards - means)[:, None], mask.shape),
        ]
        pairs = np.where(mask, states * process.game.cells + actions, -1)
        whole = Sample(arrays, pairs, np.stack(exact))
        if self.tokens:
            whole = spell(whole, process.game.cells)
        size = len(rewards) // count
        return [whole.rows(slice(start, start + size)) for start in range(0, len(rewards), size)]
