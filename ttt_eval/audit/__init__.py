"""Audits of advantage estimators: exact bias, variance and mean squared error, or their intervals
from samples.
"""

from __future__ import annotations

from ttt_eval.audit.auditing import Audit, AuditSettings, audit
from ttt_eval.audit.auditing import Auditor as Auditor
from ttt_eval.audit.episodes import TooManyGroups as TooManyGroups
from ttt_eval.audit.errors import Errors
from ttt_eval.audit.estimators import ESTIMATORS, Batch, make_estimator
from ttt_eval.audit.estimators import Estimator as Estimator

__all__ = ["ESTIMATORS", "Audit", "AuditSettings", "Batch", "Errors", "audit", "make_estimator"]
