"""Small fully connected nets: shapes, initial weights, inference in numpy or in a kernel, training
in TensorFlow.

A net is arrays by name, ``0.weights`` float32[inputs, outputs] and ``0.bias`` float32[outputs],
then ``1.weights`` and so on, with the activation of each layer. At play its output for a position
does not depend on the rest of the batch: :func:`forward` achieves this with float64;
:func:`evaluate_net`, which is faster, sums in a fixed order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learners.base import MAX_COUNT, MAX_NUMBER, AnyArray, Arrays, ArraySpec, Stored, Tensor
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import (
    Float32Array,
    Float64Array,
    Int8Array,
    Int64Array,
    inlined,
    int64,
    kernel,
)
from ttt_envs.core.packages import avoid_triton_crash, hide_native_log, install_command
from ttt_envs.game.phantom import AnyGame

Activation = Literal["linear", "relu", "tanh", "sigmoid"]
"""Activation after a layer; ``linear`` is the identity."""
Floats = NDArray[np.floating[Any]]
"""float32 or float64"""
ONE = np.float32(1)
"""Constant for kernels: sums of it stay in float32."""
ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
"""Constants of Adam, as in its paper and TensorFlow's AdamOptimizer."""
DEVICE = "/CPU:0"
"""Fastest device for a net of this size."""


class Dense(NamedTuple):
    """A layer: ``activation(x @ weights + bias)``."""

    weights: Floats
    """[inputs, outputs]"""
    bias: Floats
    """[outputs]"""
    activation: Activation


def layer_shapes(widths: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the layers between these widths: ``0.weights`` [inputs, outputs],
    ``0.bias``, and so on.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        shapes |= {f"{layer}.weights": (inputs, outputs), f"{layer}.bias": (outputs,)}
    return shapes


def glorot(
    shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator
) -> dict[str, Float32Array]:
    """Draw weights uniform in +-sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010), in this
    order; biases are 0.
    """
    weights = {}
    for name, shape in shapes.items():
        limit = math.sqrt(6 / sum(shape)) if len(shape) == 2 else 0.0
        weights[name] = rng.uniform(-limit, limit, shape).astype(np.float32)
    return weights


def net_specs(weights: Mapping[str, Tensor], limit: float = MAX_NUMBER) -> dict[str, ArraySpec]:
    """Return the specs of the arrays of a net of numbers up to a limit."""
    return {name: ArraySpec.like(array).within(-limit, limit) for name, array in weights.items()}


def planes(obs: Int8Array, count: int = 3) -> Float32Array:
    """Return float32[B, count * cells] from boards own stones first: planes of own stones,
    opponent's stones, and for a ``count`` of 3 empty cells.
    """
    return np.concatenate([obs == stone for stone in (1, 2, 0)[:count]], axis=1, dtype=np.float32)


def dense_layers(weights: Arrays, activations: Iterable[Activation]) -> list[Dense]:
    """Return the layers of a net for :func:`forward`."""
    layers = []
    for number, activation in enumerate(activations):
        matrix = weights[f"{number}.weights"].astype(np.float64)
        bias = weights[f"{number}.bias"].astype(np.float64)
        layers.append(Dense(matrix, bias, activation))
    return layers


def forward(inputs: AnyArray, layers: Sequence[Dense]) -> Float64Array:
    """Return outputs float64[B, outputs of the last layer] for ``inputs`` [B, inputs of the
    first].
    """
    out = inputs.astype(np.float64)
    for weights, bias, activation in layers:
        out = ACTIVATIONS[activation](out @ weights + bias)
    return out


ACTIVATIONS: dict[Activation, Callable[[Float64Array], Float64Array]] = {
    "linear": np.asarray,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),  # 1 / (1 + exp(-x))
}


# --------------------------------------------------------------------------------------------------
# Inference in kernels


