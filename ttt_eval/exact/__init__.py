"""Exact evaluation: outcome, best response, exploitability, regret and values of policies, without
sampling.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
