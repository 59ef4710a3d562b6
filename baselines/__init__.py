"""Policies without learning."""

__ttt_envs__ = True  # marks our package among others of this name: ttt_envs/core/packages.py
