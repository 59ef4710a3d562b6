"""Ladders: opponents of known strength on standard games, and where a policy stands among them.

A ladder is a dozen policies, its rungs, that met each other once; their ratings (Bradley and Terry, 1952) are kept with
everything that decides them in ``ladders/NAME.json``. ``random`` is 0. On small boards results are exact; else they are
matches. A policy meets every rung, and its rating is the one under which its results are likeliest.
"""

from __future__ import annotations

from evaluation.ladder.kept import HERE, LARGEST_FILE, Ladder, ladder_of, read_ladder, sha256_of
from evaluation.ladder.measuring import measure_ladder
from evaluation.ladder.placing import ASKED, GAMES, RESULT, SAME, WORST, is_exact, place, run_of
from evaluation.ladder.plans import ANCHOR, PLANS, Plan
from evaluation.ladder.results import CONFIDENCE, MOST
from evaluation.ladder.showing import cells_of_rung, interval_of_rung, markdown

__all__ = [
    "ANCHOR",
    "ASKED",
    "CONFIDENCE",
    "GAMES",
    "HERE",
    "LARGEST_FILE",
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
