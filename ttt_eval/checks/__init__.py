"""Checks of searches, agents, values, gradients and learners, each with a verdict by exact ones."""

from __future__ import annotations

from ttt_eval.checks.advantages import GradientCheck, check_advantages
from ttt_eval.checks.agent import check_agent
from ttt_eval.checks.check import Check, CheckRow, Evidence
from ttt_eval.checks.learner import FAMILIES, check_learner
from ttt_eval.checks.losses import check_loss
from ttt_eval.checks.probes import PROBES
from ttt_eval.checks.samples import gae
from ttt_eval.checks.search import check_search
from ttt_eval.checks.values import check_values

__all__ = [
    "FAMILIES",
    "PROBES",
    "Check",
    "CheckRow",
    "Evidence",
    "GradientCheck",
    "check_advantages",
    "check_agent",
    "check_learner",
    "check_loss",
    "check_search",
    "check_values",
    "gae",
]
