"""Ladders: opponents of known strength on standard games, for placing other policies.

A ladder is a dozen policies, its rungs, with ratings (Bradley and Terry, 1952) from a round robin.
``ladders/NAME.json`` stores them with everything that determines them. ``random`` is 0. On small boards results are
exact; else they are matches. A policy plays every rung, and its rating maximizes the likelihood of its results.
"""

from __future__ import annotations

from evaluation.matches.ladder.build import measure_ladder
from evaluation.matches.ladder.files import HERE, MAX_FILE_BYTES, Ladder, ladder_of, read_ladder, sha256_of
from evaluation.matches.ladder.plans import ANCHOR, PLANS, Plan
from evaluation.matches.ladder.rate import ASKED, GAMES, RESULT, SAME, WORST, is_exact, place, run_of
from evaluation.matches.ladder.results import CONFIDENCE, MOST
from evaluation.matches.ladder.tables import cells_of_rung, interval_of_rung, markdown

__all__ = [
    "ANCHOR",
    "ASKED",
    "CONFIDENCE",
    "GAMES",
    "HERE",
    "MAX_FILE_BYTES",
    "MOST",
    "PLANS",
    "RESULT",
    "SAME",
    "WORST",
    "Ladder",
    "Plan",
    "cells_of_rung",
    "interval_of_rung",
    "is_exact",
    "ladder_of",
    "markdown",
    "measure_ladder",
    "place",
    "read_ladder",
    "run_of",
    "sha256_of",
]
