"""The configuration of AlphaZero and its training: play a batch of games, then update the net from a replay buffer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np

from learners.alpha_zero.learner import AlphaZero
from learners.alpha_zero.self_play import TrainingExamples, play_block
from learners.alpha_zero.settings import AlphaZeroSettings
from learners.base import Arrays, with_prefix
from learners.config import TrainingOptions
from learners.mlp import MAX_FLOAT32, Activation, TFNet, line_states
from learners.training import SPAWN_REPLAY, TrainingLoop, make_initial_rng, make_rng
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.parallel import Jobs, connect, map_blocks, results_in_order
from ttt_envs.envs.config import SELF
from ttt_envs.game.phantom import AnyGame, visible
from ttt_envs.game.symmetry import symmetries

BLOCK = 64
"""Number of games that a process plays at a time, if there are several processes; results do not depend on it."""


@dataclass(frozen=True)
class AlphaZeroConfig(AlphaZeroSettings):
    """AlphaZero with chance nodes: a policy-value net in TensorFlow, trained by its own search in self-play."""

    def build(self, game: AnyGame, rng: np.random.Generator) -> AlphaZero:
        """Return a learner with random weights drawn from ``rng``; playing needs no TensorFlow."""
        self.check_game(game)
        return AlphaZero(self, visible(game), rng)

    def training(self, game: AnyGame, games: int, **options: Unpack[TrainingOptions]) -> SelfPlay:
        """See :meth:`LearnerConfig.training`; the learner plays both seats and ignores ``opponent`` and ``seat``.

        Raises:
            ValueError: numbers out of range, no TensorFlow.
        """
        seed = options["seed"]
        learner = self.build(game, make_initial_rng(seed))
        return SelfPlay(learner, games, batch=options["batch"], seed=seed, cluster=options.get("cluster", ""))

    def check_opponent(self, opponent: str, game: AnyGame) -> None:
        """See :meth:`LearnerConfig.check_opponent`."""
        if opponent != SELF:
            raise ValueError(
                f"{self.name} learns from games against itself, and not against {opponent}: leave opponent= out"
            )


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

    Attributes:
        replay: the latest positions, at most ``config.buffer_size_for(game)``.

    Raises:
        ValueError: numbers out of range, no TensorFlow.
    """

    learner: AlphaZero
    any_length = ("replay.",)

    def __init__(self, learner: AlphaZero, games: int, *, batch: int, seed: int, cluster: str = "") -> None:
        super().__init__(learner, games, batch)
        self._seed = seed
        self._workers: Jobs = cluster or learner.config.jobs
        if cluster:
            connect(cluster)  # once, not in every step
        config, cells = learner.config, learner.game.cells
        hidden: list[Activation] = ["relu" for _ in config.layers_for(learner.game)]
        rates = config.learning_rate, config.learning_rate_decay
        self.net = TFNet(config.name, learner.weights, [*hidden, "linear"], *rates, fused_bias=True)
        boards, states = (None, None, cells), (None, None, len(learner.lines))
        targets = (boards, "float32"), ((None, None), "float32")
        self._update = self.net.compile(self._steps, (boards, "int8"), (states, "int8"), *targets, ((None,), "float32"))
        no_obs, no_numbers = np.zeros((0, cells), np.int8), np.zeros(0)
        no_targets = no_obs.astype(np.float32), no_numbers.astype(np.float32)
        self.replay = TrainingExamples(no_obs, *no_targets, no_numbers)
        self._permutations = symmetries(learner.game, config.symmetries)
        self._losses = np.zeros(2)

    @property
    def logged(self) -> dict[str, float]:
        """Losses of the last step, the number of updates, and the size of the replay buffer."""
        policy_loss, value_loss = self._losses.tolist()
        updates, size = self.net.updates, len(self.replay.value)
        return {"policy_loss": policy_loss, "value_loss": value_loss, "updates": updates, "positions": size}

    def step(self) -> None:
        """Play a batch of games and make its updates."""
        learner, config = self.learner, self.learner.config
        numbers = range(self.done.games, min(self.done.games + self.batch, self.games))
        play = partial(play_block, config, learner.game, learner.state, self._seed)
        size = len(numbers) if self._workers == 1 else BLOCK
        blocks = ((numbers[start : start + size],) for start in range(0, len(numbers), size))
        examples = results_in_order(map_blocks(play, blocks, self._workers if len(numbers) > BLOCK else 1))
        self.learn(TrainingExamples.concatenate(list(examples)))

    def learn(self, examples: TrainingExamples) -> None:
        """Make the updates after a batch of games, and count its games and moves.

        Raises:
            ValueError: the net has diverged.
        """
        latest = slice(-self.learner.config.buffer_size_for(self.learner.game), None)
        replay = TrainingExamples.concatenate([self.replay, examples._replace(results=np.zeros(0))])
        self.replay = TrainingExamples(replay.obs[latest], replay.policy[latest], replay.value[latest], replay.results)
        rng = make_rng(self._seed, SPAWN_REPLAY, self.done.games)
        self._losses = self.update(self.draw(rng))
        self.learner.weights = self.net.arrays
        self.done.count(examples.results)
        self.steps += len(examples.value)

    def draw(self, rng: np.random.Generator) -> TrainingExamples:
        """Draw batches [updates, batch_size], with replacement, each position under a random symmetry."""
        config, (obs, policy, value, no_results) = self.learner.config, self.replay
        shape = config.gradient_steps, config.batch_size
        rows = rng.integers(0, len(value), shape)
        images = self._permutations[rng.integers(0, len(self._permutations), shape)]
        obs = np.take_along_axis(obs[rows], images, axis=2)
        policy = np.take_along_axis(policy[rows], images, axis=2)
        return TrainingExamples(obs, policy, value[rows], no_results)

    def update(self, examples: TrainingExamples) -> Float64Array:
        """Make one gradient step from each of K batches of N positions.

        Args:
            examples: int8[K, N, cells], float32[K, N, cells] and float32[K, N]; ``results`` is ignored.

        Returns:
            float64[2]: the mean cross entropy of the policy and the mean squared error of the value, each before its
            step.

        Raises:
            ValueError: the net has diverged.
        """
        obs, policy, value, _ = examples
        count, size, cells = obs.shape
        states = line_states(obs.reshape(-1, cells), self.learner.lines).reshape(count, size, -1)
        losses = self._update(obs, states, policy, value, self.net.next_rates(count)).numpy()[1:] / float(count)
        largest = 1.0  # output of a layer, which may overflow float32 and give NaN
        for array in self.net.arrays.values():
            sizes = np.abs(array.astype(np.float64))
            largest = largest * sizes.sum(axis=0).max() if array.ndim == 2 else largest + sizes.max()
        self.net.check(losses, largest if largest <= MAX_FLOAT32 else np.inf)
        return np.asarray(losses, np.float64)

    def _steps(self, obs: Any, states: Any, policy: Any, value: Any, rates: Any) -> Any:
        """Make the steps of :meth:`update`; return the sums of the losses."""
        return self.net.steps(lambda n: self._batch_losses(obs[n], states[n], policy[n], value[n]), rates, 3)

    def _batch_losses(self, obs: Any, states: Any, policy: Any, value: Any) -> tuple[Any, Any, Any]:
        """Return the loss, the policy's mean cross entropy over legal moves, and the value's mean squared error."""
        net, tf, config = self.net, self.net.tf, self.learner.config
        num_lines, length = self.learner.lines.shape
        one_hot = tf.one_hot(tf.cast(states, tf.int32) - 1, 2 * length - 1)  # all zeros for a line without stones
        one_hot = tf.reshape(one_hot, (tf.shape(obs)[0], num_lines * (2 * length - 1)))
        outputs = net.outputs(tf.concat([net.planes(obs), one_hot], axis=1))

        legal = net.legal_moves(self.learner.game, obs)
        log_probabilities = tf.nn.log_softmax(tf.where(legal, outputs[:, :-1], -1e9))
        cross_entropy = -tf.reduce_sum(tf.where(legal, policy * log_probabilities, 0.0), axis=1)
        policy_loss = tf.reduce_mean(cross_entropy)
        value_loss = tf.reduce_mean(tf.square(tf.tanh(outputs[:, -1]) - value))
        decay = tf.add_n([tf.nn.l2_loss(array) for name, array in net.weights.items() if name.endswith("weights")])
        loss = policy_loss + config.value_weight * value_loss + config.weight_decay * decay
        return loss, policy_loss, value_loss

    @property
    def arrays(self) -> Arrays:
        """See :class:`~learners.training.TrainingLoop`."""
        return {
            "losses": self._losses,
            **{f"net.{name}": array for name, array in self.net.state.items()},
            **{f"replay.{name}": array for name, array in self.replay._asdict().items()},
        }

    def restore(self, arrays: Arrays) -> None:
        """See :class:`~learners.training.TrainingLoop`."""
        self._losses, self.net.state = arrays["losses"], with_prefix("net.", arrays)
        self.replay = TrainingExamples(**with_prefix("replay.", arrays))
