"""A Q-network in TensorFlow, as in the report on three learners, with variants that improve its strength and speed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from learners.base import Arrays, Backup, Learner, Transition, final_rewards, get_array
from learners.config import LearnerConfig, check_rewards
from learners.limits import Fraction, NonNegative, NonNegativeInt, Positive, PositiveInt, Range
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
from ttt_envs.agents.policy import best_shares, sample
from ttt_envs.core.jit import BoolArray, Float32Array, Float64Array, Int8Array, Int64Array, kernel
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.phantom import HIDING, AnyGame, visible
from ttt_envs.game.rules import nth_legal_cell
from ttt_envs.game.symmetry import Symmetries, inverse, symmetries

BLOCK = 256
"""Fixed inference batch size, so that results do not depend on the batch: rounding in a matrix product depends on
shape."""


@dataclass(frozen=True)
class QNetConfig(LearnerConfig):
    """A Q-network: one hidden layer of ReLU units, from the stones of both players to a value for each cell."""

    name: ClassVar[str] = "q-net"
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    self_play: ClassVar[Mapping[str, Any]] = {
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

    hidden: Annotated[int, Range(1, 65536)] = 64
    """number of units of the hidden layer, 1 to 65536"""
    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam (Kingma and Ba, 2015), or plain gradient descent"""
    learning_rate: Positive = 0.001
    """initial learning rate of the optimizer, above 0"""
    learning_rate_decay: NonNegative = 0.0
    """the learning rate of update n, from 0, is learning_rate / (1 + learning_rate_decay n); 0 keeps it constant"""
    gamma: Fraction = 1.0
    """discount factor per turn, 0 to 1"""
    epsilon: Fraction = 1.0
    """probability of a random move during training, 0 to 1"""
    epsilon_decay: Fraction = 1e-4
    """epsilon is multiplied by 1 - epsilon_decay after each random move, 0 to 1"""
    backup: Backup = "agent"
    """agent: s' is the own next turn, to learn the best response to the opponent; negamax: in self-play, s' is the next
    ply, to learn minimax values"""
    rewards: Literal["unit", "report"] = "unit"
    """win, draw, loss: unit is 1, 0, -1; report is 1, 0.5, 0"""
    symmetries: Symmetries = "none"
    """add the rotations, or all symmetries, of the positions to every update, and average over them in greedy play"""
    buffer_size: NonNegativeInt = 0
    """capacity of the replay buffer in decisions; 0: no buffer, every update learns from the latest decisions"""
    batch_size: PositiveInt = 256
    """number of decisions in a minibatch from the replay buffer"""
    gradient_steps: PositiveInt = 1
    """number of updates per batch of decisions played; more than 1 only with a replay buffer"""
    target_update_interval: NonNegativeInt = 0
    """number of updates between copies of the net to the target net; 0: no target net"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gradient_steps > 1 and self.buffer_size == 0:
            raise ValueError(
                f"gradient_steps={self.gradient_steps} would learn several times from the same decisions without a "
                f"replay buffer: choose gradient_steps=1, or a buffer_size above 0"
            )
        check_rewards(self.rewards, self.backup)

    def build(self, game: AnyGame, rng: np.random.Generator) -> QNet:
        """Return a learner with random weights; ``rng`` draws these and the minibatches of the replay buffer.

        Raises:
            ValueError: TensorFlow is not installed.
        """
        return QNet(self, game, rng)


class QNet(Learner):
    """The learner of :class:`QNetConfig`. One net serves both seats: it sees the mover's stones as its own.

    The same seed gives the same learner, bit for bit, on one machine with the same TensorFlow and one thread. Building
    the first learner limits TensorFlow to one thread, unless the process has used TensorFlow or set a number before.

    Everything runs on the CPU, where a net of this size is fastest.
    """

    colour_blind = True
    on_policy = False

    def __init__(self, config: QNetConfig, game: AnyGame, rng: np.random.Generator) -> None:
        self.config = config
        self.game = game
        self.backup: Backup = config.backup
        self.epsilon = np.array([config.epsilon])
        self.updates = 0
        self._permutations = symmetries(game, config.symmetries)
        self._inverses = inverse(self._permutations)
        self.symmetric = config.symmetries == "all"
        """Whether greedy play averages over all symmetries."""
        initial, draws = rng.spawn(2)
        self.net = TFQNetwork(config, game, initial)
        self.replay = ReplayBuffer(game, config.buffer_size, draws) if config.buffer_size else None

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves of highest value."""
        seen = boards.own_first()
        return _greedy(boards.legal(self.game), self._mean_values(seen))

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal."""
        seen = boards.own_first()
        return np.where(boards.legal(self.game), self._mean_values(seen), np.nan)

    def values(self, boards: Boards) -> Float64Array:
        """Return values float64[B] from the mover's view."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return epsilon-greedy moves int64[B]."""
        seen = boards.own_first()
        u = rng.random((len(seen), 2))
        out = sample(_greedy(boards.legal(self.game), self._batched_values(seen)), u[:, 1])
        _epsilon_greedy(seen, u, self.epsilon, self.config.epsilon_decay, visible(self.game).parameters, out)
        return out

    def update(self, transition: Transition) -> dict[str, float]:
        """Update the net once from all the decisions, or ``gradient_steps`` times from the replay buffer."""
        reward = final_rewards(transition.reward, transition.discount == 0, self.config.rewards)
        batch = pack_transitions(
            transition.boards.own_first(),
            transition.action,
            reward,
            transition.discount * self.config.gamma,
            transition.next_boards.own_first(),
        )
        if self.replay is None:
            loss = self._update(batch)
        else:
            self.replay.add(batch)
            loss = 0.0
            for _ in range(self.config.gradient_steps):
                loss += self._update(self.replay.draw(self.config.batch_size)) / self.config.gradient_steps
        return {"loss": loss, "epsilon": float(self.epsilon[0]), "updates": float(self.updates)}

    @property
    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weights, the optimizer's state, the replay buffer, epsilon, and the number of updates."""
        arrays = {**to_numpy(self.net.variables()), "epsilon": self.epsilon.copy(), "updates": np.array([self.updates])}
        return arrays if self.replay is None else {**arrays, **self.replay.to_arrays()}

    @state.setter
    def state(self, arrays: Arrays) -> None:
        """See :class:`~learners.base.Checkpointable`."""
        owner, variables = self.config.name, self.net.variables()
        epsilon = get_array(arrays, "epsilon", (1,), "f8", owner, (0, 1))
        updates = get_array(arrays, "updates", (1,), "i8", owner, (0, 2**62))
        check_variables(variables, arrays, owner)
        if self.replay is not None:
            self.replay.from_arrays(arrays, owner)
        assign_variables(variables, arrays)
        self.epsilon = epsilon.copy()
        self.updates = int(updates[0])

    def __str__(self) -> str:
        return self.config.name

    def _update(self, batch: Float32Array) -> float:
        """Take one optimizer step; return the loss before it."""
        rate = self.config.learning_rate / (1 + self.config.learning_rate_decay * self.updates)
        self.updates += 1
        loss = self.net.update(batch, rate, self.updates)
        if self.config.target_update_interval and self.updates % self.config.target_update_interval == 0:
            self.net.update_target()
        return loss

    def _batched_values(self, seen: Int8Array) -> Float64Array:
        """Return the net's values float64[B, cells].

        Raises:
            ValueError: training diverged (non-finite values).
        """
        values = self.net.values(seen)
        if not np.isfinite(values).all():
            raise ValueError(
                f"the values of q-net are no numbers any more after {self.updates:,} updates: "
                f"choose a learning_rate below {self.config.learning_rate:g}"
            )
        return values

    def _mean_values(self, seen: Int8Array) -> Float64Array:
        """Return values float64[B, cells] averaged over the training symmetries.

        A sum of few float32 numbers in float64 is exact, so symmetric moves have equal values.
        """
        total = np.zeros(seen.shape)
        for permutation, back in zip(self._permutations, self._inverses, strict=True):
            total += self._block_values(seen[:, permutation])[:, back]
        return total / len(self._permutations)

    def _block_values(self, seen: Int8Array) -> Float64Array:
        """Apply :meth:`_batched_values` in blocks of fixed size, so that a position's values do not depend on its
        batch.
        """
        padded = np.zeros((-(-len(seen) // BLOCK) * BLOCK, self.game.cells), np.int8)
        padded[: len(seen)] = seen
        out = np.empty(padded.shape)
        for start in range(0, len(padded), BLOCK):
            out[start : start + BLOCK] = self._batched_values(padded[start : start + BLOCK])
        return out[: len(seen)]


def pack_transitions(
    seen: Int8Array, action: Int64Array, reward: Float64Array, discount: Float64Array, after: Int8Array
) -> Float32Array:
    """Pack decisions for training into one array, because every argument of a compiled function costs time.

    Args:
        seen: int8[B, cells] before the move, own stones first.
        action: int64[B].
        reward: float64[B].
        discount: float64[B], gamma with the sign of the next mover (-1 the opponent); 0 where the game is over.
        after: int8[B, cells], as ``seen``, at the next turn; meaningless where discount is 0.

    Returns:
        float32[B, 2 * cells + 3]: seen, after, action, reward, discount.
    """
    return np.concatenate([seen, after, action[:, None], reward[:, None], discount[:, None]], axis=1, dtype=np.float32)


class ReplayBuffer:
    """Replay buffer of the last ``size`` decisions; batches are drawn with replacement.

    Its generator is SFC64: as long as only ``random`` is drawn, its whole state is one array.
    """

    def __init__(self, game: AnyGame, size: int, rng: np.random.Generator) -> None:
        self._cells = game.cells
        self._transitions = np.zeros((size, 2 * game.cells + 3), np.float32)
        self._added = 0
        self._bits = np.random.SFC64(rng.integers(2**32, size=4))
        self._rng = np.random.Generator(self._bits)

    @property
    def size(self) -> int:
        """Number of decisions in the buffer."""
        return min(self._added, len(self._transitions))

    def add(self, batch: Float32Array) -> None:
        """Add decisions from :func:`pack_transitions`, replacing the oldest."""
        self._transitions[(self._added + np.arange(len(batch))) % len(self._transitions)] = batch
        self._added += len(batch)

    def draw(self, count: int) -> Float32Array:
        """Draw ``count`` decisions."""
        return self._transitions[(self._rng.random(count) * self.size).astype(np.int64)]

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the buffer, the number of decisions added, and the generator's state."""
        state: Any = self._bits.state
        return {
            "replay": self._transitions[: self.size].copy(),
            "replay_met": np.array([self._added]),
            "replay_draws": state["state"]["state"].copy(),
        }

    def from_arrays(self, arrays: Arrays, owner: str) -> None:
        """See :class:`~learners.base.Checkpointable`."""
        added = get_array(arrays, "replay_met", (1,), "i8", owner, (0, 2**62))
        draws = get_array(arrays, "replay_draws", (4,), "u8", owner)
        cells = self._cells
        limits = [0] * 2 * cells + [0, -1, -1], [2] * 2 * cells + [cells - 1, 1, 1]
        size = min(int(added[0]), len(self._transitions))
        replay = get_array(arrays, "replay", (size, 2 * cells + 3), "f4", owner, limits)
        self._added = int(added[0])
        self._transitions[:size] = replay
        state: Any = self._bits.state
        state["state"]["state"] = draws.copy()
        self._bits.state = state


class TFQNetwork:
    """The net and its optimizer in TensorFlow: four weight arrays, a compiled inference function, and a compiled
    update.

    Each function is traced once, for batches of any size.

    Attributes:
        functions: these two, as ``tf.function`` made them.
    """

    def __init__(self, config: QNetConfig, game: AnyGame, rng: np.random.Generator) -> None:
        self._tf = tf = import_tensorflow(config.name)
        self._config = config
        self._game, self._cells = game, game.cells
        cells = game.cells
        permutations = symmetries(game, config.symmetries)
        self._images = len(permutations)
        shapes = {
            "hidden_kernel": (2 * cells, config.hidden),
            "hidden_bias": (config.hidden,),
            "output_kernel": (config.hidden, cells),
            "output_bias": (cells,),
        }
        with tf.device(DEVICE):
            self._permutations = tf.constant(permutations)
            self._actions = tf.constant(inverse(permutations).T)  # [a, s]: action a under symmetry s
            self._weights = {name: tf.Variable(_glorot(shape, rng)) for name, shape in shapes.items()}
            zeros = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
            adam = config.optimizer == "adam"
            self._means = {name: tf.Variable(zero) for name, zero in zeros.items()} if adam else {}
            self._squares = {name: tf.Variable(zero) for name, zero in zeros.items()} if adam else {}
            self._target = self._weights
            if config.target_update_interval:
                self._target = {name: tf.Variable(weight) for name, weight in self._weights.items()}
        boards = tf.TensorSpec((None, cells), tf.int8)
        decisions = tf.TensorSpec((None, 2 * cells + 3), tf.float32)
        self.functions = (
            tf.function(self._values, input_signature=[boards], autograph=False),
            tf.function(self._update, input_signature=[decisions, tf.TensorSpec((), tf.float32)], autograph=False),
        )
        # calling the traced functions with tensors halves the time of a call
        self._compiled_values, self._compiled_update = (f.get_concrete_function() for f in self.functions)

    def values(self, seen: Int8Array) -> Float64Array:
        """Return values float64[B, cells] of boards int8[B, cells] with own stones first."""
        return np.asarray(self._compiled_values(self._tf.constant(seen)).numpy(), np.float64)

    def update(self, batch: Float32Array, rate: float, step: int) -> float:
        """Take step ``step``, from 1, with the learning rate ``rate``; return the loss before it."""
        tf = self._tf
        if self._means:
            rate = adam_rate(rate, step)
        # TensorFlow keeps every Python number that it has converted: 650 bytes for each new rate
        return float(self._compiled_update(tf.constant(batch), tf.constant(np.float32(rate))))

    def update_target(self) -> None:
        """Copy the net to the target net."""
        for name, weight in self._weights.items():
            self._target[name].assign(weight)

    def _planes(self, seen: Any) -> Any:
        """Return float32[B, 2 * cells]: planes of own stones and of the opponent's."""
        return self._tf.cast(self._tf.concat([seen == 1, seen == 2], axis=1), self._tf.float32)

    def _forward(self, weights: Mapping[str, Any], planes: Any) -> tuple[Any, Any]:
        """Return the hidden layer's outputs float32[B, hidden] and the values float32[B, cells]."""
        tf = self._tf
        hidden = tf.nn.relu(tf.nn.bias_add(planes @ weights["hidden_kernel"], weights["hidden_bias"]))
        return hidden, tf.nn.bias_add(hidden @ weights["output_kernel"], weights["output_bias"])

    def _values(self, seen: Any) -> Any:
        with self._tf.device(DEVICE):
            return self._forward(self._weights, self._planes(seen))[1]

    def _update(self, batch: Any, rate: Any) -> Any:
        """Make a gradient step on the mean of (target - Q(s, a))^2 over all decisions and their symmetries."""
        tf = self._tf
        with tf.device(DEVICE):
            seen, after, numbers = tf.split(batch, [self._cells, self._cells, 3], axis=1)
            action, reward, discount = tf.cast(numbers[:, 0], tf.int32), numbers[:, 1], numbers[:, 2]
            ahead = self._forward(self._target, self._planes(after))[1]
            best = tf.reduce_max(tf.where(legal_moves(tf, self._game, after), ahead, -math.inf), axis=1)
            target = reward + tf.where(discount == 0, 0.0, discount * best)
            if self._images > 1:
                seen = tf.reshape(tf.gather(seen, self._permutations, axis=1), (-1, self._cells))
                action = tf.reshape(tf.gather(self._actions, action), (-1,))
                target = tf.repeat(target, self._images)
            weights = {name: tf.convert_to_tensor(weight) for name, weight in self._weights.items()}
            planes = self._planes(seen)
            hidden, values = self._forward(weights, planes)
            move = tf.one_hot(action, self._cells)
            error = tf.reduce_sum(values * move, axis=1) - target
            loss = tf.reduce_mean(tf.square(error))
            # explicit backpropagation, which takes half the operations of a gradient tape
            by_values = move * (2 * error / tf.cast(tf.size(error), tf.float32))[:, None]
            by_hidden = tf.matmul(by_values, weights["output_kernel"], transpose_b=True) * tf.cast(
                hidden > 0, tf.float32
            )
            gradients = {
                "hidden_kernel": tf.matmul(planes, by_hidden, transpose_a=True),
                "hidden_bias": tf.reduce_sum(by_hidden, axis=0),
                "output_kernel": tf.matmul(hidden, by_values, transpose_a=True),
                "output_bias": tf.reduce_sum(by_values, axis=0),
            }
            for name, gradient in gradients.items():
                self._step(name, gradient, rate)
            return loss

    def _step(self, name: str, gradient: Any, rate: Any) -> None:
        """Apply an optimizer step to one of the weight arrays."""
        weight = self._weights[name]
        if not self._means:
            weight.assign_sub(rate * gradient)
            return
        adam_step(self._tf, weight, self._means[name], self._squares[name], gradient, rate)

    def variables(self) -> dict[str, Any]:
        """Return all mutable variables by the names of their arrays."""
        kinds = {"": self._weights, "_mean": self._means, "_square": self._squares}
        if self._config.target_update_interval:
            kinds["_target"] = self._target
        return {name + kind: variable for kind, group in kinds.items() for name, variable in group.items()}


def _glorot(shape: tuple[int, ...], rng: np.random.Generator) -> Float32Array:
    """Draw a kernel uniform in +-sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010), or a bias of 0."""
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    limit = math.sqrt(6 / sum(shape))
    return rng.uniform(-limit, limit, shape).astype(np.float32)


def _greedy(legal: BoolArray, values: Float64Array) -> Float64Array:
    """Return equal shares float64[B, cells] for the legal actions with the highest value."""
    return best_shares(np.where(legal, values, np.nan))


@kernel
def _epsilon_greedy(
    seen: Int8Array,
    u: Float64Array,
    epsilon: Float64Array,
    epsilon_decay: float,
    parameters: Parameters,
    moves: Int64Array,
) -> None:
    """Replace greedy moves by random ones where ``u`` float64[B, 2] is below epsilon, which decays with each."""
    for b in range(len(moves)):
        if u[b, 0] < epsilon[0]:
            moves[b] = nth_legal_cell(seen[b], u[b, 1], parameters)
            epsilon[0] *= 1.0 - epsilon_decay
