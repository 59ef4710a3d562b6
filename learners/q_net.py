"""A Q-network in TensorFlow, as in the report on three learners, with variants that improve its
strength and speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from learners.base import (
    MAX_COUNT,
    Arrays,
    Backup,
    EpsilonGreedyLearner,
    Limits,
    Stored,
    Tensor,
    Transition,
)
from learners.config import (
    Fraction,
    LearnerConfig,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
)
from learners.mlp import Activation, dense_layers, forward, glorot, layer_shapes, planes
from learners.net import EPSILON, TrainableNet
from learners.ppo import BETA1, BETA2
from learners.training import check_memory
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Float32Array, Float64Array
from ttt_envs.core.packages import avoid_triton_crash, hide_native_log, install_command
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import HIDING, AnyGame
from ttt_envs.game.rules import legal
from ttt_envs.game.symmetry import Symmetries, inverse, symmetries

ACTIVATIONS: tuple[Activation, ...] = ("relu", "linear")
"""Of the hidden layer and the output."""
DEVICE = "/CPU:0"
"""Fastest device for a net of this size."""
NUM_NUMBERS = 3
ACTION, REWARD, DISCOUNT = range(-NUM_NUMBERS, 0)
"""The last columns of a packed decision, after the board before the move and that at the next turn:
the discount is gamma with the sign of the next mover, 0 where the game is over.
"""


@dataclass(frozen=True)
class QNetConfig(LearnerConfig):
    """A Q-network: one hidden layer of ReLU units, from the stones of both players to a value for
    each cell.
    """

    name: ClassVar[str] = "q-net"
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    needs: ClassVar[tuple[str, ...]] = ("tensorflow",)
    test_settings: ClassVar[dict[str, object]] = {"games": 40, "hidden": 4}
    self_play: ClassVar[Mapping[str, object]] = {
        "backup": "negamax",
        "symmetries": "all",
        "hidden": 128,
        "learning_rate": 0.003,
        "learning_rate_decay": 0.001,
        "epsilon": 0.5,
        "epsilon_decay": 0.0,
        "buffer_size": 50_000,
        "batch_size": 128,
        "gradient_steps": 4,
    }
    self_play_games: ClassVar[int] = 30_000
    report: ClassVar[Mapping[str, object]] = {
        "hidden": 20,
        "gamma": 0.999,
        "rewards": "report",
        "batch": 1,
    }

    hidden: Annotated[int, Meta(ge=1, le=65536)] = 64
    """number of units of the hidden layer, 1 to 65536"""
    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam (Kingma and Ba, 2015), or plain gradient descent"""
    learning_rate: Positive = 0.001
    """initial learning rate of the optimizer, above 0"""
    learning_rate_decay: NonNegative = 0.0
    """the learning rate of update n, from 0, is learning_rate / (1 + learning_rate_decay n); 0
    keeps it constant
    """
    gamma: Fraction = 1.0
    """discount factor per turn, 0 to 1"""
    epsilon: Fraction = 1.0
    """probability of a random move during training, 0 to 1"""
    epsilon_decay: Fraction = 1e-4
    """epsilon is multiplied by 1 - epsilon_decay after each random move, 0 to 1"""
    backup: Backup = "agent"
    """agent: s' is the own next turn, to learn the best response to the opponent; negamax: in
    self-play, s' is the next ply, to learn minimax values"""
    rewards: Literal["unit", "report"] = "unit"
    """win, draw, loss: unit is 1, 0, -1; report is 1, 0.5, 0"""
    symmetries: Symmetries = "none"
    """add the rotations, or all symmetries, of the positions to every update, and average over them
    in greedy play
    """
    buffer_size: NonNegativeInt = 0
    """capacity of the replay buffer in decisions; 0: no buffer, every update learns from the latest
    decisions
    """
    batch_size: PositiveInt = 256
    """number of decisions in a minibatch from the replay buffer"""
    gradient_steps: PositiveInt = 1
    """number of updates per batch of decisions played"""

    def build(self, game: AnyGame, rng: np.random.Generator) -> QNet:
        """Return a learner with random weights; ``rng`` draws these and the minibatches of the
        replay buffer.

        Raises:
            ValueError: TensorFlow is not installed.
        """
        return QNet(self, game, rng)


