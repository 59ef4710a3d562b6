"""Exact evaluation: outcome, best response, exploitability, regret and values of policies, without sampling."""

from __future__ import annotations

from evaluation.exact.critics import CriticError, critic_error
from evaluation.exact.dynamic_programming import (
    Exploitation,
    OutcomeProbabilities,
    RegretRow,
    best_response,
    exploitability,
    exploitation,
    match_outcome,
    mean_loss,
    outcome,
    regret,
    regret_table,
    training_callback,
)
from evaluation.exact.gradients import ModelGradient, exact_policy_gradient, fisher_information, policy_gradient
from evaluation.exact.policy_evaluation import (
    BellmanError,
    PolicyEvaluation,
    SeatEvaluation,
    bellman_error,
    evaluate_policy,
)

__all__ = [
    "BellmanError",
    "CriticError",
    "Exploitation",
    "ModelGradient",
    "OutcomeProbabilities",
    "PolicyEvaluation",
    "RegretRow",
    "SeatEvaluation",
    "bellman_error",
    "best_response",
    "critic_error",
    "evaluate_policy",
    "exact_policy_gradient",
    "exploitability",
    "exploitation",
    "fisher_information",
    "match_outcome",
    "mean_loss",
    "outcome",
    "policy_gradient",
    "regret",
    "regret_table",
    "training_callback",
]
