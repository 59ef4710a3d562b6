"""Checks of searches, agents and values against exact values, each with a verdict."""

from __future__ import annotations

from ttt_eval.checks.agent import check_agent
from ttt_eval.checks.check import Check, CheckRow, Evidence
from ttt_eval.checks.search import check_search
from ttt_eval.checks.values import check_values

__all__ = ["Check", "CheckRow", "Evidence", "check_agent", "check_search", "check_values"]
