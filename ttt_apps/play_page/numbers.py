"""The numbers inside the page: each opponent's values in every position, and its exact strength.

Positions are stored once per symmetry class, and of the compressed table one side of its factors, from which the page
computes every rank. Values are float32: all displayed digits are correct.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from baselines.compression import decomposition
from baselines.retrograde.count import reachable_boards
from baselines.retrograde.solver import solve
from baselines.tables import Softmax, Table, random_play_values
from evaluation.exact.dynamic_programming import exploitation, match_outcome
from evaluation.puzzles import Puzzle, read_puzzles
from ttt_apps.play_page.nets import HIDDEN, WEIGHTS, load_weights, make_net, training_command
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards, from_position_keys, keys, position_keys
from ttt_envs.game.rules import Game
from ttt_envs.game.symmetry import canonical_keys, symmetries

GAMES = [Game(skip_chance=skip) for skip in (0.0, 0.1, 0.25, 0.5)]
WEIGHT = 10.0
"""Softmax weight of a table, the default and the paper's."""
MAX_RANK = 75
"""Rank of the table of 3 x 3 at all skip chances: the compressed table of this rank is the whole one."""
OPPONENTS = ("random", "table", "svd", "net", "optimal")
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


def canonical_positions(game: Game) -> Boards:
    """Return the canonical position of every symmetry class: the one with the least key."""
    positions = all_positions(game)
    least, _ = canonical_keys(positions.cells, symmetries(game))
    return positions.take(least[:, 0] == keys(positions.cells))


def numbers(progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """Return all data of the page, JSON-ready; ``assets/game.js`` documents the format.

    Args:
        progress: called with the share that is done.
    """
    found = [_game_numbers(game, partial(_report_progress, progress, number)) for number, game in enumerate(GAMES)]
    puzzles = [_puzzle_json(one) for one in read_puzzles()]
    return {"format": 1, "weight": WEIGHT, "ranks": MAX_RANK, "hidden": HIDDEN, "games": found, "puzzles": puzzles}


def _puzzle_json(puzzle: Puzzle) -> dict[str, Any]:
    """Return a puzzle with rounded values, to save space."""
    data = puzzle.to_dict()
    values = [None if value is None else round(value, PUZZLE_DIGITS) + 0.0 for value in data["values"]]
    game = {name: value for name, value in data["game"].items() if name != "format"}
    return {**data, "game": game, "values": values, "loss": round(puzzle.loss, PUZZLE_DIGITS)}


def _report_progress(progress: Callable[[float], None] | None, before: int, share: float) -> None:
    if progress is not None:
        progress((before + share) / len(GAMES))


def _game_numbers(game: Game, progress: Callable[[float], None]) -> dict[str, Any]:
    boards = canonical_positions(game)
    to_first = 1 - 2 * boards.mover
    table = random_play_values(game)
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
        "positions": _encode(position_keys(boards), "<u2"),
        "optimal": _encode(to_first * solve(game).values(boards), "<f4"),
        "table": _encode(Table(game, table).values(boards), "<f4"),
        "svd": [_encode(factors.arrays[0].reshape(-1, MAX_RANK), "<f4") for factors in whole.factors],
        "net": _encode(np.concatenate([load_weights(game)[name].ravel() for name in WEIGHTS]), "<f4"),
        "training": " ".join(("train.py", *training_command(game))),
        "value": round(solve(game).value, DIGITS),
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
