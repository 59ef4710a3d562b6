"""The error of a critic: its values beside the exact values of the policy that it judges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ttt_envs.agents.adapters import as_value_function
from ttt_envs.agents.observations import Observation
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import evaluate_policy
from ttt_eval.exact.policy_evaluation import PolicyEvaluation, query_values


@dataclass(frozen=True)
class CriticError:
    """Error of a critic: see :func:`critic_error`. All means are weighted by occupancy;
    docs/exact.md splits them.
    """

    evaluation: PolicyEvaluation
    """exact values of the policy"""
    predicted: Float64Array
    """float64[N]: values by the critic, for the mover"""

    @property
    def errors(self) -> Float64Array:
        """float64[N]: value minus exact value."""
        return self.predicted - self.evaluation.values

    @cached_property
    def weights(self) -> Float64Array:
        """float64[N]: share of each position in all visits."""
        return np.asarray(self.evaluation.occupancy / self.evaluation.occupancy.sum())

    @property
    def bias(self) -> float:
        """Mean error."""
        return float(self.weights @ self.errors)

    @property
    def root_mean_square(self) -> float:
        """Root of the mean squared error."""
        return float(np.sqrt(self.weights @ self.errors**2))

    @property
    def explained_variance(self) -> float:
        """1 - variance of the error / variance of the exact values; NaN where these are all
        equal.
        """
        return explained_variance(self.errors, self.evaluation.values, self.weights)

    def to_dict(self) -> dict[str, float]:
        """Return the totals by their names in logs."""
        return {
            "critic_rmse": self.root_mean_square,
            "critic_bias": self.bias,
            "critic_explained_variance": self.explained_variance,
        }


def explained_variance(errors: Float64Array, exact: Float64Array, weights: Float64Array) -> float:
    """Return 1 - variance of the error / variance of the exact values; NaN where these are all
    equal.

    Args:
        errors, exact, weights: float64[N], of N positions; the sum of weights is 1.
    """
    variance = weights @ (exact - weights @ exact) ** 2
    if variance <= 0:
        return float("nan")
    return float(1 - weights @ (errors - weights @ errors) ** 2 / variance)


def critic_error(
    game: Game,
    policy: str | Policy,
    opponent: str | Policy | None,
    value_function: Any,
    *,
    seat: int | None = None,
    discount: float = 1.0,
    observation: Observation | None = None,
    work: Work = DEFAULT_WORK,
) -> CriticError:
    """Compare a critic with the exact values of a policy in every position that the policy reaches.

    Args:
        game: the game.
        policy: a spec string or a pure policy, whose values the critic estimates.
        opponent: the same, in the other seat; None for self-play.
        value_function: a function of ``Boards``, a learner, a torch module, a Keras model, or a
            model of Stable-Baselines3: see ``as_value_function``. Its values are expected results
            for the mover.
        seat, discount, work: as for :func:`evaluate_policy`.
        observation: the critic's observation, as for ``as_policy``.

    Raises:
        TypeError: no critic.
        ValueError, MemoryError: as :func:`evaluate_policy`; values of another shape or that are not
            finite.
    """
    critic = as_value_function(value_function, game, observation)
    evaluation = evaluate_policy(game, policy, opponent, seat=seat, discount=discount, work=work)
    parts = [query_values(critic, part) for part in evaluation.boards.chunks(work.chunk)]
    return CriticError(evaluation, np.concatenate(parts))
