"""Evaluation of language models as players: questions, answers, games, all positions, and exact results.

Answers are kept in a file, so that a stopped evaluation continues, no answer is paid for twice, and answers may come
from anywhere: from an endpoint, a batch service, or a program of one's own.
"""

from __future__ import annotations

from ttt_eval.language_models.dataset import make_rows

__all__ = ["make_rows"]
