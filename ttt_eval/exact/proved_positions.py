"""Positions of boards too large to solve, with the proved result of every move, and tests of
policies on them.

The positions come from seeded games between players of mixed strength.
``ttt_eval/data/proved_positions/GAME.json`` stores them with the result of each move under perfect
play (:class:`~baselines.proof_number.Prover`). In each of them some move keeps the result, a win or
a draw, and some move gives it away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import act
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.core.records import chunks
from ttt_envs.game.boards import Boards, from_text
from ttt_envs.game.game import Game
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.store.result_store import Data, path_of_set, read_hashed_json
from ttt_eval.store.statistics import Interval, wilson

PROVED_POSITIONS_FOLDER = Path(__file__).parents[1] / "data" / "proved_positions"
MAX_FILE_BYTES = 1 << 22
"""Maximum size of a file of positions in bytes."""
RESULTS = {"w": "win", "d": "draw"}
"""Names of the results of positions."""
SEARCH_DEPTH = 5
"""Depth in plies of the search for short wins and losses."""
QUERY_SIZE = 100
"""Number of positions per query of a policy; the moves of impure policies depend on it."""
GAMES = (
    Game(5, 5, 4),
    Game(5, 6, 4),
    Game(6, 6, 5),
    Game(7, 7, 5),
    Game(6, 7, 4, gravity=True),
)
"""Games of the built-in sets."""
SETS: Mapping[str, Game] = {game.slug: game for game in GAMES}
"""Games of the built-in sets, by name."""


class ProvedPosition(NamedTuple):
    """A position in which the result of every move is proved."""

    text: str
    """the position, in the format of boards.from_text"""
    moves: str
    """result of a move in every cell for the mover under perfect play: w, d or l; . where no stone
    may be put
    """
    plies: int
    """plies to the end of the quickest win, or in a drawn position of the slowest loss; 0 beyond
    ``SEARCH_DEPTH``
    """

    @property
    def result(self) -> str:
        """Result of the position under perfect play, for the mover: w or d."""
        return "w" if "w" in self.moves else "d"

    @property
    def stones(self) -> int:
        """Number of stones on the board."""
        board = self.text.partition(" ")[0]
        return board.count("o") + board.count("x")

    def __str__(self) -> str:
        return f"{self.text} {self.moves} {self.plies}"


@dataclass(frozen=True)
class Positions:
    """A set of proved positions.

    Attributes:
        game: the game.
        proven: the positions.
        data: the file, as JSON-ready data.
    """

    game: Game
    proven: Sequence[ProvedPosition]
    data: Data

    @property
    def boards(self) -> Boards:
        """The positions as a batch."""
        return Boards.from_positions(
            from_text(position.text, self.game) for position in self.proven
        )

    @property
    def keeps(self) -> BoolArray:
        """bool[B, cells]: the moves that keep the result."""
        return np.array(
            [[letter == position.result for letter in position.moves] for position in self.proven]
        )


def read_proved(name: str | Path) -> Positions:
    """Read a built-in set by its name, or one in a ``.json`` file.

    Raises:
        OSError: no file, or one that cannot be read.
        ValueError: no such set, a damaged file.
    """
    path = path_of_set(name, PROVED_POSITIONS_FOLDER, SETS, "set of proven positions")
    return read_hashed_json(
        path, "proved positions", MAX_FILE_BYTES, _parse, what="proven positions"
    )


def _parse(data: Data) -> Positions:
    """Return the positions of a file whose checksum is right: its lines need no other check."""
    lines = (line.rsplit(" ", 2) for line in data["positions"])
    proven = [ProvedPosition(text, moves, int(plies)) for text, moves, plies in lines]
    return Positions(Game.from_dict(data["game"]), proven, data)


class KeepRate(NamedTuple):
    """Rate at which a policy keeps the proved result."""

    positions: int
    share: Interval
    """share of positions in which the result is kept; a position counts by the probability of moves
    that keep it
    """


def keep_probabilities(
    game: Game, policy: str, positions: Positions, *, seed: int = 0, jobs: Jobs = 1
) -> Float64Array:
    """Return the probability float64[B] that a policy keeps the proved result.

    For an impure policy it is 1 or 0, by a sampled move.

    Args:
        game: of the positions.
        policy: a spec string.
        positions: the positions.
        seed: seed of all random numbers.
        jobs: the workers.

    Raises:
        ValueError: an unknown policy.
    """
    make_policy_once(game, policy)  # reports errors before the workers start
    queries = zip(
        positions.boards.chunks(QUERY_SIZE), chunks(positions.keeps, QUERY_SIZE), strict=True
    )
    blocks = (
        (game, policy, boards, keeps, [seed, QUERY_SIZE * number])
        for number, (boards, keeps) in enumerate(queries)
    )
    return np.concatenate(list(results_in_order(map_blocks(_block_probabilities, blocks, jobs))))


def _block_probabilities(
    game: Game, spec: str, boards: Boards, keeps: BoolArray, seed: list[int]
) -> Float64Array:
    policy = make_policy_once(game, spec)
    rng = np.random.default_rng(seed)
    if policy.pure:
        shares: Float64Array = np.where(keeps, policy.probabilities(boards), 0).sum(axis=1)
        return shares
    moves = act(policy, boards, rng)
    return keeps[np.arange(len(moves)), moves].astype(np.float64)


def summarize(positions: Positions, shares: Float64Array) -> dict[str, dict[str, KeepRate]]:
    """Summarize how often the result is kept: in total, by proved result, by stones, and by plies
    to the end.

    Args:
        positions: a set of them.
        shares: of :func:`keep_probabilities`.
    """
    proven = positions.proven
    stones: Int64Array = np.array([position.stones for position in proven])
    plies: Int64Array = np.array([position.plies for position in proven])
    result = np.array([position.result for position in proven])
    min_stones = int(stones.min())
    num_counts = int(stones.max()) + 1 - min_stones
    edges = [min_stones + num_counts * i // 3 for i in range(4)]
    groups: dict[str, dict[str, BoolArray]] = {
        "all": {"all": np.ones(len(proven), np.bool_)},
        "result": {words: result == letter for letter, words in RESULTS.items()},
        "stones": {f"{a} to {b - 1}": (a <= stones) & (stones < b) for a, b in pairwise(edges)},
        "plies": {
            "up to 2": (plies > 0) & (plies <= 2),
            f"3 to {SEARCH_DEPTH}": plies > 2,
            f"more than {SEARCH_DEPTH}": plies == 0,
        },
    }
    return {
        kind: {words: _keep_rate(shares[rows]) for words, rows in group.items() if rows.any()}
        for kind, group in groups.items()
    }


def _keep_rate(shares: Float64Array) -> KeepRate:
    return KeepRate(len(shares), wilson(min(1.0, float(shares.mean())), len(shares)))
