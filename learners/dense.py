"""Fully connected nets at play, whose output for a position does not depend on the rest of its batch.

:func:`forward` achieves this with float64; :func:`evaluate_net`, which is faster, sums in a fixed order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ttt_envs.core.jit import Float32Array, Float64Array, Int8Array, Int64Array, inlined, int64, kernel

Activation = Literal["linear", "relu", "tanh", "sigmoid"]
"""Activation after a layer; ``linear`` is the identity."""
ONE = np.float32(1)
"""Constant for kernels: sums of it stay in float32."""


class Dense(NamedTuple):
    """A layer: ``activation(x @ weights + bias)``."""

    weights: Float64Array
    """float64[inputs, outputs]"""
    bias: Float64Array
    """float64[outputs]"""
    activation: Activation


def layer_shapes(widths: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the layers between these widths: ``0.weights`` [inputs, outputs], ``0.bias``, and so on."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        shapes |= {f"{layer}.weights": (inputs, outputs), f"{layer}.bias": (outputs,)}
    return shapes


def planes(seen: Int8Array) -> Float32Array:
    """Return float32[B, 3 * cells] from boards own stones first: planes of own stones, opponent's stones, and empty
    cells.
    """
    return np.concatenate([seen == 1, seen == 2, seen == 0], axis=1, dtype=np.float32)


class Packed(NamedTuple):
    """A net on boards, packed for kernels: layers with ReLU between them."""

    weights: Float32Array
    """float32[W]: for each layer the bias and then the weights [inputs, outputs], row by row"""
    widths: Int64Array
    """int64[layers + 1]: the number of inputs of the first layer, then the number of outputs of each layer"""
    lines: Int64Array
    """int64[L, k]: the lines that are input features; may be empty"""

    @classmethod
    def from_layers(cls, layers: Sequence[tuple[Float32Array, Float32Array]], lines: Int64Array) -> Packed:
        """Pack layers (weights, bias) in the layout of :func:`evaluate_net`."""
        parts = [array.ravel() for weights, bias in layers for array in (bias, weights)]
        widths = [len(layers[0][0]), *(len(bias) for _, bias in layers)]
        return cls(np.concatenate(parts, dtype=np.float32), np.array(widths), np.ascontiguousarray(lines))

    def room(self) -> Float32Array:
        """Allocate float32[2, N] for the outputs of two layers."""
        return np.zeros((2, int(self.widths[1:].max())), np.float32)


@inlined
def evaluate_net(seen: Int8Array, net: Packed, room: Float32Array) -> int:
    """Evaluate a net on a board int8[cells], own stones first; return the row of ``room`` that holds the outputs.

    The inputs are :func:`planes` and, for each line, a one-hot vector of 2 k - 1 numbers: the states 1 to 2 k - 1 of
    :func:`line_states`. The inputs are never materialized. Every sum is made in the order of its terms, skipping zeros,
    which most are. So the result is also the same on every computer.
    """
    cells, states, width = len(seen), 2 * net.lines.shape[1] - 1, net.widths[1]
    out = room[0][:width]
    _begin(net.weights, 0, out)
    for cell in range(cells):
        plane = int64(seen[cell]) - 1 if seen[cell] > 0 else 2
        _add(ONE, net.weights, (1 + plane * cells + cell) * width, out)
    for line in range(len(net.lines)):
        state = _state(seen, net.lines, line)
        if state > 0:
            _add(ONE, net.weights, (3 * cells + line * states + state) * width, out)
    start = (1 + net.widths[0]) * width
    for layer in range(2, len(net.widths)):
        inputs, width = out, net.widths[layer]
        out = room[(layer - 1) % 2][:width]
        _begin(net.weights, start, out)
        for row in range(len(inputs)):
            if inputs[row] > 0:
                _add(inputs[row], net.weights, start + (1 + row) * width, out)
        start += (1 + len(inputs)) * width
    return len(net.widths) % 2


@inlined
def _begin(weights: Float32Array, start: int, out: Float32Array) -> None:
    """Set the outputs of a layer to its bias."""
    bias = weights[start : start + len(out)]
    for output in range(len(out)):
        out[output] = bias[output]


@inlined
def _add(size: np.float32, weights: Float32Array, start: int, out: Float32Array) -> None:
    """Add the contribution of one input to a layer's outputs."""
    row = weights[start : start + len(out)]
    for output in range(len(out)):
        out[output] += size * row[output]


def line_states(seen: Int8Array, lines: Int64Array) -> Int8Array:
    """Return the state int8[B, L] of each of ``lines`` int64[L, k] on boards int8[B, cells], own stones first.

    0: no stone; n: n own stones alone; k - 1 + n: n of the opponent's alone, n < k; 2 k - 1: stones of both, or a full
    line of k stones of one side, which ends the game or, where lines must be exact, is part of a longer one.
    """
    out = np.empty((len(seen), len(lines)), np.int8)
    _states(seen, lines, out)
    return out


@kernel(interpreted=False, nogil=True)
def _states(seen: Int8Array, lines: Int64Array, out: Int8Array) -> None:
    for b in range(len(seen)):
        for line in range(len(lines)):
            out[b, line] = _state(seen[b], lines, line)


@inlined
def _state(seen: Int8Array, lines: Int64Array, line: int) -> int:
    """Return the state of one line of one board."""
    length: int = lines.shape[1]
    own, other = int64(0), int64(0)
    for at in range(length):
        stone = seen[lines[line, at]]
        own += stone == 1
        other += stone == 2
    if (own > 0 and other > 0) or own + other == length:
        return 2 * length - 1
    state: int = own if other == 0 else length - 1 + other
    return state


def forward(inputs: np.ndarray[Any, Any], layers: Iterable[Dense]) -> Float64Array:
    """Return outputs float64[B, outputs of the last layer] for ``inputs`` [B, inputs of the first]."""
    out = inputs.astype(np.float64)
    for weights, bias, activation in layers:
        out = out @ weights + bias
        if activation == "relu":
            out = np.maximum(out, 0)
        elif activation == "tanh":
            out = np.tanh(out)
        elif activation == "sigmoid":
            from scipy.special import expit  # its import takes .4 s

            out = expit(out)
    return out
