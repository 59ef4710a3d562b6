"""Learners of Stable-Baselines3 and sb3-contrib, trained in the Gymnasium environments, and their files as policies.

Our runs hold the weights as plain arrays, and playing them needs neither package. A zip saved by Stable-Baselines3
holds pickles, which can run any code when loaded: ``sb3:PATH`` loads it only if it is trusted.
"""

from learners.sb3.configs import DQNConfig, MaskablePPOConfig, PPOConfig
from learners.sb3.zips import ZipPolicy

__all__ = ["DQNConfig", "MaskablePPOConfig", "PPOConfig", "ZipPolicy"]
