"""Audits of advantage estimators: exact bias, variance and mean squared error, or their intervals from samples."""

from __future__ import annotations

from evaluation.audit.auditing import Audit, Auditor, AuditSettings, audit
from evaluation.audit.episodes import TooManyGroups
from evaluation.audit.errors import AdvantageErrors, Errors, GradientErrors, PositionErrors
from evaluation.audit.registry import ESTIMATORS, Estimator, make_estimator

__all__ = [
    "ESTIMATORS",
    "AdvantageErrors",
    "Audit",
    "AuditSettings",
    "Auditor",
    "Errors",
    "Estimator",
    "GradientErrors",
    "PositionErrors",
    "TooManyGroups",
    "audit",
    "make_estimator",
]
