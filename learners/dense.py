"""Fully connected nets at play, in float64: what a position is worth does not depend on what else is in its batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ttt_envs.compiling import Reals

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
