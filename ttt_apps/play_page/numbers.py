"""The numbers inside the page: nets, compressed tables, and the exact strength of the opponents on
3 x 3.

Of the compressed table the page has one side of its factors, from which it computes every rank. The
page solves the games itself, and makes the table of random play: its rules and values are compared
with those of this package by tests.
"""

from __future__ import annotations

from base64 import b64encode

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from baselines.compression import decomposition
from baselines.tables import Softmax
from ttt_apps.play_page.nets import HIDDEN, load_weights, make_net, training_command
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import exploitability, match_outcome
from ttt_eval.puzzles import read_puzzles

SKIPS = (0.0, 0.1, 0.25, 0.5)
"""Skip chances of the nets, the compressed tables and the exact strengths."""
GAMES = [Game(skip_chance=skip) for skip in SKIPS]
WEIGHT = 10.0
"""Softmax weight of a table, the default and the paper's."""
MAX_RANK = 75
"""Rank of the table of 3 x 3 at all skip chances: the compressed table of this rank is the whole
one.
"""
OPPONENTS = ("random", "table", "svd", "net", "optimal")
DIGITS = 6
"""Decimal places of results and errors."""


def make_opponent(game: Game, name: str, rank: int = MAX_RANK) -> Policy:
    """Return an opponent of the page as a policy; ``rank`` is that of ``svd``."""
    if name == "net":
        return make_net(game)
    return make_policy(f"svd:rank={rank}" if name == "svd" else name, game)


def numbers() -> dict[str, object]:
    """Return all data of the page, JSON-ready; ``assets/solver.js`` reads it."""
    return {
        "weight": WEIGHT,
        "ranks": MAX_RANK,
        "hidden": HIDDEN,
        "skips": list(SKIPS),
        "games": [_game_numbers(game) for game in track(GAMES, "exact values")],
        "puzzles": [puzzle.to_dict() for puzzle in read_puzzles()],
    }


def _game_numbers(game: Game) -> dict[str, object]:
    parts = decomposition(game, "svd")
    ranks: dict[str, list[float]] = {}
    for rank in range(MAX_RANK + 1):
        table = parts.at(rank)
        row = {
            "error": table.relative_error,
            "compression_ratio": table.compression_ratio,
            **measure_strength(game, Softmax(table, WEIGHT)),
        }
        for name, number in row.items():
            ranks.setdefault(name, []).append(round(number, DIGITS))
    factors = [factors.arrays[0] for factors in parts.at(MAX_RANK).factors]
    weights = np.concatenate([array.ravel() for array in load_weights(game).values()])
    opponents = {name: make_opponent(game, name) for name in OPPONENTS if name != "svd"}
    return {
        "skip": game.skip_chance,
        "svd": [_encode(factor.reshape(-1, MAX_RANK)) for factor in factors],
        "net": _encode(weights),
        "training": " ".join(("train.py", *training_command(game))),
        "strength": {name: measure_strength(game, policy) for name, policy in opponents.items()},
        "ranks": ranks,
    }


def measure_strength(game: Game, policy: Policy) -> dict[str, float]:
    """Return the exploitability, and the result against perfect play, the mean of both seats."""
    strength = {
        "exploitability": exploitability(game, policy),
        **match_outcome(game, policy, "optimal")._asdict(),
    }
    # adding 0 removes the minus before a 0
    return {name: round(number, DIGITS) + 0.0 for name, number in strength.items()}


def _encode(array: NDArray[np.generic]) -> str:
    """Return numbers as float32, little endian, in base64."""
    return b64encode(np.ascontiguousarray(array).astype("<f4").tobytes()).decode()