class Packed(NamedTuple):
    """A net on boards, packed for kernels: layers with ReLU between them."""

    weights: Float32Array
    """float32[W]: for each layer the bias and then the weights [inputs, outputs], row by row"""
    widths: Int64Array
    """int64[layers + 1]: the number of inputs of the first layer, then the number of outputs of
    each layer
    """
    lines: Int64Array
    """int64[L, k]: the lines that are input features; may be empty"""

    @classmethod
    def from_weights(cls, weights: Arrays, lines: Int64Array) -> Packed:
        """Pack a net in the layout of :func:`evaluate_net`."""
        parts = []
        widths = [len(weights["0.weights"])]
        for layer in range(len(weights) // 2):
            bias = weights[f"{layer}.bias"]
            parts += [bias, weights[f"{layer}.weights"].ravel()]
            widths.append(len(bias))
        return cls(
            np.concatenate(parts, dtype=np.float32), np.array(widths), np.ascontiguousarray(lines)
        )

    def room(self) -> Float32Array:
        """Allocate float32[2, N] for the outputs of two layers."""
        return np.zeros((2, int(self.widths[1:].max())), np.float32)


@inlined
def evaluate_net(obs: Int8Array, net: Packed, room: Float32Array) -> int:
    """Evaluate a net on a board int8[cells], own stones first; return the row of ``room`` that
    holds the outputs.

    The inputs are :func:`planes` and, for each line, a one-hot vector of 2 k - 1 numbers: the
    states 1 to 2 k - 1 of :func:`line_states`. The inputs are never materialized. Every sum is made
    in the order of its terms, skipping zeros, which most are. So the result is also the same on
    every computer.
    """
    cells = len(obs)
    states = 2 * net.lines.shape[1] - 1
    width = net.widths[1]
    out = room[0][:width]
    out[:] = 0.0
    _add(ONE, net.weights, 0, out)  # the bias
    for cell in range(cells):
        plane = int64(obs[cell]) - 1 if obs[cell] > 0 else 2
        _add(ONE, net.weights, (1 + plane * cells + cell) * width, out)
    for line in range(len(net.lines)):
        state = _state(obs, net.lines, line)
        if state > 0:
            _add(ONE, net.weights, (3 * cells + line * states + state) * width, out)
    start = (1 + net.widths[0]) * width
    for layer in range(2, len(net.widths)):
        inputs = out
        width = net.widths[layer]
        out = room[(layer - 1) % 2][:width]
        out[:] = 0.0
        _add(ONE, net.weights, start, out)
        for row in range(len(inputs)):
            if inputs[row] > 0:
                _add(inputs[row], net.weights, start + (1 + row) * width, out)
        start += (1 + len(inputs)) * width
    return len(net.widths) % 2


@inlined
def _add(size: np.float32, weights: Float32Array, start: int, out: Float32Array) -> None:
    """Add the contribution of one input to a layer's outputs."""
    row = weights[start : start + len(out)]
    for output in range(len(out)):
        out[output] += size * row[output]


def line_states(obs: Int8Array, lines: Int64Array) -> Int8Array:
    """Return the state int8[B, L] of each of ``lines`` int64[L, k] on boards int8[B, cells], own
    stones first.

    0: no stone; n: n own stones alone; k - 1 + n: n of the opponent's alone, n < k; 2 k - 1: stones
    of both, or a full line of k stones of one side, which ends the game or, where lines must be
    exact, is part of a longer one.
    """
    out = np.empty((len(obs), len(lines)), np.int8)
    _states(obs, lines, out)
    return out


@kernel(interpreted=False, nogil=True)
def _states(obs: Int8Array, lines: Int64Array, out: Int8Array) -> None:
    for b in range(len(obs)):
        for line in range(len(lines)):
            out[b, line] = _state(obs[b], lines, line)


@inlined
def _state(obs: Int8Array, lines: Int64Array, line: int) -> int:
    """Return the state of one line of one board."""
    length: int = lines.shape[1]
    own = int64(0)
    other = int64(0)
    for place in range(length):
        stone = obs[lines[line, place]]
        own += stone == 1
        other += stone == 2
    if (own > 0 and other > 0) or own + other == length:
        return 2 * length - 1
    return int(own if other == 0 else length - 1 + other)


# --------------------------------------------------------------------------------------------------
# Training


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
        intra = threads.get_intra_op_parallelism_threads()
        inter = threads.get_inter_op_parallelism_threads()
        if intra == inter == 0:
            threads.set_intra_op_parallelism_threads(1)
            threads.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow is already initialized
        pass
    return tf


class TFNet(Stored):
    """A net and its optimizer in TensorFlow. The same steps give the same net, bit for bit, with
    one thread.

    Args:
        learner: the learner's name, for messages.
        weights: initial arrays by name.
        activations: of the layers.
        learning_rate, decay: the learning rate of step n, from 0, is learning_rate / (1 + decay n).
        optimizer: Adam (Kingma and Ba, 2015), or plain gradient descent.
        fused_bias: whether TensorFlow's kernel for biases sums their gradients, which rounds in its
            own way; results of seeds depend on it.

    Attributes:
        tf: TensorFlow.
        weights: variables by name.
        updates: number of steps so far.

    Raises:
        ValueError: TensorFlow is not installed.
    """

    def __init__(
        self,
        learner: str,
        weights: Arrays,
        activations: Sequence[Activation],
        learning_rate: float,
        decay: float = 0.0,
        optimizer: Literal["adam", "sgd"] = "adam",
        fused_bias: bool = False,
    ) -> None:
        self.tf = tf = import_tensorflow(learner)
        self._add_bias = tf.nn.bias_add if fused_bias else tf.add
        self.updates = 0
        self._learner = learner
        self._activations = activations
        self._learning_rate = learning_rate
        self._decay = decay
        with tf.device(DEVICE):
            self.weights = {name: tf.Variable(array) for name, array in weights.items()}
            self._moments: dict[str, Tensor] = {}
            for moment in ("mean", "square") if optimizer == "adam" else ():
                for name, array in weights.items():
                    self._moments[f"{moment}.{name}"] = tf.Variable(np.zeros_like(array))

    def compile(
        self, function: Callable[..., Tensor], *arguments: tuple[tuple[int | None, ...], str]
    ) -> Callable[..., Tensor]:
        """Compile a function of tensors, given the shape and dtype of each; it is traced once."""
        tf = self.tf

        def on_device(*tensors: Tensor) -> Tensor:
            with tf.device(DEVICE):
                return function(*tensors)

        signature = [tf.TensorSpec(*argument) for argument in arguments]
        function_of_tensors = tf.function(on_device, input_signature=signature, autograph=False)
        graph = function_of_tensors.get_concrete_function()
        return lambda *arrays: graph(*(tf.constant(array) for array in arrays))

    def outputs(self, inputs: Tensor) -> Tensor:
        """Return the outputs float32[B, outputs] of the net."""
        for layer, activation in enumerate(self._activations):
            bias = self.weights[f"{layer}.bias"]
            inputs = self._add_bias(inputs @ self.weights[f"{layer}.weights"], bias)
            if activation != "linear":
                inputs = getattr(self.tf.nn, activation)(inputs)
        return inputs

    def planes(self, obs: Tensor, count: int = 3) -> Tensor:
        """Return :func:`planes` of boards int8[B, cells]."""
        has_stone = [obs == stone for stone in (1, 2, 0)[:count]]
        return self.tf.cast(self.tf.concat(has_stone, axis=1), self.tf.float32)

    def legal_moves(self, game: AnyGame, obs: Tensor) -> Tensor:
        """Return :func:`rules.legal`: bool[..., cells] of boards int8[..., cells] in progress."""
        tf = self.tf
        is_empty = obs == 0
        if not game.gravity:
            return is_empty
        is_supported = obs[..., game.columns :] != 0
        return is_empty & tf.concat(
            [is_supported, tf.ones_like(obs[..., : game.columns], tf.bool)], axis=-1
        )

    def next_rates(self, count: int = 1) -> Float32Array:
        """Count the next ``count`` steps, and return their learning rates float32[count].

        Those of Adam are corrected for moments that start at 0.
        """
        rates = []
        for update in range(self.updates, self.updates + count):
            rate = self._learning_rate / (1 + self._decay * update)
            if self._moments:
                mean_correction = 1 - ADAM["beta1"] ** (update + 1)
                square_correction = 1 - ADAM["beta2"] ** (update + 1)
                rate *= math.sqrt(square_correction) / mean_correction
            rates.append(rate)
        self.updates += count
        return np.array(rates, np.float32)

    def step(self, losses: Callable[[], Sequence[Tensor]], rate: Tensor) -> Sequence[Tensor]:
        """Make a step with a rate from :meth:`next_rates` down the gradient of the first of
        ``losses()``.

        Returns:
            The losses before the step.
        """
        with self.tf.GradientTape() as tape:
            before = losses()
        for name, gradient in tape.gradient(before[0], self.weights).items():
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
                grad=gradient,
                **ADAM,
            )
        return before

    def steps(
        self, losses: Callable[[Tensor], Sequence[Tensor]], rates: Tensor, count: int = 1
    ) -> Tensor:
        """Make a step for each rate in turn, the n-th by the ``count`` values of ``losses(n)``: see
        :meth:`step`.

        Returns:
            float32[count]: the sums of the losses before the steps.
        """
        tf = self.tf

        def next_step(n: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            return n + 1, total + tf.stack(self.step(lambda: losses(n), rates[n]))

        start = tf.constant(0), tf.zeros(count)
        _, totals = tf.while_loop(lambda n, _: n < tf.shape(rates)[0], next_step, start)
        return totals

    @property
    def arrays(self) -> dict[str, Float32Array]:
        """Copies of the weights."""
        return {name: weight.numpy().copy() for name, weight in self.weights.items()}

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the weights, the moments of Adam and the number of steps."""
        moments = {name: moment.numpy().copy() for name, moment in self._moments.items()}
        return {**self.arrays, **moments, "updates": np.array([self.updates])}

    def array_specs(self, arrays: Arrays) -> dict[str, ArraySpec]:
        """See :class:`~learners.base.Stored`."""
        moments = net_specs(self._moments, limit=float(np.finfo(np.float32).max))
        return {
            **net_specs(self.weights),
            **moments,
            "updates": ArraySpec.like([self.updates]).within(0, MAX_COUNT),
        }

    def from_arrays(self, arrays: Arrays) -> None:
        """Set them."""
        for name, variable in {**self.weights, **self._moments}.items():
            variable.assign(arrays[name])
        self.updates = int(arrays["updates"][0])

    def check(self, *numbers: ArrayLike) -> None:
        """Raise ValueError unless all numbers are finite, and not so large that the net's outputs
        may overflow.
        """
        if not all((np.abs(array) < MAX_NUMBER).all() for array in numbers):
            state = f"{self._learner} has diverged after {self.updates:,} updates"
            raise Refusal(
                f"{state}: choose a learning_rate below {min(self._learning_rate, 0.1):g}"
            )
