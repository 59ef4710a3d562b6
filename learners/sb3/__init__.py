"""Learners of Stable-Baselines3 and sb3-contrib, trained in the Gymnasium environments, and their files as policies.

A run of ours holds the weights as plain arrays, and playing it needs neither package. A zip saved by Stable-Baselines3
itself holds pickles, which can run any code when they are read: ``sb3:PATH`` reads it only where it is trusted.
"""

from learners.sb3.configs import DQNConfig, MaskablePPOConfig, PPOConfig
from learners.sb3.zips import ZipPolicy

__all__ = ["DQNConfig", "MaskablePPOConfig", "PPOConfig", "ZipPolicy"]
