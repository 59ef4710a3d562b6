"""Audits of advantage estimators: exact bias, variance and mean squared error, or their intervals from samples."""

from __future__ import annotations

from ttt_eval.audit.auditing import Audit as Audit
from ttt_eval.audit.auditing import Auditor as Auditor
from ttt_eval.audit.auditing import AuditSettings as AuditSettings
from ttt_eval.audit.auditing import audit as audit
from ttt_eval.audit.episodes import TooManyGroups as TooManyGroups
from ttt_eval.audit.errors import Errors as Errors
from ttt_eval.audit.estimators import ESTIMATORS as ESTIMATORS
from ttt_eval.audit.estimators import Batch as Batch
from ttt_eval.audit.estimators import Estimator as Estimator
from ttt_eval.audit.estimators import make_estimator as make_estimator
