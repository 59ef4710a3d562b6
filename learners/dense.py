"""Fully connected nets at play: what they say of a position does not depend on what else is in its batch.

:func:`forward` has that from float64, and :func:`in_blocks`, which is faster, from matrix products of one shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ttt_envs.compiling import Cells, Reals

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


BLOCK = 64
"""positions that :func:`in_blocks` multiplies at once: a matrix product's rounding depends on its shape, so it has only
one"""


def planes(seen: Cells) -> Floats:
    """float32[B, 3 * cells]: where own stones are, where the opponent's, and where none, of boards own stones first."""
    return np.concatenate([seen == 1, seen == 2, seen == 0], axis=1, dtype=np.float32)


def in_blocks(inputs: Floats, layers: Sequence[tuple[Floats, Floats]]) -> Floats:
    """float32[B, outputs], of ``inputs`` float32[B, inputs], by layers (weights, bias) with ReLU between them."""
    count = len(inputs)
    out = np.zeros((-(-count // BLOCK) * BLOCK, inputs.shape[1]), np.float32)
    out[:count] = inputs
    for number, (weights, bias) in enumerate(layers):
        if number > 0:
            np.maximum(out, 0, out=out)
        out = np.matmul(out.reshape(-1, BLOCK, len(weights)), weights).reshape(len(out), len(bias))
        out += bias
    return out[:count]


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
