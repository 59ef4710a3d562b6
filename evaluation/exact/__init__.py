"""Exact evaluation: outcome, best response, exploitability and regret of policies, without sampling."""

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

__all__ = [
    "Exploitation",
    "OutcomeProbabilities",
    "RegretRow",
    "best_response",
    "exploitability",
    "exploitation",
    "match_outcome",
    "mean_loss",
    "outcome",
    "regret",
    "regret_table",
    "training_callback",
]
