"""Games as text, for language models: presentations, the parsing of answers, and games of one or both seats.

One game has several presentations, all equivalent: each cell has one name, and each position one text. So a difference
between the results of a model on two presentations is due to the words, not to the game. Nothing here needs more than
the base installation; ``ttt_eval.credit`` computes the exact credit of each turn.
"""

from __future__ import annotations

from ttt_envs.text.answers import MAX_ANSWER_LENGTH, Problem, parse_answer
from ttt_envs.text.presentations import PRESENTATIONS, Presentation, make_presentation, present
from ttt_envs.text.text_game import Illegal, TextGame, Turn

__all__ = [
    "MAX_ANSWER_LENGTH",
    "PRESENTATIONS",
    "Illegal",
    "Presentation",
    "Problem",
    "TextGame",
    "Turn",
    "make_presentation",
    "parse_answer",
    "present",
]
