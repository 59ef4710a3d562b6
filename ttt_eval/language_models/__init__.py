"""Evaluation of language models as players, through an HTTP endpoint: games, all positions, and exact results.

Answers are stored on disk, so that a stopped evaluation continues and no answer is paid for twice.
"""

from __future__ import annotations
