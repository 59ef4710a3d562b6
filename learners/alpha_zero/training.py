"""The training loop: play a batch of games, then update the net from the replay buffer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from learners.alpha_zero.learner import AlphaZero, overflowing
from learners.alpha_zero.optimizer import Updater
from learners.alpha_zero.self_play import TrainingExamples, play_block
from learners.base import Arrays, get_array
from learners.training import (
    SPAWN_REPLAY,
    Progress,
    TrainingLoop,
    check_counts,
    make_rng,
)
from ttt_envs.core.parallel import Cluster, Jobs, connect, map_blocks, results_in_order
from ttt_envs.game.symmetry import symmetries

BLOCK = 64
"""Number of games that a process plays at a time, if there are several processes; results do not depend on it."""


class SelfPlay(TrainingLoop):
    """An AlphaZero training, see :class:`~learners.training.TrainingLoop`; a step is a batch of games and its
    updates.

    All random numbers of a step depend only on the seed and the numbers of its games.

    Args:
        learner: the learner, trained in place.
        games: total number of games.
        batch: number of games per step.
        seed: seed of all random numbers.
        cluster: address of a cluster that plays the games, "" for ``config.jobs`` local processes.

    Raises:
        ValueError: numbers out of range, no TensorFlow.
    """

    def __init__(self, learner: AlphaZero, games: int, *, batch: int, seed: int, cluster: str = "") -> None:
        check_counts(games, batch)
        self.learner: AlphaZero = learner
        self.games = games
        self.done = Progress()
        self.marked = 0
        self.steps: int = 0
        self._batch, self._seed = batch, seed
        self._workers: Jobs = learner.config.jobs
        if cluster:
            self._workers = Cluster(cluster)
            connect(self._workers)  # once, not in every step
        self._updater = Updater(learner.config, learner.game, learner.weights)
        self._replay = _ReplayBuffer(learner.game.cells, learner.config.buffer_size_for(learner.game))
        self._permutations = symmetries(learner.game, learner.config.symmetries)
        self._losses = (0.0, 0.0)

    @property
    def logged(self) -> dict[str, float]:
        """Losses of the last step, the number of updates, and the size of the replay buffer."""
        policy_loss, value_loss = self._losses
        updates, size = self._updater.updates, len(self._replay.examples.value)
        return {"policy_loss": policy_loss, "value_loss": value_loss, "updates": updates, "positions": size}

    @property
    def running(self) -> bool:
        """Whether games remain to be played."""
        return self.done.games < self.games

    def step(self) -> None:
        """Play a batch of games and make its updates."""
        learner, config = self.learner, self.learner.config
        first = self.done.games
        count = min(self._batch, self.games - first)
        play = partial(play_block, config, learner.game, learner.state, self._seed)
        size = count if self._workers == 1 else BLOCK
        stop = first + count
        blocks = ((range(start, min(start + size, stop)),) for start in range(first, stop, size))
        examples = TrainingExamples.concatenate(
            list(results_in_order(map_blocks(play, blocks, self._workers if count > BLOCK else 1)))
        )
        self.learn(examples)

    def learn(self, examples: TrainingExamples) -> None:
        """Make the updates after a batch of games, and count its games and moves."""
        learner, config = self.learner, self.learner.config
        self._replay.add(examples)
        rng = make_rng(self._seed, SPAWN_REPLAY, self.done.games)
        batches = self._replay.draw(config.gradient_steps, config.batch_size, self._permutations, rng)
        self._losses = self._updater.update(batches)
        learner.weights = self._updater.weights()
        if overflowing(learner.weights):
            raise self._updater.diverged()  # diverged in the last update, after which no loss is computed
        self.done.count(examples.results)
        self.steps += len(examples.value)

    @property
    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """See :class:`~learners.training.TrainingLoop`."""
        done = self.done
        counts = (self.games, self.marked, done.games, done.wins, done.draws, done.losses, self.steps)
        return {
            "counts": np.array(counts, np.int64),
            "losses": np.array(self._losses),
            **{f"net.{name}": array for name, array in self._updater.to_arrays().items()},
            **{f"memory.{name}": array for name, array in self._replay.to_arrays().items()},
        }

    @state.setter
    def state(self, arrays: Arrays) -> None:
        """See :class:`~learners.training.TrainingLoop`; restore the learner's arrays first."""
        name = self.learner.config.name
        games, marked, *done, self.steps = get_array(arrays, "counts", (7,), "i8", name).tolist()
        if min(marked, *done) < 0 or not marked <= done[0] == sum(done[1:]) <= games:
            raise ValueError(f"the counts of a training of {name} are damaged: train again")
        if games > self.games:
            raise ValueError(f"games={self.games} is fewer than the {games} that were to be played")
        losses = get_array(arrays, "losses", (2,), "f8", name)
        if not np.isfinite(losses).all():
            raise ValueError(f"the losses of a training of {name} are damaged: train again")
        parts: dict[str, dict[str, np.ndarray[Any, Any]]] = {"net": {}, "memory": {}}
        for key, array in arrays.items():
            part, _, rest = key.partition(".")
            if part in parts:
                parts[part][rest] = array
        self._replay.from_arrays(parts["memory"], name)
        self._updater.from_arrays(parts["net"])
        self.done, self.marked, self._losses = Progress(*done), marked, (float(losses[0]), float(losses[1]))


class _ReplayBuffer:
    """Replay buffer of the last ``size`` positions; batches are drawn with replacement."""

    def __init__(self, cells: int, size: int) -> None:
        self._size = size
        nothing = np.zeros((0, cells), np.int8), np.zeros((0, cells), np.float32), np.zeros(0, np.float32)
        self.examples = TrainingExamples(*nothing, np.zeros(0))

    def add(self, examples: TrainingExamples) -> None:
        """Add positions and drop the oldest."""
        seen, policy, value, results = TrainingExamples.concatenate([self.examples, examples])
        latest = slice(-self._size, None)
        self.examples = TrainingExamples(seen[latest], policy[latest], value[latest], results[:0])

    def draw(
        self, updates: int, count: int, permutations: np.ndarray[Any, Any], rng: np.random.Generator
    ) -> TrainingExamples:
        """Draw batches [updates, count], each position under a random symmetry."""
        seen, policy, value, _ = self.examples
        rows = rng.integers(0, len(value), (updates, count))
        images = permutations[rng.integers(0, len(permutations), (updates, count))]
        return TrainingExamples(
            np.take_along_axis(seen[rows], images, axis=2),
            np.take_along_axis(policy[rows], images, axis=2),
            value[rows],
            np.zeros(0),
        )

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the buffer's contents."""
        seen, policy, value, _ = self.examples
        return {"seen": seen, "policy": policy, "value": value}

    def from_arrays(self, arrays: Arrays, owner: str) -> None:
        """Restore the state from :meth:`to_arrays`."""
        count = len(arrays["value"]) if "value" in arrays and arrays["value"].ndim == 1 else 0
        cells = self.examples.seen.shape[1]
        seen = get_array(arrays, "seen", (count, cells), "i1", owner)
        policy = get_array(arrays, "policy", (count, cells), "f4", owner)
        value = get_array(arrays, "value", (count,), "f4", owner)
        fits = count <= self._size and ((seen >= 0) & (seen <= 2)).all()
        if not (fits and ((policy >= 0) & (policy <= 1)).all() and (np.abs(value) <= 1).all()):
            raise ValueError(f"the replay buffer of {owner} is damaged: train again")
        self.examples = TrainingExamples(seen, policy, value, np.zeros(0))
