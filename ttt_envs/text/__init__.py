"""Games as text, for language models: presentations, the parsing of answers, and games of one or
both seats.

One game has several presentations, all equivalent: each cell has one name, and each position one
text. So a difference between the results of a model on two presentations is due to the words, not
to the game. Nothing here needs more than the base installation; ``ttt_eval.language_models.credit``
computes the exact credit of each turn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
