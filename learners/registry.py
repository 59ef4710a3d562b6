"""The learners by name, and what a run of one is."""

from __future__ import annotations

from pathlib import Path

CONFIG = "config.json"
"""File of a run with its game and settings."""
LEARNERS: dict[str, str] = {
    "alpha-zero": "learners.alpha_zero:AlphaZeroConfig",
    "exact-pg": "learners.exact_pg:ExactPGConfig",
    "naive-mc": "learners.naive_mc:NaiveMCConfig",
    "ppo": "learners.ppo:MaskedPPOConfig",
    "q-learning": "learners.q_learning:QLearningConfig",
    "q-net": "learners.q_net:QNetConfig",
    "sb3-dqn": "learners.sb3:DQNConfig",
    "sb3-maskable-ppo": "learners.sb3:MaskablePPOConfig",
    "sb3-ppo": "learners.sb3:PPOConfig",
    "value-net": "learners.value_net:ValueNetConfig",
}
"""Maps a learner's name to "module:Config", the frozen dataclass of its settings, imported on
demand.
"""


class OtherGameWarning(UserWarning):
    """A run plays a game on its own board that it was not trained on."""


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run."""
    return (folder / CONFIG).is_file()
