"""Fully connected nets at play: what they say of a position does not depend on what else is in its batch.

:func:`forward` has that from float64, and :func:`of_planes`, which is faster, from sums in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ttt_envs.compiling import Cells, Integers, Reals, bare, bare_inlined, wide

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


def of_planes(seen: Cells, layers: Sequence[tuple[Floats, Floats]], lines: Integers) -> Floats:
    """float32[B, outputs], of boards int8[B, cells] own stones first, by layers (weights, bias) with ReLU between them.

    Input are :func:`planes` and, for each of ``lines`` int64[L, k], of which there may be none, 2 k - 1 numbers: a 1
    where :func:`states_of` says 1 to 2 k - 1. None of these are ever made. Every sum is made in the order of its terms,
    those that are 0 left out, as most are; so it is the same on every computer, too.
    """
    (weights, bias), *others = layers
    out = np.empty((len(seen), len(bias)), np.float32)
    _of_boards(seen, lines, weights, bias, out)
    for weights, bias in others:
        inputs, out = out, np.empty((len(seen), len(bias)), np.float32)
        _of_positive(inputs, weights, bias, out)
    return out


def states_of(seen: Cells, lines: Integers) -> Cells:
    """int8[B, L]: who has what of each of ``lines`` int64[L, k], of boards int8[B, cells] own stones first.

    0 for no stone, n for n own stones alone, k - 1 + n for n of the opponent's alone, n < k, and 2 k - 1 where both are
    in it. Of a line of k stones of one side, which ends the game, it says something else.
    """
    out = np.empty((len(seen), len(lines)), np.int8)
    _states(seen, lines, out)
    return out


@bare
def _states(seen: Cells, lines: Integers, out: Cells) -> None:
    """See :func:`states_of`."""
    for b in range(len(seen)):
        for line in range(len(lines)):
            out[b, line] = _state(seen, b, lines, line)


@bare_inlined
def _state(seen: Cells, b: int, lines: Integers, line: int) -> int:
    """See :func:`states_of`."""
    length: int = lines.shape[1]
    own, other = wide(0), wide(0)
    for at in range(length):
        stone = seen[b, lines[line, at]]
        own += stone == 1
        other += stone == 2
    if own > 0 and other > 0:
        return 2 * length - 1
    state: int = own if other == 0 else length - 1 + other
    return state


@bare
def _of_boards(seen: Cells, lines: Integers, weights: Floats, bias: Floats, out: Floats) -> None:
    """The first layer."""
    cells, outputs = seen.shape[1], len(bias)
    states = 2 * lines.shape[1] - 1
    for b in range(len(seen)):
        for output in range(outputs):
            out[b, output] = bias[output]
        for cell in range(cells):
            plane = wide(seen[b, cell]) - 1 if seen[b, cell] > 0 else 2
            for output in range(outputs):
                out[b, output] += weights[plane * cells + cell, output]
        for line in range(len(lines)):
            state = _state(seen, b, lines, line)
            if state > 0:
                row = 3 * cells + line * states + state - 1
                for output in range(outputs):
                    out[b, output] += weights[row, output]


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
