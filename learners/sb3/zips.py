"""Zips saved by Stable-Baselines3 as policies: ``sb3:PATH``. They hold pickles, and are loaded only if trusted."""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from gymnasium import spaces

from learners.sb3.libraries import check_packages, preserve_random_state
from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import TRUST, Named, trusted
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.actions import num_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

Algorithm = Literal["dqn", "ppo", "maskable-ppo"]
_ALGORITHMS = {
    "dqn": ("stable_baselines3", "DQN"),
    "ppo": ("stable_baselines3", "PPO"),
    "maskable-ppo": ("sb3_contrib", "MaskablePPO"),
}


@dataclass(frozen=True)
class ZipPolicy(Named):
    """A zip saved by Stable-Baselines3, ``sb3:PATH,algorithm=dqn``, playing the legal move of highest score.

    Args:
        game: the game, on the board on which the model was trained with flat observations.
        path: the zip.
        algorithm: the algorithm that trained it.
        trust: whether the file may run code; the environment variable ``TTT_ENVS_TRUST`` = 1 trusts every file.

    Raises:
        ValueError: a file that is missing, not trusted, damaged, of another algorithm or another board.
    """

    name: ClassVar[str] = "sb3"
    colour_blind = plays_hidden = True
    variants = ("gravity",)  # which shows by the number of actions
    refusals: ClassVar = dict.fromkeys(
        ("overlines", "misere", "torus"),
        "a zip does not store the rules of its training, and its spaces do not show them",
    )

    game: Game
    path: str
    algorithm: Algorithm
    trust: bool = False
    model: Policy = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("algorithm", self.algorithm, get_args(Algorithm))
        if not Path(self.path).is_file():
            raise ValueError(f"there is no file {self.path}: give the path of a zip that Stable-Baselines3 has saved")
        if not (self.trust or trusted()):
            raise ValueError(
                f"{self.path} is not read: a zip of Stable-Baselines3 holds pickles, which can run any code when they "
                f"are loaded. If you trust its source, set {TRUST}=1 or write "
                f"sb3:{self.path},algorithm={self.algorithm},trust=true"
            )
        object.__setattr__(self, "model", as_policy(_load_model(self.path, self.algorithm, self.game), self.game))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the legal moves of highest score."""
        return self.model.probabilities(boards)


def _load_model(path: str, algorithm: Algorithm, game: Game) -> Any:
    """Load a trusted zip.

    Raises:
        ValueError: a damaged file, one of another algorithm or another board.
    """
    package, name = _ALGORITHMS[algorithm]
    check_packages(f"sb3:{path},algorithm={algorithm}", package)
    kind = getattr(importlib.import_module(package), name)
    # do not reseed the process's generators, and allocate no replay buffer of a million positions
    room = {"buffer_size": 1} if algorithm == "dqn" else {}
    with preserve_random_state():
        try:
            with open(path, "rb") as file:
                model = kind.load(file, device="cpu", seed=None, **room)
        except Exception as problem:  # a pickle can raise any exception
            why = str(problem).partition("\n")[0] or type(problem).__name__
            raise ValueError(f"{path} cannot be read as a zip of {name}, is it of another algorithm? {why}") from None
    if not isinstance(model.policy, kind.policy_aliases["MlpPolicy"]):
        raise ValueError(
            f"{path} holds a {type(model.policy).__name__}, which is not of {name}: name its algorithm, "
            f"one of {', '.join(_ALGORITHMS)}"
        )
    seen, moves = model.observation_space, model.action_space
    actions = num_actions(game)
    if not isinstance(seen, spaces.Box) or seen.shape != (2 * game.cells,) or moves != spaces.Discrete(actions):
        raise ValueError(
            f"{path} was trained on observations {seen} and actions {moves}, and {game} has flat observations of "
            f"{2 * game.cells} numbers and {actions} actions: play it on its own board"
        )
    return model
