"""Audits of advantage estimators: exact bias, variance and mean squared error, or their intervals from samples."""

from __future__ import annotations

from ttt_eval.audit.auditing import Audit, Auditor, AuditSettings, audit
from ttt_eval.audit.episodes import TooManyGroups
from ttt_eval.audit.errors import AdvantageErrors, Errors, GradientErrors, PositionErrors
from ttt_eval.audit.estimators import ESTIMATORS, Batch, Estimator, make_estimator

__all__ = [
    "ESTIMATORS",
    "AdvantageErrors",
    "Audit",
    "AuditSettings",
    "Auditor",
    "Batch",
    "Errors",
    "Estimator",
    "GradientErrors",
    "PositionErrors",
    "TooManyGroups",
    "audit",
    "make_estimator",
]
