"""The numbers inside the page: nets, compressed tables, and the exact strength of the opponents on 3 x 3.

Of the compressed table the page has one side of its factors, from which it computes every rank. The page solves the
games itself, and makes the table of random play: its rules and values are compared with those of this package by tests.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from baselines.compression import decomposition
from baselines.exact.count import reachable_boards
from baselines.tables import Softmax
from ttt_apps.play_page.nets import HIDDEN, WEIGHTS, load_weights, make_net, training_command
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards, from_position_keys
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import exploitation, match_outcome
from ttt_eval.puzzles import Puzzle, read_puzzles
from ttt_eval.reports.links import PLAY_BOARDS, PLAY_SKIPS

GAMES = [Game(skip_chance=skip) for skip in PLAY_SKIPS]
VARIANTS = [
    Game(gravity=gravity, misere=misere, torus=torus, skip_chance=skip)
    for gravity, misere, torus in product((False, True), repeat=3)
    if gravity or misere or torus
    for skip in PLAY_SKIPS
]
"""Other games of 3 x 3 with exact strengths; overlines change nothing there."""
WEIGHT = 10.0
"""Softmax weight of a table, the default and the paper's."""
MAX_RANK = 75
"""Rank of the table of 3 x 3 at all skip chances: the compressed table of this rank is the whole one."""
OPPONENTS = ("random", "table", "svd", "net", "optimal")
ANY_RULES = ("random", "table", "optimal")
"""Those that play by any rules."""
DIGITS = 6
"""Decimal places of results and errors."""
PUZZLE_DIGITS = 4
"""Decimal places of the values in puzzles."""


def make_opponent(game: Game, name: str, rank: int = MAX_RANK) -> Policy:
    """Return an opponent of the page as a policy; ``rank`` is that of ``svd``."""
    if name == "net":
        return make_net(game)
    return make_policy(f"svd:rank={rank}" if name == "svd" else name, game)


def all_positions(game: Game) -> Boards:
    """Return all positions of a game that are not over, by key, with player_0's turn before player_1's."""
    kinds = reachable_boards(game)
    found = np.sort(np.concatenate([np.flatnonzero(kinds & (1 << mover)) * 2 + mover for mover in (0, 1)]))
    return from_position_keys(found.astype(np.uint64), game)


def numbers(progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """Return all data of the page, JSON-ready; ``assets/game.js`` documents the format.

    Args:
        progress: called with the share that is done.
    """
    report = partial(_report_progress, progress)
    found = [_game_numbers(game, partial(report, number)) for number, game in enumerate(GAMES)]
    for number, game in enumerate(VARIANTS, 1):
        strengths = {name: _strength(game, make_opponent(game, name)) for name in ANY_RULES}
        found.append({"skip": game.skip_chance, "rules": ".".join(game.variant_names), "strength": strengths})
        report(len(GAMES), number / len(VARIANTS))
    boards = {
        name: {"rows": one.rows, "columns": one.columns, "win_length": one.win_length, "gravity": one.gravity}
        for name, one in PLAY_BOARDS.items()
    }
    puzzles = [_puzzle_json(one) for one in read_puzzles()]
    return {
        "format": 2,
        "weight": WEIGHT,
        "ranks": MAX_RANK,
        "hidden": HIDDEN,
        "skips": list(PLAY_SKIPS),
        "boards": boards,
        "games": found,
        "puzzles": puzzles,
    }


def _puzzle_json(puzzle: Puzzle) -> dict[str, Any]:
    """Return a puzzle with rounded values, to save space."""
    data = puzzle.to_dict()
    values = [None if value is None else round(value, PUZZLE_DIGITS) + 0.0 for value in data["values"]]
    game = {name: value for name, value in data["game"].items() if name != "format"}
    return {**data, "game": game, "values": values, "loss": round(puzzle.loss, PUZZLE_DIGITS)}


def _report_progress(progress: Callable[[float], None] | None, before: int, share: float) -> None:
    if progress is not None:
        progress((before + share) / (len(GAMES) + 1))


def _game_numbers(game: Game, progress: Callable[[float], None]) -> dict[str, Any]:
    parts = decomposition(game, "svd")
    whole = parts.at(MAX_RANK)
    names = ("error", "compression_ratio", "exploitability", "win", "draw", "loss")
    ranks: dict[str, list[float]] = {name: [] for name in names}
    for rank in range(MAX_RANK + 1):
        one = parts.at(rank)
        ranks["error"].append(round(one.relative_error, DIGITS))
        ranks["compression_ratio"].append(round(one.compression_ratio, DIGITS))
        for name, number in _strength(game, Softmax(one, WEIGHT)).items():
            ranks[name].append(number)
        progress((rank + 1) / (MAX_RANK + 2))
    return {
        "skip": game.skip_chance,
        "rules": "",
        "svd": [_encode(factors.arrays[0].reshape(-1, MAX_RANK), "<f4") for factors in whole.factors],
        "net": _encode(np.concatenate([load_weights(game)[name].ravel() for name in WEIGHTS]), "<f4"),
        "training": " ".join(("train.py", *training_command(game))),
        "strength": {name: _strength(game, make_opponent(game, name)) for name in OPPONENTS if name != "svd"},
        "ranks": ranks,
    }


def _strength(game: Game, policy: Policy) -> dict[str, float]:
    """Return the exploitability, and the result against perfect play, the mean of both seats."""
    result = match_outcome(game, policy, "optimal")
    numbers = {"exploitability": exploitation(game, policy).exploitability, **result._asdict()}
    return {name: round(number, DIGITS) + 0.0 for name, number in numbers.items()}  # no minus before a 0


def _encode(array: Float64Array | np.ndarray[Any, Any], kind: str) -> str:
    return b64encode(np.ascontiguousarray(array).astype(kind).tobytes()).decode()
