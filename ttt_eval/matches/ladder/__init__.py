"""Ladders: opponents of known strength on standard games, for rating other policies.

A ladder is a dozen policies, its rungs, with ratings (Bradley and Terry, 1952) from a round robin.
``ladders/NAME.json`` stores them with everything that determines them. ``random`` is 0. On small boards results are
exact; else they are matches. A policy plays every rung, and its rating maximizes the likelihood of its results.
"""

from __future__ import annotations

from ttt_eval.matches.ladder.build import measure_ladder
from ttt_eval.matches.ladder.files import LADDER_FOLDER, MAX_FILE_BYTES, Ladder, ladder_name, read_ladder
from ttt_eval.matches.ladder.plans import ANCHOR, PLANS, LadderPlan
from ttt_eval.matches.ladder.rate import GAMES, RESULT, RatingSettings, rate_policy
from ttt_eval.matches.ladder.results import CONFIDENCE, MAX_GAMES
from ttt_eval.matches.ladder.tables import format_rung, format_rung_interval, to_markdown

__all__ = [
    "ANCHOR",
    "CONFIDENCE",
    "GAMES",
    "LADDER_FOLDER",
    "MAX_FILE_BYTES",
    "MAX_GAMES",
    "PLANS",
    "RESULT",
    "Ladder",
    "LadderPlan",
    "RatingSettings",
    "format_rung",
    "format_rung_interval",
    "ladder_name",
    "measure_ladder",
    "rate_policy",
    "read_ladder",
    "to_markdown",
]
