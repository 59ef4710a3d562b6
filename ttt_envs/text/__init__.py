"""Games as text, for language models: presentations, the parsing of answers, and games of one or both seats.

One game has several presentations, all equivalent: each cell has one name, and each position one text. So a difference
between the results of a model on two presentations is due to the words, not to the game. Nothing here needs more than
the base installation; ``ttt_eval.credit`` computes the exact credit of each turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_envs.text.answers import MAX_ANSWER_LENGTH as MAX_ANSWER_LENGTH
    from ttt_envs.text.answers import Problem as Problem
    from ttt_envs.text.answers import parse_answer as parse_answer
    from ttt_envs.text.presentations import PRESENTATIONS as PRESENTATIONS
    from ttt_envs.text.presentations import Presentation as Presentation
    from ttt_envs.text.presentations import make_presentation as make_presentation
    from ttt_envs.text.presentations import present as present
    from ttt_envs.text.text_env import TextEnv as TextEnv
    from ttt_envs.text.text_game import SELF as SELF
    from ttt_envs.text.text_game import Illegal as Illegal
    from ttt_envs.text.text_game import Reward as Reward
    from ttt_envs.text.text_game import TextGame as TextGame
    from ttt_envs.text.text_game import Turn as Turn
    from ttt_envs.text.text_game import result_reward as result_reward

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
