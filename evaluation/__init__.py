"""Who is better, how sure we are, and what it cost."""

__ttt_envs__ = True  # tells our package from others of this name: ttt_envs/hidden.py