class QNet(EpsilonGreedyLearner):
    """The learner of :class:`QNetConfig`. One net serves both seats: it sees the mover's stones as
    its own.

    The same seed gives the same learner, bit for bit, on one machine with the same TensorFlow and
    one thread. Building the first learner limits TensorFlow to one thread, unless the process has
    used TensorFlow or set a number before.

    Everything runs on the CPU, where a net of this size is fastest.
    """

    stored = ("net", "replay", "epsilon")
    config: QNetConfig

    def __init__(self, config: QNetConfig, game: AnyGame, rng: np.random.Generator) -> None:
        super().__init__(config, game, config.backup)
        self._permutations = symmetries(game, config.symmetries)
        self._inverses = inverse(self._permutations)
        width = 2 * game.cells + NUM_NUMBERS
        check_memory(4 * width * config.buffer_size, f"buffer_size={config.buffer_size:,}")
        initial_rng, replay_rng = rng.spawn(2)
        shapes = layer_shapes((2 * game.cells, config.hidden, game.cells))
        # weights are drawn before biases
        by_rank = dict(sorted(shapes.items(), key=lambda shape: -len(shape[1])))
        self.net = net = TFNet(config, glorot(by_rank, initial_rng))
        self._q = net.compile(net.outputs, ((None, game.cells), "int8"))
        self._update = net.compile(
            self._step,
            ((None, width), "float32"),  # batch
            ((None, game.cells), "bool"),  # is_legal
            ((1,), "float32"),  # rates
        )
        self.replay: ReplayBuffer | None = None
        if config.buffer_size:
            self.replay = ReplayBuffer(config.buffer_size, width, replay_rng)

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        cells = self.game.cells
        minimum = np.zeros(2 * cells + NUM_NUMBERS)
        minimum[[REWARD, DISCOUNT]] = -1
        maximum = np.ones(len(minimum))
        maximum[:ACTION] = 2
        maximum[ACTION] = cells - 1
        return {**super().limits(), "replay.rows": (minimum, maximum)}

    def _step(self, batch: Tensor, is_legal: Tensor, rates: Tensor) -> Tensor:
        """Make a step on the mean of (td_target - Q(s, a))^2 over all decisions and their
        symmetries.

        ``batch`` float32[B, width] has packed decisions, one array, because every argument of a
        compiled function takes time. Returns the mean before the step.
        """
        net = self.net
        tf = net.tf
        cells = self.game.cells
        obs = batch[:, :cells]
        next_obs = batch[:, cells:ACTION]
        action = tf.cast(batch[:, ACTION], tf.int32)
        reward = batch[:, REWARD]
        discount = batch[:, DISCOUNT]

        next_q = net.outputs(next_obs)
        next_value = tf.reduce_max(tf.where(is_legal, next_q, -math.inf), axis=1)
        # after the end no move need be legal: then next_value is -inf, and 0 * -inf is NaN
        td_target = reward + tf.where(discount == 0, 0.0, discount * next_value)

        if len(self._permutations) > 1:
            obs = tf.reshape(tf.gather(obs, self._permutations, axis=1), (-1, cells))
            action = tf.reshape(tf.gather(self._inverses.T, action), (-1,))
            td_target = tf.repeat(td_target, len(self._permutations))

        def loss() -> Tensor:
            q = tf.reduce_sum(net.outputs(obs) * tf.one_hot(action, cells), axis=1)
            error = q - td_target
            return tf.reduce_sum(error * (error / tf.cast(tf.size(error), tf.float32)))

        return net.descend(loss, rates[0])

    def update(self, transition: Transition) -> dict[str, float]:
        """Update the net once from all the decisions, or ``gradient_steps`` times from the replay
        buffer.
        """
        config = self.config
        batch = transition.own_first(config.rewards)
        numbers = np.stack([batch.action, batch.reward, batch.discount * config.gamma], axis=1)
        boards = [batch.boards.cells, batch.next_boards.cells]
        rows = np.concatenate([*boards, numbers], axis=1, dtype=np.float32)
        if self.replay is not None:
            self.replay.add(rows)
        loss = 0.0
        for _ in range(config.gradient_steps):
            minibatch = rows if self.replay is None else self.replay.draw(config.batch_size)
            next_cells = minibatch[:, self.game.cells : ACTION].astype(np.int8)
            is_legal = legal(self.game, next_cells)
            loss += (
                float(self._update(minibatch, is_legal, self.net.next_rate()))
                / config.gradient_steps
            )
        return {"loss": loss, "epsilon": float(self.epsilon[0]), "updates": float(self.net.updates)}

    def values_to_explore(self, boards: Boards, is_random: BoolArray) -> Float64Array:
        """See the base class; by the net without symmetries.

        Raises:
            ValueError: the net has diverged.
        """
        q = self._q(boards.own_first()).numpy().astype(np.float64)
        self.net.check(q)
        q[is_random] = 0.0
        return np.where(boards.legal(self.game), q, np.nan)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal; the mean
        over the training symmetries.

        They are computed in float64 and rounded to float32, so that they do not depend on the
        batch; sums of few such numbers in float64 are exact, so that symmetric moves have equal
        values.
        """
        obs = boards.own_first()
        layers = dense_layers(self.net.arrays, ACTIVATIONS)
        total = np.zeros(obs.shape)
        for permutation, back in zip(self._permutations, self._inverses, strict=True):
            total += forward(planes(obs[:, permutation], 2), layers).astype(np.float32)[:, back]
        self.net.check(total)
        return np.where(boards.legal(self.game), total / len(self._permutations), np.nan)


class ReplayBuffer(Stored):
    """Replay buffer of the last ``size`` decisions, rows of ``width`` numbers; batches are drawn
    with replacement.
    """

    stored = ("rows", "added", "rng")

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        self.rows = np.zeros((size, width), np.float32)
        self.added = np.zeros(1, np.int64)
        self.rng = np.random.Generator(np.random.SFC64(rng.integers(2**32, size=4)))

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`; the owner knows the limits of rows."""
        return {"added": (0, MAX_COUNT)}

    def add(self, rows: Float32Array) -> None:
        """Add decisions float32[B, width], replacing the oldest."""
        self.added += len(rows)
        self.rows[(self.added + np.arange(-len(rows), 0)) % len(self.rows)] = rows

    def draw(self, count: int) -> Float32Array:
        """Draw ``count`` decisions."""
        size = min(int(self.added[0]), len(self.rows))
        return self.rows[(self.rng.random(count) * size).astype(np.int64)]


