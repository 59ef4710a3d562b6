"""Exact policy gradients: of a table of logits, and by the chain rule in the parameters of a network.

The objective is the expected discounted result of the policy, the mean over the evaluated seats
(``PolicyEvaluation.value``). In self-play each player's decisions are differentiated for that player, while the other
player's policy is held fixed: the simultaneous gradient of a game.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from baselines.softmax_table import SoftmaxTable
from evaluation.exact.dynamic_programming import CHUNK
from evaluation.exact.policy_evaluation import PolicyEvaluation, evaluate_policy
from ttt_envs.agents.adapters import CallableAgent, as_policy
from ttt_envs.agents.observations import Observation
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.rules import Game

MAX_FISHER_BYTES = 1 << 31
"""Maximum size of a Fisher matrix in bytes."""


class ModelGradient(NamedTuple):
    """Exact policy gradient in the parameters of a model."""

    evaluation: PolicyEvaluation
    """the exact evaluation of the policy"""
    gradients: dict[str, Float64Array]
    """gradient of ``evaluation.value`` in each trainable parameter, by its name and in its shape"""


def policy_gradient(evaluation: PolicyEvaluation) -> Float64Array:
    """Return the gradient of ``evaluation.value`` in the logits of a softmax policy, float64[N, cells].

    Row and column are position and move: discounted occupancy * probability * advantage, the policy gradient theorem
    (Sutton et al., 2000, Theorem 1) for a softmax, divided by the number of evaluated seats. Illegal moves have 0.
    """
    weights = evaluation.discounted_occupancy[:, None] * evaluation.probabilities / len(evaluation.seats)
    return np.asarray(weights * np.nan_to_num(evaluation.advantages))


def fisher_information(evaluation: PolicyEvaluation) -> Float64Array:
    """Return the Fisher information of a softmax policy in its logits, float64[N, cells, cells].

    The matrix is block diagonal, with one block for each position: its weight, as in :func:`policy_gradient`, times
    diag(p) - p p'. Its pseudoinverse times the policy gradient is the natural gradient (Kakade, 2001), which equals the
    advantages up to a constant for each position.

    Raises:
        MemoryError: the matrix would be too large.
    """
    p = evaluation.probabilities
    size = p.size * p.shape[1] * 8
    if size > MAX_FISHER_BYTES:
        raise MemoryError(
            f"the Fisher matrix of {len(p):,} positions would take {size / 2**30:.1f} GiB: the natural gradient is "
            f"evaluation.advantages, up to a constant for each position"
        )
    blocks = np.eye(p.shape[1]) * p[:, :, None] - p[:, :, None] * p[:, None, :]
    return np.asarray(blocks * (evaluation.discounted_occupancy / len(evaluation.seats))[:, None, None])


def exact_policy_gradient(
    game: Game,
    model: Any,
    opponent: str | Policy | None = None,
    *,
    seat: int | None = None,
    discount: float = 1.0,
    observation: Observation | None = None,
    chunk: int = CHUNK,
) -> ModelGradient:
    """Return the exact gradient of a model's expected result in its parameters; the model is unchanged.

    Args:
        game: the game.
        model: a :class:`SoftmaxTable`, whose parameter is ``"logits"``, float64[positions, cells]; or a torch module, a
            Keras model with the TensorFlow backend, or an actor-critic of Stable-Baselines3, with one logit per cell.
            Illegal moves are masked before the softmax.
        opponent, seat, discount: as for :func:`evaluate_policy`.
        observation: the model's observation, as for ``as_policy``.
        chunk: maximum number of positions per query of the model.

    Raises:
        TypeError: a model of another kind.
        ValueError, MemoryError: as :func:`evaluate_policy` and ``as_policy``.
    """
    if isinstance(model, SoftmaxTable):
        evaluation = evaluate_policy(game, model, opponent, seat=seat, discount=discount, chunk=chunk)
        gradient = np.zeros(model.logits.shape)
        rows = model.index.find(evaluation.boards)
        gradient[rows[rows >= 0]] = policy_gradient(evaluation)[rows >= 0]
        return ModelGradient(evaluation, {"logits": gradient})
    agent = as_policy(model, game, observation, "logits")
    function = getattr(agent, "function", None)
    module = getattr(function, "policy", getattr(function, "module", None))
    keras = getattr(function, "model", None) if module is None else None
    if not isinstance(agent, CallableAgent) or (module is None and not hasattr(keras, "trainable_variables")):
        raise TypeError(
            f"{model} has no parameters to differentiate: give a SoftmaxTable, a torch module, a Keras model or an "
            f"actor-critic of Stable-Baselines3"
        )
    evaluation = evaluate_policy(game, agent, opponent, seat=seat, discount=discount, chunk=chunk)
    differentiate = _keras_gradients if module is None else _torch_gradients
    return ModelGradient(evaluation, differentiate(agent, keras if module is None else module, evaluation, chunk))


def _batches(agent: CallableAgent, evaluation: PolicyEvaluation, chunk: int) -> Iterator[tuple[Any, Any, Float64Array]]:
    """Yield observations, masks, and the gradient in the logits."""
    gradient, start = policy_gradient(evaluation), 0
    for boards in evaluation.boards.chunks(chunk):
        end = start + len(boards.mover)
        yield *agent.observe(boards), gradient[start:end]
        start = end


def _torch_gradients(
    agent: CallableAgent, module: Any, evaluation: PolicyEvaluation, chunk: int
) -> dict[str, Float64Array]:
    """Return the gradients in the parameters of a torch module."""
    import torch

    function: Any = dataclasses.replace(agent.function, gradients=True)  # type: ignore[type-var]
    parameters = {name: one for name, one in module.named_parameters() if one.requires_grad}
    totals = {name: np.zeros(tuple(one.shape)) for name, one in parameters.items()}
    for observations, mask, gradient in _batches(agent, evaluation, chunk):
        logits = function(observations, mask)
        weights = torch.as_tensor(gradient, dtype=logits.dtype, device=logits.device)
        found = torch.autograd.grad(logits, list(parameters.values()), weights, allow_unused=True)
        for total, part in zip(totals.values(), found, strict=True):
            if part is not None:
                total += part.detach().cpu().double().numpy()
    return totals


def _keras_gradients(
    agent: CallableAgent, model: Any, evaluation: PolicyEvaluation, chunk: int
) -> dict[str, Float64Array]:
    """Return the gradients in the variables of a Keras model.

    Raises:
        TypeError: its backend is not TensorFlow.
    """
    backend = getattr(sys.modules.get("keras"), "backend", None)
    if backend is not None and hasattr(backend, "backend") and backend.backend() != "tensorflow":
        raise TypeError(f"the Keras backend {backend.backend()} is not supported: use TensorFlow or a torch module")
    import tensorflow as tf

    variables = list(model.trainable_variables)
    totals = {getattr(one, "path", one.name): np.zeros(tuple(one.shape)) for one in variables}
    for observations, mask, gradient in _batches(agent, evaluation, chunk):
        with tf.GradientTape() as tape:
            logits = agent.function(observations, mask)
        found = tape.gradient(logits, variables, output_gradients=tf.cast(gradient, logits.dtype))
        for total, part in zip(totals.values(), found, strict=True):
            if part is not None:
                total += np.asarray(part, np.float64)
    return totals
