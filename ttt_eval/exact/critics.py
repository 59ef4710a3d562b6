"""The error of a critic: its values beside the exact values of the policy that it judges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.agents.adapters import as_value_function
from ttt_envs.agents.observations import Observation
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game
from ttt_eval.exact.policy_evaluation import PolicyEvaluation, evaluate_policy, query_values


class CriticErrorRow(NamedTuple):
    """Error of a critic in positions with a given number of stones."""

    stones: int
    visits: float
    """expected visits per game"""
    bias: float
    """mean of value minus exact value"""
    root_mean_square: float


class CalibrationRow(NamedTuple):
    """Mean exact value of positions with similar values of the critic."""

    visits: float
    """expected visits per game"""
    predicted: float
    """mean value by the critic"""
    exact: float
    """mean exact value"""


class CriticErrorPosition(NamedTuple):
    """A position that contributes much to the error of a critic."""

    position: str
    visits: float
    """expected visits per game"""
    predicted: float
    exact: float


@dataclass(frozen=True)
class CriticError:
    """Error of a critic: see :func:`critic_error`. All means are weighted by occupancy."""

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
        """1 - variance of the error / variance of the exact values; NaN where these are all equal."""
        exact = self.evaluation.values
        variance = self.weights @ (exact - self.weights @ exact) ** 2
        if variance <= 0:
            return float("nan")
        return float(1 - self.weights @ (self.errors - self.bias) ** 2 / variance)

    def by_stones(self) -> list[CriticErrorRow]:
        """Return bias and error by the number of stones on the board."""
        rows = []
        for stones in np.unique(self.evaluation.stones).tolist():
            at = self.evaluation.stones == stones
            visits, errors = self.evaluation.occupancy[at], self.errors[at]
            total = float(visits.sum())
            if total > 0:
                mean_square = float(visits @ errors**2) / total
                rows.append(CriticErrorRow(stones, total, float(visits @ errors) / total, mean_square**0.5))
        return rows

    def calibration(self, bins: int = 10) -> list[CalibrationRow]:
        """Return mean values by equal intervals of the critic's values, without empty ones.

        Raises:
            ValueError: fewer than 1 bin.
        """
        if bins < 1:
            raise ValueError(f"bins={bins} leaves no interval: choose 1 or more")
        low, high = float(self.predicted.min()), float(self.predicted.max())
        place = np.minimum((self.predicted - low) / max(high - low, 1e-300) * bins, bins - 1).astype(np.int64)
        visits, exact = self.evaluation.occupancy, self.evaluation.values
        totals, *sums = (
            np.bincount(place, weight, bins) for weight in (visits, visits * self.predicted, visits * exact)
        )
        return [
            CalibrationRow(float(total), float(predicted / total), float(value / total))
            for total, predicted, value in zip(totals, *sums, strict=True)
            if total > 0
        ]

    def worst(self, count: int = 10) -> list[CriticErrorPosition]:
        """Return the positions with the largest share in the mean squared error, the largest first."""
        evaluation = self.evaluation
        order = np.argsort(-self.weights * self.errors**2, kind="stable")[: max(0, count)].tolist()
        return [
            CriticErrorPosition(
                to_text(evaluation.boards.position(row), evaluation.game),
                float(evaluation.occupancy[row]),
                float(self.predicted[row]),
                float(evaluation.values[row]),
            )
            for row in order
        ]

    def to_dict(self) -> dict[str, float]:
        """Return the totals by their names in logs."""
        return {
            "critic_rmse": self.root_mean_square,
            "critic_bias": self.bias,
            "critic_explained_variance": self.explained_variance,
        }


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
        value_function: a function of ``Boards``, a learner, a torch module, a Keras model, or a model of
            Stable-Baselines3: see ``as_value_function``. Its values are expected results for the mover.
        seat, discount, work: as for :func:`evaluate_policy`.
        observation: the critic's observation, as for ``as_policy``.

    Raises:
        TypeError: no critic.
        ValueError, MemoryError: as :func:`evaluate_policy`; values of another shape or that are not finite.
    """
    critic = as_value_function(value_function, game, observation)
    evaluation = evaluate_policy(game, policy, opponent, seat=seat, discount=discount, work=work)
    parts = [query_values(critic, part) for part in evaluation.boards.chunks(work.chunk)]
    return CriticError(evaluation, np.concatenate(parts))