# --------------------------------------------------------------------------------------------------
# The net in TensorFlow


def import_tensorflow(learner: str) -> Any:
    """Import TensorFlow, with one thread unless configured otherwise: more threads change the order
    of sums.

    Raises:
        ValueError: it is not installed.
    """
    avoid_triton_crash()
    try:
        with hide_native_log():
            import tensorflow as tf
    except ImportError as problem:
        raise Refusal(f"{learner} needs TensorFlow ({problem}): {install_command('tf')}") from None
    threads = tf.config.threading
    try:
        if (
            threads.get_intra_op_parallelism_threads()
            == threads.get_inter_op_parallelism_threads()
            == 0
        ):
            threads.set_intra_op_parallelism_threads(1)
            threads.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow is already initialized
        pass
    return tf


class TFNet(TrainableNet):
    """A Q-network and its optimizer in TensorFlow. The same steps give the same net, bit for bit,
    with one thread.

    Args:
        config: its settings.
        weights: initial arrays by name.

    Attributes:
        tf: TensorFlow.
        weights: variables by name.

    Raises:
        ValueError: TensorFlow is not installed.
    """

    def __init__(self, config: QNetConfig, weights: Arrays) -> None:
        self.tf = tf = import_tensorflow(config.name)
        super().__init__(config, weights, ACTIVATIONS, config.learning_rate_decay)
        if config.optimizer == "sgd":
            self._moments = {}
        with tf.device(DEVICE):
            self.weights = {name: tf.Variable(array) for name, array in self.weights.items()}
            self._moments = {name: tf.Variable(array) for name, array in self._moments.items()}

    def compile(
        self, function: Callable[..., Tensor], *arguments: tuple[tuple[int | None, ...], str]
    ) -> Callable[..., Tensor]:
        """Compile a function of tensors, given the shape and dtype of each; it is traced once."""
        tf = self.tf

        def on_device(*tensors: Tensor) -> Tensor:
            with tf.device(DEVICE):
                return function(*tensors)

        graph = tf.function(
            on_device,
            input_signature=[tf.TensorSpec(*argument) for argument in arguments],
            autograph=False,
        ).get_concrete_function()
        return lambda *arrays: graph(*(tf.constant(array) for array in arrays))

    def outputs(self, obs: Tensor) -> Tensor:
        """Return the values float32[B, cells] of moves on boards [B, cells], own stones first."""
        tf = self.tf
        weights = self.weights
        inputs = tf.cast(tf.concat([obs == 1, obs == 2], axis=1), tf.float32)
        hidden = tf.nn.relu(inputs @ weights["0.weights"] + weights["0.bias"])
        return hidden @ weights["1.weights"] + weights["1.bias"]

    def next_rate(self) -> Float32Array:
        """Count a step, and return its learning rate float32[1], with Adam's correction."""
        rate = self.learning_rate
        corrected = self.adam.next_rate(rate)
        return np.array([corrected if self._moments else rate], np.float32)

    def descend(self, loss: Callable[[], Tensor], rate: Tensor) -> Tensor:
        """Make a step with a rate from :meth:`next_rate` down the gradient of ``loss()``, and
        return the loss before it.
        """
        with self.tf.GradientTape() as tape:
            before = loss()
        for name, gradient in tape.gradient(before, self.weights).items():
            weight = self.weights[name]
            if not self._moments:
                weight.assign_sub(rate * gradient)
                continue
            # the rate has the bias correction: the powers of the betas are 0 here
            self.tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=self._moments[f"mean.{name}"].handle,
                v=self._moments[f"square.{name}"].handle,
                beta1_power=0.0,
                beta2_power=0.0,
                lr=rate,
                beta1=BETA1,
                beta2=BETA2,
                epsilon=EPSILON,
                grad=gradient,
            )
        return before

    def from_arrays(self, arrays: Arrays) -> None:
        """Set them."""
        for name, variable in {**self.weights, **self._moments}.items():
            variable.assign(arrays[name])
        self.adam.updates[:] = arrays["updates"]
