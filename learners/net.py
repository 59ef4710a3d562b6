"""A small fully connected net that learns by Adam, with the pass back by hand.

Every sum of a product is made in the order of its terms, so that results depend neither on the
library of matrix products nor on the number of its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from learners.base import MAX_COUNT, MAX_NUMBER, AnyArray, Arrays, ArraySpec, Stored, Tensor
from learners.mlp import ACTIVATIONS, Activation, Floats, add_row, dense_layers, net_specs
from learners.ppo import Adam
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float32Array, Int64Array, kernel

EPSILON = 1e-8
"""Constant of Adam, as in its source and TensorFlow's AdamOptimizer."""
SLOPES: dict[Activation, Callable[[Floats], AnyArray]] = {
    "linear": np.ones_like,
    "relu": lambda y: y > 0,
    "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y),
}
"""Derivatives of the activations, given their outputs."""


def multiply(a: Floats, b: Floats) -> Float32Array:
    """Return the product float32[N, P] of float32[N, M] and float32[M, P]."""
    product = np.zeros((len(a), b.shape[1]), np.float32)
    places = np.empty(len(b), np.int64)
    _add_product(np.ascontiguousarray(a), np.ascontiguousarray(b), product, places)
    return product


@kernel(interpreted=False)
def _add_product(a: Float32Array, b: Float32Array, out: Float32Array, places: Int64Array) -> None:
    """Add the product of float32[N, M] and float32[M, P] to float32[N, P], each sum in the order of
    its terms.

    Zeros in ``a`` are skipped: behind ReLU they are half of it, and in planes most. ``places``
    int64[M] is room.
    """
    for row in range(len(a)):
        count = 0
        for place in range(a.shape[1]):
            places[count] = place
            count += a[row, place] != 0
        sums = out[row]
        for first in range(0, count - 1, 2):  # two at a time: fewer loads, the same order
            a0 = a[row, places[first]]
            a1 = a[row, places[first + 1]]
            b0 = b[places[first]]
            b1 = b[places[first + 1]]
            for n in range(len(sums)):
                sums[n] = (sums[n] + a0 * b0[n]) + a1 * b1[n]
        if count % 2:
            last = places[count - 1]
            add_row(a[row, last], b[last], 0, sums)


class TrainableNet(Stored):
    """A net that learns by Adam, float32, all weights in one vector.

    Args:
        config: has the learner's name and ``learning_rate``.
        weights: initial arrays by name.
        activations: of the layers.
        rate_decay: the learning rate of step n, from 0, is learning_rate / (1 + rate_decay n).

    Attributes:
        weights: the arrays by name, views of the vector.
        adam: the optimizer.
    """

    weights: dict[str, Tensor]

    def __init__(
        self,
        config: Any,
        weights: Arrays,
        activations: Sequence[Activation],
        rate_decay: float = 0.0,
    ) -> None:
        self.config = config
        self._activations = activations
        self._rate_decay = rate_decay
        self._vector = np.concatenate([array.ravel() for array in weights.values()])
        self.adam = Adam(len(self._vector), EPSILON)
        self.weights = split_vector(self._vector, weights)
        self._moments: dict[str, Tensor] = {
            **split_vector(self.adam.mean, weights, "mean."),
            **split_vector(self.adam.square, weights, "square."),
        }

    @property
    def updates(self) -> int:
        """Number of steps so far."""
        return int(self.adam.updates[0])

    @property
    def learning_rate(self) -> float:
        """That of the next step."""
        return float(self.config.learning_rate / (1 + self._rate_decay * self.updates))

    def run(self, inputs: Float32Array) -> list[Floats]:
        """Return ``inputs`` float32[N, inputs] and the outputs float32[N, width] of each layer."""
        outputs: list[Floats] = [inputs]
        for weights, bias, activation in dense_layers(self.weights, self._activations):
            outputs.append(ACTIVATIONS[activation](multiply(outputs[-1], weights) + bias))
        return outputs

    def step(self, outputs: Sequence[Floats], d: Floats, weight_decay: float = 0.0) -> None:
        """Make a step of Adam down the gradient of a loss.

        Args:
            outputs: of :meth:`run`.
            d: the gradient of the loss in the last outputs, float32[N, outputs].
            weight_decay: weight of half the sum of squared weights, biases apart, in the loss.
        """
        layers = dense_layers(self.weights, self._activations)
        parts = []
        for number in reversed(range(len(layers))):
            weights, _, activation = layers[number]
            d = d * SLOPES[activation](outputs[number + 1])
            by_weights = multiply(outputs[number].T, d) + weight_decay * weights
            parts += [d.sum(axis=0), by_weights.ravel()]
            if number:
                d = multiply(d, weights.T)
        self.adam.step(self._vector, np.concatenate(parts[::-1]), self.learning_rate)

    @property
    def arrays(self) -> dict[str, Float32Array]:
        """Copies of the weights."""
        return {name: np.asarray(weight).copy() for name, weight in self.weights.items()}

    @property
    def _tensors(self) -> dict[str, Tensor]:
        """All that is stored."""
        return {**self.weights, **self._moments, "updates": self.adam.updates}

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the weights, the moments of Adam and the number of steps."""
        return {name: np.asarray(tensor).copy() for name, tensor in self._tensors.items()}

    def array_specs(self, arrays: Arrays) -> dict[str, ArraySpec]:
        """See :class:`~learners.base.Stored`."""
        return {
            **net_specs(self.weights),
            **net_specs(self._moments, limit=float(np.finfo(np.float32).max)),
            "updates": ArraySpec.like(self.adam.updates).within(0, MAX_COUNT),
        }

    def from_arrays(self, arrays: Arrays) -> None:
        """Set them."""
        for name, array in self._tensors.items():
            array[...] = arrays[name]

    def check(self, *numbers: ArrayLike) -> None:
        """Raise ValueError unless all numbers are finite, and not so large that the net's outputs
        may overflow.
        """
        if not all((np.abs(array) < MAX_NUMBER).all() for array in numbers):
            raise Refusal(
                f"{self.config.name} has diverged after {self.updates:,} updates: choose a "
                f"learning_rate below {min(self.config.learning_rate, 0.1):g}"
            )


def split_vector(
    vector: Float32Array, weights: Arrays, prefix: str = ""
) -> dict[str, Float32Array]:
    """Return views of a vector with the shapes of these arrays, and their names after a prefix."""
    views = {}
    start = 0
    for name, array in weights.items():
        views[prefix + name] = vector[start : start + array.size].reshape(array.shape)
        start += array.size
    return views
