"""Text games as an environment of GEM (``pip install gem-llm``); importing this module registers
``ttt:Text-v0``.
"""

from __future__ import annotations

from typing import Any

import gem
import numpy as np

from ttt_envs.text import TextEnv

ID = "ttt:Text-v0"


class GemEnv(gem.Env):
    """``ttt/Text-v0`` with the interface of GEM; see :class:`ttt_envs.text.text_env.TextEnv` for
    the arguments.

    Args:
        seed: of the first game, if ``reset`` is called without one; GEM's vectors give each
            environment its own.
        settings: arguments of the environment.
    """

    def __init__(self, seed: int | None = None, **settings: Any) -> None:
        super().__init__()
        self._settings = settings
        self._first_seed = seed
        self._env = TextEnv(**settings)

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the next game, or with ``seed`` the first of that seed; no global generator is
        seeded.
        """
        seed = self._first_seed if seed is None else seed
        self._first_seed = None
        return self._env.reset(seed=seed)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer the prompt: observation, reward, terminated, truncated, info."""
        return self._env.step(action)

    def sample_random_action(self) -> str:
        """Return an answer with a random legal move, empty after the end; the generator is that of
        the environment.
        """
        rng: np.random.Generator = self._env.np_random
        legal = self._env.text.legal_moves()
        return f"<move>{rng.choice(legal)}</move>" if legal else ""

    def spawn(self, same_state: bool = False, **kwargs: Any) -> GemEnv:
        """Return another environment with the same settings, except those given.

        Raises:
            ValueError: ``same_state``, which is not supported.
        """
        if same_state:
            raise ValueError(
                "same_state=True is not supported: reset the new environment with the same seed "
                "instead"
            )
        return GemEnv(**{**self._settings, **kwargs})


if ID not in gem.envs.registration.ENV_REGISTRY:
    gem.register(ID, f"{__name__}:GemEnv")
