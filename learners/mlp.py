"""Small fully connected nets: shapes, initial weights, inference in numpy or in a kernel.

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
from numpy.typing import NDArray

from learners.base import MAX_NUMBER, AnyArray, Arrays, ArraySpec, Tensor
from ttt_envs.core.jit import (
    Float32Array,
    Float64Array,
    Int8Array,
    Int64Array,
    inlined,
    int64,
    kernel,
)

Activation = Literal["linear", "relu", "tanh", "sigmoid"]
"""Activation after a layer; ``linear`` is the identity."""
Floats = NDArray[np.floating[Any]]
"""float32 or float64"""
ONE = np.float32(1)
"""Constant for kernels: sums of it stay in float32."""


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
    """Return the layers of a net."""
    return [
        Dense(weights[f"{number}.weights"], weights[f"{number}.bias"], activation)
        for number, activation in enumerate(activations)
    ]


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
    add_row(ONE, net.weights, 0, out)  # the bias
    for cell in range(cells):
        plane = int64(obs[cell]) - 1 if obs[cell] > 0 else 2
        add_row(ONE, net.weights, (1 + plane * cells + cell) * width, out)
    for line in range(len(net.lines)):
        state = _state(obs, net.lines, line)
        if state > 0:
            add_row(ONE, net.weights, (3 * cells + line * states + state) * width, out)
    start = (1 + net.widths[0]) * width
    for layer in range(2, len(net.widths)):
        inputs = out
        width = net.widths[layer]
        out = room[(layer - 1) % 2][:width]
        out[:] = 0.0
        add_row(ONE, net.weights, start, out)
        for row in range(len(inputs)):
            if inputs[row] > 0:
                add_row(inputs[row], net.weights, start + (1 + row) * width, out)
        start += (1 + len(inputs)) * width
    return len(net.widths) % 2


@inlined
def add_row(size: np.float32, weights: Float32Array, start: int, out: Float32Array) -> None:
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
    own = 0
    other = 0
    for place in range(length):
        stone = obs[lines[line, place]]
        own += stone == 1
        other += stone == 2
    if (own > 0 and other > 0) or own + other == length:
        return 2 * length - 1
    return int(own if other == 0 else length - 1 + other)
