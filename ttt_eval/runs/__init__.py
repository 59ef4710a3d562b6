"""Runs of a training: their directories, learning curves and sweeps, and the callback of
Stable-Baselines3.
"""

__all__: list[str] = []
