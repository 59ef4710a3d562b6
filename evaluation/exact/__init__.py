"""Exact evaluation: outcome, best response, exploitability, regret and values of policies, without sampling."""

from __future__ import annotations

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
from evaluation.exact.policy_evaluation import (
    BellmanError,
    PolicyEvaluation,
    SeatEvaluation,
    bellman_error,
    evaluate_policy,
)

__all__ = [
    "BellmanError",
    "Exploitation",
    "OutcomeProbabilities",
    "PolicyEvaluation",
    "RegretRow",
    "SeatEvaluation",
    "bellman_error",
    "best_response",
    "evaluate_policy",
    "exploitability",
    "exploitation",
    "match_outcome",
    "mean_loss",
    "outcome",
    "regret",
    "regret_table",
    "training_callback",
]
