"""Evaluation of language models as players: questions, answers, games, all positions, and exact
results.

Answers are kept in a file, so that a stopped evaluation continues, no answer is paid for twice, and
answers may come from anywhere: from an endpoint, a batch service, or a program of one's own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
