"""A Q-network in TensorFlow, as in the report on three learners, with the variants that make it strong and fast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from learners.base import Arrays, Bootstrap, Transition
from learners.config import Builder, check_kinds, check_limits
from learners.dense import Floats
from learners.quiet import avoid_triton_crash, without_chatter
from learners.tabular import checked, final_rewards
from ttt_envs.boards import Boards
from ttt_envs.compiling import Cells, Flags, Integers, Reals, compiled
from ttt_envs.policy import best_shares, sample
from ttt_envs.rules import Game, pick
from ttt_envs.symmetry import Symmetries, inverse, symmetries

BLOCK = 256
"""positions that are valued at once in earnest: a matrix product's rounding depends on its shape, so it has only one"""
DEVICE = "/CPU:0"
"""a net of this size is fastest there"""
LARGEST = float(np.finfo(np.float32).max)
BETA_1, BETA_2, ADAM_EPSILON = 0.9, 0.999, 1e-8
"""of Adam, as its paper and TensorFlow's AdamOptimizer have them"""


@dataclass(frozen=True)
class QNetConfig(Builder):
    """A Q-network: one hidden layer of ReLU units, from the stones of both players to a value for each cell."""

    name: ClassVar[str] = "q-net"
    self_play: ClassVar[Mapping[str, Any]] = {
        "bootstrap": "ply",
        "symmetries": "all",
        "hidden": 128,
        "learning_rate": 0.003,
        "learning_rate_decay": 0.001,
        "epsilon": 0.5,
        "epsilon_step": 0.0,
        "replay_size": 50_000,
        "replay_batch": 128,
        "updates": 4,
    }
    self_play_games: ClassVar[int] = 30_000

    hidden: int = 64
    """units of the hidden layer, 1 to 65536"""
    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam (Kingma and Ba, 2015), or plain gradient descent"""
    learning_rate: float = 0.001
    """of the optimizer, above 0"""
    learning_rate_decay: float = 0.0
    """update n, from 0, has the rate learning_rate / (1 + learning_rate_decay n); 0 keeps it constant"""
    gamma: float = 1.0
    """how much the next turn counts, 0 to 1"""
    epsilon: float = 1.0
    """probability of a random move while learning, 0 to 1"""
    epsilon_step: float = 1e-4
    """epsilon is multiplied by 1 - epsilon_step after each random move, 0 to 1"""
    bootstrap: Bootstrap = "own-turn"
    """own-turn: look ahead to the own next turn, and learn the best response to the opponent met; ply: in self-play, to
    the next ply, and learn minimax values"""
    rewards: Literal["unit", "report"] = "unit"
    """win, draw, loss: unit is 1, 0, -1; report is 1, 0.5, 0"""
    symmetries: Symmetries = "none"
    """let every update learn also from the images of the positions under the rotations, or all symmetries, and play in
    earnest by the mean of their values"""
    replay_size: int = 0
    """decisions that are remembered, of which updates draw; 0: every update learns from what was just played"""
    replay_batch: int = 256
    """remembered decisions that an update draws"""
    updates: int = 1
    """updates for every set of decisions played; more than 1 only with a replay memory"""
    target_every: int = 0
    """updates after which the net that values the next turn is made equal to the one that learns; 0: it is the same"""

    def __post_init__(self) -> None:
        check_kinds(self)
        limits = {
            "hidden": (1 <= self.hidden <= 65536, "1 to 65536"),
            "learning_rate": (0 < self.learning_rate < math.inf, "above 0"),
            "learning_rate_decay": (0 <= self.learning_rate_decay < math.inf, "0 or above"),
            "gamma": (0 <= self.gamma <= 1, "0 to 1"),
            "epsilon": (0 <= self.epsilon <= 1, "0 to 1"),
            "epsilon_step": (0 <= self.epsilon_step <= 1, "0 to 1"),
            "replay_size": (self.replay_size >= 0, "0 (no memory), 1 or more"),
            "replay_batch": (self.replay_batch >= 1, "1 or more"),
            "updates": (self.updates >= 1, "1 or more"),
            "target_every": (self.target_every >= 0, "0 (no net of its own), 1 or more"),
        }
        check_limits(self, limits)
        if self.updates > 1 and self.replay_size == 0:
            raise ValueError(
                f"updates={self.updates} would learn several times from the same decisions without a memory: "
                f"choose updates=1, or a replay_size above 0"
            )
        if self.rewards == "report" and self.bootstrap == "ply":
            raise ValueError(
                'rewards="report" (1, 0.5, 0) has no opposite for the other player, which bootstrap="ply" needs: '
                'choose rewards="unit" or bootstrap="own-turn"'
            )

    def build(self, game: Game, rng: np.random.Generator) -> QNet:
        """A learner with random weights; ``rng`` is for these and for the draws from the replay memory.

        Raises:
            ValueError: TensorFlow is not installed.
        """
        return QNet(self, game, rng)


class QNet:
    """The learner of :class:`QNetConfig`. One net serves both seats: it sees the mover's stones as its own.

    The same seed gives the same learner, bit for bit, on one machine with the same TensorFlow and one thread. Building
    the first one asks TensorFlow for one thread, unless the process has used TensorFlow or chosen a number before.

    Everything runs on the CPU, where a net of this size is fastest.
    """

    pure: ClassVar[bool] = True
    colour_blind: ClassVar[bool] = True
    wants_next_action = False

    def __init__(self, config: QNetConfig, game: Game, rng: np.random.Generator) -> None:
        self.config = config
        self.game = game
        self.bootstrap: Bootstrap = config.bootstrap
        self.epsilon = np.array([config.epsilon])
        self.updates = 0
        self._permutations = symmetries(game, config.symmetries)
        self._inverses = inverse(self._permutations)
        self.symmetric = config.symmetries == "all"
        """it plays by the mean of all images"""
        initial, draws = rng.spawn(2)
        self.net = NetInTensorFlow(config, game, initial)
        self.replay = Replay(game, config.replay_size, draws) if config.replay_size else None

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, cells]: equal shares for the moves of highest value."""
        seen = boards.own_first()
        return _greedy(boards.legal(self.game), self._in_earnest(seen))

    def action_values(self, boards: Boards) -> Reals:
        """float64[B, cells], to the mover, NaN where illegal."""
        seen = boards.own_first()
        return np.where(boards.legal(self.game), self._in_earnest(seen), np.nan)

    def values(self, boards: Boards) -> Reals:
        """float64[B], to the mover."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def explore(self, boards: Boards, rng: np.random.Generator) -> Integers:
        """int64[B]: epsilon-greedy."""
        seen = boards.own_first()
        u = rng.random((len(seen), 2))
        out = sample(_greedy(boards.legal(self.game), self._valued(seen)), u[:, 1])
        _stray(seen, u, self.epsilon, self.config.epsilon_step, out)
        return out

    def observe(self, transition: Transition) -> dict[str, float]:
        """Update the net once from all the decisions, or ``updates`` times from remembered ones."""
        reward = final_rewards(transition.reward, transition.discount == 0, self.config.rewards)
        batch = packed(
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
            for _ in range(self.config.updates):
                loss += self._update(self.replay.draw(self.config.replay_batch)) / self.config.updates
        return {"loss": loss, "epsilon": float(self.epsilon[0]), "updates": float(self.updates)}

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The weights, what the optimizer and the replay memory hold, epsilon, and how many updates there were."""
        arrays = {**self.net.to_arrays(), "epsilon": self.epsilon.copy(), "updates": np.array([self.updates])}
        return arrays if self.replay is None else {**arrays, **self.replay.to_arrays()}

    def from_arrays(self, arrays: Arrays) -> None:
        """Take back what :meth:`to_arrays` gave.

        Raises:
            ValueError: arrays of another learner, game or settings, or damaged ones.
        """
        check("epsilon", arrays, "f8", (1,), 0, 1)
        check("updates", arrays, "i8", (1,), 0, 2**62)
        self.net.check(arrays)
        if self.replay is not None:
            self.replay.check(arrays)
            self.replay.from_arrays(arrays)
        self.net.from_arrays(arrays)
        self.epsilon = arrays["epsilon"].copy()
        self.updates = int(arrays["updates"][0])

    def __str__(self) -> str:
        return self.config.name

    def _update(self, batch: Floats) -> float:
        """Take one step of the optimizer; the loss before it."""
        rate = self.config.learning_rate / (1 + self.config.learning_rate_decay * self.updates)
        self.updates += 1
        loss = self.net.update(batch, rate, self.updates)
        if self.config.target_every and self.updates % self.config.target_every == 0:
            self.net.renew_target()
        return loss

    def _valued(self, seen: Cells) -> Reals:
        """The net's values float64[B, cells].

        Raises:
            ValueError: it has learned itself to death.
        """
        values = self.net.values(seen)
        if not np.isfinite(values).all():
            raise ValueError(
                f"the values of q-net are no numbers any more after {self.updates:,} updates: "
                f"choose a learning_rate below {self.config.learning_rate:g}"
            )
        return values

    def _in_earnest(self, seen: Cells) -> Reals:
        """float64[B, cells]: the mean over the images that were learned from.

        The sum of few float32 numbers in float64 is exact, so moves that are images of each other have equal values.
        """
        total = np.zeros(seen.shape)
        for permutation, back in zip(self._permutations, self._inverses, strict=True):
            total += self._in_blocks(seen[:, permutation])[:, back]
        return total / len(self._permutations)

    def _in_blocks(self, seen: Cells) -> Reals:
        """:meth:`_valued` in blocks of one size, so that a position's values do not depend on what it is asked with."""
        padded = np.zeros((-(-len(seen) // BLOCK) * BLOCK, self.game.cells), np.int8)
        padded[: len(seen)] = seen
        out = np.empty(padded.shape)
        for start in range(0, len(padded), BLOCK):
            out[start : start + BLOCK] = self._valued(padded[start : start + BLOCK])
        return out[: len(seen)]


def packed(seen: Cells, action: Integers, reward: Reals, discount: Reals, after: Cells) -> Floats:
    """Decisions as the net learns from them: one array, because every argument of a compiled function costs time.

    Args:
        seen: int8[B, cells] before the move, own stones first.
        action: int64[B].
        reward: float64[B].
        discount: float64[B], gamma with the sign of who is to move next; 0 where the game is over.
        after: int8[B, cells], as ``seen``, at the next turn; meaningless where discount is 0.

    Returns:
        float32[B, 2 * cells + 3]: seen, after, action, reward, discount.
    """
    return np.concatenate([seen, after, action[:, None], reward[:, None], discount[:, None]], axis=1, dtype=np.float32)


class Replay:
    """The last ``size`` decisions, from which batches are drawn with replacement.

    Its generator is SFC64, the whole state of which is one array while only ``random`` is drawn.
    """

    def __init__(self, game: Game, size: int, rng: np.random.Generator) -> None:
        self._cells = game.cells
        self._memory = np.zeros((size, 2 * game.cells + 3), np.float32)
        self._met = 0
        self._bits = np.random.SFC64(rng.integers(2**32, size=4))
        self._rng = np.random.Generator(self._bits)

    @property
    def kept(self) -> int:
        """How many decisions are remembered."""
        return min(self._met, len(self._memory))

    def add(self, batch: Floats) -> None:
        """Remember decisions, as :func:`packed` makes them, in place of the oldest."""
        self._memory[(self._met + np.arange(len(batch))) % len(self._memory)] = batch
        self._met += len(batch)

    def draw(self, count: int) -> Floats:
        """``count`` decisions."""
        return self._memory[(self._rng.random(count) * self.kept).astype(np.int64)]

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """What is remembered, how many decisions were met, and the generator."""
        state: Any = self._bits.state
        return {
            "replay": self._memory[: self.kept].copy(),
            "replay_met": np.array([self._met]),
            "replay_draws": state["state"]["state"].copy(),
        }

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError unless ``arrays`` fit."""
        check("replay_met", arrays, "i8", (1,), 0, 2**62)
        check("replay_draws", arrays, "u8", (4,), 0, 2**64 - 1)
        cells = self._cells
        kept = min(int(arrays["replay_met"][0]), len(self._memory))
        check(
            "replay",
            arrays,
            "f4",
            (kept, 2 * cells + 3),
            least=[0] * 2 * cells + [0, -1, -1],
            most=[2] * 2 * cells + [cells - 1, 1, 1],
        )

    def from_arrays(self, arrays: Arrays) -> None:
        """Take back what :meth:`to_arrays` gave, once it is checked."""
        self._met = int(arrays["replay_met"][0])
        self._memory[: self.kept] = arrays["replay"]
        state: Any = self._bits.state
        state["state"]["state"] = arrays["replay_draws"].copy()
        self._bits.state = state


class NetInTensorFlow:
    """The net and its optimizer in TensorFlow: four weights, a compiled function that values, and one that learns.

    Each of the two is traced once, for batches of any size.

    Attributes:
        functions: these two, as ``tf.function`` made them.
    """

    def __init__(self, config: QNetConfig, game: Game, rng: np.random.Generator) -> None:
        self._tf = tf = import_tensorflow(config.name)
        self._config = config
        self._cells = cells = game.cells
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
            self._actions = tf.constant(inverse(permutations).T)  # [a, s]: the action a in image s
            self._weights = {name: tf.Variable(_glorot(shape, rng)) for name, shape in shapes.items()}
            zeros = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
            adam = config.optimizer == "adam"
            self._means = {name: tf.Variable(zero) for name, zero in zeros.items()} if adam else {}
            self._squares = {name: tf.Variable(zero) for name, zero in zeros.items()} if adam else {}
            self._target = self._weights
            if config.target_every:
                self._target = {name: tf.Variable(weight) for name, weight in self._weights.items()}
        boards = tf.TensorSpec((None, cells), tf.int8)
        decisions = tf.TensorSpec((None, 2 * cells + 3), tf.float32)
        self.functions = (
            tf.function(self._values, input_signature=[boards], autograph=False),
            tf.function(self._update, input_signature=[decisions, tf.TensorSpec((), tf.float32)], autograph=False),
        )
        # calling what was traced, with tensors, spares half the time of a call
        self._compiled_values, self._compiled_update = (f.get_concrete_function() for f in self.functions)

    def values(self, seen: Cells) -> Reals:
        """float64[B, cells], of boards int8[B, cells] with own stones first."""
        return np.asarray(self._compiled_values(self._tf.constant(seen)).numpy(), np.float64)

    def update(self, batch: Floats, rate: float, step: int) -> float:
        """Take step ``step``, from 1, with the learning rate ``rate``; the loss before it."""
        tf = self._tf
        if self._means:
            rate = adam_rate(rate, step)
        return float(self._compiled_update(tf.constant(batch), tf.constant(rate, tf.float32)))

    def renew_target(self) -> None:
        """Make the net that values the next turn equal to the one that learns."""
        for name, weight in self._weights.items():
            self._target[name].assign(weight)

    def _planes(self, seen: Any) -> Any:
        """float32[B, 2 * cells]: where own stones are, and where the opponent's."""
        return self._tf.cast(self._tf.concat([seen == 1, seen == 2], axis=1), self._tf.float32)

    def _forward(self, weights: Mapping[str, Any], planes: Any) -> tuple[Any, Any]:
        """What the hidden layer gives, float32[B, hidden], and the values, float32[B, cells]."""
        tf = self._tf
        hidden = tf.nn.relu(tf.nn.bias_add(planes @ weights["hidden_kernel"], weights["hidden_bias"]))
        return hidden, tf.nn.bias_add(hidden @ weights["output_kernel"], weights["output_bias"])

    def _values(self, seen: Any) -> Any:
        with self._tf.device(DEVICE):
            return self._forward(self._weights, self._planes(seen))[1]

    def _update(self, batch: Any, rate: Any) -> Any:
        """One step down the gradient of the mean of (target - Q(s, a))^2 over all decisions and their images."""
        tf = self._tf
        with tf.device(DEVICE):
            seen, after, numbers = tf.split(batch, [self._cells, self._cells, 3], axis=1)
            action, reward, discount = tf.cast(numbers[:, 0], tf.int32), numbers[:, 1], numbers[:, 2]
            ahead = self._forward(self._target, self._planes(after))[1]
            best = tf.reduce_max(tf.where(after == 0, ahead, -math.inf), axis=1)
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
            # the gradient written out, which takes half the operations of a tape's: from the output back to the input
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
        """Change one of the weights as the optimizer says."""
        weight = self._weights[name]
        if not self._means:
            weight.assign_sub(rate * gradient)
            return
        adam_step(self._tf, weight, self._means[name], self._squares[name], gradient, rate)

    def _variables(self) -> dict[str, Any]:
        """All that changes, by the names of the arrays."""
        kinds = {"": self._weights, "_mean": self._means, "_square": self._squares}
        if self._config.target_every:
            kinds["_target"] = self._target
        return {name + kind: variable for kind, group in kinds.items() for name, variable in group.items()}

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The weights and what the optimizer holds."""
        return {name: variable.numpy().copy() for name, variable in self._variables().items()}

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError unless ``arrays`` fit."""
        for name, variable in self._variables().items():
            least = 0.0 if name.endswith("_square") else -LARGEST
            check(name, arrays, "f4", tuple(variable.shape), least, LARGEST)

    def from_arrays(self, arrays: Arrays) -> None:
        """Take back what :meth:`to_arrays` gave."""
        for name, variable in self._variables().items():
            variable.assign(arrays[name])


def check(
    name: str,
    arrays: Arrays,
    kind: str,
    shape: tuple[int, ...],
    least: float | list[int],
    most: float | list[int],
) -> None:
    """Raise ValueError unless the array ``name`` is there, has this dtype and shape, and numbers in these limits."""
    array = checked(arrays, name, shape, kind, "q-net")
    if not ((array >= least) & (array <= most)).all():
        raise ValueError(f"q-net cannot hold the numbers in {name}, which are out of range: they are damaged")


def adam_rate(rate: float, step: int) -> float:
    """The learning rate of step ``step``, from 1, of Adam: its moments start at 0, for which this makes up."""
    return rate * math.sqrt(1 - BETA_2**step) / (1 - BETA_1**step)


def adam_step(tf: Any, weight: Any, mean: Any, square: Any, gradient: Any, rate: Any) -> None:
    """Change a weight and its moments, variables all, as Adam says, with a rate of :func:`adam_rate`."""
    tf.raw_ops.ResourceApplyAdam(
        var=weight.handle,
        m=mean.handle,
        v=square.handle,
        beta1_power=0.0,  # the rate has the correction
        beta2_power=0.0,
        lr=rate,
        beta1=BETA_1,
        beta2=BETA_2,
        epsilon=ADAM_EPSILON,
        grad=gradient,
    )


def import_tensorflow(wanted_by: str) -> Any:
    """The module, told to use one thread where nobody has decided that yet: more threads add up in another order.

    Raises:
        ValueError: it is not installed.
    """
    avoid_triton_crash()
    try:
        with without_chatter():
            import tensorflow as tf
    except ImportError as problem:
        raise ValueError(f"{wanted_by} needs TensorFlow ({problem}): pip install tensorflow") from None
    threads = tf.config.threading
    try:
        if threads.get_intra_op_parallelism_threads() == threads.get_inter_op_parallelism_threads() == 0:
            threads.set_intra_op_parallelism_threads(1)
            threads.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow is at work already
        pass
    return tf


def _glorot(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Uniform in +-sqrt(6 / (inputs + outputs)) for a kernel (Glorot and Bengio, 2010), 0 for a bias."""
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    limit = math.sqrt(6 / sum(shape))
    return rng.uniform(-limit, limit, shape).astype(np.float32)


def _greedy(legal: Flags, values: Reals) -> Reals:
    """Equal shares, float64[B, cells], for the legal actions with the highest value."""
    return best_shares(np.where(legal, values, np.nan))


@compiled
def _stray(seen: Cells, u: Reals, epsilon: Reals, epsilon_step: float, moves: Integers) -> None:
    """Put a random move in place of a greedy one where ``u`` float64[B, 2] says so; epsilon shrinks with each."""
    for b in range(len(moves)):
        if u[b, 0] < epsilon[0]:
            moves[b] = pick(seen[b], u[b, 1])
            epsilon[0] *= 1.0 - epsilon_step
