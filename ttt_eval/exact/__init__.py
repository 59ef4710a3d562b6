"""Exact evaluation: outcome, best response, exploitability, regret and values of policies, without sampling."""

from __future__ import annotations

from ttt_eval.exact.critics import CriticError, critic_error
from ttt_eval.exact.dynamic_programming import (
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
)
from ttt_eval.exact.policy_evaluation import PolicyEvaluation, SeatEvaluation, evaluate_policy, policy_gradient
from ttt_eval.exact.strength import training_callback

__all__ = [
    "CriticError",
    "Exploitation",
    "OutcomeProbabilities",
    "PolicyEvaluation",
    "RegretRow",
    "SeatEvaluation",
    "best_response",
    "critic_error",
    "evaluate_policy",
    "exploitability",
    "exploitation",
    "match_outcome",
    "mean_loss",
    "outcome",
    "policy_gradient",
    "regret",
    "regret_table",
    "training_callback",
]
