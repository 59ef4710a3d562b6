"""TensorFlow for small nets on the CPU: its import, Adam's steps, and variables as arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from learners.base import Arrays, get_array
from ttt_envs.core.extras import install_command
from ttt_envs.core.silence import avoid_triton_crash, silence_native_output
from ttt_envs.game.phantom import AnyGame

DEVICE = "/CPU:0"
"""Fastest device for a net of this size."""
MAX_FLOAT32 = float(np.finfo(np.float32).max)
BETA_1, BETA_2, ADAM_EPSILON = 0.9, 0.999, 1e-8
"""Constants of Adam, as in its paper and TensorFlow's AdamOptimizer."""


def adam_rate(rate: float, step: int) -> float:
    """Return Adam's learning rate for step ``step``, from 1, corrected for moments that start at 0."""
    return rate * math.sqrt(1 - BETA_2**step) / (1 - BETA_1**step)


def adam_step(tf: Any, weight: Any, mean: Any, square: Any, gradient: Any, rate: Any) -> None:
    """Apply an Adam step to a weight and its moments, all variables, with a rate from :func:`adam_rate`."""
    tf.raw_ops.ResourceApplyAdam(
        var=weight.handle,
        m=mean.handle,
        v=square.handle,
        beta1_power=0.0,  # the rate includes the bias correction
        beta2_power=0.0,
        lr=rate,
        beta1=BETA_1,
        beta2=BETA_2,
        epsilon=ADAM_EPSILON,
        grad=gradient,
    )


def import_tensorflow(wanted_by: str) -> Any:
    """Import TensorFlow, with one thread unless configured otherwise: more threads change the order of sums.

    Raises:
        ValueError: it is not installed.
    """
    avoid_triton_crash()
    try:
        with silence_native_output():
            import tensorflow as tf
    except ImportError as problem:
        raise ValueError(f"{wanted_by} needs TensorFlow ({problem}): {install_command('tf')}") from None
    threads = tf.config.threading
    try:
        if threads.get_intra_op_parallelism_threads() == threads.get_inter_op_parallelism_threads() == 0:
            threads.set_intra_op_parallelism_threads(1)
            threads.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow is already initialized
        pass
    return tf


def legal_moves(tf: Any, game: AnyGame, seen: Any) -> Any:
    """Return :func:`rules.legal` in TensorFlow: bool[..., cells] of boards int8[..., cells] in progress."""
    empty = seen == 0
    if not game.gravity:
        return empty
    below = seen[..., game.columns :] != 0
    return empty & tf.concat([below, tf.ones_like(seen[..., : game.columns], tf.bool)], axis=-1)


def to_numpy(variables: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return copies of the variables' values."""
    return {name: variable.numpy().copy() for name, variable in variables.items()}


def check_variables(variables: Mapping[str, Any], arrays: Arrays, owner: str) -> None:
    """Raise ValueError unless ``arrays`` can be assigned; names with ``square`` are of Adam's second moments."""
    for name, variable in variables.items():
        lowest = 0.0 if "square" in name else -MAX_FLOAT32
        get_array(arrays, name, tuple(variable.shape), "f4", owner, (lowest, MAX_FLOAT32))


def assign_variables(variables: Mapping[str, Any], arrays: Arrays) -> None:
    """Assign the arrays of the same names."""
    for name, variable in variables.items():
        variable.assign(arrays[name])
