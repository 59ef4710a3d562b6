"""The nets of the page: their training, weights and play.

The weights are stored in ``assets/nets.npz``, so the page is made without TensorFlow, and is the
same on every machine. ``python -m ttt_apps.play_page --train`` regenerates that file.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from learners.checkpoint import load_arrays, load_checkpoint, save_arrays
from learners.mlp import dense_layers, forward, layer_shapes, planes
from ttt_envs.agents.policy import VALUE_TOLERANCE, GreedyPolicy
from ttt_envs.agents.wrappers import SymmetrizedPolicy
from ttt_envs.core.jit import Float32Array, Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

HIDDEN = 64
TRAINING = f"--learner q-net --opponent self --hidden {HIDDEN} --games 10000 --seed 0".split()
"""Arguments of train.py without the skip chance: few games, so that the nets still make mistakes.
"""
WEIGHTS = tuple(layer_shapes((18, HIDDEN, 9)))
"""Names of the arrays of a net: float32 [18, 64], [64], [64, 9] and [9]."""
FILE = Path(__file__).with_name("assets") / "nets.npz"


class Net(GreedyPolicy):
    """A trained Q-network in float64, without averaging over symmetries.

    Args:
        game: 3 x 3.
    """

    colour_blind = True
    tie = VALUE_TOLERANCE

    def __init__(self, game: Game) -> None:
        self.game = game
        self._layers = dense_layers(load_weights(game), ("relu", "linear"))

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, 9] from the mover's view, NaN where illegal."""
        values = forward(planes(boards.own_first(), 2), self._layers)
        return np.where(boards.legal(self.game), values, np.nan)


def load_weights(game: Game) -> dict[str, Float32Array]:
    """Return the stored weights for a game of the page, by the names of :data:`WEIGHTS`."""
    arrays = load_arrays(FILE, 1 << 20)
    return {name: arrays[f"{game.slug}.{name}"] for name in WEIGHTS}


def make_net(game: Game) -> SymmetrizedPolicy:
    """Return the net for a game as a policy: averaged over the eight symmetries of a board, as in
    its training.
    """
    return SymmetrizedPolicy(Net(game), game)


def training_command(game: Game) -> list[str]:
    """Return the arguments of ``train.py`` that trained the net for a game."""
    return [*TRAINING, "--skip-chance", f"{game.skip_chance:g}"]


def train_nets(games: list[Game]) -> None:
    """Train the nets by ``train.py``, a process each, and store their weights; it needs
    TensorFlow.
    """
    weights: dict[str, Float32Array] = {}
    with TemporaryDirectory() as folder:
        for game in games:
            run = Path(folder) / game.slug
            words = [
                *training_command(game),
                "--out",
                str(run),
                "--exact-every",
                "0",
                "--no-report",
            ]
            subprocess.run([sys.executable, "-m", "ttt_apps.training", *words], check=True)
            arrays = load_checkpoint(run)["learner"]
            weights |= {f"{game.slug}.{name}": arrays[f"net.{name}"] for name in WEIGHTS}
    save_arrays(FILE, weights)
