"""Evaluation of policies: playing strength, its uncertainty, and computational cost."""

__ttt_envs__ = True  # distinguishes our package from others of this name: ttt_envs/core/packages.py
