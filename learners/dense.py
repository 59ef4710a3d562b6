"""Fully connected nets at play: what they say of a position does not depend on what else is in its batch.

:func:`forward` has that from float64, and :func:`of_planes`, which is faster, from sums in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ttt_envs.compiling import Cells, Reals, bare, wide

Floats = NDArray[np.float32]
Activation = Literal["linear", "relu", "tanh", "sigmoid"]
"""what follows a layer; ``linear`` is nothing"""


class Dense(NamedTuple):
    """A layer: ``activation(x @ weights + bias)``."""

    weights: Reals
    """float64[inputs, outputs]"""
    bias: Reals
    """float64[outputs]"""
    activation: Activation


def planes(seen: Cells) -> Floats:
    """float32[B, 3 * cells]: where own stones are, where the opponent's, and where none, of boards own stones first."""
    return np.concatenate([seen == 1, seen == 2, seen == 0], axis=1, dtype=np.float32)


def of_planes(seen: Cells, layers: Sequence[tuple[Floats, Floats]]) -> Floats:
    """float32[B, outputs], of boards int8[B, cells] own stones first, by layers (weights, bias) with ReLU between them.

    Input are :func:`planes`, which are never made. Every sum is made in the order of its terms, those that are 0 left
    out, as most are; so it is the same on every computer, too.
    """
    (weights, bias), *others = layers
    out = np.empty((len(seen), len(bias)), np.float32)
    _of_boards(seen, weights, bias, out)
    for weights, bias in others:
        inputs, out = out, np.empty((len(seen), len(bias)), np.float32)
        _of_positive(inputs, weights, bias, out)
    return out


@bare
def _of_boards(seen: Cells, weights: Floats, bias: Floats, out: Floats) -> None:
    """The first layer."""
    cells, outputs = seen.shape[1], len(bias)
    for b in range(len(seen)):
        for output in range(outputs):
            out[b, output] = bias[output]
        for cell in range(cells):
            plane = wide(seen[b, cell]) - 1 if seen[b, cell] > 0 else 2
            for output in range(outputs):
                out[b, output] += weights[plane * cells + cell, output]


@bare
def _of_positive(inputs: Floats, weights: Floats, bias: Floats, out: Floats) -> None:
    """A layer after ReLU."""
    outputs = len(bias)
    for b in range(len(inputs)):
        for output in range(outputs):
            out[b, output] = bias[output]
        for row in range(inputs.shape[1]):
            size = inputs[b, row]
            if size > 0:
                for output in range(outputs):
                    out[b, output] += size * weights[row, output]


def forward(inputs: np.ndarray[Any, Any], layers: Iterable[Dense]) -> Reals:
    """float64[B, outputs of the last layer], of ``inputs`` [B, inputs of the first]."""
    out = inputs.astype(np.float64)
    for weights, bias, activation in layers:
        out = out @ weights + bias
        if activation == "relu":
            out = np.maximum(out, 0)
        elif activation == "tanh":
            out = np.tanh(out)
        elif activation == "sigmoid":
            out = expit(out)
    return out
