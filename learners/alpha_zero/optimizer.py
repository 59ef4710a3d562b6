"""Gradient updates of the net in TensorFlow, many in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from learners.alpha_zero.learner import input_lines
from learners.alpha_zero.self_play import TrainingExamples
from learners.alpha_zero.settings import AlphaZeroSettings
from learners.base import Arrays, get_array
from learners.dense import line_states
from learners.tensorflow_tools import (
    DEVICE,
    adam_rate,
    adam_step,
    assign_variables,
    check_variables,
    import_tensorflow,
    legal_moves,
    to_numpy,
)
from ttt_envs.core.jit import Float32Array
from ttt_envs.game.game import Game


class Updater:
    """The net's weights and Adam's moments in TensorFlow.

    Args:
        config: the settings.
        game: the game.
        weights: initial weights of the net by name.

    Attributes:
        updates: number of updates so far.

    Raises:
        ValueError: TensorFlow is not installed.
    """

    def __init__(self, config: AlphaZeroSettings, game: Game, weights: dict[str, Float32Array]) -> None:
        self._tf = tf = import_tensorflow(config.name)
        self._config, self._game = config, game
        self.updates = 0
        with tf.device(DEVICE):
            self._weights = {name: tf.Variable(array) for name, array in weights.items()}
            self._means = {name: tf.Variable(np.zeros_like(array)) for name, array in weights.items()}
            self._squares = {name: tf.Variable(np.zeros_like(array)) for name, array in weights.items()}
        self._lines = input_lines(game, config)
        boards = [tf.TensorSpec((None, None, width), tf.int8) for width in (game.cells, len(self._lines))]
        policy, value = tf.TensorSpec((None, None, game.cells), tf.float32), tf.TensorSpec((None, None), tf.float32)
        signature = [*boards, policy, value, tf.TensorSpec((None,), tf.float32)]
        self._compiled = tf.function(self._update, input_signature=signature, autograph=False).get_concrete_function()

    def update(self, examples: TrainingExamples) -> tuple[float, float]:
        """Make one gradient step from each of K batches of N positions.

        Args:
            examples: int8[K, N, cells], float32[K, N, cells] and float32[K, N]; ``results`` is ignored.

        Returns:
            The mean cross entropy of the policy and the mean squared error of the value, each before its step.

        Raises:
            ValueError: training diverged (non-finite loss).
        """
        config, tf, count = self._config, self._tf, len(examples.seen)
        rates = [
            adam_rate(config.learning_rate / (1 + config.learning_rate_decay * number), number + 1)
            for number in range(self.updates, self.updates + count)
        ]
        self.updates += count
        seen, policy, value, _ = examples
        states = line_states(seen.reshape(-1, seen.shape[2]), self._lines).reshape(*seen.shape[:2], len(self._lines))
        batches = (tf.constant(array) for array in (seen, states, policy, value))
        policy_loss, value_loss = self._compiled(*batches, tf.constant(rates, tf.float32))
        losses = float(policy_loss) / count, float(value_loss) / count
        if not np.isfinite(losses).all():
            raise self.diverged()
        return losses

    def diverged(self) -> ValueError:
        """Return the error for a training that diverged."""
        config = self._config
        return ValueError(
            f"{config.name} has diverged after {self.updates:,} updates: choose a learning_rate below "
            f"{config.learning_rate:g}"
        )

    def _update(self, seen: Any, states: Any, policy: Any, value: Any, rates: Any) -> tuple[Any, Any]:
        tf = self._tf
        with tf.device(DEVICE):

            def step(number: Any, policy_losses: Any, value_losses: Any) -> tuple[Any, Any, Any]:
                with tf.GradientTape() as tape:
                    policy_loss, value_loss = self._losses(seen[number], states[number], policy[number], value[number])
                    kernels = [weight for name, weight in self._weights.items() if name.endswith("weights")]
                    decay = tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
                    loss = policy_loss + self._config.value_weight * value_loss + self._config.weight_decay * decay
                gradients = tape.gradient(loss, self._weights)
                for name, weight in self._weights.items():
                    adam_step(tf, weight, self._means[name], self._squares[name], gradients[name], rates[number])
                return number + 1, policy_losses + policy_loss, value_losses + value_loss

            begin = tf.constant(0), tf.constant(0.0), tf.constant(0.0)
            _, policy_losses, value_losses = tf.while_loop(lambda number, *_: number < tf.shape(seen)[0], step, begin)
            return policy_losses, value_losses

    def _losses(self, seen: Any, states: Any, policy: Any, value: Any) -> tuple[Any, Any]:
        """Return the policy's mean cross entropy over legal moves and the value's mean squared error."""
        tf = self._tf
        planes = tf.cast(tf.concat([seen == 1, seen == 2, seen == 0], axis=1), tf.float32)
        lines, length = self._lines.shape
        held = tf.one_hot(tf.cast(states, tf.int32) - 1, 2 * length - 1)  # all zeros for a line without stones
        out = tf.concat([planes, tf.reshape(held, (tf.shape(seen)[0], lines * (2 * length - 1)))], axis=1)
        arrays = list(self._weights.values())
        for layer in range(0, len(arrays), 2):
            if layer > 0:
                out = tf.nn.relu(out)
            out = tf.nn.bias_add(out @ arrays[layer], arrays[layer + 1])
        legal = legal_moves(tf, self._game, seen)
        logarithms = tf.nn.log_softmax(tf.where(legal, out[:, :-1], -1e9))
        entropy = -tf.reduce_sum(tf.where(legal, policy * logarithms, 0.0), axis=1)
        return tf.reduce_mean(entropy), tf.reduce_mean(tf.square(tf.tanh(out[:, -1]) - value))

    def weights(self) -> dict[str, Float32Array]:
        """Return the net's weights by name."""
        return to_numpy(self._weights)

    def _variables(self) -> dict[str, Any]:
        """Return all variables by the names of their arrays."""
        groups = {"weight": self._weights, "mean": self._means, "square": self._squares}
        return {f"{kind}.{name}": variable for kind, group in groups.items() for name, variable in group.items()}

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weights, Adam's moments, and the number of updates."""
        return {**to_numpy(self._variables()), "updates": np.array([self.updates])}

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore the state from :meth:`to_arrays`."""
        updates = get_array(arrays, "updates", (1,), "i8", self._config.name, (0, 2**62))
        check_variables(self._variables(), arrays, self._config.name)
        assign_variables(self._variables(), arrays)
        self.updates = int(updates[0])
