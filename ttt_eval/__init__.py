"""Evaluation of policies: playing strength, its uncertainty, and computational cost."""

import lazy_loader

__ttt_envs__ = True  # marks our package among others of this name: ttt_envs/core/packages.py

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
