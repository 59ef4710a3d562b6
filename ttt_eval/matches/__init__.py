"""Matches between policies, their logs and openings, and the statistics of their results."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
