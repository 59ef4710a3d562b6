"""Policies that do not learn."""

__ttt_envs__ = True  # tells our package from others of this name: ttt_envs/hidden.py
