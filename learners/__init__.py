"""Policies that learn."""

LEARNERS: dict[str, str] = {
    "q-learning": "learners.q_learning:QLearningConfig",
}
"""name -> "module:Config", the frozen dataclass of its settings, imported when asked for"""
